//! `cargo xtask test`: everything that must hold before a change is good.
//!
//! Runs the stages below one after the other, also when one has failed, and says for each how
//! long it took. What a stage printed is kept in `target/test-logs`; of the first that failed, the
//! failed tests are shown, and the last lines name each of them with the place where it failed. The last
//! line counts the tests that really ran: those of cargo's test programs, read from their summaries, OpenMP
//! programs in a team mode, and those in the guest. A test with `#[ignore]` counts as failed.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::ValueEnum;

use crate::laboratory::Program;
use crate::task_setup::{self, Consent, Purpose};
use crate::tools::MDBOOK;
use crate::{task_tidy, workspace};

/// Lines of a failed stage's output that are shown; all of it is in its log.
const SHOWN_LINES: usize = 150;

/// Characters of the line that says where and why a test failed.
const LONGEST_PLACE: usize = 400;

/// Arguments of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave out the guest and the OpenMP programs, and of the tests those of the laboratory
    #[arg(long)]
    quick: bool,
    /// Run only this stage; may be given several times
    #[arg(long, value_name = "STAGE", conflicts_with = "quick")]
    only: Vec<Stage>,
    /// Leave out the tests in the guest, for a machine where QEMU cannot be installed
    #[arg(long)]
    no_vm: bool,
}

impl Args {
    /// The stages to run.
    fn stages(&self) -> Vec<Stage> {
        let is_chosen = |stage: &Stage| {
            let is_slow = matches!(stage, Stage::Conformance | Stage::Guest | Stage::Book);
            let left_out = (self.quick && is_slow) || (self.no_vm && *stage == Stage::Guest);
            !left_out && (self.only.is_empty() || self.only.contains(stage))
        };
        let stages = Stage::value_variants().iter().copied();
        stages.filter(is_chosen).collect()
    }
}

