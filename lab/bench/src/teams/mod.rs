//! `cargo xtask teams`: what team modes bring and cost, by real programs on this machine.
//!
//! Each experiment is a pair of programs (or one alone) under several settings, interleaved: plain
//! Linux as users run it, the best tuning by hand (each program on CPUs of its own with a thread on
//! each), and the team modes. Each figure is the speed of one setting over another with what is wanted
//! of it. A result that differs from that of the same work alone fails the task, as does a target
//! that is missed.
//!
//! [`experiments`] says what is compared and what is wanted, [`programs`] and [`python`] prepare the
//! programs, [`measure`] runs them, [`evaluate`] is pure, [`report`] shows.

mod evaluate;
mod experiments;
mod measure;
mod programs;
mod python;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::ValueEnum;

use self::evaluate::{Measured, NotMeasured, Results, evaluated};
use self::experiments::{Experiment, Group, experiments};
use self::measure::{Asking, Stage};
use self::programs::{Program, Programs};
use crate::corun::build::{Profile, build_mapper};
use crate::corun::machine::{DisturbanceMeter, Machine};
use crate::corun::processes::allowed_cpus;
use crate::corun::shares::fair_shares;
use crate::private_daemon::PrivateDaemon;
use mapper_report::interrupt::Interrupt;
use mapper_report::output::OutputFile;
use mapper_report::progress::Progress;

/// How long each program works alone on its fair share.
const CALIBRATED: Duration = Duration::from_millis(1200);

/// A program may work this many times the calibrated time before it is ended.
const PATIENCE: u32 = 6;

/// In each repetition the settings that are held closely against each other run this often.
const ROUNDS: usize = 2;

/// Interval of the daemon's decisions: its preset.
const INTERVAL: &str = "1s";

/// Measures what team modes bring beside the best tuning by hand, and what they cost
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to measure; everything when nothing is named
    #[arg(value_enum)]
    groups: Vec<Group>,
    /// Repetitions of every run
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=100))]
    reps: u8,
    /// Also write the results as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
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

/// What is measured with, and what cannot be.
struct Prepared {
    experiments: Vec<Experiment>,
    not_measured: Vec<NotMeasured>,
    python: Option<PathBuf>,
}

/// Runs `cargo xtask teams`.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let json = args.json.as_deref().map(OutputFile::claim).transpose()?;
    let prepared = prepare(args)?;
    let interrupt = Interrupt::on_signals()?;
    eprintln!("building mapper");
    let binaries = build_mapper(Profile::Release)?;
    let wanted: BTreeSet<Program> = prepared
        .experiments
        .iter()
        .flat_map(|experiment| experiment.programs.iter().copied())
        .collect();
    let programs = Programs::compile(wanted.iter().copied(), prepared.python.clone())?;

    let cpus = allowed_cpus()?;
    let machine = Machine::describe(cpus.len(), &["gcc"]);
    let begun = Instant::now();
    let meter = DisturbanceMeter::start()?;
    let mut stage = Stage {
        programs,
        work: BTreeMap::new(),
        calibrated: CALIBRATED,
        limit: PATIENCE * CALIBRATED,
        shares: fair_shares(&cpus),
        daemon: PrivateDaemon::start(&binaries, &["--interval", INTERVAL])?,
        cpus,
        interrupt,
    };
    let progress = Progress::start("calibrating", wanted.len())?;
    for &program in &wanted {
        progress.doing(program.title().to_owned());
        let steps = stage.calibrate(program)?;
        progress.done(&format!("{}: {steps} steps", program.title()));
    }
    progress.finish();
    let repetitions = usize::from(args.reps);
    let measured = measure_all(&stage, prepared.experiments, repetitions)?;
    let cpus = stage.cpus.len();
    let limit_s = stage.limit.as_secs_f64();
    // Stopped before the meter is read, so that its time counts as ours.
    drop(stage);

    let results = Results {
        schema: 1,
        machine,
        disturbance: meter.finish()?,
        scikit_learn: prepared.python.as_deref().and_then(python::version),
        repetitions,
        calibrated_s: CALIBRATED.as_secs_f64(),
        limit_s,
        experiments: measured
            .iter()
            .map(|measured| evaluated(measured, cpus))
            .collect(),
        not_measured: prepared.not_measured,
        elapsed_s: begun.elapsed().as_secs_f64(),
    };
    publish(&results, json)
}

