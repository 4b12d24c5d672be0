//! Measures an experiment: builds, calibrates, starts daemons, runs everything, and publishes what came out.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use mapper_report::interrupt::Interrupt;
use mapper_report::progress::Progress;

use crate::build::dlb::{Dlb, Loaded};
use crate::build::workloads::Workloads;
use crate::build::{Profile, build_libmapper, build_mapper, python};
use crate::data::experiment::{Experiment, Runtime};
use crate::data::program::{Program, Threads};
use crate::data::setting::Manager;
use crate::evaluate::results::{Circumstances, results};
use crate::machine::Machine;
use crate::result::report::{DaemonFacts, NotMeasured, ProgramEntry, Results};
use crate::run::daemon::PrivateDaemon;
use crate::run::observe;
use crate::run::processes::allowed_cpus;
use crate::run::schedule::{Ended, measure};
use crate::run::shares::{by_nearness, place_of};
use crate::run::stage::{PolicyDaemon, Stage};
use crate::show::publish::{Outputs, publish};

/// A load average above this is worth a word, since it falsifies the times.
const BUSY: f64 = 0.5;

/// What becomes of programs for Python where scikit-learn cannot be had.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WithoutPython {
    /// They are left out.
    LeftOut,
    /// The task fails.
    Fails,
}

/// An experiment that is about to be measured.
pub(crate) struct Prepared {
    pub(crate) experiment: Experiment,
    pub(crate) outputs: Outputs,
    pub(crate) without_python: WithoutPython,
}

/// Results, and why the measuring ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) results: Results,
    pub(crate) ended: Ended,
}

/// Measures and publishes.
pub(crate) fn run(prepared: Prepared) -> anyhow::Result<()> {
    let interrupt = Interrupt::on_signals()?;
    let missed = prepared.experiment.missed;
    let outcome = measured(
        prepared.experiment,
        prepared.without_python,
        Profile::Release,
        &interrupt,
    )?;
    let out: &mut dyn Write = &mut std::io::stdout().lock();
    publish(
        prepared.outputs,
        &outcome.results,
        outcome.ended,
        missed,
        out,
    )
}

/// Builds, calibrates and runs everything.
pub(crate) fn measured(
    mut experiment: Experiment,
    without_python: WithoutPython,
    profile: Profile,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    eprintln!("building mapper and the programs");
    let policies = policies(&experiment);
    let binaries = match policies.is_empty() {
        true => None,
        false => Some(build_mapper(profile)?),
    };
    let mut not_measured = Vec::new();
    let python = match experiment.has_threads(Threads::Python) {
        false => None,
        true => match python::with_scikit_learn() {
            Ok(python) => Some(python),
            Err(error) if without_python == WithoutPython::Fails => return Err(error),
            Err(error) => {
                let why = format!("{error:#}");
                not_measured.extend(experiment.without_python().into_iter().map(|mix| {
                    NotMeasured {
                        what: mix.name,
                        why: why.clone(),
                    }
                }));
                None
            }
        },
    };
    let libmapper = experiment
        .has_threads(Threads::Client)
        .then(|| build_libmapper(profile))
        .transpose()?;
    let version = python.as_deref().and_then(python::version);

    let cpus = by_nearness(&allowed_cpus()?, place_of);
    let machine = describe(&experiment, cpus.len(), version);
    if machine.load_average_before > BUSY {
        eprintln!(
            "note: the load average is {:.2}; other work will falsify the times",
            machine.load_average_before
        );
    }
    let begun = Instant::now();
    let mut stage = Stage::new(
        Workloads::new(python, libmapper)?,
        experiment.method.clone(),
        cpus,
        beyond_caches_mib(&machine),
        interrupt.clone(),
    );
    if experiment
        .settings
        .iter()
        .any(|of| of.manager == Manager::Dlb)
    {
        let dlb = Dlb::find().context("the DLB library was not found")?;
        stage.set_dlb(Loaded::with_libomp(dlb)?);
    }
    let programs = calibrate(&mut stage, &experiment)?;
    let daemon = start_daemons(&mut stage, &experiment, &policies, binaries.as_deref())?;
    let measured = measure(&experiment, begun, interrupt, |mix, setting, moment| {
        stage.run(mix, setting, moment)
    })?;
    drop(stage);
    let words: Vec<String> = std::env::args().skip(1).collect();
    let known = Circumstances {
        command: command(&words),
        machine,
        daemon,
        programs,
        not_measured,
        elapsed_s: begun.elapsed().as_secs_f64(),
    };
    Ok(Outcome {
        results: results(&experiment, &measured, known),
        ended: measured.ended,
    })
}

/// What repeats a measurement that was started with these words.
fn command(words: &[String]) -> String {
    let words = words.join(" ");
    match words.strip_prefix("live") {
        Some(rest) => format!("cargo xtask eval --live{rest}"),
        None => format!("cargo xtask {words}"),
    }
}

/// The policies of the daemons that are needed, each once.
fn policies(experiment: &Experiment) -> BTreeSet<Option<String>> {
    let settings = experiment.settings.iter();
    settings
        .filter(|setting| setting.is_managed())
        .map(|setting| setting.policy.clone())
        .collect()
}

fn describe(experiment: &Experiment, cpus: usize, scikit_learn: Option<String>) -> Machine {
    let compilers: BTreeSet<&str> = experiment
        .mixes
        .iter()
        .map(|mix| mix.runtime.compiler())
        .collect();
    let mut machine = Machine::describe(cpus, &compilers.into_iter().collect::<Vec<_>>());
    machine
        .compilers
        .extend(scikit_learn.map(|version| format!("scikit-learn {version}")));
    machine
}