/// Runs `cargo xtask test`.
pub(crate) fn run(args: &Args, consent: Consent) -> anyhow::Result<()> {
    let started = Instant::now();
    let stages = args.stages();
    let mut purposes: Vec<Purpose> = stages
        .iter()
        .flat_map(|stage| stage.purposes())
        .copied()
        .collect();
    purposes.sort();
    purposes.dedup();
    task_setup::require(&purposes, consent)?;
    let logs = workspace::target_dir().join("test-logs");
    fs::create_dir_all(&logs).with_context(|| format!("create {}", logs.display()))?;
    let mut total = Counts::default();
    let mut failed = Vec::new();
    for (index, &stage) in stages.iter().enumerate() {
        print!("[{}/{}] {:<38} ", index + 1, stages.len(), stage.title());
        std::io::stdout()
            .flush()
            .context("write to standard output")?;
        let begun = Instant::now();
        let mut output = String::new();
        let ran = stage.run(args.quick, &mut output).unwrap_or_else(|error| {
            let _ = writeln!(output, "{error:#}");
            Ran {
                counts: Counts::default(),
                verdict: Verdict::Failed,
            }
        });
        let log = logs.join(format!("{}.log", stage.name()));
        fs::write(&log, &output).with_context(|| format!("write {}", log.display()))?;
        println!("{}", ran.line(begun.elapsed()));
        total.add(ran.counts);
        if ran.verdict == Verdict::Failed {
            failed.push((stage, output));
        }
    }

    if let Some((stage, output)) = failed.first() {
        let failures = failures(output);
        let shown = if failures.is_empty() {
            tail(output, SHOWN_LINES)
        } else {
            let reports: Vec<&str> = failures.iter().map(|failure| failure.report).collect();
            tail(&reports.join("\n"), SHOWN_LINES)
        };
        println!("\n---- {} ----\n{shown}", stage.title());
        println!("(all output is in {})", logs.display());
    }
    println!();
    for (stage, output) in &failed {
        println!("FAILED: {}", stage.title());
        for failure in failures(output) {
            println!("  {}: {}", failure.test, failure.place());
        }
    }
    for stage in Stage::value_variants()
        .iter()
        .filter(|stage| !stages.contains(stage))
    {
        println!("not run: {}", stage.title());
    }
    println!("took {}", seconds(started.elapsed()));
    println!("{} passed, {} failed", total.passed, total.failed);
    if failed.is_empty() {
        Ok(())
    } else {
        bail!("{} of {} stages failed", failed.len(), stages.len())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stage {
    /// Formatting
    Format,
    /// Clippy
    Lints,
    /// Rules of the source tree
    Tidy,
    /// Unit, property, golden and command line tests
    Tests,
    /// The book
    Book,
    /// OpenMP programs while their CPUs change
    Conformance,
    /// Tests in the guest
    Guest,
}

impl Stage {
    /// As `--only` takes it.
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn title(self) -> &'static str {
        match self {
            Self::Format => "formatting",
            Self::Lints => "clippy",
            Self::Tidy => "tidy",
            Self::Tests => "unit, property and command line tests",
            Self::Book => "book",
            Self::Conformance => "OpenMP programs while CPUs change",
            Self::Guest => "guest tests",
        }
    }

    /// What has to be installed for it.
    fn purposes(self) -> &'static [Purpose] {
        match self {
            Self::Format | Self::Tidy | Self::Book => &[],
            Self::Lints => &[Purpose::Build],
            Self::Tests | Self::Conformance => &[Purpose::Build, Purpose::Clang, Purpose::Tests],
            Self::Guest => &[
                Purpose::Build,
                Purpose::Clang,
                Purpose::Package,
                Purpose::Vm,
            ],
        }
    }

    /// Runs the stage; what it prints goes to `output`. An error is a stage that could not run.
    fn run(self, quick: bool, output: &mut String) -> anyhow::Result<Ran> {
        match self {
            Self::Format => {
                let verdict = run_cargo(&["fmt", "--all", "--check"], output)?;
                Ok(Ran::without_tests(verdict))
            }
            Self::Lints => {
                let mut clippy = vec!["clippy", "--all-targets", "--workspace"];
                clippy.extend(["--", "-D", "warnings"]);
                let verdict = run_cargo(&clippy, output)?;
                Ok(Ran::without_tests(verdict))
            }
            Self::Tidy => {
                let findings = task_tidy::findings()?;
                output.push_str(&findings.join("\n"));
                Ok(Ran::without_tests(Verdict::passed_if(findings.is_empty())))
            }
            Self::Tests => {
                let mut test = vec!["test", "--no-fail-fast"];
                // The workspace's default members are the product.
                test.extend((!quick).then_some("--workspace"));
                let verdict = run_cargo(&test, output)?;
                Ok(Ran::of_tests(Counts::from_summaries(output), verdict))
            }
            Self::Book => {
                let mut mdbook = Command::new(MDBOOK.path()?);
                mdbook.arg("build").arg(workspace::root().join("docs/book"));
                // Where the links lead is checked by tidy.
                Ok(Ran::without_tests(run_command(mdbook, output)?))
            }
            Self::Conformance => run_laboratory(Program::Conformance, &["--short"], output),
            Self::Guest => run_laboratory(Program::Vm, &["test"], output),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
}

impl Verdict {
    fn passed_if(holds: bool) -> Self {
        if holds { Self::Passed } else { Self::Failed }
    }
}

/// A stage that has run.
struct Ran {
    counts: Counts,
    verdict: Verdict,
}

impl Ran {
    fn without_tests(verdict: Verdict) -> Self {
        Self {
            counts: Counts::default(),
            verdict,
        }
    }

    /// A failed test fails its stage, whatever the stage's own verdict.
    fn of_tests(counts: Counts, verdict: Verdict) -> Self {
        let verdict = if counts.failed > 0 {
            Verdict::Failed
        } else {
            verdict
        };
        Self { counts, verdict }
    }

    fn line(&self, elapsed: Duration) -> String {
        let word = match self.verdict {
            Verdict::Passed => "ok",
            Verdict::Failed => "FAILED",
        };
        let Counts { passed, failed } = self.counts;
        let tests = match (passed, failed) {
            (0, 0) => String::new(),
            (_, 0) => format!(", {passed} tests"),
            _ => format!(", {passed} tests passed, {failed} failed"),
        };
        format!("{word} ({}{tests})", seconds(elapsed))
    }
}

/// Tests that ran.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Counts {
    passed: usize,
    failed: usize,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }

    /// From the last line `4 passed, 1 failed` of the output.
    fn from_closing_line(output: &str) -> Option<Self> {
        let counts = |line: &str| {
            let (passed, failed) = line.strip_suffix(" failed")?.split_once(" passed, ")?;
            Some(Self {
                passed: passed.parse().ok()?,
                failed: failed.parse().ok()?,
            })
        };
        output.lines().rev().find_map(counts)
    }

    /// Adds up the lines `test result: ok. 4 passed; 0 failed; 1 ignored; …` of cargo's output.
    fn from_summaries(output: &str) -> Self {
        let mut counts = Self::default();
        for line in output.lines() {
            let Some((_, numbers)) = line
                .strip_prefix("test result: ")
                .and_then(|line| line.split_once(". "))
            else {
                continue;
            };
            for number in numbers.split("; ") {
                if let Some((count, what)) = number.split_once(' ')
                    && let Ok(count) = count.parse::<usize>()
                {
                    match what {
                        "passed" => counts.passed += count,
                        "failed" | "ignored" => counts.failed += count,
                        _ => {}
                    }
                }
            }
        }
        counts
    }
}

