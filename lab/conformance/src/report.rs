//! The results: a table, the failures with the command to repeat them, and JSON.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::judge::{Case, Mode, Plain, Support, Verdict};
use super::run::{LoopSchedule, Teams};
use mapper_report::stopped::Stopped;
use mapper_report::table::{Mark, Row, Table};

/// The options that a repeated run needs again.
#[derive(Clone, Default, Serialize)]
pub(crate) struct Options {
    /// The folder, unless it was the project's own suite.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) schedule: LoopSchedule,
    /// Unless it was the usual one.
    pub(crate) time_limit_s: Option<u64>,
    /// Unless it was this checkout's.
    pub(crate) shim: Option<PathBuf>,
}

/// The results of all programs.
#[derive(Default, Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    pub(crate) options: Options,
    pub(crate) modes: Vec<Mode>,
    pub(crate) cases: Vec<Case>,
    /// Programs, by compiler, that an interrupt left out.
    pub(crate) left_out: usize,
}

impl Report {
    /// Set if an interrupt left programs out.
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
        let broken = |verdict: &&Verdict| matches!(verdict, Verdict::Broken { .. });
        self.verdicts().filter(broken).count()
    }

    /// How often a program was not.
    pub(crate) fn sound(&self) -> usize {
        self.verdicts().count() - self.broken()
    }

    fn verdicts(&self) -> impl Iterator<Item = &Verdict> {
        let managed = self.cases.iter().flat_map(|case| &case.managed);
        managed.map(|managed| &managed.verdict)
    }

    /// How many programs of a compiler were right in every run in a mode, and had it.
    pub(crate) fn passed(&self, compiler: &str, teams: Teams) -> usize {
        self.counts(compiler, teams)[0]
    }

    /// How many programs of a compiler came to each verdict in a mode, in the order of the table.
    fn counts(&self, compiler: &str, teams: Teams) -> [usize; 5] {
        let mut counts = [0; 5];
        let managed = self.of(compiler).flat_map(|case| &case.managed);
        for managed in managed.filter(|managed| managed.teams == teams) {
            counts[match managed.verdict {
                Verdict::Passed => 0,
                Verdict::RealTeams { .. } => 1,
                Verdict::NeedsExactTeams { .. } => 2,
                Verdict::WrongPlainlyToo { .. } => 3,
                Verdict::Broken { .. } => 4,
            }] += 1;
        }
        counts
    }

    fn of(&self, compiler: &str) -> impl Iterator<Item = &Case> {
        let cases = self.cases.iter();
        cases.filter(move |case| case.compiler == compiler)
    }

    /// The command that runs one program in one mode again, often.
    fn repeat(&self, case: &Case, teams: Teams) -> String {
        let path = |option: &str, path: &Option<PathBuf>| {
            let path = path.as_deref().map(Path::to_string_lossy);
            path.map_or_else(String::new, |path| format!(" {option}{}", quoted(&path)))
        };
        let options = &self.options;
        let time_limit = options
            .time_limit_s
            .map(|seconds| format!(" --time-limit {seconds}"));
        let schedule = match options.schedule {
            LoopSchedule::AsWritten => "",
            LoopSchedule::Adaptive => " --schedule adaptive",
        };
        format!(
            "cargo xtask conformance{} --program {} --cc {} --teams {}{schedule}{}{} --runs 20",
            path("", &options.folder),
            quoted(&case.program),
            quoted(&case.compiler),
            teams.name(),
            time_limit.unwrap_or_default(),
            path("--shim ", &options.shim),
        )
    }

    fn table(&self) -> Table {
        let compilers = self.cases.iter().map(|case| case.compiler.as_str());
        let mut rows = Vec::new();
        let mut add = |first: String, counts: &[usize]| {
            let mut cells = vec![first];
            cells.extend(counts.iter().map(usize::to_string));
            cells.resize(6, String::new());
            let mark = Mark::None;
            rows.push(Row { cells, mark });
        };
        for compiler in compilers.collect::<BTreeSet<_>>() {
            let count = |wanted: fn(&Plain) -> bool| {
                self.of(compiler).filter(|case| wanted(&case.plain)).count()
            };
            let passed = count(|plain| *plain == Plain::Passed);
            let failed = count(|plain| matches!(plain, Plain::Failed { .. }));
            let refused = count(|plain| matches!(plain, Plain::NotCompiled { .. }));
            let plain = format!("{compiler} plain ({failed} fail plainly, {refused} not compiled)");
            add(plain, &[passed]);
            for mode in &self.modes {
                let name = format!("{compiler} {}", mode.teams.name());
                match mode.support {
                    Support::Supported => add(name, &self.counts(compiler, mode.teams)),
                    Support::NotSupported => add(format!("{name}: not supported by the shim"), &[]),
                }
            }
        }
        Table {
            title: String::new(),
            header: [
                "compiler, teams",
                "passed",
                "real teams",
                "needs exact teams",
                "wrong plainly too",
                "broken",
            ]
            .map(str::to_owned)
            .to_vec(),
            rows,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in &self.cases {
            let Case {
                compiler, program, ..
            } = case;
            match &case.plain {
                Plain::Passed => {}
                Plain::NotCompiled { why } => {
                    writeln!(f, "not compiled: {compiler} {program}: {why}")?;
                }
                Plain::Failed { how, said } => {
                    writeln!(f, "fails plainly: {compiler} {program}: {how}")?;
                    write_indented(f, said)?;
                }
            }
        }
        f.write_str(&self.table().terminal())?;
        let managed = || {
            let cases = self.cases.iter();
            cases.flat_map(|case| case.managed.iter().map(move |managed| (case, managed)))
        };
        for (case, managed) in managed() {
            if let Verdict::WrongPlainlyToo { how, said } = &managed.verdict {
                let (compiler, program) = (&case.compiler, &case.program);
                writeln!(
                    f,
                    "\nwrong now and then without mapper too: {compiler} {program}: {how}"
                )?;
                write_indented(f, said)?;
            }
        }
        for (case, managed) in managed() {
            if let Verdict::Broken { how, said, shim } = &managed.verdict {
                let (compiler, program) = (&case.compiler, &case.program);
                let teams = managed.teams.name();
                writeln!(f, "\nBROKEN by {teams}: {compiler} {program}: {how}")?;
                if let Some(shim) = shim {
                    writeln!(f, "    the shim says: {shim}")?;
                }
                write_indented(f, said)?;
                writeln!(f, "    again: {}", self.repeat(case, managed.teams))?;
            }
        }
        Ok(())
    }
}

