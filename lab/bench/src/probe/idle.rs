//! What a daemon costs that has nothing to do.

use super::process::cpu_time_ns;
use crate::result::report::Figure;
use crate::run::daemon::PrivateDaemon;
use anyhow::Result;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) const NAME: &str = "idle daemon";

const WINDOWS: usize = 5;
const WINDOW: Duration = Duration::from_secs(4);

/// CPU time of all its threads over several windows, in per cent of one core.
pub(crate) fn measure(bin: &Path) -> Result<Figure> {
    let daemon = PrivateDaemon::start(bin, &["--interval", "1s"])?;
    std::thread::sleep(Duration::from_secs(1));
    let mut samples = Vec::new();
    for _ in 0..WINDOWS {
        let (start, before) = (Instant::now(), cpu_time_ns(daemon.pid())?);
        std::thread::sleep(WINDOW);
        let used_ns = cpu_time_ns(daemon.pid())? - before;
        samples.push(used_ns as f64 / start.elapsed().as_nanos() as f64 * 100.0);
    }
    Figure::of(NAME, "% of a core", &samples)
}
