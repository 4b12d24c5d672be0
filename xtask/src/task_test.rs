//! `cargo xtask test`: everything that must hold before a change is good.
//!
//! Runs all stages, also when one has failed. What a stage printed is kept in `target/test-logs`; the last lines
//! name each failed test with the place where it failed, and count the tests that really ran. A test with
//! `#[ignore]` counts as failed.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::ValueEnum;
use fs_err as fs;

use crate::laboratory::Program;
use crate::task_setup::{self, Consent, Purpose};
use crate::{python, task_tidy, workspace};

/// Lines of a failed stage's output that are shown; all of it is in its log.
const SHOWN_LINES: usize = 150;

/// Lines that are shown of each further stage that failed without naming a test.
const SHOWN_WITHOUT_NAMES: usize = 25;

/// Characters of the line that says where and why a test failed.
const LONGEST_PLACE: usize = 400;

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
    fn stages(&self) -> Vec<Stage> {
        let is_chosen = |stage: &Stage| {
            let is_slow = matches!(
                stage,
                Stage::Conformance | Stage::Guest | Stage::Book | Stage::Python
            );
            let left_out = (self.quick && is_slow) || (self.no_vm && *stage == Stage::Guest);
            !left_out && (self.only.is_empty() || self.only.contains(stage))
        };
        let stages = Stage::value_variants().iter().copied();
        stages.filter(is_chosen).collect()
    }
}

/// Cargo then has arithmetic checked in release, in everything that is built for tests, the guest's package included.
const CHECKED: &str = "CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS";

pub(crate) fn run(args: &Args, consent: Consent) -> anyhow::Result<()> {
    if std::env::var_os(CHECKED).is_none() {
        let mut again = Command::new(std::env::current_exe()?);
        let error = again
            .args(std::env::args_os().skip(1))
            .env(CHECKED, "true")
            .exec();
        return Err(error).context("start it again");
    }
    let started = Instant::now();
    let stages = args.stages();
    let purposes = stages.iter().flat_map(|stage| stage.purposes());
    let purposes: BTreeSet<Purpose> = purposes.copied().collect();
    task_setup::require(&purposes.into_iter().collect::<Vec<_>>(), consent)?;
    let logs = workspace::target_dir().join("test-logs");
    fs::create_dir_all(&logs)?;
    let mut total = Ran::default();
    let mut failed = Vec::new();
    let mut times = Vec::new();
    for (index, &stage) in stages.iter().enumerate() {
        print!("[{}/{}] {:<46} ", index + 1, stages.len(), stage.title());
        std::io::stdout().flush()?;
        let begun = Instant::now();
        let mut output = String::new();
        let ran = stage.run(args.quick, &mut output).unwrap_or_else(|error| {
            output += &format!("{error:#}\n");
            Ran::default()
        });
        let log = logs.join(format!("{}.log", stage.name()));
        fs::write(&log, &output)?;
        let took = begun.elapsed();
        println!("{}", ran.line(took));
        times.push(format!("{} {}", stage.name(), seconds(took)));
        total.passed += ran.passed;
        total.failed += ran.failed;
        if !ran.has_passed() {
            failed.push((stage, output));
        }
    }

    if let Some((stage, output)) = failed.first() {
        let printed = Failures::of(output).printed;
        let shown = if printed.is_empty() { output } else { &printed };
        println!(
            "\n---- {} ----\n{}",
            stage.title(),
            tail(shown, SHOWN_LINES)
        );
        println!("(all output is in {})", logs.display());
    }
    println!();
    for (index, (stage, output)) in failed.iter().enumerate() {
        println!("FAILED: {}", stage.title());
        let tests = Failures::of(output).tests;
        for test in &tests {
            println!("  {test}");
        }
        if tests.is_empty() && index > 0 {
            println!("{}", tail(output, SHOWN_WITHOUT_NAMES));
        }
    }
    let all = Stage::value_variants().iter();
    for stage in all.filter(|stage| !stages.contains(stage)) {
        println!("not run: {}", stage.title());
    }
    println!("took {}: {}", seconds(started.elapsed()), times.join(", "));
    println!("{} passed, {} failed", total.passed, total.failed);
    let (failed, all) = (failed.len(), stages.len());
    ensure!(failed == 0, "{failed} of {all} stages failed");
    Ok(())
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
    /// The wheel, the Python package and the examples
    Python,
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

    fn title(self) -> String {
        let value = self.to_possible_value();
        let help = value.as_ref().and_then(|value| value.get_help());
        help.map_or_else(String::new, ToString::to_string)
    }

    fn purposes(self) -> &'static [Purpose] {
        match self {
            Self::Format | Self::Tidy | Self::Book => &[],
            Self::Lints => &[Purpose::Build],
            Self::Tests | Self::Conformance => &[Purpose::Build, Purpose::Clang, Purpose::Tests],
            Self::Python => &[
                Purpose::Browser,
                Purpose::Build,
                Purpose::Package,
                Purpose::Python,
            ],
            Self::Guest => Purpose::GUEST,
        }
    }

    /// Runs the stage; what it prints goes to `output`. An error is a stage that could not run.
    fn run(self, quick: bool, output: &mut String) -> anyhow::Result<Ran> {
        let mut command = workspace::cargo();
        match self {
            Self::Format => command.args(["fmt", "--all", "--check"]),
            Self::Lints => {
                command.args(["clippy", "--locked", "--all-targets", "--workspace"]);
                command.args(["--release", "--", "-D", "warnings"])
            }
            Self::Tidy => {
                let findings = task_tidy::findings()?;
                output.push_str(&findings.join("\n"));
                return Ok(Ran::new(findings.is_empty()));
            }
            // The workspace's default members are the product.
            Self::Tests if quick => command.args(["test", "--locked", "--no-fail-fast"]),
            // As the guest and the Python package have it, so that it is built once.
            Self::Tests => {
                command.args(["test", "--locked", "--no-fail-fast", "--workspace"]);
                command.arg("--release")
            }
            Self::Python => {
                command = python::tests()?;
                &mut command
            }
            Self::Book => {
                // Where the links lead is checked by tidy.
                command = Command::new(workspace::tool(
                    "mdbook",
                    "0.5.4",
                    &["--no-default-features"],
                )?);
                command.args(["build", "docs/book"])
            }
            Self::Conformance => {
                command = Program::Conformance.built()?;
                command.arg("--short")
            }
            Self::Guest => {
                command = Program::Vm.built()?;
                command.arg("test")
            }
        };
        let mut ran = Ran::new(run_command(command.current_dir(workspace::root()), output)?);
        match self {
            Self::Tests => ran.count_summaries(output),
            Self::Conformance | Self::Guest | Self::Python => {
                let counted = ran.count_closing_line(output);
                counted.context("no closing line with counts")?;
            }
            _ => {}
        }
        Ok(ran)
    }
}

