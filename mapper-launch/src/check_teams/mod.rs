//! `mapper-launch --check-teams -- PROGRAM`: which team modes does this program tolerate here, and
//! which is fastest when it has few CPUs?
//!
//! The program is run plainly a few times, then in each mode on one CPU and under an allocation that changes every 300
//! µs, without a daemon ([`trial`]). A mode is *safe* if the program ended as plainly every time, and printed the same;
//! where plain runs print different things, or more than can be kept, only the exit status is compared. Of the safe
//! modes the *fastest* is the one with the shortest run on one CPU, by more than [`WORTH`]; of modes that are alike it
//! is one that can grow, which `fixed` cannot. All start with as many threads as there are CPUs: what counts is their
//! speed when CPUs are taken from them.
//!
//! A program that fails by itself, or starts no parallel region, was most likely called in a wrong way: then there is
//! no result, and what was recorded before stays. The [`catalogue`](crate::catalogue) is evidence, not proof.

mod trial;

use std::borrow::Cow;
use std::fmt;
use std::io::Write;

use std::time::Duration;

use anyhow::Context;
use mapper_manual::wording;
use mapper_model::TeamMode;

use crate::catalogue::{Advice, Entry};
use crate::identity::{FileId, Identity};
use mapper_abi::stand_in::Allocations;
pub(crate) use trial::Check;
use trial::{MOST_OUTPUT, Outcome, Parallelism, Printed, Trial};

const RUNS: u32 = 3;
/// A mode is faster than another if it saves at least this share of the time.
const WORTH: f64 = 0.05;
/// And not less than this, which is the noise of starting a process.
const WORTH_AT_LEAST_S: f64 = 0.01;
/// A managed run hangs if it takes so many times as long as plainly on all CPUs, and at least [`LEAST_LIMIT`].
const SLOWNESS: u32 = 30;
const LEAST_LIMIT: Duration = Duration::from_secs(20);
const PLAIN_LIMIT: Duration = Duration::from_secs(3600);
const SUCCESS: &str = "exit status 0";
const MODES: [TeamMode; 3] = [TeamMode::Fixed, TeamMode::Virtual, TeamMode::Follow];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    SomeModeIsSafe,
    NoModeIsSafe,
}

#[derive(Clone, PartialEq, Debug)]
enum Finding {
    Safe(Duration),
    NotAdmitted(String),
    Unsafe(String),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Safe(time) => write!(f, "safe, {:.2} s on one CPU", time.as_secs_f64()),
            Self::NotAdmitted(why) => write!(f, "not for this program ({why})"),
            Self::Unsafe(how) => write!(f, "not safe: {how}"),
        }
    }
}

struct Plain {
    status: String,
    printed: Printed,
    slowest: Duration,
}

impl Printed {
    fn and(self, printed: Self) -> Self {
        match (self, printed) {
            (Self::TooMuch, _) | (_, Self::TooMuch) => Self::TooMuch,
            (Self::All(before), Self::All(now)) if before == now => Self::All(before),
            _ => Self::Varies,
        }
    }
}

impl fmt::Display for Printed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(_) => Ok(()),
            Self::Varies => f.write_str(
                "; its output differs from run to run, so only the exit status is compared",
            ),
            Self::TooMuch => write!(
                f,
                "; it prints more than {} MiB, so only the exit status is compared",
                MOST_OUTPUT >> 20
            ),
        }
    }
}

impl Check<'_> {
    pub(crate) fn run(&self) -> anyhow::Result<Verdict> {
        let arguments = self.command.get(1..).unwrap_or_default();
        let identity = Identity::of(self.program, arguments)?;
        let shim = FileId::of(&self.shim)?;
        let plain = self.plain()?;
        tell(&format!(
            "plainly: {}, {:.2} s{}",
            plain.status,
            plain.slowest.as_secs_f64(),
            plain.printed
        ))?;
        let mut findings = Vec::new();
        for mode in MODES {
            let finding = self.mode(mode, &plain)?;
            tell(&format!("{:<8} {finding}", mode.as_str()))?;
            findings.push((mode, finding));
        }
        let is_safe = |finding: &Finding| matches!(finding, Finding::Safe(_));
        let safe = findings.iter().filter(|(_, finding)| is_safe(finding));
        let words = self.command.iter().map(|word| word.to_string_lossy());
        let entry = Entry {
            identity,
            shim: Some(shim),
            command: words.map(Cow::into_owned).collect(),
            safe: safe.map(|(mode, _)| *mode).collect(),
            fastest: fastest(&findings),
        };
        let advice = entry.advice();
        let file = self.catalogue.record(entry)?;
        let recorded = format!("(recorded in {})", file.display());
        match advice {
            Advice::Teams(teams) => {
                tell(&format!("later launches will use {teams} {recorded}"))?;
                Ok(Verdict::SomeModeIsSafe)
            }
            Advice::NoRuntime => {
                tell(&format!(
                    "no mode is safe: run it with --no-runtime, as later launches will {recorded}"
                ))?;
                Ok(Verdict::NoModeIsSafe)
            }
        }
    }

    fn plain(&self) -> anyhow::Result<Plain> {
        let trial = Trial::new(self, PLAIN_LIMIT)?;
        let first = trial.plainly()?;
        let mut plain = Plain {
            status: first.status,
            printed: first.printed,
            slowest: first.elapsed,
        };
        anyhow::ensure!(
            plain.status == SUCCESS,
            "{}: fails without mapper ({}), so it cannot be checked; give it arguments with which it works",
            self.program.display(),
            plain.status
        );
        for _ in 1..RUNS {
            let run = trial.plainly()?;
            anyhow::ensure!(
                run.status == plain.status,
                "{}: ends without mapper with {} in one run and {} in another, so it cannot be checked",
                self.program.display(),
                plain.status,
                run.status
            );
            plain.printed = plain.printed.and(run.printed);
            plain.slowest = plain.slowest.max(run.elapsed);
        }
        Ok(plain)
    }

    fn mode(&self, mode: TeamMode, plain: &Plain) -> anyhow::Result<Finding> {
        let limit = LEAST_LIMIT.max(plain.slowest.saturating_mul(SLOWNESS));
        let trial = Trial::new(self, limit)?;
        let mut best = Duration::MAX;
        let constant = (0..RUNS).map(|_| Allocations::OneCpu);
        let changing = (0..RUNS).map(|seed| Allocations::Changing(u64::from(seed)));
        for allocations in constant.chain(changing) {
            let run = trial.managed(mode, allocations)?;
            if let Some(how) = differs(plain, &run) {
                return Ok(Finding::Unsafe(format!("{how} {}", in_words(allocations))));
            }
            // Where nothing was parallel, all modes are alike and none was checked.
            anyhow::ensure!(
                mode != TeamMode::Fixed || run.parallelism == Parallelism::Seen,
                "{}: starts no parallel region that the shim could see, so that nothing can be said of it; \
                 give it arguments with which it does, or see `{} status` for why the shim does not serve it",
                self.program.display(),
                wording::ask()
            );
            if let Some(why) = run.not_admitted.filter(|_| mode != TeamMode::Fixed) {
                return Ok(Finding::NotAdmitted(why));
            }
            if allocations == Allocations::OneCpu {
                best = best.min(run.elapsed);
            }
        }
        Ok(Finding::Safe(best))
    }
}