fn write_indented(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let mut lines = text.lines();
    lines.try_for_each(|line| writeln!(f, "    | {line}"))
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
        let racy = Verdict::WrongPlainlyToo {
            how: "exit status 1".to_owned(),
            said: "race".to_owned(),
        };
        let mode = |teams, support| Mode { teams, support };
        Report {
            options: Options {
                folder: Some(PathBuf::from("/suite")),
                schedule: LoopSchedule::Adaptive,
                time_limit_s: Some(60),
                shim: Some(PathBuf::from("/other one.so")),
            },
            modes: vec![
                mode(Teams::Fixed, Support::Supported),
                mode(Teams::Virtual, Support::NotSupported),
            ],
            cases: vec![
                case("a.c", Verdict::Passed),
                case("odd name.c", broken),
                case("racy.c", racy),
            ],
            left_out: 0,
        }
    }

    #[test]
    fn what_is_broken_comes_with_the_command_that_repeats_it_and_nothing_else_is_blamed_on_mapper()
    {
        let text = report().to_string();
        let command = "cargo xtask conformance /suite --program 'odd name.c' --cc gcc --teams fixed \
             --schedule adaptive --time-limit 60 --shim '/other one.so' --runs 20";
        for part in [
            command,
            "SIGSEGV",
            "| line",
            "without mapper too: gcc racy.c",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("--program racy.c"), "{text}");
        assert_eq!((report().broken(), report().sound()), (1, 2));
    }

    #[test]
    fn what_was_left_out_is_no_success() {
        assert_eq!(report().stopped(), None);
        let left_out = Report {
            left_out: 2,
            ..report()
        };
        let stopped = left_out.stopped().unwrap().to_string();
        assert!(stopped.starts_with("stopped with 3 of 5 "), "{stopped}");
    }

    #[test]
    fn a_mode_that_the_shim_lacks_does_not_look_like_one_that_passed() {
        let text = report().to_string();
        let row = "gcc virtual: not supported by the shim";
        assert!(text.lines().any(|line| line.trim() == row), "{text}");
    }
}
