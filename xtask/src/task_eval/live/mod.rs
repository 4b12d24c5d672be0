//! `cargo xtask eval --live`: real programs side by side on the machine at hand.
//!
//! Mixes of two, three and four programs of `benches/workloads` run under plain Linux, on a static fair
//! share, with CPUs alone managed and under mapper, interleaved, so that a disturbance meets all
//! settings alike. **Measured**: nothing here ever stands in a table with results of the model.
//!
//! One file does one thing: [`programs`] and [`mixes`] are what is run, [`settings`] how, [`dlb`] finds
//! that library, [`measure`] runs, [`cost`] says what a run cost, [`evaluate`] computes the figures, [`results`] is their shape,
//! [`tables`], [`html`] and [`plot`] show them, [`publish`] writes them. From [`evaluate`] to [`plot`]
//! everything is a pure function of the runs.

mod cost;
mod dlb;
mod evaluate;
mod html;
mod measure;
mod mixes;
mod plot;
mod programs;
mod publish;
mod results;
mod settings;
mod summary;
mod tables;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, bail};

use self::dlb::{Dlb, Loaded};
use self::evaluate::{MeasuredMix, SettingRuns};
use self::measure::{Run, Stage};
use self::mixes::Mix;
use self::programs::{Compiled, PROGRAMS, Program, Threads};
use self::publish::{publish, read_document};
use self::results::{Method, Results};
use self::settings::{Choice, Setting};
use super::execute::check_writable;
use crate::corun::build::{self, Profile};
use crate::corun::machine::Machine;
use crate::corun::output::OutputFile;
use crate::corun::processes::{Interrupt, allowed_cpus};
use crate::corun::progress::Progress;
use crate::corun::shares::{by_nearness, place_of};
use crate::private_daemon::PrivateDaemon;
use crate::task_demo::timeline::DaemonFacts;
use crate::task_setup::{self, Purpose};

/// The promise unless `--qos` says otherwise.
const QOS: f64 = 0.85;

/// Time between decisions unless `--interval` says otherwise, seconds. A tenth of the daemon's own,
/// as these programs run for a second or two where others run for minutes.
const INTERVAL_S: f64 = 0.1;

/// The arguments that only `--live` takes.
#[derive(clap::Args)]
pub(super) struct LiveArgs {
    /// Run real programs on this machine instead (--help says more)
    ///
    /// Runs mixes of the programs of benches/workloads under plain Linux, on a static fair share, with
    /// mapper moving CPUs only and with mapper, interleaved. About ten minutes on an otherwise idle
    /// machine: 10 repetitions of 8 mixes under 5 settings, each some 1 to 2 seconds; --seconds,
    /// --reps, --mix and --setting make it shorter. Ctrl-C keeps what is finished.
    #[arg(long, conflicts_with_all = [
        "suite", "machine", "follow", "seeds", "apps", "machines", "protocol", "fresh", "set",
    ])]
    pub(super) live: bool,
    /// With --live: repetitions of every run [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    reps: Option<u32>,
    /// With --live: settings to compare, separated by commas [default: plain, static, cpus, mapper,
    /// virtual, and dlb where it is installed]
    #[arg(long, value_name = "SETTING", value_delimiter = ',')]
    setting: Vec<Choice>,
    /// With --live: how long each program works alone on half of the machine [default: 0.7]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// With --live: also write the tables to this file, as Markdown, in place of what stands between
    /// its comments "measured: begin" and "measured: end"; a file with text and without them is refused
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

impl LiveArgs {
    /// Refuses what means nothing without `--live`. (clap's `requires` is silent where `--live`
    /// conflicts with another argument.)
    pub(super) fn check_unused(&self) -> anyhow::Result<()> {
        let given = [
            ("--reps", self.reps.is_some()),
            ("--setting", !self.setting.is_empty()),
            ("--seconds", self.seconds.is_some()),
            ("--markdown", self.markdown.is_some()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => bail!("{flag}: only with --live; the model does not know it"),
            None => Ok(()),
        }
    }
}

/// The arguments that the model takes, too.
pub(super) struct Shared<'a> {
    pub(super) mixes: &'a [String],
    pub(super) policies: &'a [String],
    pub(super) qos: Option<f64>,
    pub(super) interval_s: Option<f64>,
    pub(super) json: Option<&'a PathBuf>,
    pub(super) out: Option<&'a PathBuf>,
}

/// What the arguments ask for, checked.
struct Plan {
    mixes: Vec<Mix>,
    settings: Vec<Setting>,
    dlb: Option<Dlb>,
    repetitions: usize,
    calibrated_s: f64,
    qos: f64,
    interval_s: f64,
    json: Option<OutputFile>,
    markdown: Option<OutputFile>,
    out: Option<PathBuf>,
}

impl Plan {
    /// Checks the arguments and claims the output files, before anything takes time.
    fn new(args: &LiveArgs, shared: &Shared<'_>) -> anyhow::Result<Self> {
        let dlb = Dlb::find();
        let settings = settings::select(&args.setting, shared.policies, dlb::is(dlb.as_ref()))?;
        let mixes = mixes::select(shared.mixes)?;
        let calibrated_s = args.seconds.unwrap_or(0.7);
        if !(0.05..=60.0).contains(&calibrated_s) {
            bail!("--seconds {calibrated_s}: give seconds from 0.05 to 60");
        }
        let interval_s = shared.interval_s.unwrap_or(INTERVAL_S);
        if !(0.02..=10.0).contains(&interval_s) {
            bail!("--interval {interval_s}: with --live give seconds from 0.02 to 10");
        }
        if let Some(file) = &args.markdown
            && file.exists()
        {
            let before = read_document(file)?;
            tables::check_document(&before)
                .with_context(|| format!("--markdown {}", file.display()))?;
        }
        if let Some(folder) = shared.out {
            check_writable(folder)?;
        }
        let claim = |path: Option<&PathBuf>| path.map(|path| OutputFile::claim(path)).transpose();
        Ok(Self {
            mixes,
            settings,
            dlb,
            repetitions: usize::try_from(args.reps.unwrap_or(10))?,
            calibrated_s,
            qos: shared.qos.unwrap_or(QOS),
            interval_s,
            json: claim(shared.json)?,
            markdown: claim(args.markdown.as_ref())?,
            out: shared.out.cloned(),
        })
    }