/// Leaves out what cannot be had.
fn prepare(args: &Args) -> anyhow::Result<Prepared> {
    let (with_python, mut chosen): (Vec<_>, Vec<_>) = experiments(&args.groups)
        .into_iter()
        .partition(|experiment| experiment.programs.iter().any(|p| p.is_python()));
    let mut not_measured = Vec::new();
    let mut python = None;
    if !with_python.is_empty() {
        let found = python::with_scikit_learn();
        match found {
            Ok(found) => {
                python = Some(found);
                chosen.extend(with_python);
            }
            Err(error) if args.require.contains(&Requirement::Python) => return Err(error),
            Err(error) => not_measured.extend(with_python.iter().map(|experiment| NotMeasured {
                experiment: experiment.name(),
                why: format!("{error:#}"),
            })),
        }
    }
    chosen.sort_by_key(|experiment| experiment.group);
    Ok(Prepared {
        experiments: chosen,
        not_measured,
        python,
    })
}

/// Runs everything, interleaved. Every repetition goes through the settings in another order.
fn measure_all(
    stage: &Stage,
    experiments: Vec<Experiment>,
    repetitions: usize,
) -> anyhow::Result<Vec<Measured>> {
    let runs_of = |experiment: &Experiment| -> usize {
        let settings = experiment.settings.iter();
        settings
            .map(|setting| {
                if setting.is_slow() && experiment.programs.len() > 1 {
                    1
                } else {
                    ROUNDS
                }
            })
            .sum()
    };
    let steps = repetitions * experiments.iter().map(runs_of).sum::<usize>();
    let mut measured: Vec<Measured> = experiments
        .into_iter()
        .map(|experiment| Measured {
            runs: experiment
                .settings
                .iter()
                .map(|&setting| (setting, Vec::new()))
                .collect(),
            experiment,
        })
        .collect();
    let progress = Progress::start("measuring", steps)?;
    for repetition in 0..repetitions {
        for measured in &mut measured {
            for round in 0..ROUNDS {
                let moment = repetition * ROUNDS + round;
                let experiment = &measured.experiment;
                let count = measured.runs.len();
                for place in 0..count {
                    let (setting, runs) = &mut measured.runs[(place + moment) % count];
                    if round > 0 && setting.is_slow() && experiment.programs.len() > 1 {
                        continue;
                    }
                    let title = setting.title(stage.cpus.len());
                    progress.doing(format!("{}, {title}", experiment.name()));
                    let asking = if moment == 0 {
                        Asking::Asked
                    } else {
                        Asking::Unasked
                    };
                    let run = stage.run(experiment, *setting, moment, asking)?;
                    progress.done(&report::run_line(experiment, &title, &run));
                    for wrong in &run.wrong {
                        progress.note(&format!("wrong result under {title}: {wrong}"));
                    }
                    runs.push(run);
                }
            }
        }
    }
    progress.finish();
    Ok(measured)
}

/// Prints and writes the results; fails when one was wrong or a target was missed.
fn publish(results: &Results, json: Option<OutputFile>) -> anyhow::Result<()> {
    println!("{}", report::tables(results));
    if let Some(json) = json {
        let mut text =
            serde_json::to_string_pretty(results).context("write the results as JSON")?;
        text.push('\n');
        println!("JSON: {}", json.write(&text)?.display());
    }
    if results.wrong() > 0 {
        bail!("wrong results: {}", results.wrong());
    }
    match results.figures().filter(|figure| !figure.is_met()).count() {
        0 => Ok(()),
        missed => bail!("{missed} of {} targets missed", results.figures().count()),
    }
}
