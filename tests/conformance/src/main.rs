//! `cargo xtask conformance`: does a program still compute the right thing when mapper manages it?
//!
//! The OpenMP shim stands between a program and its runtime while the allocation changes. Whether that is sound shows only
//! in many programs that check themselves, at many moments of change.
//!
//! Every program of a folder (exit status 0 means that all was well), in C, C++ or Fortran, is compiled by each compiler and
//! run plainly a few times. Programs that pass are run with the shim in every team mode, while the allocation changes every
//! 300 µs between 1 and twice the CPUs: on the page, and in the affinity of the program's threads as far as there are CPUs.
//! [`mapper_abi::stand_in`] takes the place of the daemon.
//!
//! A program that passes plainly must pass under `fixed` and under `virtual`, whether the shim admits it there or not; under
//! `follow` it must pass if it passes under `OMP_DYNAMIC=true`. A run beyond its time limit has hung, which fails the
//! program. A mode that the shim does not have is reported separately.
//!
//! | module | job |
//! |---|---|
//! | `programs` | which programs there are, and compiling them |
//! | `run` | one run of one program, plain or managed, with its time limit |
//! | `judge` | the runs of one program and their verdict |
//! | `sanitizer` | shim and programs that check themselves |
//! | `report` | table, failures with the command to repeat them, JSON |

mod judge;
mod programs;
mod report;
mod run;
mod sanitizer;

use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::Parser as _;

use judge::{Case, Judge};
use mapper_report::interrupt::Interrupt;
use mapper_report::output::OutputFile;
use mapper_report::progress::Progress;
use mapper_report::workspace;
use programs::Program;
use report::Options;
use report::Report;
use run::{LoopSchedule, Machine, Teams};
use sanitizer::Sanitizer;

/// Seconds until a run counts as hung, unless said otherwise.
const TIME_LIMIT_S: u64 = 20;

/// Runs a folder of OpenMP programs under allocations that change all the time
#[derive(clap::Parser)]
#[command(name = "cargo xtask conformance", bin_name = "cargo xtask conformance")]
struct Args {
    /// Folder of programs in C, C++ and Fortran that exit with 0 when all is well, each in one file and run without
    /// arguments in a folder of its own [default: the project's own suite]
    dir: Option<PathBuf>,

    /// Compilers for C; programs in C++ and Fortran are compiled by those that go with gcc's and clang's
    #[arg(
        long,
        value_name = "CC,…",
        value_delimiter = ',',
        default_value = "gcc,clang",
        value_parser = clap::builder::NonEmptyStringValueParser::new()
    )]
    cc: Vec<String>,

    /// Team modes
    #[arg(
        long,
        value_name = "MODE,…",
        value_delimiter = ',',
        default_value = "fixed,follow,virtual"
    )]
    teams: Vec<Teams>,

    /// How dynamic loops are dispensed in managed runs
    #[arg(long, value_name = "HOW", default_value = "as-written")]
    schedule: LoopSchedule,

    /// Build shim and programs with checks of their own; any report fails the program
    #[arg(long, value_name = "WHICH")]
    sanitizer: Option<Sanitizer>,

    /// Programs at a time [default: as many as CPUs]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    jobs: Option<NonZeroUsize>,

    /// Write everything that was found to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Only this program, by its path within the folder
    #[arg(long, value_name = "FILE")]
    program: Option<String>,

    /// Runs of each program, plainly and in each mode
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,

    /// Seconds until a run counts as hung; at least ten times what it takes plainly
    #[arg(long, value_name = "SECONDS", default_value_t = TIME_LIMIT_S, value_parser = clap::value_parser!(u64).range(1..))]
    time_limit: u64,

    /// The shim [default: the one of this checkout, built now]
    #[arg(long, value_name = "PATH")]
    shim: Option<PathBuf>,

    /// The short form that is part of `cargo xtask test`: the project's own suite, one run of each kind, and
    /// enough of its programs must run with virtual teams
    #[arg(long, exclusive = true)]
    short: bool,
}

fn main() -> std::process::ExitCode {
    mapper_report::stopped::exit_code(run(&Args::parse()))
}

