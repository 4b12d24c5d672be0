//! What was found: a table, the failures with the command to repeat them, and JSON.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::judge::{Case, Mode, Plain, Support, Verdict};
use super::modes::{LoopSchedule, Teams};
use mapper_report::stopped::Stopped;

/// What was asked for and has to be asked for again to repeat a failure.
#[derive(Clone, Default, Serialize)]
pub(crate) struct Asked {
    /// The folder, unless it was the project's own suite.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) schedule: LoopSchedule,
    /// Unless it was the usual one.
    pub(crate) time_limit_s: Option<u64>,
    /// Unless it was this checkout's.
    pub(crate) shim: Option<PathBuf>,
}

/// The results of all programs.
#[derive(Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    asked: Asked,
    modes: Vec<Mode>,
    cases: Vec<Case>,
    /// Programs, by compiler, that were not judged, as the user wanted to stop.
    left_out: usize,
}

/// How many programs of one compiler came out how in one mode.
#[derive(Default, PartialEq, Eq, Debug)]
struct Row {
    passed: usize,
    real_teams: usize,
    needs_exact_teams: usize,
    wrong_plainly_too: usize,
    broken: usize,
}

impl Row {
    fn count(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::RealTeams { .. } => self.real_teams += 1,
            Verdict::NeedsExactTeams { .. } => self.needs_exact_teams += 1,
            Verdict::WrongPlainlyToo { .. } => self.wrong_plainly_too += 1,
            Verdict::Broken { .. } => self.broken += 1,
        }
    }
}

impl Report {
    /// The report on these programs.
    pub(crate) fn new(asked: Asked, modes: Vec<Mode>, cases: Vec<Case>) -> Self {
        Self {
            asked,
            modes,
            cases,
            left_out: 0,
        }
    }

    /// The same, of which so many programs were left out.
    pub(crate) fn with_left_out(self, left_out: usize) -> Self {
        Self { left_out, ..self }
    }

    /// Why the task is not done, if the user wanted to stop.
    pub(crate) fn stopped(&self) -> Option<Stopped> {
        let done = self.cases.len();
        (self.left_out > 0).then_some(Stopped {
            done,
            wanted: done + self.left_out,
            next: "of the other programs nothing is known",
        })
    }

    /// How often a program was broken by mapper, over all modes.
    pub(crate) fn broken(&self) -> usize {
        self.verdicts()
            .filter(|verdict| matches!(verdict, Verdict::Broken { .. }))
            .count()
    }

    /// How often a program came out as it should.
    pub(crate) fn sound(&self) -> usize {
        self.verdicts().count() - self.broken()
    }

    fn verdicts(&self) -> impl Iterator<Item = &Verdict> {
        let managed = self.cases.iter().flat_map(|case| &case.managed);
        managed.map(|managed| &managed.verdict)
    }

    /// How many programs of a compiler were right in every run in a mode, and had it.
    pub(crate) fn passed(&self, compiler: &str, teams: Teams) -> usize {
        self.row(compiler, teams).passed
    }

    fn row(&self, compiler: &str, teams: Teams) -> Row {
        let mut row = Row::default();
        for case in self.of(compiler) {
            for managed in case.managed.iter().filter(|managed| managed.teams == teams) {
                row.count(&managed.verdict);
            }
        }
        row
    }

    fn of(&self, compiler: &str) -> impl Iterator<Item = &Case> {
        self.cases
            .iter()
            .filter(move |case| case.compiler == compiler)
    }

    /// The command that runs one program in one mode again, often.
    fn repeat(&self, case: &Case, teams: Teams) -> String {
        let path =
            |option: &str, path: &PathBuf| format!(" {option}{}", quoted(&path.to_string_lossy()));
        let asked = &self.asked;
        let folder = asked
            .folder
            .as_ref()
            .map_or_else(String::new, |it| path("", it));
        let shim = asked
            .shim
            .as_ref()
            .map_or_else(String::new, |it| path("--shim ", it));
        let time_limit = match asked.time_limit_s {
            Some(seconds) => format!(" --time-limit {seconds}"),
            None => String::new(),
        };
        let schedule = match asked.schedule {
            LoopSchedule::AsWritten => "",
            LoopSchedule::Adaptive => " --schedule adaptive",
        };
        format!(
            "cargo xtask conformance{folder} --program {} --cc {} --teams {}{schedule}{time_limit}{shim} --runs 20",
            quoted(&case.program),
            quoted(&case.compiler),
            teams.name()
        )
    }