/// A test of cargo's that failed, as its test program reported it.
#[derive(PartialEq, Eq, Debug)]
struct Failure<'a> {
    test: &'a str,
    /// The heading with the test's name and what the test printed.
    report: &'a str,
}

impl Failure<'_> {
    /// Where the test panicked and the first line of why, or the first line that it printed.
    fn place(&self) -> String {
        let mut lines = self.report.lines().skip(1).filter(|line| !line.is_empty());
        let first = lines.clone().next().unwrap_or("it printed nothing");
        let place = lines.find_map(|line| line.split_once("panicked at "));
        let told = match (place, lines.next()) {
            (Some((_, place)), Some(why)) => format!("{place} {why}"),
            (Some((_, place)), None) => place.to_owned(),
            (None, _) => first.to_owned(),
        };
        told.chars().take(LONGEST_PLACE).collect()
    }
}

/// The failed tests in cargo's output: what stands between `---- name stdout ----` and the next such
/// heading or the list of names that ends a test program's report.
fn failures(output: &str) -> Vec<Failure<'_>> {
    let mut failures = Vec::new();
    let mut open: Option<(&str, usize)> = None;
    let mut position = 0;
    for line in output.split_inclusive('\n') {
        let text = line.trim_end();
        let heading = text
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"));
        if heading.is_some() || text == "failures:" || text.starts_with("test result: ") {
            if let Some((test, begin)) = open.take() {
                let report = output[begin..position].trim_end();
                failures.push(Failure { test, report });
            }
            open = heading.map(|test| (test, position));
        }
        position += line.len();
    }
    if let Some((test, begin)) = open {
        let report = output[begin..].trim_end();
        failures.push(Failure { test, report });
    }
    failures
}

/// Runs cargo in the checkout; both its streams go to `output`, in the order they were written.
fn run_cargo(arguments: &[&str], output: &mut String) -> anyhow::Result<Verdict> {
    let mut command = workspace::cargo();
    command.args(arguments);
    run_command(command, output)
}