fn run(args: &Args) -> anyhow::Result<()> {
    if args.short {
        // The rest of `cargo xtask test` handles no flag either: Ctrl-C ends all of it.
        let own_suite = Args::parse_from(["cargo xtask conformance", "--runs=1"]);
        let report = check(&own_suite, Interrupt::default())?;
        enough_were_virtual(&report)?;
        let (passed, failed) = (report.sound(), report.broken());
        let counts = format!("{passed} passed, {failed} failed");
        let _ = writeln!(std::io::stdout(), "{report}\n{counts}");
        return verdict(&report);
    }
    let json = args.json.as_deref().map(OutputFile::claim).transpose()?;
    let report = check(args, Interrupt::on_signals()?)?;
    if let Some(json) = json {
        let text = serde_json::to_string_pretty(&report).context("write the results as JSON")?;
        json.write(&(text + "\n"))?;
    }
    // A closed pipe does not change the verdict.
    let _ = write!(std::io::stdout(), "{report}");
    if let Some(stopped) = report.stopped() {
        return Err(stopped.into());
    }
    verdict(&report)
}

/// Fails if mapper broke a program, or if no program passes plainly, as none was then run with mapper.
fn verdict(report: &Report) -> anyhow::Result<()> {
    match (report.broken(), report.sound()) {
        (0, 0) => bail!(
            "nothing was run with mapper, as no program passes plainly (see above); programs have to be complete in \
             one file, need no arguments and exit with 0"
        ),
        (0, _) => Ok(()),
        (count, _) => bail!("{count} broken by mapper"),
    }
}

/// Programs of the own suite, compiled by gcc, that must pass with virtual teams. Some forty have constructs that such teams
/// do not serve.
const LEAST_VIRTUAL: usize = 60;

/// Fails if too many programs were refused virtual teams: they pass with real ones, which tests nothing.
fn enough_were_virtual(report: &Report) -> anyhow::Result<()> {
    let count = report.passed("gcc", Teams::Virtual);
    anyhow::ensure!(
        count >= LEAST_VIRTUAL,
        "only {count} programs of gcc's ran right with virtual teams, of at least {LEAST_VIRTUAL}; see why by \
         `cargo xtask conformance --cc gcc --teams virtual --json FILE`\n{report}"
    );
    Ok(())
}

fn at_least_one(text: &str) -> Result<NonZeroUsize, String> {
    text.parse()
        .map_err(|_| "not a number of programs from 1 on".to_owned())
}

fn check(args: &Args, interrupt: Interrupt) -> anyhow::Result<Report> {
    let own_suite = workspace::root().join("omp-shim/tests/conformance");
    let folder = args.dir.as_deref().unwrap_or(&own_suite);
    let wrong = match folder.exists() {
        true => "not a folder; give the folder, and one program of it by --program FILE",
        false => "no such folder; give one with OpenMP programs, or none for the project's own",
    };
    anyhow::ensure!(folder.is_dir(), "{}: {wrong}", folder.display());
    let mut sources = programs::find(folder)?;
    if let Some(wanted) = &args.program {
        let wanted = Path::new(wanted);
        let wanted = wanted.strip_prefix(".").unwrap_or(wanted);
        sources.retain(|source| source == wanted);
    }
    if sources.is_empty() {
        let folder = folder.display();
        match &args.program {
            Some(wanted) => bail!("{folder}: no {wanted}; give its path below the folder"),
            None => bail!("{folder}: no programs (*.c, *.cpp, *.cc, *.f90)"),
        }
    }
    let build = || {
        args.sanitizer
            .map_or_else(build_shim, Sanitizer::build_shim)
    };
    let shim = args.shim.clone().map_or_else(build, Ok)?;
    let whole = shim.canonicalize();
    let shim = whole.with_context(|| format!("shim {}", shim.display()))?;
    let scratch = tempfile::Builder::new()
        .prefix("mapper-conformance-")
        .tempdir()
        .context("make a temporary folder")?;
    let mut machine = Machine::of_this_process(shim, args.schedule, interrupt)?;
    machine.sanitizer = args.sanitizer;
    if let Some(sanitizer) = args.sanitizer {
        for compiler in &args.cc {
            let programs = sanitizer.programs_of(compiler, scratch.path())?;
            machine.sanitized.insert(compiler.clone(), programs);
        }
    }
    let judge = Judge {
        teams: judge::supported(&args.teams, &args.cc, &machine, scratch.path())?,
        machine,
        runs: args.runs,
        time_limit: Duration::from_secs(args.time_limit),
        scratch: scratch.path(),
    };
    let programs = args.cc.iter().flat_map(|compiler| {
        let sources = sources.iter();
        sources.filter_map(move |source| Program::new(folder, source, compiler))
    });
    let programs: Vec<Program> = programs.collect();
    let all = std::thread::available_parallelism();
    let jobs = args.jobs.map_or(all, Ok).context("count the CPUs")?;
    let cases = judge_all(&judge, &programs, jobs)?;
    let left_out = programs.len() - cases.len();
    let options = Options {
        folder: args.dir.clone(),
        schedule: args.schedule,
        sanitizer: args.sanitizer,
        time_limit_s: (args.time_limit != TIME_LIMIT_S).then_some(args.time_limit),
        shim: args.shim.clone(),
    };
    Ok(Report {
        options,
        modes: judge.teams,
        cases,
        left_out,
    })
}

