//! Measures an experiment: builds, calibrates, starts daemons, runs everything, and publishes what came out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};
use mapper_report::interrupt::Interrupt;
use mapper_report::progress::Progress;

use crate::build::dlb::Loaded;
use crate::build::workloads::Workloads;
use crate::build::{build_libmapper, build_mapper, python};
use crate::data::{Experiment, Manager, Mix, Program, Threads, once_each};
use crate::evaluate::results::of_runs;
use crate::machine::Machine;
use crate::result::{DaemonFacts, NotMeasured, ProgramEntry, Results};
use crate::run::calibration::Calibrated;
use crate::run::daemon::PrivateDaemon;
use crate::run::observe;
use crate::run::processes::allowed_cpus;
use crate::run::schedule::{Ended, measure};
use crate::run::shares::{by_nearness, place_of};
use crate::run::stage::Stage;
use crate::show::publish::{Outputs, publish};

/// A load average above this is worth a word, since it falsifies the times.
const BUSY: f64 = 0.5;

pub(crate) struct Prepared {
    pub(crate) experiment: Experiment,
    pub(crate) outputs: Outputs,
}

pub(crate) fn run(prepared: Result<Prepared>) -> Result<()> {
    let Prepared {
        experiment,
        outputs,
    } = prepared?;
    let interrupt = Interrupt::on_signals()?;
    let missed = experiment.missed;
    let (results, ended) = measured(experiment, &interrupt)?;
    let out = &mut std::io::stdout().lock();
    publish(outputs, &results, ended, missed, out)
}

/// Builds, calibrates and runs everything; gives what came out and how it ended.
fn measured(mut experiment: Experiment, interrupt: &Interrupt) -> Result<(Results, Ended)> {
    eprintln!("building mapper and the programs");
    let policies = policies(&experiment);
    let mapper = (!policies.is_empty()).then(build_mapper);
    let mapper = mapper.transpose()?;
    let mut not_measured = Vec::new();
    let needs_python = experiment.has_threads(Threads::Python);
    let python = needs_python.then(python::with_scikit_learn).transpose();
    let python = python.unwrap_or_else(|error| {
        let why = format!("{error:#}");
        let missing = |what| NotMeasured {
            what,
            why: why.clone(),
        };
        let is_python = |of: &Program| of.threads == Threads::Python;
        not_measured.extend(experiment.without(is_python).into_iter().map(missing));
        None
    });
    let needs_libmapper = experiment.has_threads(Threads::Client);
    let libmapper = needs_libmapper.then(build_libmapper);
    let version = python.as_deref().and_then(python::version);

    let cpus = by_nearness(&allowed_cpus()?, place_of);
    let machine = describe(&experiment, cpus.len(), version);
    let load = machine.load_average_before;
    if load > BUSY {
        eprintln!("note: the load average is {load:.2}; other work will falsify the times");
    }
    let begun = Instant::now();
    let mut managers = experiment.settings.iter().map(|of| of.manager);
    let dlb = match managers.any(|manager| manager == Manager::Dlb) {
        true => Some(Loaded::find()?),
        false => None,
    };
    let mut stage = Stage {
        workloads: Workloads::new(python, libmapper.transpose()?)?,
        method: experiment.method.clone(),
        cpus,
        beyond_caches_mib: beyond_caches_mib(&machine),
        daemons: BTreeMap::new(),
        dlb,
        interrupt: interrupt.clone(),
        work: BTreeMap::new(),
        checksums: BTreeMap::new(),
        results: BTreeMap::new(),
    };
    let programs = calibrate(&mut stage, &mut experiment, &mut not_measured)?;
    let daemon = start_daemons(&mut stage, &experiment, policies, mapper.as_deref())?;
    let measured = measure(&experiment, begun, interrupt, |mix, setting, moment| {
        stage.run(mix, setting, moment)
    })?;
    drop(stage);
    let words: Vec<String> = std::env::args().skip(1).collect();
    let known = Results {
        command: command(&words.join(" ")),
        daemon,
        programs,
        not_measured,
        elapsed_s: begun.elapsed().as_secs_f64(),
        ..Results::on(machine)
    };
    Ok((of_runs(&experiment, &measured, known), measured.ended))
}

/// What repeats a measurement that was started with these words.
fn command(words: &str) -> String {
    match words.strip_prefix("live") {
        Some(rest) => format!("cargo xtask eval --live{rest}"),
        None => format!("cargo xtask {words}"),
    }
}

/// The policies of the daemons that are needed, each once.
fn policies(experiment: &Experiment) -> BTreeSet<Option<String>> {
    let managed = experiment.settings.iter().filter(|of| of.is_managed());
    managed.map(|of| of.policy.clone()).collect()
}

fn describe(experiment: &Experiment, cpus: usize, scikit_learn: Option<String>) -> Machine {
    let compilers = experiment.mixes.iter().map(|mix| mix.runtime.compiler());
    let compilers: BTreeSet<&str> = compilers.collect();
    let mut machine = Machine::describe(cpus, &compilers.into_iter().collect::<Vec<_>>());
    let scikit_learn = scikit_learn.map(|version| format!("scikit-learn {version}"));
    machine.compilers.extend(scikit_learn);
    machine
}

