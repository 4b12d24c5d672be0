//! The results: a table, the failures with the command to repeat them, and JSON.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::judge::{Case, Managed, Mode, Plain, Support, Verdict};
use super::run::{LoopSchedule, Teams};
use super::sanitizer::Sanitizer;
use mapper_report::stopped::Stopped;
use mapper_report::table::{Mark, Row, Table, texts};

/// The options that a repeated run needs again.
#[derive(Clone, Default, Serialize)]
pub(crate) struct Options {
    /// The folder, unless it was the project's own suite.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) schedule: LoopSchedule,
    pub(crate) sanitizer: Option<Sanitizer>,
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
        let broken = |of: &(&Case, &Managed)| matches!(of.1.verdict, Verdict::Broken { .. });
        self.managed().filter(broken).count()
    }

    /// How often a program was not.
    pub(crate) fn sound(&self) -> usize {
        self.managed().count() - self.broken()
    }

    /// How many programs of a compiler were right in every run in a mode, and had it.
    pub(crate) fn passed(&self, compiler: &str, teams: Teams) -> usize {
        self.counts(compiler, teams)[0]
    }

    /// How many programs of a compiler came to each verdict in a mode, in the order of the table.
    fn counts(&self, compiler: &str, teams: Teams) -> [usize; 5] {
        let mut counts = [0; 5];
        let here = |(case, managed): &(&Case, &Managed)| {
            case.compiler == compiler && managed.teams == teams
        };
        for (_, managed) in self.managed().filter(here) {
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

    fn managed(&self) -> impl Iterator<Item = (&Case, &Managed)> {
        let cases = self.cases.iter();
        cases.flat_map(|case| case.managed.iter().map(move |managed| (case, managed)))
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
        let sanitizer = options.sanitizer.map(Sanitizer::name);
        let sanitizer = sanitizer.map(|name| format!(" --sanitizer {name}"));
        format!(
            "cargo xtask conformance{} --program {} --cc {} --teams {}{schedule}{}{}{} --runs 20",
            path("", &options.folder),
            quoted(&case.program),
            quoted(&case.compiler),
            teams.name(),
            sanitizer.unwrap_or_default(),
            time_limit.unwrap_or_default(),
            path("--shim ", &options.shim),
        )
    }

    fn table(&self) -> Table {
        const HEADER: [&str; 6] = [
            "compiler, teams",
            "passed",
            "real teams",
            "needs exact teams",
            "wrong plainly too",
            "broken",
        ];
        let compilers = self.cases.iter().map(|case| case.compiler.as_str());
        let mut rows = Vec::new();
        let mut add = |first: String, counts: &[usize]| {
            let mut cells = vec![first];
            cells.extend(texts(counts));
            cells.resize(HEADER.len(), String::new());
            let mark = Mark::None;
            rows.push(Row { cells, mark });
        };
        for compiler in compilers.collect::<BTreeSet<_>>() {
            let (mut passed, mut failed, mut refused) = (0, 0, 0);
            for case in self.cases.iter().filter(|case| case.compiler == compiler) {
                *match case.plain {
                    Plain::Passed => &mut passed,
                    Plain::Failed { .. } => &mut failed,
                    Plain::NotCompiled { .. } => &mut refused,
                } += 1;
            }
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
            header: texts(HEADER),
            rows,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in &self.cases {
            let (compiler, program) = (&case.compiler, &case.program);
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
        for (case, managed) in self.managed() {
            if let Verdict::WrongPlainlyToo { how, said } = &managed.verdict {
                let what = "wrong now and then without mapper too";
                writeln!(f, "\n{what}: {} {}: {how}", case.compiler, case.program)?;
                write_indented(f, said)?;
            }
        }
        for (case, managed) in self.managed() {
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
fn quoted(word: &str) -> Cow<'_, str> {
    shlex::try_quote(word).unwrap_or(Cow::Borrowed(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let teams = Teams::Fixed;
        let case = |program: &str, verdict| Case {
            program: program.to_owned(),
            compiler: "gcc".to_owned(),
            plain: Plain::Passed,
            managed: vec![Managed { teams, verdict }],
        };
        let [how, said] = ["SIGSEGV", "line"].map(str::to_owned);
        let shim = None;
        let broken = Verdict::Broken { how, said, shim };
        let [how, said] = ["exit status 1", "race"].map(str::to_owned);
        let racy = Verdict::WrongPlainlyToo { how, said };
        let mode = |teams, support| Mode { teams, support };
        Report {
            options: Options {
                folder: Some(PathBuf::from("/suite")),
                schedule: LoopSchedule::Adaptive,
                sanitizer: Some(Sanitizer::Undefined),
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
             --schedule adaptive --sanitizer undefined --time-limit 60 --shim '/other one.so' --runs 20";
        let racy = "without mapper too: gcc racy.c";
        for part in [command, "SIGSEGV", "| line", racy] {
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
