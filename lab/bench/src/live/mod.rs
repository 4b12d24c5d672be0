//! `cargo xtask eval --live`: real programs side by side on the machine at hand.
//!
//! Mixes of two, three and four programs of `benches/workloads` run under plain Linux, on a static fair
//! share, with CPUs alone managed and under mapper, interleaved, so that a disturbance meets all
//! settings alike. **Measured**: nothing here ever stands in a table with results of the model.
//!
//! One file does one thing: [`plan`] checks what is asked for, [`programs`] and [`mixes`] are what is run,
//! [`settings`] how, [`dlb`] finds that library, [`measure`] runs, [`cost`] says what a run cost, [`evaluate`]
//! computes the figures of a mix and [`summary`] those over several, [`results`] is their shape,
//! [`tables`], [`html`] and [`plot`] show them, [`publish`] writes them. From [`evaluate`] to [`plot`]
//! everything is a pure function of the runs.

mod cost;
mod dlb;
mod evaluate;
mod html;
mod measure;
mod mixes;
mod plan;
mod plot;
mod programs;
mod publish;
mod results;
mod settings;
mod summary;
mod tables;

pub(crate) use self::plan::LiveArgs as Args;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use self::dlb::Loaded;
use self::evaluate::{MeasuredMix, SettingRuns};
use self::measure::{Run, Stage};
use self::mixes::Mix;
use self::plan::Plan;
use self::programs::{Compiled, Threads};
use self::publish::publish;
use self::results::{Method, Results};
use self::settings::Setting;
use crate::corun::build::{self, Profile};
use crate::corun::machine::Machine;
use crate::corun::processes::allowed_cpus;
use crate::corun::shares::{by_nearness, place_of};
use crate::demo::timeline::DaemonFacts;
use crate::private_daemon::PrivateDaemon;
use mapper_report::interrupt::Interrupt;
use mapper_report::progress::Progress;

/// Runs `cargo xtask eval --live`.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let plan = Plan::new(args)?;
    let interrupt = Interrupt::on_signals()?;
    eprintln!("building mapper and the programs");
    let (results, ended) = measure(&plan, Profile::Release, interrupt)?;
    publish(plan, &results, ended, &mut std::io::stdout().lock())
}

/// Why the measuring ended.
#[derive(Debug)]
enum Ended {
    Done,
    /// The user wanted it.
    Stopped,
    /// A run could not be made; what was measured before still holds.
    Failed(anyhow::Error),
}

/// The runs that were made.
struct Measured {
    mixes: Vec<MeasuredMix>,
    /// Repetitions that are complete.
    repetitions: usize,
    ended: Ended,
}

/// Compiles, calibrates and runs everything.
fn measure(
    plan: &Plan,
    profile: Profile,
    interrupt: Interrupt,
) -> anyhow::Result<(Results, Ended)> {
    let binaries = match plan.policies().is_empty() {
        true => PathBuf::new(),
        false => build::build_mapper(profile)?,
    };
    let programs = plan.programs();
    let mut threads = programs.iter().map(|program| program.threads);
    let libmapper = match threads.any(|of| of == Threads::OwnWithMapper) {
        true => build::build_libmapper(profile)?,
        false => PathBuf::new(),
    };
    let compiled = Compiled::new(&programs, &libmapper)?;
    let cpus = by_nearness(&allowed_cpus()?, place_of);
    let machine = Machine::describe(cpus.len(), &["gcc"]);
    let dlb = plan
        .dlb
        .clone()
        .filter(|_| plan.settings.contains(&Setting::Dlb));
    let begun = Instant::now();
    let mut stage = Stage {
        compiled,
        work: BTreeMap::new(),
        calibrated_s: plan.calibrated_s,
        cpus,
        daemons: Vec::new(),
        dlb: dlb.map(Loaded::with_libomp).transpose()?,
        qos: plan.qos,
        interrupt,
    };
    let progress = Progress::start("calibrating", programs.len())?;
    for program in programs {
        progress.doing(program.name.to_owned());
        let steps = stage.calibrate(program)?;
        progress.done(&format!("{}: {steps} steps", program.name));
    }
    progress.finish();
    let interval = format!("{}ms", (plan.interval_s * 1e3).round());
    for policy in plan.policies() {
        let mut arguments = vec!["--interval", &interval];
        arguments.extend(policy.iter().flat_map(|name| ["--allocation", name]));
        let daemon = PrivateDaemon::start(&binaries, &arguments)?;
        stage.daemons.push((policy, daemon));
    }
    // Asked now, as Ctrl-C on a terminal ends the daemons, too.
    let daemon = stage
        .daemons
        .first()
        .map(|(_, daemon)| DaemonFacts::ask(&daemon.socket()))
        .transpose()?;
    let measured = measure_all(plan, &stage.interrupt, |mix, setting| {
        stage.run(mix, setting)
    })?;
    let runs = measured.mixes.iter().flat_map(|mix| &mix.runs);
    let done: usize = runs.map(|of| of.runs.len()).sum();
    let words: Vec<String> = std::env::args().skip(2).collect();
    let method = Method {
        command: format!("cargo xtask eval --live {}", words.join(" ")),
        repetitions: measured.repetitions,
        qos: plan.qos,
        interval_s: plan.interval_s,
        calibrated_s: plan.calibrated_s,
        daemon,
        dlb: dlb::is(plan.dlb.as_ref()),
        left_out: plan.runs() - done,
        elapsed_s: begun.elapsed().as_secs_f64(),
    };
    let results = Results::new(machine, method, &measured.mixes);
    Ok((results, measured.ended))
}

