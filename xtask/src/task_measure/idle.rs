//! What a daemon costs that has nothing to do.

use super::{Figure, Target, daemon};
use anyhow::{Context, Result};
use std::path::Path;
use std::time::{Duration, Instant};

const WINDOWS: usize = 5;
const WINDOW: Duration = Duration::from_secs(4);

/// CPU time of all its threads over several windows, in per cent of one core.
pub(super) fn measure(bin: &Path) -> Result<Figure> {
    let daemon = daemon(bin, "1s")?;
    std::thread::sleep(Duration::from_secs(1));
    let mut samples = Vec::new();
    for _ in 0..WINDOWS {
        let (start, before) = (Instant::now(), cpu_time_ns(daemon.pid())?);
        std::thread::sleep(WINDOW);
        let used_ns = cpu_time_ns(daemon.pid())? - before;
        samples.push(used_ns as f64 / start.elapsed().as_nanos() as f64 * 100.0);
    }
    Figure::of("idle daemon", "% of a core", Target::Below(0.1), samples)
}

/// Run time of all threads, to the nanosecond, from `/proc/PID/task/*/schedstat`.
fn cpu_time_ns(pid: u32) -> Result<u64> {
    let folder = format!("/proc/{pid}/task");
    let mut sum = 0;
    for task in std::fs::read_dir(&folder).with_context(|| format!("read {folder}"))? {
        let file = task?.path().join("schedstat");
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let first = text.split_whitespace().next().unwrap_or_default();
        sum += first
            .parse::<u64>()
            .with_context(|| format!("{}: {first:?}", file.display()))?;
    }
    Ok(sum)
}
