//! What being managed costs a program that computes.
//!
//! The program does a fixed amount of work with a thread for each CPU. Compared is the CPU time that the work took,
//! and under management also what the daemon used meanwhile, with the same on the same CPUs unmanaged. CPU time,
//! because on a machine with other work the time on the clock varies by more than what is looked for; a program
//! that only computes waits for nothing else. `cargo xtask teams` measures what waiting at barriers costs.

use super::process;
use crate::build::output;
use crate::result::report::Figure;
use crate::run::daemon::PrivateDaemon;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

pub(crate) const NAME: &str = "managed over unmanaged, CPU time";

const PAIRS: usize = 21;

/// Steps of a thread: some 0.7 seconds.
const ROUNDS: &str = "700000000";

/// Managed over unmanaged, less one, in per cent, pair by pair in changing order.
pub(crate) fn measure(bin: &Path, crowd: &Path) -> Result<Figure> {
    let daemon = PrivateDaemon::start(bin, &["--interval", "1s"])?;
    let threads = std::thread::available_parallelism()?.to_string();
    let unmanaged = || cpu_time_ns(Command::new(crowd).args(["work", &threads, ROUNDS]));
    let managed = || -> Result<f64> {
        let before_ns = process::cpu_time_ns(daemon.pid())?;
        let mut launch = daemon.launch(&["--"]);
        let program_ns = cpu_time_ns(launch.arg(crowd).args(["work", &threads, ROUNDS]))?;
        let daemon_ns = process::cpu_time_ns(daemon.pid())? - before_ns;
        Ok(program_ns + daemon_ns as f64)
    };
    let mut samples = Vec::new();
    for pair in 0..PAIRS {
        let (plain, under) = if pair % 2 == 0 {
            let plain = unmanaged()?;
            (plain, managed()?)
        } else {
            let under = managed()?;
            (unmanaged()?, under)
        };
        samples.push((under / plain - 1.0) * 100.0);
    }
    Figure::of(NAME, "%", &samples)
}

fn cpu_time_ns(command: &mut Command) -> Result<f64> {
    let printed = output(command)?;
    let ns: u64 = printed
        .trim()
        .parse()
        .with_context(|| format!("{command:?}: {printed:?}"))?;
    Ok(ns as f64)
}