/// A stage that has run, with the tests in it.
#[derive(Default)]
struct Ran {
    passed: usize,
    failed: usize,
    /// As the stage itself says.
    is_success: bool,
}

impl Ran {
    fn new(is_success: bool) -> Self {
        Self {
            is_success,
            ..Self::default()
        }
    }

    /// A failed test fails its stage, whatever the stage itself says.
    fn has_passed(&self) -> bool {
        self.is_success && self.failed == 0
    }

    fn line(&self, elapsed: Duration) -> String {
        let word = if self.has_passed() { "ok" } else { "FAILED" };
        let (passed, failed) = (self.passed, self.failed);
        let tests = match (passed, failed) {
            (0, 0) => String::new(),
            (_, 0) => format!(", {passed} tests"),
            _ => format!(", {passed} tests passed, {failed} failed"),
        };
        format!("{word} ({}{tests})", seconds(elapsed))
    }

    /// Takes the counts of the last line `4 passed, 1 failed` of the output.
    fn count_closing_line(&mut self, output: &str) -> Option<()> {
        let line = output.lines().rev().find_map(|line| {
            let (passed, failed) = line.strip_suffix(" failed")?.split_once(" passed, ")?;
            Some((passed.parse().ok()?, failed.parse().ok()?))
        });
        (self.passed, self.failed) = line?;
        Some(())
    }

