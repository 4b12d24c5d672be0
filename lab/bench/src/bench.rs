//! `cargo xtask bench`: the decision core against its targets.
//!
//! Runs the benchmarks of the package `mapper-benches`, prints each figure beside its target and
//! what the papers report for the same, and exits 1 if a target is missed or was not measured.
//! [`TARGETS`] is the one place where targets are written down.

use anyhow::{Context as _, bail};
use mapper_report::workspace;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Take few samples: enough to see a target missed by far
    #[arg(long)]
    quick: bool,
    /// Only benchmarks whose name contains this; targets of others are left out
    filter: Option<String>,
    /// Also write the figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also copy the plots of growth with size into this folder, one for each group
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

/// What a benchmark has to stay below.
struct Target {
    /// Name of the benchmark; with `*` at the end, of every one that begins so.
    bench: &'static str,
    below_ns: f64,
    /// What the papers report.
    paper: &'static str,
}

const fn target(bench: &'static str, below_us: u32, paper: &'static str) -> Target {
    Target {
        bench,
        below_ns: below_us as f64 * 1e3,
        paper,
    }
}

/// All targets.
const TARGETS: &[Target] = &[
    target("step/80_cpus_4_apps", 50, "MAPPER 5 ms with counters"),
    target("step/80_cpus_80_apps", 150, "SAM-MPH 230 us, mapping only"),
    target("step/1024_cpus_256_apps", 2000, ""),
    target("map/80_cpus_4_apps", 20, "SAM-MPH 14 to 230 us"),
    target("map/1024_cpus_256_apps", 1000, ""),
    target(
        "nupoco_algorithm_1/8_nodes_4_workloads",
        50,
        "NuPoCo 1.8 ms",
    ),
    target("nupoco_algorithm_2_by_nodes/8", 10, "NuPoCo 1.5 ms"),
    target("nucore/*", 1000, "NuCore 20 ms"),
    target("sim_fixed_point/*", 50, ""),
];

impl Target {
    fn covers(&self, bench: &str) -> bool {
        match self.bench.strip_suffix('*') {
            Some(begin) => bench.starts_with(begin),
            None => bench == self.bench,
        }
    }
}

/// One measured figure.
#[derive(Debug, Serialize)]
struct Figure {
    bench: String,
    median_ns: f64,
    lowest_ns: f64,
    highest_ns: f64,
    target_ns: Option<f64>,
}

impl Figure {
    fn misses(&self) -> bool {
        self.target_ns
            .is_some_and(|target| self.median_ns >= target)
    }
}

/// Runs `cargo xtask bench`.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let begun = SystemTime::now();
    let mut command = workspace::cargo();
    command.args(["bench", "--package", "mapper-benches", "--benches", "--"]);
    if args.quick {
        command.arg("--quick");
    }
    command.args(&args.filter);
    let status = command.status().context("start cargo bench")?;
    if !status.success() {
        bail!("cargo bench failed ({status})");
    }
    let criterion = workspace::target_dir().join("criterion");
    let figures = figures(&criterion, begun)?;
    let wanted = |target: &&Target| match &args.filter {
        Some(filter) => {
            figures.iter().any(|f| target.covers(&f.bench)) || target.bench.contains(filter)
        }
        None => true,
    };
    let missing: Vec<&str> = TARGETS
        .iter()
        .filter(wanted)
        .filter(|target| !figures.iter().any(|f| target.covers(&f.bench)))
        .map(|target| target.bench)
        .collect();
    print!("{}", table(&figures));
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&figures).context("write figures as JSON")?;
        fs::write(path, text + "\n").with_context(|| format!("write {}", path.display()))?;
    }
    if let Some(folder) = &args.plots {
        copy_plots(&criterion, folder, begun)?;
    }
    let missed = figures.iter().filter(|f| f.misses()).count();
    if missed + missing.len() > 0 {
        bail!(
            "{missed} targets missed, {} not measured{}",
            missing.len(),
            missing.iter().fold(String::new(), |mut list, bench| {
                let _ = write!(list, "{}{bench}", if list.is_empty() { ": " } else { ", " });
                list
            })
        );
    }
    Ok(())
}

/// The figures that criterion wrote since `begun`, in the order of the targets, then by name.
fn figures(criterion: &Path, begun: SystemTime) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for group in folders(criterion)? {
        for one in folders(&group)? {
            let (name, numbers) = (
                one.join("new/benchmark.json"),
                one.join("new/estimates.json"),
            );
            if written_since(&numbers, begun) {
                figures.push(figure(&read(&name)?, read(&numbers)?));
            }
        }
    }
    let place = |bench: &str| {
        TARGETS
            .iter()
            .position(|t| t.covers(bench))
            .unwrap_or(TARGETS.len())
    };
    figures.sort_by(|a, b| {
        let (x, y) = (&a.bench, &b.bench);
        (place(x), x.len(), x).cmp(&(place(y), y.len(), y))
    });
    Ok(figures)
}

