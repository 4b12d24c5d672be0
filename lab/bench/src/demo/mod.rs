//! `cargo xtask demo`: pairs of real programs under plain Linux and under mapper, on this machine.
//!
//! A stranger with a fresh checkout runs this one command. It installs what is missing, builds
//! mapper and five OpenMP programs, chooses how much work each program does so that a run takes a
//! few seconds, starts a daemon of its own and runs every [pair](pairs::PAIRS) under every
//! [setting](pairs::Setting), interleaved. It ends with tables, an HTML report and, if wanted, the
//! same as JSON. Only a wrong result fails the task; a target that is missed is printed as such.
//!
//! One file does one thing: [`pairs`] what is run, [`artifacts`] the compiled programs,
//! [`measure`] the runs, [`timeline`] what the daemon says meanwhile,
//! [`evaluate`] the figures, [`results`] their shape, [`console`], [`html`], [`background`] and
//! [`plot`] showing them; [`crate::corun`] starts programs and judges them. From [`evaluate`] on everything is a pure function of the runs.

mod artifacts;
mod background;
mod console;
mod evaluate;
mod html;
mod measure;
mod pairs;
pub(crate) mod plot;
mod results;
pub(crate) mod timeline;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use self::artifacts::Workloads;
use self::evaluate::{MeasuredPair, evaluate};
use self::measure::{QOS, Stage};
use self::pairs::{Pair, Program, Setting, rotated, select_pairs};
use self::results::{Method, Results};
use self::timeline::DaemonFacts;
use crate::corun::build::{self, Runtime};
use crate::corun::machine::{DisturbanceMeter, Machine};
use crate::corun::processes::allowed_cpus;
use crate::corun::shares::fair_shares;
use crate::private_daemon::PrivateDaemon;
use mapper_report::interrupt::Interrupt;
use mapper_report::output::OutputFile;
use mapper_report::progress::Progress;
use mapper_report::workspace;

/// Repetitions when none are asked for; fewer if they do not fit into [`BUDGET`].
const REPETITIONS: u8 = 3;

/// The measuring starts no further repetition that would end beyond this.
const BUDGET: Duration = Duration::from_secs(280);

/// How long each program takes alone on its fair share, in full and with `--quick`.
const CALIBRATED: Duration = Duration::from_millis(1500);
const CALIBRATED_QUICK: Duration = Duration::from_millis(700);

/// A run may take this many times the calibrated time before it is ended.
const PATIENCE: u32 = 6;

/// Interval of the daemon's decisions.
const INTERVAL_MS: u64 = 100;

/// A load average above this is worth a word, since it falsifies the times.
const BUSY: f64 = 0.5;

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
    /// The settings to compare, separated by commas [default: all]
    #[arg(long, value_name = "SETTING", value_delimiter = ',')]
    settings: Vec<Setting>,
    /// One repetition of short runs: shows that everything works, but measures badly
    #[arg(long)]
    quick: bool,
}

/// What the arguments ask for, checked.
struct Plan {
    pairs: Vec<Pair>,
    settings: Vec<Setting>,
    repetitions: usize,
    /// Whether fewer repetitions will do if time runs out.
    within_budget: bool,
    calibrated: Duration,
    html: OutputFile,
    json: Option<OutputFile>,
}

impl Plan {
    /// Checks the arguments and claims the output files, before anything takes time.
    fn new(args: &Args) -> anyhow::Result<Self> {
        let pairs = select_pairs(&args.pairs)?;
        let mut settings = Setting::ALL.to_vec();
        if !args.settings.is_empty() {
            settings.retain(|setting| args.settings.contains(setting));
        }
        let html = match &args.html {
            Some(path) => OutputFile::claim(path)?,
            None => {
                let folder = workspace::target_dir();
                std::fs::create_dir_all(&folder)
                    .with_context(|| format!("make the folder {}", folder.display()))?;
                OutputFile::claim(&folder.join("mapper-demo.html"))?
            }
        };
        let json = args.json.as_deref().map(OutputFile::claim).transpose()?;
        let preset = if args.quick { 1 } else { REPETITIONS };
        Ok(Self {
            pairs,
            settings,
            repetitions: usize::from(args.reps.unwrap_or(preset)),
            within_budget: args.reps.is_none(),
            calibrated: if args.quick {
                CALIBRATED_QUICK
            } else {
                CALIBRATED
            },
            html,
            json,
        })
    }

    fn is_managed(&self) -> bool {
        self.settings.iter().any(|setting| setting.is_managed())
    }

