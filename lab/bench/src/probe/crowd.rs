//! What an interval costs the daemon, by the threads it manages: CPU time, and memory.
//!
//! The threads belong to four programs; each wakes a hundred times a second at most and all together use a fifth
//! of a CPU, so that it is the daemon that is measured and not a full machine. CPU time is the daemon's own, by the
//! kernel's count to the nanosecond, and so tells the same on a machine with other work, caches apart.

use super::process;
use crate::result::Figure;
use crate::run::daemon::PrivateDaemon;
use crate::run::processes::EndedOnDrop;
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// What the managed threads are divided among.
const PROGRAMS: u32 = 4;

/// Sizes of the crowd: the one there is a target for, and those that show how the cost grows.
const SIZES: [(u32, &str); 4] = [
    (80, "80 threads"),
    (400, "400 threads"),
    (1000, "1,000 threads"),
    (4000, "4,000 threads"),
];

const INTERVAL: Duration = Duration::from_millis(200);
const WINDOWS: usize = 9;
const WINDOW: Duration = Duration::from_millis(1000);
const LEAST_DECISIONS: u64 = 3;
const PATIENCE: Duration = Duration::from_secs(60);

/// The names of the figures of a size.
pub(crate) fn names(size: &str, counters: &str) -> [String; 2] {
    [
        format!("CPU time of an interval, {size}, {counters} counters"),
        format!("resident memory, {size}, {counters} counters"),
    ]
}

/// CPU time of an interval and resident memory, for each size; `counters` is the option of the daemon.
pub(crate) fn measure(bin: &Path, crowd: &Path, counters: &str) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (threads, name) in SIZES {
        let interval = format!("{}ms", INTERVAL.as_millis());
        let options = ["--interval", &interval, "--counters", counters];
        let daemon = PrivateDaemon::start(bin, &options)?;
        // All threads together wake as often as 80 that do it every 10 ms.
        let period_us = (10_000 * threads / 80).to_string();
        let share = (threads / PROGRAMS).to_string();
        let start = |_| start(&daemon, crowd, ["sleep", &share, &period_us]);
        let _programs = (0..PROGRAMS).map(start).collect::<Result<Vec<_>>>()?;
        // Arrivals and first looks are no intervals like the others.
        std::thread::sleep(INTERVAL * 5);
        let windows = (0..WINDOWS).map(|_| window(&daemon));
        let windows = windows.collect::<Result<Vec<_>>>()?;
        let (cost_ms, resident_mb): (Vec<f64>, Vec<f64>) = windows.into_iter().unzip();
        eprintln!("{name}: {}", circumstances(&daemon)?);
        let [cost, resident] = names(name, counters);
        figures.push(Figure::of(&cost, "ms", &cost_ms)?);
        figures.push(Figure::of(&resident, "MB", &resident_mb)?);
    }
    Ok(figures)
}

/// Milliseconds of CPU time of a decision, and resident megabytes.
fn window(daemon: &PrivateDaemon) -> Result<(f64, f64)> {
    let before = (decisions(daemon)?, process::cpu_time_ns(daemon.pid())?);
    let start = Instant::now();
    std::thread::sleep(WINDOW);
    // Intervals that cost much are longer than set; a window holds some in any case.
    let mut taken = decisions(daemon)? - before.0;
    while taken < LEAST_DECISIONS {
        let waited = start.elapsed();
        ensure!(
            waited <= PATIENCE,
            "the daemon took {taken} decisions in {waited:.0?}; it needs an emptier machine"
        );
        std::thread::sleep(INTERVAL);
        taken = decisions(daemon)? - before.0;
    }
    let used_ns = process::cpu_time_ns(daemon.pid())? - before.1;
    let resident_kib = process::status(daemon.pid())?.vmrss.context("no VmRSS")?;
    Ok((
        used_ns as f64 / taken as f64 / 1e6,
        resident_kib as f64 * 1024.0 / 1e6,
    ))
}

fn decisions(daemon: &PrivateDaemon) -> Result<u64> {
    Ok(daemon.status(PATIENCE)?.daemon.decisions)
}

/// What the daemon counts, and how long its intervals are: where one costs much, they become longer.
fn circumstances(daemon: &PrivateDaemon) -> Result<String> {
    let status = daemon.status(PATIENCE)?.daemon;
    let ms = |ns: u64| format!("{:.0} ms", ns as f64 / 1e6);
    let (counters, usual) = (status.counters.name, ms(status.interval_ns));
    let interval = status.stretched.map_or(usual, |of| {
        format!(
            "{}, made longer from {}",
            ms(of.interval_ns),
            ms(of.asked_ns)
        )
    });
    Ok(format!("{counters}; an interval of {interval}"))
}

/// Starts a program under the daemon, and waits until it is ready.
fn start(daemon: &PrivateDaemon, crowd: &Path, arguments: [&str; 3]) -> Result<EndedOnDrop> {
    let mut command = daemon.launch(&["--"]);
    command.arg(crowd).args(arguments).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).spawn();
    let mut program = EndedOnDrop(child.context("start mapper-launch")?);
    let mut line = String::new();
    let out = program.0.stdout.take().context("no output")?;
    BufReader::new(out).read_line(&mut line)?;
    let words = arguments.join(" ");
    ensure!(line.trim() == "ready", "crowd {words} printed {line:?}");
    Ok(program)
}
