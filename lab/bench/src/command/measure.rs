//! `cargo xtask measure`: the figures the documentation quotes for a running system.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::ValueEnum;

use crate::build::build_mapper;
use crate::build::workloads::compile_probe;
use crate::data::{ExpectedFigure, FigureExperiment};
use crate::evaluate::results::of_figures;
use crate::probe::{crowd, lending, overhead, resize};
use crate::result::Figure;
use crate::show::publish::{JSON, Outputs, publish_figures};

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
    /// A program beside one that is idle, which works now and then.
    Lending,
}

impl What {
    fn figures(self, bin: &Path) -> anyhow::Result<Vec<Figure>> {
        Ok(match self {
            Self::Launch => vec![overhead::launch(bin)?],
            Self::Idle => vec![overhead::idle(bin)?],
            Self::Shrink => resize::shrink(bin, &compile_probe("pulse")?)?,
            Self::Follow => vec![resize::follow(bin, &compile_probe("pulse")?)?],
            Self::Crowd => crowd::measure(bin, &compile_probe("crowd")?, "software")?,
            Self::CrowdHardware => crowd::measure(bin, &compile_probe("crowd")?, "hardware")?,
            Self::Lending => {
                lending::measure(bin, &compile_probe("pulse")?, &compile_probe("waker")?)?
            }
            Self::Slowdown => vec![overhead::slowdown(bin, &compile_probe("crowd")?)?],
        })
    }
}

/// Runs `cargo xtask measure`.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let experiment = FigureExperiment::find("measure")?;
    let outputs = Outputs::claim([(JSON, args.json.clone())])?;
    let begun = Instant::now();
    let bin = build_mapper()?;
    let mut figures = Vec::new();
    for &what in What::value_variants() {
        // Not every machine has hardware counters: they are measured only when asked for by name.
        let is_wanted = args.what.is_empty() && what != What::CrowdHardware;
        if is_wanted || args.what.contains(&what) {
            figures.extend(what.figures(&bin)?);
        }
    }
    // A probe that measures nothing is an error of its own.
    let measured: Vec<String> = figures.iter().map(|figure| figure.name.clone()).collect();
    let is_measured = |of: &ExpectedFigure| measured.contains(&of.name);
    let elapsed = begun.elapsed();
    let results = of_figures(&experiment, "measure", figures, is_measured, elapsed);
    publish_figures(outputs, &results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_expectation_is_about_a_figure_that_a_probe_measures() {
        let experiment = FigureExperiment::find("measure").unwrap();
        let crowd = ["software", "hardware"].map(|of| crowd::names("80 threads", of));
        let overhead = [overhead::LAUNCHED, overhead::IDLE, overhead::MANAGED];
        let resize = [resize::SHRUNK, resize::REGROWN, resize::FOLLOWED];
        let mut names: Vec<String> = crowd.concat();
        let lending = [lending::BESIDE, lending::LATE, lending::WORK];
        let others = overhead.iter().chain(&resize).chain(&lending);
        names.extend(others.map(ToString::to_string));
        for of in &experiment.expected {
            assert!(names.contains(&of.name), "{}", of.name);
        }
        assert_eq!(experiment.expected.len(), names.len());
    }
}