    /// The programs that are needed, each once.
    fn programs(&self) -> Vec<&'static Program> {
        let wanted = |program: &&Program| {
            let mut all = self.mixes.iter().flat_map(|mix| &mix.programs);
            all.any(|other| other.name == program.name)
        };
        PROGRAMS.iter().filter(wanted).collect()
    }

    /// The policies of the daemons that are needed, each once.
    fn policies(&self) -> Vec<Option<String>> {
        let managed = self.settings.iter().filter(|setting| setting.is_managed());
        let mut policies: Vec<Option<String>> = managed
            .map(|setting| setting.policy().map(String::from))
            .collect();
        policies.sort_unstable();
        policies.dedup();
        policies
    }
}

/// Runs `cargo xtask eval --live`.
pub(super) fn run(args: &LiveArgs, shared: &Shared<'_>) -> anyhow::Result<()> {
    let plan = Plan::new(args, shared)?;
    let mut purposes = vec![Purpose::Build];
    if plan.settings.contains(&Setting::Dlb) {
        purposes.push(Purpose::Clang);
    }
    task_setup::require(&purposes)?;
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
    let wanted = plan.repetitions * plan.mixes.len() * plan.settings.len();
    let runs = measured.mixes.iter().flat_map(|mix| &mix.runs);
    let done: usize = runs.map(|of| of.runs.len()).sum();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let method = Method {
        command: format!("cargo xtask {}", words.join(" ")),
        repetitions: measured.repetitions,
        qos: plan.qos,
        interval_s: plan.interval_s,
        calibrated_s: plan.calibrated_s,
        daemon,
        dlb: dlb::is(plan.dlb.as_ref()),
        left_out: wanted - done,
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
    let progress = Progress::start("measuring", plan.repetitions * plan.mixes.len() * count)?;
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
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Eval {
        #[command(flatten)]
        args: super::super::Args,
    }

    pub(super) fn plan(arguments: &[&str]) -> anyhow::Result<Plan> {
        let words = ["eval", "--live"].iter().chain(arguments);
        let args = Eval::try_parse_from(words)?.args;
        super::super::with_shared(&args, |shared| Plan::new(&args.live, shared))
    }

    fn refusal(arguments: &[&str]) -> String {
        match plan(arguments) {
            Ok(_) => panic!("{arguments:?} was accepted"),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn bad_arguments_are_refused_by_name_before_anything_runs() {
        for (arguments, named) in [
            (&["--mix", "md+nobody"][..], "nobody"),
            (&["--reps", "0"], "--reps"),
            (&["--setting", "elastic"], "elastic"),
            (&["--policy", "genius"], "genius"),
            (&["--seconds", "0"], "--seconds 0"),
            (&["--seconds", "many"], "many"),
            (&["--interval", "11"], "--interval 11"),
            (&["--qos", "1.5"], "--qos"),
            (&["--suite", "all"], "--suite"),
            (&["--json", "/nonexistent/a/b"], "/nonexistent/a/b"),
            (&["--markdown", "/nonexistent/a/b"], "/nonexistent/a/b"),
            (&["--out", "/proc/nonexistent"], "/proc/nonexistent"),
        ] {
            let error = refusal(arguments);
            assert!(error.contains(named), "{arguments:?}: {error}");
        }
    }

    #[test]
    fn what_belongs_to_live_is_refused_without_it() {
        for flag in ["--reps=3", "--seconds=1", "--setting=plain", "--markdown=x"] {
            let args = Eval::try_parse_from(["eval", "--suite=all", flag])
                .unwrap()
                .args;
            let error = super::super::run(&args).unwrap_err().to_string();
            let name = flag.split('=').next().unwrap();
            assert!(error.contains(name) && error.contains("--live"), "{error}");
        }
    }

    #[test]
    fn the_default_is_ten_repetitions_of_all_default_mixes_and_settings() {
        let plan = plan(&[]).unwrap();
        assert_eq!(plan.repetitions, 10);
        assert_eq!(plan.mixes, mixes::select(&[]).unwrap());
        assert_eq!(plan.policies(), [None]);
        assert_eq!(plan.qos, 0.85);
    }

    #[test]
    fn a_daemon_runs_for_each_policy_that_is_compared() {
        let policies = |arguments: &[&str]| plan(arguments).unwrap().policies();
        assert_eq!(policies(&["--setting", "plain,static"]), []);
        let found = policies(&["--setting", "cpus,mapper", "--policy", "hill_climb,equal"]);
        let names = [
            None,
            Some("equal".to_owned()),
            Some("hill_climb".to_owned()),
        ];
        assert_eq!(found, names);
    }

    #[test]
    fn a_document_that_would_lose_its_text_is_refused_before_anything_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.md");
        std::fs::write(&path, "my notes\n").unwrap();
        let error = refusal(&["--markdown", path.to_str().unwrap()]);
        assert!(
            error.contains("notes.md") && error.contains("measured: begin"),
            "{error}"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "my notes\n");
    }

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
            bail!("interrupted")
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