/// What criterion writes about a benchmark, as far as it is used here.
#[derive(Deserialize)]
struct Named {
    full_id: String,
}

#[derive(Deserialize)]
struct Estimates {
    median: Estimate,
}

#[derive(Deserialize)]
struct Estimate {
    point_estimate: f64,
    confidence_interval: Interval,
}

#[derive(Deserialize)]
struct Interval {
    lower_bound: f64,
    upper_bound: f64,
}

fn figure(named: &Named, estimates: Estimates) -> Figure {
    let median = estimates.median;
    Figure {
        target_ns: TARGETS
            .iter()
            .find(|t| t.covers(&named.full_id))
            .map(|t| t.below_ns),
        bench: named.full_id.clone(),
        median_ns: median.point_estimate,
        lowest_ns: median.confidence_interval.lower_bound,
        highest_ns: median.confidence_interval.upper_bound,
    }
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> anyhow::Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("understand {}", path.display()))
}

fn folders(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(path).with_context(|| format!("list {}", path.display()))?;
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry
            .with_context(|| format!("list {}", path.display()))?
            .path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}

fn written_since(path: &Path, begun: SystemTime) -> bool {
    fs::metadata(path)
        .and_then(|m| m.modified())
        .is_ok_and(|time| time >= begun)
}

/// The figures as a table.
fn table(figures: &[Figure]) -> String {
    let width = figures.iter().map(|f| f.bench.len()).max().unwrap_or(0);
    let mut out = String::new();
    for figure in figures {
        let paper = TARGETS.iter().find(|t| t.covers(&figure.bench));
        let verdict = match figure.target_ns {
            None => String::new(),
            Some(target) => format!(
                "{} {:>9}  {}",
                if figure.misses() { "MISSES" } else { "below " },
                time(target),
                paper.map_or("", |t| t.paper)
            ),
        };
        let _ = writeln!(
            out,
            "{:<width$}  {:>9}  {}",
            figure.bench,
            time(figure.median_ns),
            verdict.trim_end()
        );
    }
    out
}

/// A time in a unit a person reads easily.
fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}

/// Copies criterion's plots of time by size.
fn copy_plots(criterion: &Path, folder: &Path, begun: SystemTime) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    for group in folders(criterion)? {
        let plot = group.join("report/lines.svg");
        if let (true, Some(name)) = (written_since(&plot, begun), group.file_name()) {
            let copy = folder.join(name).with_extension("svg");
            fs::copy(&plot, &copy)
                .with_context(|| format!("copy {} to {}", plot.display(), copy.display()))?;
            println!("plot {}", copy.display());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(folder: &Path, id: &str, median_ns: f64) {
        let new = folder.join(id).join("new");
        fs::create_dir_all(&new).unwrap();
        let named = format!("{{\"full_id\":\"{id}\"}}");
        fs::write(new.join("benchmark.json"), named).unwrap();
        let numbers = format!(
            "{{\"median\":{{\"point_estimate\":{median_ns},\"confidence_interval\":{{\"lower_bound\":1,\"upper_bound\":2}}}}}}"
        );
        fs::write(new.join("estimates.json"), numbers).unwrap();
    }

    #[test]
    fn each_figure_stands_beside_its_target() {
        let folder = tempfile::tempdir().unwrap();
        written(folder.path(), "step/80_cpus_4_apps", 60_000.0);
        written(folder.path(), "nucore/dgemm", 900_000.0);
        written(folder.path(), "other/thing", 10.0);
        let figures = figures(folder.path(), SystemTime::UNIX_EPOCH).unwrap();
        let told: Vec<(&str, bool)> = figures
            .iter()
            .map(|f| (f.bench.as_str(), f.misses()))
            .collect();
        assert_eq!(
            told,
            [
                ("step/80_cpus_4_apps", true),
                ("nucore/dgemm", false),
                ("other/thing", false)
            ]
        );
        let table = table(&figures);
        assert!(
            table.contains("60.0 us  MISSES   50.0 us  MAPPER 5 ms"),
            "{table}"
        );
    }

    #[test]
    fn figures_of_an_earlier_run_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        written(folder.path(), "step/80_cpus_4_apps", 60_000.0);
        let later = SystemTime::now() + std::time::Duration::from_secs(60);
        assert!(figures(folder.path(), later).unwrap().is_empty());
    }
}