const fn in_words(allocations: Allocations) -> &'static str {
    match allocations {
        Allocations::OneCpu => "on one CPU",
        Allocations::Changing(_) => "when its CPUs change",
    }
}

fn differs(plain: &Plain, run: &Outcome) -> Option<String> {
    if run.status != plain.status {
        return Some(run.status.clone());
    }
    let Printed::All(plainly) = &plain.printed else {
        return None;
    };
    let same = matches!(&run.printed, Printed::All(printed) if printed == plainly);
    (!same).then(|| "the output differs".to_owned())
}

fn fastest(findings: &[(TeamMode, Finding)]) -> TeamMode {
    let is_faster = |time_s: f64, than_s: f64| {
        time_s < than_s * (1.0 - WORTH) && time_s < than_s - WORTH_AT_LEAST_S
    };
    let mut best = TeamMode::Fixed;
    let mut shortest = f64::INFINITY;
    for (mode, finding) in findings {
        if let Finding::Safe(time) = finding {
            let time_s = time.as_secs_f64();
            let grows = best == TeamMode::Fixed && !is_faster(shortest, time_s);
            if grows || is_faster(time_s, shortest) {
                (best, shortest) = (*mode, time_s);
            }
        }
    }
    best
}

fn tell(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .context("write to standard output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_is_printed_only_what_is_always_the_same_is_compared() {
        let plain = |runs: [Printed; 2]| {
            let [first, second] = runs;
            Plain {
                status: SUCCESS.to_owned(),
                printed: first.and(second),
                slowest: Duration::ZERO,
            }
        };
        let all = |text: &str| Printed::All(text.into());
        let same = plain([all("a"), all("a")]);
        let varies = plain([all("a"), all("b")]);
        let too_much = plain([all("a"), Printed::TooMuch]);
        assert!(too_much.printed.to_string().contains("more than 64 MiB"));
        let run = |printed| Outcome {
            status: SUCCESS.to_owned(),
            printed,
            elapsed: Duration::ZERO,
            not_admitted: None,
            parallelism: Parallelism::Seen,
        };
        for (plain, printed, alike) in [
            (&same, all("a"), true),
            (&same, all("b"), false),
            (&same, Printed::TooMuch, false),
            (&varies, all("c"), true),
            (&too_much, all("c"), true),
        ] {
            assert_eq!(differs(plain, &run(printed)).is_none(), alike);
        }
    }

    #[test]
    fn of_the_safe_modes_the_clearly_fastest_is_preferred_else_one_that_can_grow() {
        let safe = |ms| Finding::Safe(Duration::from_millis(ms));
        let broken = Finding::Unsafe("SIGSEGV".to_owned());
        let pick = |fixed, virtual_, follow| {
            fastest(&[
                (TeamMode::Fixed, fixed),
                (TeamMode::Virtual, virtual_),
                (TeamMode::Follow, follow),
            ])
        };
        assert_eq!(pick(safe(100), safe(98), safe(97)), TeamMode::Virtual);
        assert_eq!(pick(safe(100), safe(104), safe(120)), TeamMode::Virtual);
        assert_eq!(pick(safe(100), safe(120), safe(130)), TeamMode::Fixed);
        assert_eq!(pick(safe(100), safe(120), safe(101)), TeamMode::Follow);
        assert_eq!(pick(safe(100), safe(50), safe(49)), TeamMode::Virtual);
        assert_eq!(pick(safe(100), broken.clone(), safe(49)), TeamMode::Follow);
        let none = pick(broken.clone(), broken.clone(), broken);
        assert_eq!(none, TeamMode::Fixed);
    }
}