/// Builds the shim of this checkout.
fn build_shim() -> anyhow::Result<PathBuf> {
    let shim = workspace::build_product()?.join("libmapper_omp.so");
    ensure!(shim.exists(), "cargo built no {}", shim.display());
    Ok(shim)
}

/// Judges all programs, several at a time, and returns them in order, without those that Ctrl-C interrupts or prevents.
fn judge_all(
    judge: &Judge<'_>,
    programs: &[Program],
    jobs: NonZeroUsize,
) -> anyhow::Result<Vec<Case>> {
    let progress = Mutex::new(Progress::start("conformance", programs.len())?);
    let progress = || progress.lock().unwrap_or_else(PoisonError::into_inner);
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let judged: Vec<OnceLock<_>> = programs.iter().map(|_| OnceLock::new()).collect();
    std::thread::scope(|scope| {
        for _ in 0..jobs.get().min(programs.len()) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) && !judge.machine.interrupt.is_raised() {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(program) = programs.get(index) else {
                        break;
                    };
                    progress().doing(program.title());
                    let case = judge.judge(program, index);
                    if judge.machine.interrupt.is_raised() && case.is_err() {
                        break;
                    }
                    match case.as_ref().ok().and_then(Case::noteworthy) {
                        Some(word) => progress().done(&format!("{}: {word}", program.title())),
                        None => progress().count(),
                    }
                    stop.fetch_or(case.is_err(), Ordering::Relaxed);
                    let _ = judged[index].set(case);
                }
            });
        }
    });
    progress().finish();
    let judged = judged.into_iter();
    judged.filter_map(OnceLock::into_inner).collect()
}

#[cfg(test)]
mod tests {
    use super::judge::{Managed, Plain, Verdict};
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_before_anything_runs() {
        let json = "--json=/nonexistent/results.json";
        let error = run(&Args::parse_from(["conformance", "/nonexistent", json]));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("/nonexistent/results.json"), "{error}");
    }

    /// A suite of gcc's programs that come to these verdicts with virtual teams, if they are run with mapper.
    fn suite(verdicts: impl Iterator<Item = Option<Verdict>>) -> Report {
        let teams = Teams::Virtual;
        let case = |verdict: Option<Verdict>| Case {
            program: "a.c".to_owned(),
            compiler: "gcc".to_owned(),
            plain: Plain::Passed,
            managed: Vec::from_iter(verdict.map(|verdict| Managed { teams, verdict })),
        };
        Report {
            cases: verdicts.map(case).collect(),
            ..Report::default()
        }
    }

    #[test]
    fn a_suite_of_which_nothing_passes_plainly_is_no_success() {
        for (found, success) in [(None, false), (Some(Verdict::Passed), true)] {
            assert_eq!(verdict(&suite([found].into_iter())).is_ok(), success);
        }
    }

    #[test]
    fn a_suite_of_which_most_got_real_teams_has_not_tested_virtual_ones() {
        let suite = |virtually: usize| {
            let why = "tasks".to_owned();
            let verdict = |index| match index < virtually {
                true => Verdict::Passed,
                false => Verdict::RealTeams { why: why.clone() },
            };
            suite((0..2 * LEAST_VIRTUAL).map(|index| Some(verdict(index))))
        };
        assert!(enough_were_virtual(&suite(LEAST_VIRTUAL)).is_ok());
        let error = enough_were_virtual(&suite(LEAST_VIRTUAL - 1)).unwrap_err();
        assert!(error.to_string().starts_with("only 59 programs"), "{error}");
    }
}
