//! `cargo xtask demo`: pairs of real programs under plain Linux and under mapper.

use std::path::PathBuf;

use anyhow::Context as _;
use mapper_report::workspace;

use super::corun::{self, Prepared, WithoutPython};
use crate::data::experiment::{Experiment, Tables};
use crate::show::publish::{Outputs, Paths};

/// Runs pairs of OpenMP programs under plain Linux and under mapper, and compares
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also write the results as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report to this file [default: mapper-demo.html in the target folder]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Repetitions of every run [default: 3, or as many as fit into five minutes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    reps: Option<u8>,
    /// The pairs to run, separated by commas [default: all]
    #[arg(long, value_name = "PAIR", value_delimiter = ',')]
    pairs: Vec<String>,
    /// The settings to compare, separated by commas [default: plain, passive, static, fixed, follow, virtual]
    #[arg(long, value_name = "SETTING", value_delimiter = ',')]
    settings: Vec<String>,
    /// One repetition of short runs: shows that everything works, but measures badly
    #[arg(long)]
    quick: bool,
}

/// Runs `cargo xtask demo`.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    corun::run(prepare(args)?)
}

fn prepare(args: &Args) -> anyhow::Result<Prepared> {
    let tables = Tables::read()?;
    let text = include_str!("../../experiments/demo.toml");
    let mut experiment = Experiment::parse("demo.toml", text, &tables)?;
    experiment.choose_mixes(&args.pairs)?;
    if !args.settings.is_empty() {
        experiment.replace_settings(&tables.settings(&args.settings)?);
    }
    let method = &mut experiment.method;
    if args.quick {
        method.repetitions = 1;
        method.work_s = method.quick_work_s.unwrap_or(method.work_s);
    }
    if let Some(reps) = args.reps {
        method.repetitions = usize::from(reps);
        method.budget_s = None;
    }
    let outputs = Outputs::claim(Paths {
        json: args.json.as_deref(),
        page: Some(&page(args)?),
        ..Paths::default()
    })?;
    Ok(Prepared {
        experiment,
        outputs,
        without_python: WithoutPython::Fails,
    })
}

fn page(args: &Args) -> anyhow::Result<PathBuf> {
    if let Some(path) = &args.html {
        return Ok(path.clone());
    }
    let folder = workspace::target_dir();
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("make the folder {}", folder.display()))?;
    Ok(folder.join("mapper-demo.html"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Demo {
        #[command(flatten)]
        args: Args,
    }

    fn prepared(arguments: &[&str]) -> anyhow::Result<Prepared> {
        let demo = Demo::try_parse_from(["demo"].iter().chain(arguments))?;
        prepare(&demo.args)
    }

    #[test]
    fn bad_arguments_are_refused_by_name_before_anything_runs() {
        for (arguments, named) in [
            (&["--reps=0"][..], "--reps"),
            (&["--reps=101"], "101"),
            (&["--reps=many"], "many"),
            (&["--pairs=md+cg,nobody"], "triad+mandelbrot"),
            (&["--settings=elastic"], "passive"),
            (
                &["--json=/nonexistent/folder/file"],
                "/nonexistent/folder/file",
            ),
            (
                &["--html=/nonexistent/folder/file"],
                "/nonexistent/folder/file",
            ),
        ] {
            let Err(error) = prepared(arguments) else {
                panic!("{arguments:?} was accepted")
            };
            let error = format!("{error:#}");
            assert!(error.contains(named), "{arguments:?}: {error}");
        }
    }

    #[test]
    fn repetitions_that_are_asked_for_have_no_budget_and_quick_runs_are_short() {
        let folder = tempfile::tempdir().unwrap();
        let html = format!("--html={}", folder.path().join("report.html").display());
        let method = |arguments: &[&str]| {
            let all: Vec<&str> = arguments.iter().copied().chain([&*html]).collect();
            prepared(&all).unwrap().experiment.method
        };
        let usual = method(&[]);
        assert_eq!((usual.repetitions, usual.work_s), (3, 1.5));
        assert!(usual.budget_s.is_some() && method(&["--reps=2"]).budget_s.is_none());
        let quick = method(&["--quick"]);
        assert_eq!((quick.repetitions, quick.work_s), (1, 0.7));
    }
}