    /// The programs that are needed.
    fn programs(&self) -> BTreeSet<(Program, Runtime)> {
        self.pairs
            .iter()
            .flat_map(|pair| pair.entrants.map(|entrant| (entrant.program, pair.runtime)))
            .collect()
    }

    fn compilers(&self) -> Vec<&'static str> {
        let runtimes: BTreeSet<_> = self.pairs.iter().map(|pair| pair.runtime).collect();
        runtimes.into_iter().map(Runtime::compiler).collect()
    }
}

/// Runs `cargo xtask demo`.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let plan = Plan::new(args)?;
    let interrupt = Interrupt::on_signals()?;

    let binaries = if plan.is_managed() {
        eprintln!("building mapper");
        Some(build::build_mapper(build::Profile::Release)?)
    } else {
        None
    };
    eprintln!("building the programs");
    let programs = plan.programs();
    let workloads = Workloads::compile(&programs)?;

    let cpus = allowed_cpus()?;
    let machine = Machine::describe(cpus.len(), &plan.compilers());
    if machine.load_average_before > BUSY {
        eprintln!(
            "note: the load average is {:.2}; other work will falsify the times",
            machine.load_average_before
        );
    }
    let begun = Instant::now();
    let meter = DisturbanceMeter::start()?;
    let mut stage = Stage {
        workloads: &workloads,
        work: BTreeMap::new(),
        calibrated: plan.calibrated,
        limit: plan.calibrated * PATIENCE,
        shares: fair_shares(&cpus),
        daemon: None,
        interrupt,
        checksums: BTreeMap::new(),
    };
    calibrate(&mut stage, &programs, &machine)?;
    if let Some(binaries) = &binaries {
        let interval = format!("{INTERVAL_MS}ms");
        stage.daemon = Some(PrivateDaemon::start(binaries, &["--interval", &interval])?);
    }
    let (measured, done) = measure_all(&mut stage, &plan, begun)?;
    let daemon = stage
        .daemon
        .as_ref()
        .map(|daemon| DaemonFacts::ask(&daemon.socket()))
        .transpose()?;
    // Stopped before the meter is read, so that its time counts as ours.
    drop(stage.daemon.take());

    let method = Method {
        repetitions_wanted: plan.repetitions,
        repetitions_done: done,
        qos: QOS,
        interval_ms: INTERVAL_MS,
        calibrated_s: plan.calibrated.as_secs_f64(),
        time_limit_s: stage.limit.as_secs_f64(),
        fair_cpus: [stage.shares[0].len(), stage.shares[1].len()],
        daemon,
    };
    let elapsed_s = begun.elapsed().as_secs_f64();
    let results = evaluate(machine, meter.finish()?, method, &measured, elapsed_s);
    publish(plan, &results)
}

fn calibrate(
    stage: &mut Stage<'_>,
    programs: &BTreeSet<(Program, Runtime)>,
    machine: &Machine,
) -> anyhow::Result<()> {
    let progress = Progress::start("calibrating", programs.len())?;
    for &(program, runtime) in programs {
        progress.doing(program.name().to_owned());
        let size = (program == Program::Triad).then(|| triad_mib(machine));
        stage.calibrate(program, runtime, size)?;
        let steps = stage
            .work
            .get(&(program, runtime))
            .map_or(0, |work| work.steps);
        progress.done(&format!(
            "{} for {}: {steps} steps",
            program.name(),
            runtime.name()
        ));
    }
    progress.finish();
    Ok(())
}

/// MiB of each of the triad's three arrays: beyond the caches, and within memory.
fn triad_mib(machine: &Machine) -> u64 {
    let cache_mib = machine.l3_kib.unwrap_or(0) / 1024;
    cache_mib.max(64).min(machine.memory_mib / 16).max(1)
}

