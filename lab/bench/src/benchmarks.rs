//! `cargo xtask bench`: the decision core against what is expected of it.
//!
//! Runs the benchmarks of the package `mapper-benches`, prints each figure beside what is expected of it and
//! what the papers report for the same, and fails if an expectation is missed or was not measured.
//! `experiments/bench.toml` is the one place that has the expectations.

use crate::data::{ExpectedFigure, FigureExperiment};
use crate::evaluate::results::of_figures;
use crate::result::Figure;
use crate::show::publish::{JSON, Outputs, publish_figures};
use anyhow::{Context as _, ensure};
use fs_err as fs;
use mapper_report::statistics::Estimate;
use mapper_report::workspace;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Take few samples: enough to see an expectation missed by far
    #[arg(long)]
    quick: bool,
    /// Only benchmarks whose name contains this; expectations of others are left out
    filter: Option<String>,
    /// Also write the figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let outputs = Outputs::claim([(JSON, args.json.clone())])?;
    let begun = SystemTime::now();
    let mut command = workspace::cargo();
    command.args(["bench", "--locked", "--package", "mapper-benches"]);
    command.args(["--benches", "--"]);
    if args.quick {
        command.arg("--quick");
    }
    command.args(&args.filter);
    let status = command.status().context("start cargo bench")?;
    ensure!(status.success(), "cargo bench failed ({status})");
    let criterion = workspace::target_dir().join("criterion");
    let experiment = FigureExperiment::find("bench")?;
    let figures = figures(&criterion, begun)?;
    let names: Vec<String> = figures.iter().map(|figure| figure.name.clone()).collect();
    let is_wanted = |of: &ExpectedFigure| match &args.filter {
        Some(filter) => names.iter().any(|name| of.covers(name)) || of.name.contains(filter),
        None => true,
    };
    let elapsed = begun.elapsed().unwrap_or_default();
    let results = of_figures(&experiment, "bench", figures, is_wanted, elapsed);
    publish_figures(outputs, &results)
}

/// The figures that criterion wrote since `begun`, the shortest names first.
fn figures(criterion: &Path, begun: SystemTime) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for group in folders(criterion)? {
        for one in folders(&group)? {
            let estimates = one.join("new/estimates.json");
            if written_since(&estimates, begun) {
                let name = read(&one.join("new/benchmark.json"))?;
                let figure = figure(&name, &read(&estimates)?);
                figures.push(figure.with_context(|| format!("understand {}", one.display()))?);
            }
        }
    }
    figures.sort_by(|a, b| (a.name.len(), &a.name).cmp(&(b.name.len(), &b.name)));
    Ok(figures)
}

/// What criterion writes about a benchmark, as far as it is used here.
fn figure(benchmark: &Value, estimates: &Value) -> Option<Figure> {
    let us = |pointer: &str| Some(estimates.pointer(pointer)?.as_f64()? / 1e3);
    Some(Figure {
        name: benchmark["full_id"].as_str()?.to_owned(),
        unit: "us".to_owned(),
        estimate: Estimate {
            value: us("/median/point_estimate")?,
            low: us("/median/confidence_interval/lower_bound")?,
            high: us("/median/confidence_interval/upper_bound")?,
        },
        // Criterion's preset.
        samples: 100,
    })
}

fn read(path: &Path) -> anyhow::Result<Value> {
    let text = fs::read_to_string(path)?;
    serde_json::from_str(&text).with_context(|| format!("understand {}", path.display()))
}

fn folders(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(path)?.map(|entry| Ok(entry?.path()));
    let mut folders = entries.collect::<anyhow::Result<Vec<_>>>()?;
    folders.retain(|path| path.is_dir());
    folders.sort();
    Ok(folders)
}

fn written_since(path: &Path, begun: SystemTime) -> bool {
    let modified = fs::metadata(path).and_then(|of| of.modified());
    modified.is_ok_and(|time| time >= begun)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::judge;
    use serde_json::json;

    fn written(folder: &Path, id: &str, median_ns: f64) {
        let new = folder.join(id).join("new");
        fs::create_dir_all(&new).unwrap();
        let interval = json!({"lower_bound": 1, "upper_bound": 2});
        let median = json!({"point_estimate": median_ns, "confidence_interval": interval});
        for (name, text) in [
            ("benchmark.json", json!({"full_id": id})),
            ("estimates.json", json!({"median": median})),
        ] {
            fs::write(new.join(name), text.to_string()).unwrap();
        }
    }

    #[test]
    fn each_figure_of_this_run_is_judged_by_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        written(folder.path(), "step/80_cpus_4_apps", 60_000.0);
        written(folder.path(), "nucore/dgemm", 900_000.0);
        written(folder.path(), "other/thing", 10.0);
        let figures = figures(folder.path(), SystemTime::UNIX_EPOCH).unwrap();
        let experiment = FigureExperiment::find("bench").unwrap();
        let judged = judge::figures(&experiment, &figures, |_| true);
        let met = |name: &str| judged.iter().find(|of| of.name == name).map(|of| of.is_met);
        assert_eq!(met("step/80_cpus_4_apps"), Some(false));
        assert_eq!(met("nucore/dgemm"), Some(true));
        // Not measured, and not expected.
        assert_eq!(met("sim_fixed_point/*"), Some(false));
        assert_eq!(met("other/thing"), None);
        // Those of an earlier run do not count.
        let later = SystemTime::now() + std::time::Duration::from_secs(60);
        assert!(super::figures(folder.path(), later).unwrap().is_empty());
    }
}