/// Runs everything by `run`, interleaved, until it is done, a run fails or the user wants to stop.
fn measure_all(
    plan: &Plan,
    interrupt: &Interrupt,
    mut run: impl FnMut(&Mix, &Setting) -> anyhow::Result<Run>,
) -> anyhow::Result<Measured> {
    let mut measured: Vec<MeasuredMix> = plan
        .mixes
        .iter()
        .map(|mix| MeasuredMix {
            mix: mix.clone(),
            runs: plan
                .settings
                .iter()
                .map(|setting| SettingRuns {
                    setting: setting.clone(),
                    runs: Vec::new(),
                })
                .collect(),
        })
        .collect();
    let count = plan.settings.len();
    let progress = Progress::start("measuring", plan.runs())?;
    for repetition in 0..plan.repetitions {
        for (place, of) in measured.iter_mut().enumerate() {
            for setting in settings::order(count, place, repetition) {
                let Some(own) = of.runs.get_mut(setting) else {
                    continue;
                };
                let title = own.setting.title();
                let name = of.mix.name();
                progress.doing(format!("{name}, {title}"));
                let run = match run(&of.mix, &own.setting) {
                    Ok(run) => run,
                    Err(error) => {
                        let ended = if interrupt.is_raised() {
                            progress.note("stopped; this is what was finished");
                            Ended::Stopped
                        } else {
                            progress.note(&format!("{name}, {title} failed; this was finished"));
                            Ended::Failed(error.context(format!("{name}, {title}")))
                        };
                        progress.finish();
                        return Ok(Measured {
                            mixes: measured,
                            repetitions: repetition,
                            ended,
                        });
                    }
                };
                let times: Vec<String> = run
                    .programs
                    .iter()
                    .map(|program| format!("{:.2}", program.seconds))
                    .collect();
                let time = times.join(" ");
                progress.done(&format!(
                    "repetition {}, {name}, {title}: {time} s",
                    repetition + 1
                ));
                for wrong in &run.wrong {
                    progress.note(&format!("wrong result in {name} under {title}: {wrong}"));
                }
                own.runs.push(run);
            }
        }
    }
    progress.finish();
    Ok(Measured {
        mixes: measured,
        repetitions: plan.repetitions,
        ended: Ended::Done,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::plan::tests::plan;
    use super::*;

    /// Makes runs up, and does `then` in place of that after the first `finished`.
    pub(super) fn made_up(
        plan: &Plan,
        interrupt: &Interrupt,
        finished: usize,
        then: impl Fn() -> anyhow::Result<Run>,
    ) -> Measured {
        let mut done = 0;
        measure_all(plan, interrupt, |mix, _| {
            done += 1;
            match done > finished {
                true => then(),
                false => Ok(evaluate::tests::run(mix, &[1.0, 1.0])),
            }
        })
        .unwrap()
    }

    pub(super) fn runs_of(measured: &Measured) -> usize {
        let runs = measured.mixes.iter().flat_map(|mix| &mix.runs);
        runs.map(|of| of.runs.len()).sum()
    }

    pub(super) const SMALL: [&str; 3] = ["--mix=md+cg", "--setting=plain,static", "--reps=3"];

    #[test]
    fn ctrl_c_keeps_what_is_finished() {
        let interrupt = Interrupt::default();
        let measured = made_up(&plan(&SMALL).unwrap(), &interrupt, 3, || {
            interrupt.raise();
            anyhow::bail!("interrupted")
        });
        assert!(
            matches!(measured.ended, Ended::Stopped),
            "{:?}",
            measured.ended
        );
        assert_eq!((runs_of(&measured), measured.repetitions), (3, 1));
    }

    #[test]
    fn a_tiny_mix_runs_under_linux_and_under_mapper() {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(&[
            "--mix=matmul+server",
            "--setting=plain,static,cpus,mapper",
            "--reps=1",
            "--seconds=0.3",
            "--out",
            folder.path().to_str().unwrap(),
        ])
        .unwrap();
        let (results, ended) = measure(&plan, Profile::Debug, Interrupt::default()).unwrap();
        assert_eq!(results.wrong_results, 0, "{:?}", results.mixes);
        assert_eq!(results.method.left_out, 0);
        let settings = &results.mixes[0].settings;
        assert_eq!(settings.len(), 4);
        for of in settings {
            let [matmul, server] = &of.programs[..] else {
                panic!("{of:?}")
            };
            assert!(matmul.cost.unwrap().value > 0.0 && server.cost.unwrap().value > 0.0);
            assert!(of.over_plain.is_some() && server.of_static.is_some());
        }
        publish(plan, &results, ended, &mut Vec::new()).unwrap();
        let json = std::fs::read_to_string(folder.path().join("live.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["kind"], "measured");
        let run = &json["mixes"][0]["runs"][3]["runs"][0];
        assert!(run["before"]["load_average"].is_f64(), "{run}");
        let page = std::fs::read_to_string(folder.path().join("live.html")).unwrap();
        assert!(page.ends_with("</html>\n"));
    }
}