/// Runs everything, interleaved; gives the runs and the number of repetitions.
fn measure_all(
    stage: &mut Stage<'_>,
    plan: &Plan,
    begun: Instant,
) -> anyhow::Result<(Vec<MeasuredPair>, usize)> {
    let mut measured = plan
        .pairs
        .iter()
        .map(|&pair| {
            let [first, second] = &pair.entrants;
            let work = [stage.work_of(&pair, first)?, stage.work_of(&pair, second)?];
            Ok(MeasuredPair {
                pair,
                work,
                runs: BTreeMap::new(),
            })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let steps = plan.repetitions * plan.pairs.len() * plan.settings.len();
    let progress = Progress::start("measuring", steps)?;
    for repetition in 0..plan.repetitions {
        let repetition_begun = Instant::now();
        for (index, measured) in measured.iter_mut().enumerate() {
            for setting in rotated(&plan.settings, index, repetition) {
                progress.doing(format!("{}, {}", measured.pair.name, setting.title()));
                let run = stage.run(&measured.pair, setting, repetition == 0)?;
                progress.done(&console::run_line(
                    repetition,
                    &measured.pair,
                    setting,
                    &run,
                ));
                for wrong in &run.wrong {
                    progress.note(&format!("wrong result under {}: {wrong}", setting.title()));
                }
                measured.runs.entry(setting).or_default().push(run);
            }
        }
        let done = repetition + 1;
        let next_ends = begun.elapsed() + repetition_begun.elapsed();
        if plan.within_budget && done < plan.repetitions && next_ends > BUDGET {
            progress.note(&format!(
                "stopping after {done} of {} repetitions, to end within five minutes",
                plan.repetitions
            ));
            progress.finish();
            return Ok((measured, done));
        }
    }
    progress.finish();
    Ok((measured, plan.repetitions))
}

/// Prints and writes the results; fails when one was wrong.
fn publish(plan: Plan, results: &Results) -> anyhow::Result<()> {
    println!("{}", console::tables(results));
    let report = plan.html.write(&html::page(results))?;
    println!("report: {}", report.display());
    if let Some(json) = plan.json {
        let mut text =
            serde_json::to_string_pretty(results).context("write the results as JSON")?;
        text.push('\n');
        println!("JSON: {}", json.write(&text)?.display());
    }
    if results.wrong_results > 0 {
        bail!("wrong results: {}", results.wrong_results);
    }
    Ok(())
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

    fn plan(arguments: &[&str]) -> anyhow::Result<Plan> {
        let demo = Demo::try_parse_from(["demo"].iter().chain(arguments))?;
        Plan::new(&demo.args)
    }

    fn refusal(arguments: &[&str]) -> String {
        match plan(arguments) {
            Ok(_) => panic!("{arguments:?} was accepted"),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn no_repetitions_are_refused() {
        for wrong in ["0", "101", "-1", "many"] {
            let error = refusal(&[&format!("--reps={wrong}")]);
            assert!(error.contains(wrong) && error.contains("--reps"), "{error}");
        }
    }

    #[test]
    fn an_unknown_pair_or_setting_is_refused_with_the_valid_ones() {
        let error = refusal(&["--pairs", "md+cg,nobody"]);
        assert!(
            error.contains("nobody") && error.contains("triad+mandelbrot"),
            "{error}"
        );
        let error = refusal(&["--settings", "elastic"]);
        assert!(
            error.contains("elastic") && error.contains("passive"),
            "{error}"
        );
    }

    #[test]
    fn an_unwritable_file_is_refused_before_anything_is_measured() {
        for flag in ["--json", "--html"] {
            let error = refusal(&[flag, "/nonexistent/folder/file"]);
            assert!(error.contains("/nonexistent/folder/file"), "{error}");
        }
    }

    #[test]
    fn clang_is_needed_for_libomp_pairs_only() {
        let folder = tempfile::tempdir().unwrap();
        let html = folder.path().join("report.html");
        let with = |pair: &str| {
            plan(&["--html", html.to_str().unwrap(), "--pairs", pair])
                .unwrap()
                .compilers()
        };
        assert_eq!(with("md+cg"), ["gcc"]);
        assert_eq!(with("cg+montecarlo-libomp"), ["clang"]);
    }

    #[test]
    fn a_wrong_result_fails_the_task_after_the_reports_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let html = folder.path().join("report.html");
        let json = folder.path().join("results.json");
        let files = [
            "--html",
            html.to_str().unwrap(),
            "--json",
            json.to_str().unwrap(),
        ];
        let mut results = evaluate::tests::example();
        let error = publish(plan(&files).unwrap(), &results).unwrap_err();
        assert_eq!(error.to_string(), "wrong results: 1");
        let written = std::fs::read_to_string(&json).unwrap();
        assert!(written.contains("\"wrong_results\": 1"), "{written}");
        assert!(std::fs::read_to_string(&html).unwrap().contains("</html>"));

        results.wrong_results = 0;
        assert!(results.targets.iter().any(|target| !target.met));
        publish(plan(&files).unwrap(), &results).unwrap();
    }

    #[test]
    fn settings_are_compared_in_the_order_of_the_report() {
        let folder = tempfile::tempdir().unwrap();
        let html = folder.path().join("report.html");
        let plan = plan(&[
            "--html",
            html.to_str().unwrap(),
            "--settings",
            "static,plain",
        ])
        .unwrap();
        assert_eq!(plan.settings, [Setting::Plain, Setting::Static]);
        assert!(!plan.is_managed());
    }
}
