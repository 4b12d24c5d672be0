//! What it costs to start a program through `mapper-launch`.

use crate::result::report::Figure;
use crate::run::daemon::PrivateDaemon;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

pub(crate) const NAME: &str = "mapper-launch true over true";

const PAIRS: usize = 41;

/// `mapper-launch true` less `true`, pair by pair.
pub(crate) fn measure(bin: &Path) -> Result<Figure> {
    let daemon = PrivateDaemon::start(bin, &["--interval", "1s"])?;
    let mut samples = Vec::new();
    for pair in 0..PAIRS {
        let plain = wall_ms(&mut Command::new("true"))?;
        let launched = wall_ms(&mut daemon.launch(&["--", "true"]))?;
        // The first pair warms the caches.
        if pair > 0 {
            samples.push(launched - plain);
        }
    }
    Figure::of(NAME, "ms", &samples)
}

fn wall_ms(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    let status = command.status();
    let wall_ms = start.elapsed().as_secs_f64() * 1e3;
    let status = status.with_context(|| format!("run {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(wall_ms)
}
