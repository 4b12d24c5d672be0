//! `cargo xtask teams`: what team modes bring and cost, by real programs on this machine.

use std::path::PathBuf;

use clap::ValueEnum;

use super::corun::{self, Prepared, WithoutPython};
use crate::data::experiment::{Experiment, Tables};
use crate::show::publish::{Outputs, Paths};

/// Measures what team modes bring beside the best tuning by hand, and what they cost
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to measure: fine, fit, dynamic, coarse, alone; everything when nothing is named
    groups: Vec<String>,
    /// Repetitions of every run
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=100))]
    reps: u8,
    /// Also write the results as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write a report to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Fail when this cannot be had, instead of leaving out what needs it
    #[arg(long, value_enum, value_name = "WHAT")]
    require: Vec<Requirement>,
}

/// What a measurement may need from outside.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Requirement {
    /// scikit-learn, from PyPI
    Python,
}

/// Runs `cargo xtask teams`.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let tables = Tables::read()?;
    let text = include_str!("../../experiments/teams.toml");
    let mut experiment = Experiment::parse("teams.toml", text, &tables)?;
    experiment.choose_groups(&args.groups)?;
    experiment.method.repetitions = usize::from(args.reps);
    let outputs = Outputs::claim(Paths {
        json: args.json.as_deref(),
        page: args.html.as_deref(),
        ..Paths::default()
    })?;
    let without_python = match args.require.contains(&Requirement::Python) {
        true => WithoutPython::Fails,
        false => WithoutPython::LeftOut,
    };
    corun::run(Prepared {
        experiment,
        outputs,
        without_python,
    })
}