    fn write_plain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in &self.cases {
            match &case.plain {
                Plain::Passed => {}
                Plain::NotCompiled { why } => {
                    writeln!(f, "not compiled: {} {}: {why}", case.compiler, case.program)?;
                }
                Plain::Failed { how, said } => {
                    writeln!(
                        f,
                        "fails plainly: {} {}: {how}",
                        case.compiler, case.program
                    )?;
                    write_indented(f, said)?;
                }
            }
        }
        Ok(())
    }

    fn write_table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:<10} {:<8} {:>8} {:>13} {:>17} {:>17} {:>8}",
            "compiler",
            "teams",
            "passed",
            "real teams",
            "needs exact teams",
            "wrong plainly too",
            "broken"
        )?;
        let compilers: BTreeSet<&str> = self
            .cases
            .iter()
            .map(|case| case.compiler.as_str())
            .collect();
        for compiler in compilers {
            let count = |wanted: fn(&Plain) -> bool| {
                self.of(compiler).filter(|case| wanted(&case.plain)).count()
            };
            let passed = count(|plain| *plain == Plain::Passed);
            let failed = count(|plain| matches!(plain, Plain::Failed { .. }));
            let refused = count(|plain| matches!(plain, Plain::NotCompiled { .. }));
            writeln!(
                f,
                "{compiler:<10} {:<8} {passed:>8}   ({failed} fail plainly, {refused} not compiled)",
                "plain"
            )?;
            for mode in &self.modes {
                let teams = mode.teams.name();
                if mode.support == Support::NotSupported {
                    writeln!(f, "{compiler:<10} {teams:<8} not supported by the shim")?;
                    continue;
                }
                let row = self.row(compiler, mode.teams);
                writeln!(
                    f,
                    "{compiler:<10} {teams:<8} {:>8} {:>13} {:>17} {:>17} {:>8}",
                    row.passed,
                    row.real_teams,
                    row.needs_exact_teams,
                    row.wrong_plainly_too,
                    row.broken
                )?;
            }
        }
        Ok(())
    }

    fn write_wrong_plainly_too(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in &self.cases {
            for managed in &case.managed {
                if let Verdict::WrongPlainlyToo { how, said } = &managed.verdict {
                    writeln!(
                        f,
                        "\nwrong now and then without mapper too: {} {}: {how}",
                        case.compiler, case.program
                    )?;
                    write_indented(f, said)?;
                }
            }
        }
        Ok(())
    }

    fn write_broken(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in &self.cases {
            for managed in &case.managed {
                if let Verdict::Broken { how, said, shim } = &managed.verdict {
                    let teams = managed.teams.name();
                    writeln!(
                        f,
                        "\nBROKEN by {teams}: {} {}: {how}",
                        case.compiler, case.program
                    )?;
                    if let Some(shim) = shim {
                        writeln!(f, "    the shim says: {shim}")?;
                    }
                    write_indented(f, said)?;
                    writeln!(f, "    again: {}", self.repeat(case, managed.teams))?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_plain(f)?;
        self.write_table(f)?;
        self.write_wrong_plainly_too(f)?;
        self.write_broken(f)
    }
}

fn write_indented(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    text.lines()
        .try_for_each(|line| writeln!(f, "    | {line}"))
}

/// A word as a shell wants it.
fn quoted(word: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if !word.is_empty() && word.chars().all(harmless) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge::Managed;
    use super::*;

    fn report() -> Report {
        let case = |program: &str, verdict| Case {
            program: program.to_owned(),
            compiler: "gcc".to_owned(),
            plain: Plain::Passed,
            managed: vec![Managed {
                teams: Teams::Fixed,
                verdict,
            }],
        };
        let broken = Verdict::Broken {
            how: "SIGSEGV".to_owned(),
            said: "line".to_owned(),
            shim: None,
        };
        let modes = vec![
            Mode {
                teams: Teams::Fixed,
                support: Support::Supported,
            },
            Mode {
                teams: Teams::Virtual,
                support: Support::NotSupported,
            },
        ];
        let racy = Verdict::WrongPlainlyToo {
            how: "exit status 1".to_owned(),
            said: "race".to_owned(),
        };
        let cases = vec![
            case("a.c", Verdict::Passed),
            case("odd name.c", broken),
            case("racy.c", racy),
        ];
        let asked = Asked {
            folder: Some(PathBuf::from("/suite")),
            schedule: LoopSchedule::Adaptive,
            time_limit_s: Some(60),
            shim: Some(PathBuf::from("/other one.so")),
        };
        Report::new(asked, modes, cases)
    }

    #[test]
    fn what_is_broken_comes_with_the_command_that_repeats_it() {
        let text = report().to_string();
        let command = "cargo xtask conformance /suite --program 'odd name.c' --cc gcc --teams fixed \
             --schedule adaptive --time-limit 60 --shim '/other one.so' --runs 20";
        assert!(text.contains(command), "{text}");
        assert!(
            text.contains("SIGSEGV") && text.contains("| line"),
            "{text}"
        );
        assert_eq!(report().broken(), 1);
        assert_eq!(report().sound(), 2);
    }

    #[test]
    fn what_the_runtime_breaks_by_itself_is_reported_and_not_blamed_on_mapper() {
        let text = report().to_string();
        assert!(text.contains("without mapper too: gcc racy.c"), "{text}");
        assert!(!text.contains("--program racy.c"), "{text}");
    }

    #[test]
    fn what_was_left_out_is_no_success() {
        assert_eq!(report().stopped(), None);
        let stopped = report().with_left_out(2).stopped().unwrap();
        assert!(
            stopped.to_string().starts_with("stopped with 3 of 5 "),
            "{stopped}"
        );
    }

    #[test]
    fn a_mode_that_the_shim_lacks_does_not_look_like_one_that_passed() {
        let text = report().to_string();
        assert!(
            text.contains("virtual  not supported by the shim"),
            "{text}"
        );
    }
}
