//! What an idle program costs others, and what they cost it once it has something to do.
//!
//! `pulse` computes on all CPUs; `waker` beside it is idle, and works briefly now and then.

use crate::result::Figure;
use crate::run::daemon::PrivateDaemon;
use crate::run::processes::terminate;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub(crate) const BESIDE: &str = "beside an idle program: speed of the machine alone";
pub(crate) const LATE: &str = "idle program wakes beside one that has borrowed its CPUs: late by";
pub(crate) const WORK: &str = "its first 20 ms of work";

const RUNS: usize = 5;
/// The default.
const INTERVAL: &str = "1s";
/// Long enough for the idle program to lend, which takes three intervals at most.
const SETTLE: Duration = Duration::from_millis(3500);
const PULSE_S: &str = "3";
const WAKES: usize = 8;
const IDLE_MS: &str = "3500";
const WORK_MS: &str = "20";

#[derive(Debug, Clone, Copy, Deserialize)]
struct Beat {
    now_ns: u64,
    regions: u64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Woken {
    late_us: f64,
    work_us: f64,
}

pub(crate) fn measure(bin: &Path, pulse: &Path, waker: &Path) -> Result<Vec<Figure>> {
    let daemon = PrivateDaemon::start(bin, &["--interval", INTERVAL])?;
    let mut beside = Vec::new();
    for _ in 0..RUNS {
        let alone = speed(&daemon, pulse)?;
        let idle = launch(&daemon, "idle", waker, &["1", "60000", WORK_MS])?;
        std::thread::sleep(SETTLE);
        let with_idle = speed(&daemon, pulse);
        end(idle)?;
        beside.push(with_idle? / alone);
    }
    let computes = launch(&daemon, "pulse", pulse, &["--seconds", "600"])?;
    let rounds = WAKES.to_string();
    let woken =
        launch(&daemon, "idle", waker, &[&rounds, IDLE_MS, WORK_MS]).and_then(lines::<Woken>);
    end(computes)?;
    let woken = woken?;
    ensure!(woken.len() == WAKES, "{} wakes of {WAKES}", woken.len());
    let late: Vec<f64> = woken.iter().map(|woken| woken.late_us / 1e3).collect();
    let work: Vec<f64> = woken.iter().map(|woken| woken.work_us / 1e3).collect();
    Ok(vec![
        Figure::of(BESIDE, "of 1", &beside)?,
        Figure::of(LATE, "ms", &late)?,
        Figure::of(WORK, "ms", &work)?,
    ])
}

/// Ends a launcher, and by it its program.
fn end(mut launcher: Child) -> Result<()> {
    terminate(&launcher);
    launcher.wait().context("wait for a launcher")?;
    Ok(())
}

fn launch(daemon: &PrivateDaemon, name: &str, program: &Path, arguments: &[&str]) -> Result<Child> {
    let mut command: Command = daemon.launch(&["--name", name, "--quiet", "--"]);
    command.arg(program).args(arguments).stdout(Stdio::piped());
    let child = command.spawn();
    child.with_context(|| format!("launch {}", program.display()))
}

/// Regions a second of pulse, from start to end.
fn speed(daemon: &PrivateDaemon, pulse: &Path) -> Result<f64> {
    let beats: Vec<Beat> = lines(launch(daemon, "pulse", pulse, &["--seconds", PULSE_S])?)?;
    let (first, last) = beats
        .first()
        .zip(beats.last())
        .context("pulse reported nothing")?;
    let seconds = (last.now_ns - first.now_ns) as f64 / 1e9;
    Ok((last.regions - first.regions) as f64 / seconds)
}

/// What a program prints until it ends, line by line.
fn lines<T: DeserializeOwned>(child: Child) -> Result<Vec<T>> {
    let output = child.wait_with_output().context("wait for a program")?;
    ensure!(
        output.status.success(),
        "a program ended with {}",
        output.status
    );
    let text = String::from_utf8(output.stdout).context("read what a program prints")?;
    let line = |line| serde_json::from_str(line).with_context(|| format!("read {line}"));
    text.lines().map(line).collect()
}