/// MiB of an array: beyond the caches, and within memory.
fn beyond_caches_mib(machine: &Machine) -> u64 {
    let cache_mib = machine.l3_kib.unwrap_or(0) / 1024;
    cache_mib.max(64).min(machine.memory_mib / 16).max(1)
}

/// Makes every program ready and chooses its work. Mixes of real programs that cannot be had are left out.
fn calibrate(
    stage: &mut Stage,
    experiment: &mut Experiment,
    not_measured: &mut Vec<NotMeasured>,
) -> Result<Vec<ProgramEntry>> {
    let programs = |mix: &Mix| {
        let runtime = mix.runtime;
        let members = mix.members.clone().into_iter();
        members.map(move |of| (of.program, runtime))
    };
    let wanted = once_each(experiment.mixes.iter().flat_map(programs));
    let progress = Progress::start("calibrating", wanted.len())?;
    let mut entries = Vec::new();
    for (program, runtime) in &wanted {
        progress.doing(program.name.clone());
        let Calibrated { steps, alone } = match stage.calibrate(program, *runtime) {
            Err(error) if program.recipe.is_some() && !stage.interrupt.is_raised() => {
                let why = format!("{error:#}");
                progress.done(&format!("{} cannot be measured: {why}", program.name));
                let gone = experiment.without(|of| of == program).join(", ");
                let what = format!("{} (in {gone})", program.name);
                not_measured.push(NotMeasured { what, why });
                continue;
            }
            found => found?,
        };
        let runtime = match program.threads {
            Threads::OpenMp => runtime.name(),
            Threads::Python => "Python",
            Threads::Own | Threads::Client => "POSIX threads",
            Threads::Real => program.recipe.as_ref().map_or("", |of| &of.runtime),
        };
        let work = match &program.recipe {
            Some(_) => format!("{:.2} s alone", alone.seconds),
            None => format!("{steps} steps"),
        };
        progress.done(&format!("{} ({runtime}): {work}", program.name));
        entries.push(ProgramEntry {
            name: program.name.clone(),
            runtime: runtime.to_owned(),
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
    policies: BTreeSet<Option<String>>,
    mapper: Option<&Path>,
) -> Result<Option<DaemonFacts>> {
    let interval = format!("{}ms", experiment.method.interval_ms);
    let mut facts = None;
    for policy in policies {
        let mut arguments = vec!["--interval", &interval];
        arguments.extend(policy.iter().flat_map(|name| ["--allocation", name]));
        let daemon = PrivateDaemon::start(mapper.context("mapper was not built")?, &arguments)?;
        if facts.is_none() {
            facts = Some(observe::facts(&daemon.socket())?);
        }
        stage.daemons.insert(policy, daemon);
    }
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Setting;
    use crate::data::experiment::tests::live;
    use crate::result::TimelineSample;
    use std::num::NonZero;

    #[test]
    fn a_daemon_runs_for_each_policy_that_is_compared() {
        let mut live = live(&["md+cg"], &["plain"]);
        assert!(policies(&live).is_empty());
        let mapper = Setting::find("mapper").unwrap();
        let named = ["hill_climb", "equal"].map(|policy| mapper.with_policy(policy));
        live.replace_settings([vec![mapper], named.to_vec()].concat());
        let names = ["equal", "hill_climb"].map(|name| Some(name.to_owned()));
        let wanted = [None].into_iter().chain(names).collect();
        assert_eq!(policies(&live), wanted);
    }

    #[test]
    fn the_command_that_repeats_a_measurement_is_that_of_xtask() {
        assert_eq!(command("demo --quick"), "cargo xtask demo --quick");
        let live = "cargo xtask eval --live --reps=3";
        assert_eq!(command("live --reps=3"), live);
    }

    #[test]
    fn a_tiny_mix_runs_under_linux_and_under_mapper() {
        let settings = ["plain", "static", "cpus", "mapper"];
        let mut live = live(&["matmul+server"], &settings);
        live.method.repetitions = NonZero::<usize>::MIN;
        live.method.work_s = 0.3;
        live.method.timelines = true;
        let outcome = measured(live, &Interrupt::default());
        let (results, ended) = outcome.unwrap();
        assert!(matches!(ended, Ended::Done), "{ended:?}");
        let bad = (results.wrong_results, results.left_out);
        assert_eq!(bad, (0, 0), "{results:?}");
        let settings = &results.mixes[0].settings;
        assert_eq!(settings.len(), 4);
        for of in settings {
            let mut programs = of.programs.iter();
            assert!(programs.all(|of| of.cost.unwrap().value > 0.0), "{of:?}");
            assert!(of.over.contains_key("plain") && of.programs[1].over.contains_key("static"));
        }
        let timeline = &settings[3].runs[0].timeline;
        let has_all = |of: &TimelineSample| of.cpus.iter().all(Option::is_some);
        assert!(timeline.iter().any(has_all), "{timeline:?}");
        crate::show::page::page(&results).unwrap();
    }
}