    /// Adds up the lines `test result: ok. 4 passed; 0 failed; 1 ignored; …` of cargo's output.
    fn count_summaries(&mut self, output: &str) {
        let lines = output.lines();
        let numbers = lines.filter_map(|line| line.strip_prefix("test result: "));
        for number in numbers.flat_map(|numbers| numbers.split(['.', ';'])) {
            let (count, what) = number.trim().split_once(' ').unwrap_or_default();
            match what {
                "passed" => self.passed += count.parse().unwrap_or(0),
                "failed" | "ignored" => self.failed += count.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
}

/// What cargo's output has of tests that failed.
#[derive(Default)]
struct Failures {
    /// A line for each: its name, where it panicked, and the first line of why.
    tests: Vec<String>,
    /// What they printed: what stands between `---- name stdout ----` and the list of names that ends a test
    /// program's report.
    printed: String,
}

impl Failures {
    fn of(output: &str) -> Self {
        let mut failures = Self::default();
        let mut is_open = false;
        let mut lines = output.lines().peekable();
        while let Some(line) = lines.next() {
            // Of a test in the guest.
            if let Some(test) = line.strip_prefix("not ok ") {
                failures.tests.push(test.to_owned());
            }
            let heading = line.strip_prefix("---- ");
            if let Some(test) = heading.and_then(|rest| rest.strip_suffix(" stdout ----")) {
                is_open = true;
                failures.tests.push(format!("{test}: "));
            }
            is_open &= line != "failures:" && !line.starts_with("test result: ");
            if is_open {
                failures.printed += &format!("{line}\n");
                if let Some((_, place)) = line.split_once("panicked at ")
                    && let Some(test) = failures.tests.last_mut()
                {
                    *test += &format!("{place} {} ", lines.peek().unwrap_or(&""));
                }
            }
        }
        for test in &mut failures.tests {
            *test = test.trim_end().chars().take(LONGEST_PLACE).collect();
        }
        failures
    }
}

/// Runs a command; both its streams go to `output`, in the order they were written. Says whether it succeeded.
fn run_command(command: &mut Command, output: &mut String) -> anyhow::Result<bool> {
    let (mut reader, writer) = std::io::pipe().context("make a pipe")?;
    command
        .env("CARGO_TERM_COLOR", "never")
        .stdin(Stdio::null());
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().context("start cargo")?;
    // The command holds the writing ends too: with them open the output would never end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut bytes = Vec::new();
    let read = reader.read_to_end(&mut bytes);
    read.context("read cargo's output")?;
    output.push_str(&String::from_utf8_lossy(&bytes));
    Ok(child.wait().context("wait for cargo")?.success())
}

fn seconds(duration: Duration) -> String {
    match duration.as_secs() {
        ..60 => format!("{:.1} s", duration.as_secs_f64()),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

fn tail(text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(most)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_all_test_programs_are_added_up_and_an_ignored_test_counts_as_failed() {
        let mut ran = Ran::default();
        ran.count_summaries(
            "running 5 tests\ntest result: ok. 5 passed; 0 failed; 0 ignored; finished in 0.1s\n\
             test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!((ran.passed, ran.failed), (8, 3));
    }

    #[test]
    fn the_counts_of_a_laboratory_program_are_in_its_last_line_with_counts() {
        let output = "4 passed, 0 failed\nmore\n7 passed, 2 failed\nerror: 2 cases failed\n";
        let mut ran = Ran::default();
        ran.count_closing_line(output).unwrap();
        assert_eq!((ran.passed, ran.failed), (7, 2));
        let none = ran.count_closing_line("it passed, none failed\n");
        assert!(none.is_none());
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
        let Failures { tests, printed } = Failures::of(output);
        let wanted = ["a::breaks: a.rs:3:5: assertion failed", "a::is_silent:"];
        assert_eq!(tests, wanted);
        assert!(printed.starts_with("---- a::breaks") && !printed.contains("failures:"));
        assert!(printed.contains("\nassertion failed\n"), "{printed}");
    }

    #[test]
    fn each_failed_test_of_the_guest_is_named_with_its_reason() {
        let output = "ok a (1 s)\nnot ok b: no answer\n# a line of the journal\n1..2\n";
        assert_eq!(Failures::of(output).tests, ["b: no answer"]);
    }

    #[test]
    fn a_failed_test_fails_its_stage_and_so_does_a_failure_without_one() {
        let ran = |failed, is_success| Ran {
            failed,
            ..Ran::new(is_success)
        };
        assert!(ran(0, true).has_passed() && !ran(1, true).has_passed());
        let line = ran(0, false).line(Duration::from_secs(61));
        assert!(line.starts_with("FAILED (1 min 1 s"), "{line}");
    }
}