/// MiB of an array: beyond the caches, and within memory.
fn beyond_caches_mib(machine: &Machine) -> u64 {
    let cache_mib = machine.l3_kib.unwrap_or(0) / 1024;
    cache_mib.max(64).min(machine.memory_mib / 16).max(1)
}

/// Compiles every program and chooses its work.
fn calibrate(stage: &mut Stage, experiment: &Experiment) -> anyhow::Result<Vec<ProgramEntry>> {
    let mut wanted: Vec<(&Program, Runtime)> = Vec::new();
    for mix in &experiment.mixes {
        for member in &mix.members {
            let is_same = |(program, runtime): &(&Program, Runtime)| {
                program.name == member.program.name && *runtime == mix.runtime
            };
            if !wanted.iter().any(is_same) {
                wanted.push((&member.program, mix.runtime));
            }
        }
    }
    let progress = Progress::start("calibrating", wanted.len())?;
    let mut entries = Vec::new();
    for (program, runtime) in wanted {
        progress.doing(program.name.clone());
        let steps = stage.calibrate(program, runtime)?;
        let runtime = match program.threads {
            Threads::OpenMp => runtime.name(),
            Threads::Python => "Python",
            Threads::Own | Threads::Client => "POSIX threads",
        };
        progress.done(&format!("{} ({runtime}): {steps} steps", program.name));
        entries.push(ProgramEntry {
            name: program.name.clone(),
            runtime,
            summary: program.summary.clone(),
            steps,
        });
    }
    progress.finish();
    Ok(entries)
}

/// Starts a daemon for each policy; gives how the first one works. It is asked now, as Ctrl-C on a terminal ends the
/// daemons, too.
fn start_daemons(
    stage: &mut Stage,
    experiment: &Experiment,
    policies: &BTreeSet<Option<String>>,
    binaries: Option<&Path>,
) -> anyhow::Result<Option<DaemonFacts>> {
    let interval = format!("{}ms", experiment.method.interval_ms);
    let mut facts = None;
    for policy in policies {
        let mut arguments = vec!["--interval", &interval];
        arguments.extend(policy.iter().flat_map(|name| ["--allocation", name]));
        let daemon = PrivateDaemon::start(binaries.context("mapper was not built")?, &arguments)?;
        if facts.is_none() {
            facts = Some(observe::facts(&daemon.socket())?);
        }
        stage.add_daemon(PolicyDaemon {
            policy: policy.clone(),
            daemon,
        });
    }
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::experiment::Tables;
    use crate::data::experiment::tests::experiment;
    use crate::data::setting::Setting;

    #[test]
    fn a_daemon_runs_for_each_policy_that_is_compared() {
        let tables = Tables::read().unwrap();
        let found = |settings: &[Setting]| {
            let mut live = experiment("live.toml");
            live.replace_settings(settings);
            policies(&live).into_iter().collect::<Vec<_>>()
        };
        let [plain, mapper] = ["plain", "mapper"].map(|key| tables.settings.find(key).unwrap());
        assert_eq!(found(std::slice::from_ref(plain)), []);
        let settings = [
            mapper.clone(),
            mapper.with_policy("hill_climb"),
            mapper.with_policy("equal"),
        ];
        let names = [
            None,
            Some("equal".to_owned()),
            Some("hill_climb".to_owned()),
        ];
        assert_eq!(found(&settings), names);
    }

    #[test]
    fn the_command_that_repeats_a_measurement_is_that_of_xtask() {
        let of = |words: &[&str]| {
            command(
                &words
                    .iter()
                    .map(|&word| word.to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(of(&["demo", "--quick"]), "cargo xtask demo --quick");
        assert_eq!(
            of(&["live", "--reps=3"]),
            "cargo xtask eval --live --reps=3"
        );
    }

    #[test]
    fn a_tiny_mix_runs_under_linux_and_under_mapper() {
        let tables = Tables::read().unwrap();
        let mut live = experiment("live.toml");
        live.replace_mixes(vec![tables.mix("matmul+server").unwrap()]);
        let keys = ["plain", "static", "cpus", "mapper"].map(String::from);
        live.replace_settings(&tables.settings(&keys).unwrap());
        live.method.repetitions = 1;
        live.method.work_s = 0.3;
        live.method.timelines = true;
        let Outcome { results, ended } = measured(
            live,
            WithoutPython::Fails,
            Profile::Debug,
            &Interrupt::default(),
        )
        .unwrap();
        assert!(matches!(ended, Ended::Done), "{ended:?}");
        assert_eq!(
            (results.wrong_results, results.left_out),
            (0, 0),
            "{results:?}"
        );
        let settings = &results.mixes[0].settings;
        assert_eq!(settings.len(), 4);
        for of in settings {
            assert!(
                of.programs.iter().all(|of| of.cost.unwrap().value > 0.0),
                "{of:?}"
            );
            assert!(of.over.contains_key("plain") && of.programs[1].over.contains_key("static"));
        }
        let timeline = settings[3].runs[0].timeline.as_ref().unwrap();
        assert!(
            timeline
                .samples
                .iter()
                .any(|of| of.cpus.iter().all(Option::is_some)),
            "{timeline:?}"
        );
        crate::show::page::page(&results).unwrap();
    }
}
