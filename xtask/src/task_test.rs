//! `cargo xtask test`: everything that must hold before a change is good.
//!
//! Runs the stages below one after the other, also when one has failed, and says for each how
//! long it took. What a stage printed is kept in `target/test-logs`; of the first that failed, the
//! failed tests are shown, and the last lines name each of them with the place where it failed. The last
//! line counts the tests that really ran: those of cargo's test programs, read from their summaries, OpenMP
//! programs in a team mode, and those in the guest. A test with `#[ignore]` counts as failed.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::ValueEnum;
use fs_err as fs;

use crate::laboratory::Program;
use crate::task_setup::{self, Consent, Purpose};
use crate::tools::MDBOOK;
use crate::{task_tidy, workspace};

/// Lines of a failed stage's output that are shown; all of it is in its log.
const SHOWN_LINES: usize = 150;

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
            let is_slow = matches!(stage, Stage::Conformance | Stage::Guest | Stage::Book);
            let left_out = (self.quick && is_slow) || (self.no_vm && *stage == Stage::Guest);
            !left_out && (self.only.is_empty() || self.only.contains(stage))
        };
        let stages = Stage::value_variants().iter().copied();
        stages.filter(is_chosen).collect()
    }
}

pub(crate) fn run(args: &Args, consent: Consent) -> anyhow::Result<()> {
    let started = Instant::now();
    let stages = args.stages();
    let purposes = stages.iter().flat_map(|stage| stage.purposes());
    let purposes: BTreeSet<Purpose> = purposes.copied().collect();
    task_setup::require(&purposes.into_iter().collect::<Vec<_>>(), consent)?;
    let logs = workspace::target_dir().join("test-logs");
    fs::create_dir_all(&logs)?;
    let mut total = Counts::default();
    let mut failed = Vec::new();
    for (index, &stage) in stages.iter().enumerate() {
        print!("[{}/{}] {:<38} ", index + 1, stages.len(), stage.title());
        std::io::stdout().flush()?;
        let begun = Instant::now();
        let mut output = String::new();
        let ran = stage.run(args.quick, &mut output).unwrap_or_else(|error| {
            output += &format!("{error:#}\n");
            Ran::without_tests(false)
        });
        let log = logs.join(format!("{}.log", stage.name()));
        fs::write(&log, &output)?;
        println!("{}", ran.line(begun.elapsed()));
        total.passed += ran.counts.passed;
        total.failed += ran.counts.failed;
        if !ran.has_passed() {
            failed.push((stage, output));
        }
    }

    if let Some((stage, output)) = failed.first() {
        let reports: Vec<String> = failures(output).iter().map(Failure::report).collect();
        let shown = match reports.is_empty() {
            true => tail(output),
            false => tail(&reports.join("\n")),
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
    let all = Stage::value_variants().iter();
    for stage in all.filter(|stage| !stages.contains(stage)) {
        println!("not run: {}", stage.title());
    }
    println!("took {}", seconds(started.elapsed()));
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

    fn purposes(self) -> &'static [Purpose] {
        match self {
            Self::Format | Self::Tidy | Self::Book => &[],
            Self::Lints => &[Purpose::Build],
            Self::Tests | Self::Conformance => &[Purpose::Build, Purpose::Clang, Purpose::Tests],
            Self::Guest => Purpose::GUEST,
        }
    }

    /// Runs the stage; what it prints goes to `output`. An error is a stage that could not run.
    fn run(self, quick: bool, output: &mut String) -> anyhow::Result<Ran> {
        let mut command = workspace::cargo();
        match self {
            Self::Format => command.args(["fmt", "--all", "--check"]),
            Self::Lints => {
                command.args(["clippy", "--all-targets", "--workspace"]);
                command.args(["--", "-D", "warnings"])
            }
            Self::Tidy => {
                let findings = task_tidy::findings()?;
                output.push_str(&findings.join("\n"));
                return Ok(Ran::without_tests(findings.is_empty()));
            }
            // The workspace's default members are the product.
            Self::Tests if quick => command.args(["test", "--no-fail-fast"]),
            Self::Tests => command.args(["test", "--no-fail-fast", "--workspace"]),
            Self::Book => {
                // Where the links lead is checked by tidy.
                command = Command::new(MDBOOK.path()?);
                command.args(["build", "docs/book"])
            }
            Self::Conformance => {
                command = Program::Conformance.command();
                command.arg("--short")
            }
            Self::Guest => {
                command = Program::Vm.command();
                command.arg("test")
            }
        };
        let is_success = run_command(command.current_dir(workspace::root()), output)?;
        let counts = match self {
            Self::Tests => Counts::from_summaries(output),
            Self::Conformance | Self::Guest => {
                let counts = Counts::from_closing_line(output);
                counts.with_context(|| format!("no closing line with counts: {}", self.title()))?
            }
            _ => Counts::default(),
        };
        Ok(Ran { counts, is_success })
    }
}

struct Ran {
    counts: Counts,
    /// As the stage itself says.
    is_success: bool,
}

impl Ran {
    fn without_tests(is_success: bool) -> Self {
        let counts = Counts::default();
        Self { counts, is_success }
    }

    /// A failed test fails its stage, whatever the stage itself says.
    fn has_passed(&self) -> bool {
        self.is_success && self.counts.failed == 0
    }

    fn line(&self, elapsed: Duration) -> String {
        let word = if self.has_passed() { "ok" } else { "FAILED" };
        let Counts { passed, failed } = self.counts;
        let tests = match (passed, failed) {
            (0, 0) => String::new(),
            (_, 0) => format!(", {passed} tests"),
            _ => format!(", {passed} tests passed, {failed} failed"),
        };
        format!("{word} ({}{tests})", seconds(elapsed))
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Counts {
    passed: usize,
    failed: usize,
}

impl Counts {
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
            let numbers = line.strip_prefix("test result: ").unwrap_or_default();
            for number in numbers.split(['.', ';']) {
                match number.trim().split_once(' ') {
                    Some((count, "passed")) => counts.passed += count.parse().unwrap_or(0),
                    Some((count, "failed" | "ignored")) => {
                        counts.failed += count.parse().unwrap_or(0);
                    }
                    _ => {}
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
    printed: &'a str,
}

impl Failure<'_> {
    fn report(&self) -> String {
        format!("---- {} stdout ----\n{}", self.test, self.printed)
    }

    /// Where the test panicked and the first line of why, or the first line that it printed.
    fn place(&self) -> String {
        let mut lines = self.printed.lines().filter(|line| !line.is_empty());
        let first = lines.clone().next().unwrap_or("it printed nothing");
        let place = lines.find_map(|line| line.split_once("panicked at "));
        let place = place.map(|(_, place)| format!("{place} {}", lines.next().unwrap_or_default()));
        let text = place.unwrap_or_else(|| first.to_owned());
        text.trim_end().chars().take(LONGEST_PLACE).collect()
    }
}

/// The failed tests in cargo's output: what stands between `---- name stdout ----` and the next such
/// heading or the list of names that ends a test program's report.
fn failures(output: &str) -> Vec<Failure<'_>> {
    let failure = |(begin, heading): (usize, &str)| {
        let test = output[..begin].rsplit("---- ").next()?;
        let rest = &output[begin + heading.len()..];
        let ends = ["\n---- ", "\nfailures:\n", "\ntest result: "];
        let end = ends.iter().filter_map(|end| rest.find(end)).min();
        let printed = rest[..end.unwrap_or(rest.len())].trim_end();
        (!test.contains('\n')).then_some(Failure { test, printed })
    };
    let headings = output.match_indices(" stdout ----\n");
    headings.filter_map(failure).collect()
}

/// Runs a command; both its streams go to `output`, in the order they were written. Says whether it succeeded.
fn run_command(command: &mut Command, output: &mut String) -> anyhow::Result<bool> {
    let (mut reader, writer) = std::io::pipe().context("make a pipe")?;
    command
        .env("CARGO_TERM_COLOR", "never")
        .stdin(Stdio::null())
        .stdout(writer.try_clone().context("share a pipe")?)
        .stderr(writer);
    let mut child = command.spawn().context("start cargo")?;
    // The command holds the writing ends too: with them open the output would never end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut bytes = Vec::new();
    reader
        .read_to_end(&mut bytes)
        .context("read cargo's output")?;
    output.push_str(&String::from_utf8_lossy(&bytes));
    Ok(child.wait().context("wait for cargo")?.success())
}

fn seconds(duration: Duration) -> String {
    match duration.as_secs() {
        ..60 => format!("{:.1} s", duration.as_secs_f64()),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_all_test_programs_are_added_up_and_an_ignored_test_counts_as_failed() {
        let output = "running 5 tests\ntest result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n\
            test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out\n";
        let Counts { passed, failed } = Counts::from_summaries(output);
        assert_eq!((passed, failed), (8, 3));
    }

    #[test]
    fn the_counts_of_a_laboratory_program_are_in_its_last_line_with_counts() {
        let output = "4 passed, 0 failed\nmore\n7 passed, 2 failed\nerror: 2 cases failed\n";
        let counts = Counts::from_closing_line(output).unwrap();
        assert_eq!((counts.passed, counts.failed), (7, 2));
        assert!(Counts::from_closing_line("it passed, none failed\n").is_none());
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
        let places = failures
            .iter()
            .map(|of| format!("{}: {}", of.test, of.place()));
        let wanted = [
            "a::breaks: a.rs:3:5: assertion failed",
            "a::is_silent: it printed nothing",
        ];
        assert_eq!(places.collect::<Vec<_>>(), wanted);
        assert!(failures[0].printed.ends_with("assertion failed"));
    }

    #[test]
    fn a_failed_test_fails_its_stage_and_so_does_a_failure_without_one() {
        let ran = |failed, is_success| Ran {
            counts: Counts { passed: 3, failed },
            is_success,
        };
        assert!(ran(0, true).has_passed() && !ran(1, true).has_passed());
        let line = ran(0, false).line(Duration::from_secs(61));
        assert!(line.starts_with("FAILED (1 min 1 s"), "{line}");
    }
}