/// Runs a program of the laboratory in the checkout; its last line says how many tests passed and failed.
fn run_laboratory(
    program: Program,
    arguments: &[&str],
    output: &mut String,
) -> anyhow::Result<Ran> {
    let mut command = program.command();
    command.args(arguments).current_dir(workspace::root());
    let verdict = run_command(command, output)?;
    let counts = Counts::from_closing_line(output)
        .with_context(|| format!("no closing line with counts from {}", program.package()))?;
    Ok(Ran::of_tests(counts, verdict))
}

/// Runs a command; both its streams go to `output`, in the order they were written.
fn run_command(mut command: Command, output: &mut String) -> anyhow::Result<Verdict> {
    let (mut reader, writer) = std::io::pipe().context("make a pipe")?;
    command
        .env("CARGO_TERM_COLOR", "never")
        .stdin(Stdio::null())
        .stdout(writer.try_clone().context("share a pipe")?)
        .stderr(writer);
    let mut cargo = command.spawn().context("start cargo")?;
    // The command holds the writing ends too: with them open the output would never end.
    drop(command);
    let mut bytes = Vec::new();
    reader
        .read_to_end(&mut bytes)
        .context("read cargo's output")?;
    output.push_str(&String::from_utf8_lossy(&bytes));
    let status = cargo.wait().context("wait for cargo")?;
    Ok(Verdict::passed_if(status.success()))
}

fn seconds(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        format!("{} min {} s", seconds / 60, seconds % 60)
    }
}

fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_all_test_programs_are_added_up() {
        let output = "running 3 tests\n\
            test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.00s\n\
            noise\n\
            test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s\n";
        assert_eq!(
            Counts::from_summaries(output),
            Counts {
                passed: 8,
                failed: 2
            }
        );
    }

    #[test]
    fn the_counts_of_a_laboratory_program_are_in_its_last_line_with_counts() {
        let output = "4 passed, 0 failed\nmore\n7 passed, 2 failed\nerror: 2 cases failed\n";
        let counts = Counts::from_closing_line(output).unwrap();
        assert_eq!((counts.passed, counts.failed), (7, 2));
        assert!(Counts::from_closing_line("it passed, none failed\n").is_none());
    }

    #[test]
    fn a_test_that_was_not_run_counts_as_failed() {
        let output = "test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out";
        assert_eq!(
            Counts::from_summaries(output),
            Counts {
                passed: 1,
                failed: 1
            }
        );
    }

    #[test]
    fn each_failed_test_is_named_with_the_place_where_it_failed() {
        let output = "running 3 tests\n\
            test a::holds ... ok\n\
            \n\
            failures:\n\
            \n\
            ---- a::breaks stdout ----\n\
            a line of its own\n\
            \n\
            thread 'a::breaks' (12) panicked at a.rs:3:5:\n\
            assertion failed\n\
            \n\
            ---- a::is_silent stdout ----\n\
            \n\
            \n\
            failures:\n    a::breaks\n    a::is_silent\n\
            \n\
            test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";
        let failures = failures(output);
        let places: Vec<(&str, String)> = failures
            .iter()
            .map(|failure| (failure.test, failure.place()))
            .collect();
        assert_eq!(
            places,
            [
                ("a::breaks", "a.rs:3:5: assertion failed".to_owned()),
                ("a::is_silent", "it printed nothing".to_owned()),
            ]
        );
        assert!(failures[0].report.ends_with("assertion failed"));
    }

    #[test]
    fn a_failed_test_fails_its_stage() {
        let counts = Counts {
            passed: 3,
            failed: 1,
        };
        assert!(Ran::of_tests(counts, Verdict::Passed).verdict == Verdict::Failed);
    }

    #[test]
    fn a_stage_that_did_not_compile_fails_without_a_failed_test() {
        let ran = Ran::of_tests(Counts::default(), Verdict::Failed);
        assert!(
            ran.line(Duration::from_secs(61))
                .starts_with("FAILED (1 min 1 s")
        );
    }
}
