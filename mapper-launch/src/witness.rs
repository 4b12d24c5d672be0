//! A process that shows which signals were sent to the whole process group.
//!
//! A signal does not say whether it was sent to one process or to its group, and the launcher must pass on only the
//! former (see [`forwarding`](crate::forwarding)). The witness is a second process in the launcher's group that blocks
//! all signals and does nothing: a signal that is pending there was sent to the group. The kernel visits the newest
//! member of a group first, so the witness has a signal before the launcher. Only the kernel can take
//! pending signals back ([`SignalBits::with_taken_back`]); when one has been seen, a new witness replaces the old one. It also
//! continues a stopped launcher.
//!
//! It has another name than the launcher, so that `pkill mapper` does not reach it, and ends with the launcher.

use crate::descriptors;
use crate::started_with::TitleMemory;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};
use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::c_int;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SignalBits(u64);

impl SignalBits {
    pub(crate) const fn with(self, signal: c_int) -> Self {
        match signal {
            1..=64 => Self(self.0 | 1 << (signal - 1)),
            _ => self,
        }
    }

    pub(crate) const fn contains(self, signal: c_int) -> bool {
        self.0 & Self(0).with(signal).0 != 0
    }

    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// These, and what the kernel takes back when they are sent: a stop takes back a SIGCONT that is pending, and a SIGCONT
    /// stops.
    pub(crate) fn with_taken_back(self) -> Self {
        let stops = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
        let stops = stops.into_iter().fold(Self::default(), Self::with);
        let continues = Self::default().with(libc::SIGCONT);
        let taken_back = |sent: Self, pending: Self| match self.without(sent) == self {
            true => Self::default(),
            false => pending,
        };
        self.union(taken_back(stops, continues))
            .union(taken_back(continues, stops))
    }
}

#[derive(Debug)]
pub(crate) struct Witness {
    pid: Pid,
    wake: OwnedFd,
}

impl Witness {
    /// All signals must be blocked. `None` if there can be no further process.
    pub(crate) fn start(title: TitleMemory, program: Pid) -> Option<Self> {
        let (sleep, wake) = pipe_with(PipeFlags::CLOEXEC).ok()?;
        let launcher = Pid::this();
        // SAFETY: the launcher has a single thread, so the child finds every lock free.
        match unsafe { fork() }.ok()? {
            ForkResult::Parent { child } => Some(Self { pid: child, wake }),
            ForkResult::Child => {
                // The lease, the page, and above all the other end of `sleep`.
                descriptors::let_go(&[sleep.as_fd()]);
                std::mem::forget(wake);
                let _ = nix::sys::prctl::set_name(c"group-witness");
                // SAFETY: in this process no code reads the command line.
                unsafe { title.rename(c"group-witness") };
                watch(sleep, launcher, program);
                // SAFETY: ends the process without running what the launcher registered.
                unsafe { libc::_exit(0) }
            }
        }
    }

    pub(crate) fn seen(&self) -> SignalBits {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid));
        let pending = status.ok().and_then(|status| {
            let mut lines = status.lines();
            let pending = lines.find_map(|line| line.strip_prefix("ShdPnd:"))?;
            u64::from_str_radix(pending.trim(), 16).ok()
        });
        SignalBits(pending.unwrap_or(0))
    }

    /// The launcher is about to be stopped: continue it as soon as the program runs or is gone.
    pub(crate) fn watch_stopped_program(&self) {
        if let Ok(wake) = self.wake.try_clone() {
            // If the witness is gone, this fails. SIGPIPE is blocked.
            let _ = File::from(wake).write_all(&[0]);
        }
    }

    pub(crate) fn is(&self, process: rustix::process::Pid) -> bool {
        process.as_raw_pid() == self.pid.as_raw()
    }

    pub(crate) fn end(self) {
        let _ = kill(self.pid, Signal::SIGKILL);
        let _ = waitpid(self.pid, None);
    }
}

fn watch(sleep: OwnedFd, launcher: Pid, program: Pid) {
    let mut sleep = File::from(sleep);
    let mut byte = [0];
    while sleep.read(&mut byte).is_ok_and(|count| count > 0) {
        while is_stopped(program) {
            std::thread::sleep(LOOK);
        }
        if is_stopped(launcher) {
            let _ = kill(launcher, Signal::SIGCONT);
        }
    }
}

fn is_stopped(process: Pid) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else {
        return false;
    };
    // The name, in parentheses, may hold anything.
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_some_and(|rest| rest.starts_with(['T', 't']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_the_kernel_may_have_taken_back_counts_as_seen() {
        let seen = |signal| SignalBits::default().with(signal).with_taken_back();
        for stop in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
            assert!(seen(stop).contains(libc::SIGCONT));
            assert!(seen(libc::SIGCONT).contains(stop));
        }
        assert!(!seen(libc::SIGTSTP).contains(libc::SIGTTIN));
        assert_eq!(seen(libc::SIGINT), SignalBits::default().with(libc::SIGINT));
    }
}
