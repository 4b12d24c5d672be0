//! How a running OpenMP program takes a change of its CPUs.
//!
//! The program is `pulse`, which beats in short parallel regions and reports how many it completed
//! and with how large a team. A second program that only sleeps arrives beside it and leaves
//! again, so that pulse goes from 2 CPUs to 1 and back.

use crate::result::Figure;
use crate::run::daemon::PrivateDaemon;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

pub(crate) const SHRUNK: &str = "shrunk from 2 CPUs to 1: speed per CPU kept";
pub(crate) const REGROWN: &str = "grown back to 2 CPUs: speed regained";
pub(crate) const FOLLOWED: &str = "changed allocation to changed team (100 ms interval)";

const INTERVAL: &str = "100ms";
const REGION_US: f64 = 400.0;
const RUNS: usize = 5;
/// How long pulse beats alone, beside the guest, and alone again.
const STAGE: Duration = Duration::from_millis(1500);
/// Time after a change that counts for neither stage.
const SETTLE_NS: u64 = 300_000_000;

/// A line that pulse prints.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Beat {
    now_ns: u64,
    regions: u64,
    threads: u64,
}

/// A decision that changed how many CPUs pulse has.
#[derive(Debug, Clone, Copy)]
struct Change {
    at_ns: u64,
    cpus: u64,
}

/// One run: what pulse reported, and when its allocation changed.
struct Run {
    beats: Vec<Beat>,
    changes: Vec<Change>,
}

/// Speed on 1 CPU and again on 2, in relation to the CPUs: 1.0 is no loss beyond the CPUs lost.
pub(crate) fn shrink(bin: &Path, pulse: &Path) -> Result<Vec<Figure>> {
    let (mut shrunk, mut regrown) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let run = run(bin, pulse, "fixed")?;
        let [first, down, up] = run.changes[..] else {
            let changes = run.changes;
            bail!("expected an arrival, a shrink and a growth of pulse, saw {changes:?}");
        };
        let end = run.beats.last().map_or(0, |b| b.now_ns);
        let alone = rate(&run.beats, first.at_ns, down.at_ns)?;
        let beside = rate(&run.beats, down.at_ns, up.at_ns)?;
        let again = rate(&run.beats, up.at_ns, end)?;
        shrunk.push(beside / (alone * down.cpus as f64 / first.cpus as f64));
        regrown.push(again / alone);
    }
    Ok(vec![
        Figure::of(SHRUNK, "of 1", &shrunk)?,
        Figure::of(REGROWN, "of 1", &regrown)?,
    ])
}

/// From the decision to the first region with a team of the new size, both ways.
pub(crate) fn follow(bin: &Path, pulse: &Path) -> Result<Figure> {
    let mut samples = Vec::new();
    for _ in 0..RUNS {
        let run = run(bin, pulse, "follow")?;
        for change in run.changes.iter().skip(1) {
            let is_after = |b: &&Beat| b.now_ns >= change.at_ns && b.threads == change.cpus;
            let followed = run.beats.iter().find(is_after);
            let followed = followed.with_context(|| format!("no region follows {change:?}"))?;
            samples.push((followed.now_ns - change.at_ns) as f64 / 1e6);
        }
    }
    Figure::of(FOLLOWED, "ms", &samples)
}

/// Regions per second between two times, leaving out the time just after the first.
fn rate(beats: &[Beat], from_ns: u64, to_ns: u64) -> Result<f64> {
    let is_inside = |b: &&Beat| b.now_ns >= from_ns + SETTLE_NS && b.now_ns <= to_ns;
    let mut inside = beats.iter().filter(is_inside);
    let (Some(first), Some(last)) = (inside.next(), inside.next_back()) else {
        bail!("pulse reported too little between {from_ns} and {to_ns} ns");
    };
    Ok((last.regions - first.regions) as f64 / ((last.now_ns - first.now_ns) as f64 / 1e9))
}

fn run(bin: &Path, pulse: &Path, teams: &str) -> Result<Run> {
    let record = tempfile::NamedTempFile::new().context("make a temporary file")?;
    let record_path = record.path().to_str();
    let record_path = record_path.context("temporary path is not text")?;
    let daemon = PrivateDaemon::start(bin, &["--interval", INTERVAL, "--record", record_path])?;
    let seconds = (STAGE * 3).as_secs_f64().to_string();
    let region_us = REGION_US.to_string();
    let mut command = daemon.launch(&["--name", "pulse", "--teams", teams, "--"]);
    command.arg(pulse).args(["--seconds", &seconds]);
    let command = command.args(["--region-us", &region_us]);
    let beating = command.stdout(Stdio::piped()).spawn();
    let mut beating = beating.context("launch pulse")?;
    let out = beating.stdout.take().context("pulse has no output")?;
    let beat = |line: std::io::Result<String>| Ok(serde_json::from_str(&line?)?);
    let read = move || BufReader::new(out).lines().map(beat).collect::<Result<_>>();
    let reader = std::thread::spawn(read);
    std::thread::sleep(STAGE);
    let mut guest = daemon.launch(&["--name", "guest", "--no-lend", "--", "sleep"]);
    guest.arg(STAGE.as_secs_f64().to_string());
    let guest = guest.status().context("launch sleep")?;
    let pulsed = beating.wait().context("wait for pulse")?;
    if !guest.success() || !pulsed.success() {
        let log = daemon.log();
        bail!("pulse ended with {pulsed}, sleep with {guest}; the daemon's log:\n{log}");
    }
    let beats = reader.join();
    let beats = beats.map_err(|_| anyhow::anyhow!("the reader of pulse panicked"))??;
    drop(daemon);
    let changes = changes(record.path())?;
    Ok(Run { beats, changes })
}

/// The decisions that changed pulse's count, out of the daemon's recording.
fn changes(record: &Path) -> Result<Vec<Change>> {
    let text = fs_err::read_to_string(record)?;
    let mut changes: Vec<Change> = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).with_context(|| format!("read {line}"))?;
        let apps = line["plan"]["apps"].as_array().into_iter().flatten();
        let Some(app) = apps.into_iter().find(|app| app["name"] == "pulse") else {
            continue;
        };
        let at_ns = line["observation"]["now_ns"].as_u64();
        let cpus = app["share"]["cpus"].as_u64();
        let (at_ns, cpus) = at_ns.zip(cpus).context("a decision without time or CPUs")?;
        if changes.last().is_none_or(|change| change.cpus != cpus) {
            changes.push(Change { at_ns, cpus });
        }
    }
    Ok(changes)
}
