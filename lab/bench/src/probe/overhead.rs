//! What mapper costs without doing anything for a program: an idle daemon, a launch, and being managed.

use super::process;
use crate::build::output;
use crate::result::Figure;
use crate::run::daemon::PrivateDaemon;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) const IDLE: &str = "idle daemon";
pub(crate) const LAUNCHED: &str = "mapper-launch true over true";
pub(crate) const MANAGED: &str = "managed over unmanaged, CPU time";

const IDLE_WINDOWS: usize = 5;
const IDLE_WINDOW: Duration = Duration::from_secs(4);
const LAUNCH_PAIRS: usize = 41;
const WORK_PAIRS: usize = 21;

/// Steps of a thread: some 0.7 seconds.
const ROUNDS: &str = "700000000";

/// CPU time of all threads of a daemon that has nothing to do, over several windows, in per cent of one core.
pub(crate) fn idle(bin: &Path) -> Result<Figure> {
    let daemon = PrivateDaemon::start(bin, &["--interval", "1s"])?;
    std::thread::sleep(Duration::from_secs(1));
    let mut samples = Vec::new();
    for _ in 0..IDLE_WINDOWS {
        let (start, before) = (Instant::now(), process::cpu_time_ns(daemon.pid())?);
        std::thread::sleep(IDLE_WINDOW);
        let used_ns = process::cpu_time_ns(daemon.pid())? - before;
        samples.push(used_ns as f64 / start.elapsed().as_nanos() as f64 * 100.0);
    }
    Figure::of(IDLE, "% of a core", &samples)
}

/// `mapper-launch true` less `true`, pair by pair.
pub(crate) fn launch(bin: &Path) -> Result<Figure> {
    let daemon = PrivateDaemon::start(bin, &["--interval", "1s"])?;
    let mut samples = Vec::new();
    for pair in 0..LAUNCH_PAIRS {
        let plain = wall_ms(&mut Command::new("true"))?;
        let launched = wall_ms(&mut daemon.launch(&["--", "true"]))?;
        // The first pair warms the caches.
        if pair > 0 {
            samples.push(launched - plain);
        }
    }
    Figure::of(LAUNCHED, "ms", &samples)
}

fn wall_ms(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    let status = command.status();
    let wall_ms = start.elapsed().as_secs_f64() * 1e3;
    let status = status.with_context(|| format!("run {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(wall_ms)
}

/// A fixed amount of work with a thread for each CPU, managed over unmanaged, less one, in per cent, pair by pair in
/// changing order. It is CPU time, with what the daemon used meanwhile: on a machine with other work the time on the
/// clock varies by more than what is measured. `cargo xtask teams` measures what waiting at barriers costs.
pub(crate) fn slowdown(bin: &Path, crowd: &Path) -> Result<Figure> {
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
    for pair in 0..WORK_PAIRS {
        let before = if pair % 2 == 0 {
            Some(unmanaged()?)
        } else {
            None
        };
        let under = managed()?;
        let plain = before.map_or_else(&unmanaged, Ok)?;
        samples.push((under / plain - 1.0) * 100.0);
    }
    Figure::of(MANAGED, "%", &samples)
}

fn cpu_time_ns(command: &mut Command) -> Result<f64> {
    let printed = output(command)?;
    let ns = printed.trim().parse::<u64>();
    Ok(ns.with_context(|| format!("{command:?}: {printed:?}"))? as f64)
}
