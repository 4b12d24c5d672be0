//! `cargo xtask measure`: the figures the documentation quotes for a running system.
//!
//! Each measurement is interleaved where two things are compared and reports a median with the
//! range; the target stands beside it. The exit status is 1 when a target is missed.

mod crowd;
mod idle;
mod launch;
pub(crate) mod process;
mod resize;
mod slowdown;

use crowd::Counting;

use crate::private_daemon::PrivateDaemon;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use mapper_report::workspace;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Measures launch overhead, the idle daemon, and how programs take a change of their CPUs.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to measure; everything when nothing is named.
    #[arg(value_enum)]
    what: Vec<What>,
    /// Also write the figures to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// `mapper-launch true` against `true`.
    Launch,
    /// CPU time of a daemon without applications.
    Idle,
    /// A libgomp program shrunk from 2 CPUs to 1 and back.
    Shrink,
    /// From a changed allocation to a changed team.
    Follow,
    /// CPU time of an interval and memory of the daemon, with 80 to 4,000 threads.
    Crowd,
    /// The same with hardware counters of every thread, whatever they cost.
    CrowdHardware,
    /// A program that computes, managed against unmanaged.
    Slowdown,
}

/// One figure with its target.
#[derive(Debug, Serialize)]
struct Figure {
    name: String,
    value: f64,
    lowest: f64,
    highest: f64,
    samples: usize,
    unit: &'static str,
    target: Target,
}

/// What a figure has to reach.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Target {
    Below(f64),
    AtLeast(f64),
    /// Nothing: it shows how another figure grows.
    None,
}

impl Figure {
    /// The median of the samples; fails when there are none.
    fn of(name: &str, unit: &'static str, target: Target, mut samples: Vec<f64>) -> Result<Self> {
        samples.sort_by(f64::total_cmp);
        let (Some(&lowest), Some(&highest)) = (samples.first(), samples.last()) else {
            bail!("{name}: nothing was measured");
        };
        let middle = samples.len() / 2;
        let value = if samples.len() % 2 == 1 {
            samples[middle]
        } else {
            f64::midpoint(samples[middle - 1], samples[middle])
        };
        Ok(Self {
            name: name.to_owned(),
            value,
            lowest,
            highest,
            samples: samples.len(),
            unit,
            target,
        })
    }

    fn is_met(&self) -> bool {
        match self.target {
            Target::Below(limit) => self.value < limit,
            Target::AtLeast(limit) => self.value >= limit,
            Target::None => true,
        }
    }

    fn line(&self) -> String {
        let target = match self.target {
            Target::Below(limit) => format!("below {limit}"),
            Target::AtLeast(limit) => format!("at least {limit}"),
            Target::None => String::new(),
        };
        let verdict = match (self.target, self.is_met()) {
            (Target::None, _) => String::new(),
            (_, true) => format!("  target {target}: met"),
            (_, false) => format!("  target {target}: MISSED"),
        };
        format!(
            "{:<58} {:>9.3} {:<14} [{:.3} to {:.3}, {} samples]{verdict}",
            self.name, self.value, self.unit, self.lowest, self.highest, self.samples,
        )
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(file) = &args.json {
        // Refused now rather than after the measuring.
        std::fs::File::create(file).with_context(|| format!("create {}", file.display()))?;
    }
    let wanted = |what| args.what.is_empty() || args.what.contains(&what);
    let bin = build()?;
    let mut figures = Vec::new();
    if wanted(What::Launch) {
        figures.push(launch::measure(&bin)?);
    }
    if wanted(What::Idle) {
        figures.push(idle::measure(&bin)?);
    }
    if wanted(What::Shrink) {
        figures.extend(resize::shrink(&bin, &workload("pulse")?)?);
    }
    if wanted(What::Follow) {
        figures.push(resize::follow(&bin, &workload("pulse")?)?);
    }
    if wanted(What::Crowd) {
        figures.extend(crowd::measure(
            &bin,
            &workload("crowd")?,
            Counting::Software,
        )?);
    }
    // Not every machine has them: only when asked for by name.
    if args.what.contains(&What::CrowdHardware) {
        figures.extend(crowd::measure(
            &bin,
            &workload("crowd")?,
            Counting::Hardware,
        )?);
    }
    if wanted(What::Slowdown) {
        figures.push(slowdown::measure(&bin, &workload("crowd")?)?);
    }
    for figure in &figures {
        println!("{}", figure.line());
    }
    if let Some(file) = &args.json {
        std::fs::write(file, serde_json::to_string_pretty(&figures)?)
            .with_context(|| format!("write {}", file.display()))?;
    }
    match figures.iter().filter(|f| !f.is_met()).count() {
        0 => Ok(()),
        missed => bail!("{missed} of {} targets missed", figures.len()),
    }
}

/// Builds what is measured and returns the folder with the binaries.
pub(crate) fn build() -> Result<PathBuf> {
    eprintln!("building the release binaries");
    let status = workspace::cargo()
        .args(["build", "--release", "--quiet"])
        .args([
            "-p",
            "mapperd",
            "-p",
            "mapper-launch",
            "-p",
            "mapperctl",
            "-p",
            "mapper-omp-shim",
        ])
        .status()
        .context("run cargo build")?;
    if !status.success() {
        bail!("cargo build failed");
    }
    Ok(workspace::target_dir().join("release"))
}

/// Compiles a program of `benches/workloads`.
pub(crate) fn workload(name: &str) -> Result<PathBuf> {
    let source = workspace::root().join(format!("benches/workloads/{name}.c"));
    let program = workspace::target_dir().join("measure").join(name);
    if let Some(folder) = program.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    }
    let status = Command::new("gcc")
        .args(["-O2", "-fopenmp", "-pthread"])
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .status()
        .context("run gcc; install it with `cargo xtask setup`")?;
    if !status.success() {
        bail!("gcc could not compile {}", source.display());
    }
    Ok(program)
}

/// A private daemon with a short interval, as measurements want it.
fn daemon(bin: &Path, interval: &str) -> Result<PrivateDaemon> {
    PrivateDaemon::start(bin, &["--interval", interval])
}
