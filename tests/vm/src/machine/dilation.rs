//! A guest whose clock runs slower than the host's, so that its processors are as fast as its clock says.
//!
//! The processors of a guest share fewer ones of the host. `dilate.c`, which is compiled here and preloaded into QEMU, gives
//! each the same share and slows the clock. With as many times fewer processors, one does in a second of the guest what
//! emulation on one of the host's does in a second: then processes, kernel and control groups of the guest are in right
//! relation to each other. Caches, memory bandwidth and counters stay those of no machine.

use std::fmt;
use std::process::Command;
use std::str::FromStr;

use anyhow::Result;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::image::{output, write};
use crate::scratch::Scratch;
use crate::sockets::Sockets;

/// The source of the library that is preloaded into QEMU.
const LIBRARY: &str = include_str!("dilate.c");

/// The most times that a guest may be slowed: its second is then a quarter of an hour.
const MOST: f64 = 1000.0;

/// How many times slower the guest's clock runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Dilation {
    /// As many times as the guest has more processors than the host.
    Auto,
    Times(f64),
}

impl Dilation {
    pub(crate) fn times(self, guest: Sockets) -> f64 {
        match self {
            Self::Times(times) => times,
            Self::Auto => {
                let host = std::thread::available_parallelism().map_or(1, usize::from);
                (f64::from(guest.cpus()) / host as f64).max(1.0)
            }
        }
    }
}

impl fmt::Display for Dilation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Times(times) => write!(f, "{times}"),
        }
    }
}

impl FromStr for Dilation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let times = text
            .parse()
            .ok()
            .filter(|times| (1.0..=MOST).contains(times));
        let times = times.ok_or_else(|| {
            format!("\"{text}\" is neither \"auto\" nor a number from 1 to {MOST}")
        })?;
        Ok(Self::Times(times))
    }
}

/// The words before QEMU's own that slow its clock so many times.
pub(super) fn words(times: f64, run: &Scratch) -> Result<Vec<String>> {
    let (source, library) = (run.file("dilate.c"), run.file("dilate.so"));
    write(&source, LIBRARY)?;
    let mut gcc = Command::new("gcc");
    gcc.args([
        "-O2",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
        "-shared",
        "-fPIC",
        "-o",
    ]);
    output(gcc.arg(&library).arg(&source).args(["-ldl", "-pthread"]))?;
    Ok(vec![
        "env".to_owned(),
        format!("LD_PRELOAD={}", library.display()),
        format!("VM_DILATION={times}"),
    ])
}

/// Lets idle processors of the guest use up their shares from now on.
pub(super) fn booted(qemu: Pid) {
    // Nothing to do for a guest that has just ended.
    let _ = kill(qemu, Signal::SIGURG);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dilation_is_a_number_or_what_the_processors_say() {
        let read = |text: &str| text.parse::<Dilation>();
        assert_eq!(read("2.5"), Ok(Dilation::Times(2.5)));
        assert_eq!(read("auto"), Ok(Dilation::Auto));
        for text in ["", "0.5", "-4", "nan", "inf", "4x", "1001"] {
            let error = read(text).err().unwrap_or_default();
            assert!(
                error.contains(&format!("\"{text}\"")) && error.contains("auto"),
                "{error}"
            );
        }
        let one_cpu = "1x1x1".parse().unwrap();
        assert_eq!(Dilation::Auto.times(one_cpu).to_string(), "1");
    }
}
