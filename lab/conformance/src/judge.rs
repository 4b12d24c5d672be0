//! The runs of one program, and what they say.
//!
//! A mode is tried only with a program that passes plainly every time; its first failure ends it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use mapper_abi::TeamMode;
use mapper_abi::stand_in::{Allocations, StandIn};
use serde::Serialize;

use super::modes::Teams;
use super::programs::{Compiled, Program};
use super::run::{Ending, Machine, Run, Runner};
use mapper_report::interrupt::Interrupt;

/// What lets a plain runtime choose team sizes, as `follow` asks it of a program. By itself libomp
/// changes them with the machine's load only.
const DYNAMIC: [(&str, &str); 2] = [("OMP_DYNAMIC", "true"), ("KMP_DYNAMIC_MODE", "random")];
/// Plain runs with that that must pass for `follow` to be answerable.
const DYNAMIC_RUNS: u32 = 3;

/// Plain runs, of a program that failed with mapper, that must all pass before mapper is blamed:
/// runtimes have races of their own, which show once in some runs.
const RUNS_BEFORE_BLAME: u32 = 60;

/// A hung program is told from a slow one by this many times what it takes plainly.
const SLOWNESS: u32 = 10;

/// Whether the shim has a team mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Support {
    /// It attaches in this mode.
    Supported,
    /// It does not know it, or stays inert.
    NotSupported,
}

/// A team mode and whether the shim has it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Mode {
    /// The mode.
    pub(crate) teams: Teams,
    /// Whether the shim has it.
    pub(crate) support: Support,
}

/// What came of one program in one mode.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub(crate) enum Verdict {
    /// Right in every run.
    Passed,
    /// Right in every run, with real teams: the shim did not admit it to the mode, or sent it back.
    RealTeams {
        /// What the shim says.
        why: String,
    },
    /// Wrong, but so it is under `OMP_DYNAMIC=true`, which `follow` asks of a program.
    NeedsExactTeams {
        /// How it ended with mapper.
        how: String,
    },
    /// Wrong, but so it is now and then without mapper.
    WrongPlainlyToo {
        /// How it ended without mapper.
        how: String,
        /// The end of what it printed then.
        said: String,
    },
    /// Wrong, and it should not be.
    Broken {
        /// How it ended.
        how: String,
        /// The end of what it printed.
        said: String,
        /// What the shim says about the mode.
        shim: Option<String>,
    },
}

/// What came of a program without mapper.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub(crate) enum Plain {
    /// Right in every run.
    Passed,
    /// The compiler does not take it.
    NotCompiled {
        /// What the compiler says.
        why: String,
    },
    /// Wrong without mapper.
    Failed {
        /// How it ended.
        how: String,
        /// The end of what it printed.
        said: String,
    },
}

/// A program in one mode.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Managed {
    /// The mode.
    pub(crate) teams: Teams,
    /// What came of it.
    #[serde(flatten)]
    pub(crate) verdict: Verdict,
}

/// Everything about one program by one compiler.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Case {
    /// Its path below the folder.
    pub(crate) program: String,
    /// The compiler.
    pub(crate) compiler: String,
    /// Without mapper.
    pub(crate) plain: Plain,
    /// With it, for each mode that the shim has.
    pub(crate) managed: Vec<Managed>,
}

impl Case {
    /// For progress lines: what is not as usual.
    pub(crate) fn noteworthy(&self) -> Option<&'static str> {
        let broken = |managed: &Managed| matches!(managed.verdict, Verdict::Broken { .. });
        match self.plain {
            Plain::NotCompiled { .. } => Some("not compiled"),
            Plain::Failed { .. } => Some("fails without mapper"),
            Plain::Passed if self.managed.iter().any(broken) => Some("broken by mapper"),
            Plain::Passed => None,
        }
    }
}

/// How to judge.
pub(crate) struct Judge<'a> {
    /// Where programs run.
    pub(crate) machine: Machine,
    /// The modes asked for.
    pub(crate) teams: Vec<Mode>,
    /// Runs of each kind.
    pub(crate) runs: u32,
    /// The least time after which a run counts as hung.
    pub(crate) time_limit: Duration,
    /// Where programs are compiled to.
    pub(crate) scratch: &'a Path,
    /// Whether the user wants to stop.
    pub(crate) interrupt: Interrupt,
}

impl Judge<'_> {
    /// Compiles and runs a program. An error is the tool's, not the program's.
    pub(crate) fn judge(&self, program: &Program, index: usize) -> anyhow::Result<Case> {
        let folder = self.scratch.join(index.to_string());
        std::fs::create_dir(&folder).with_context(|| format!("make {}", folder.display()))?;
        let case = self.judge_at(program, index, &folder.join("program"))?;
        // A large suite would fill the disk.
        let _ = std::fs::remove_dir_all(&folder);
        Ok(case)
    }

    fn judge_at(&self, program: &Program, index: usize, executable: &Path) -> anyhow::Result<Case> {
        let case = |plain| Case {
            program: program.name.clone(),
            compiler: program.compiler.clone(),
            plain,
            managed: Vec::new(),
        };
        if let Compiled::Refused(why) = program.compile(executable)? {
            return Ok(case(Plain::NotCompiled { why }));
        }
        let mut runner = Runner {
            program: executable,
            machine: &self.machine,
            time_limit: self.time_limit,
            interrupt: &self.interrupt,
        };
        for _ in 0..self.runs {
            let run = runner.plainly(&[])?;
            if run.ending != Ending::Passed {
                return Ok(case(Plain::Failed {
                    how: run.ending.to_string(),
                    said: run.said,
                }));
            }
            runner.time_limit = runner.time_limit.max(run.elapsed * SLOWNESS);
        }
        let mut case = case(Plain::Passed);
        for mode in &self.teams {
            if mode.support == Support::Supported {
                let verdict = self.judge_mode(&runner, mode.teams, index)?;
                case.managed.push(Managed {
                    teams: mode.teams,
                    verdict,
                });
            }
        }
        Ok(case)
    }

    fn judge_mode(
        &self,
        runner: &Runner<'_>,
        teams: Teams,
        index: usize,
    ) -> anyhow::Result<Verdict> {
        let mode = team_mode(teams).context("a mode that the page does not know")?;
        let mut real_teams = None;
        for turn in 0..self.runs {
            let seed = (index as u64) << 32 | u64::from(turn);
            let mut daemon = StandIn::new(mode, &self.machine.cpus, Allocations::Changing(seed))
                .context("make a page")?;
            let run = runner.managed(&mut daemon)?;
            let shim = daemon.real_teams_because();
            if run.ending != Ending::Passed {
                return wrong(runner, teams, run, shim);
            }
            real_teams = real_teams.or(shim);
        }
        Ok(match real_teams {
            Some(why) if teams == Teams::Virtual => Verdict::RealTeams { why },
            _ => Verdict::Passed,
        })
    }
}

/// The verdict on a wrong run.
fn wrong(
    runner: &Runner<'_>,
    teams: Teams,
    run: Run,
    shim: Option<String>,
) -> anyhow::Result<Verdict> {
    let how = run.ending.to_string();
    if teams == Teams::Follow {
        for _ in 0..DYNAMIC_RUNS {
            if runner.plainly(&DYNAMIC)?.ending != Ending::Passed {
                return Ok(Verdict::NeedsExactTeams { how });
            }
        }
    }
    for _ in 0..RUNS_BEFORE_BLAME {
        let again = runner.plainly(&[])?;
        if again.ending != Ending::Passed {
            return Ok(Verdict::WrongPlainlyToo {
                how: again.ending.to_string(),
                said: again.said,
            });
        }
    }
    Ok(Verdict::Broken {
        how,
        said: run.said,
        shim,
    })
}

fn team_mode(teams: Teams) -> Option<TeamMode> {
    TeamMode::from_name(teams.name())
}

/// Which of the modes the shim has: those in which it attaches to its page. Tried with the first of
/// the compilers.
pub(crate) fn supported(
    wanted: &[Teams],
    compilers: &[String],
    machine: &Machine,
    scratch: &Path,
    interrupt: &Interrupt,
) -> anyhow::Result<Vec<Mode>> {
    const PROBE: &str = "int main(void)\n{\n    int sum = 0;\n\
        #pragma omp parallel reduction(+ : sum)\n    sum++;\n    return sum < 1;\n}\n";
    let source = scratch.join("probe.c");
    std::fs::write(&source, PROBE).with_context(|| format!("write {}", source.display()))?;
    let Some(compiler) = compilers.first() else {
        bail!("--cc is empty; name a compiler, such as gcc");
    };
    let executable = scratch.join("probe");
    let program =
        Program::new(scratch, Path::new("probe.c"), compiler).context("no compiler for C")?;
    if let Compiled::Refused(why) = program.compile(&executable)? {
        bail!("{compiler} -fopenmp does not work: {why}");
    }
    let runner = Runner {
        program: &executable,
        machine,
        time_limit: Duration::from_secs(20),
        interrupt,
    };
    let mut modes = Vec::new();
    for &teams in wanted {
        let attached = match team_mode(teams) {
            Some(mode) => {
                let mut daemon = StandIn::new(mode, &machine.cpus, Allocations::Changing(1))
                    .context("make a page")?;
                runner.managed(&mut daemon)?;
                daemon.report().attached()
            }
            None => false,
        };
        if !attached && teams != Teams::Virtual {
            bail!(
                "the shim {} does not attach with MAPPER_TEAMS={}; run a program with MAPPER_DEBUG=1 to see why",
                machine.shim.display(),
                teams.name()
            );
        }
        let support = match attached {
            true => Support::Supported,
            false => Support::NotSupported,
        };
        modes.push(Mode { teams, support });
    }
    Ok(modes)
}

#[cfg(test)]
mod tests {
    use super::super::modes::LoopSchedule;
    use super::*;
    use mapper_report::workspace;
    use std::process::Command;

    const ALL: [Teams; 3] = [Teams::Fixed, Teams::Follow, Teams::Virtual];

    /// What comes of a program of this text with a shim that breaks `follow` and, made with
    /// `-DHANGS`, `virtual`.
    fn judged(text: &str, shim_flags: &[&str], modes: &[Teams], runs: u32) -> Case {
        let scratch = tempfile::tempdir().unwrap();
        let shim = scratch.path().join("shim.so");
        let here = workspace::root().join("lab/conformance/src");
        let made = Command::new("gcc")
            .args(["-shared", "-fPIC", "-Wall", "-Werror"])
            .args(shim_flags)
            .arg("-I")
            .arg(workspace::root().join("crates/abi/include"))
            .arg(here.join("breaking_shim.c"))
            .arg("-o")
            .arg(&shim)
            .status()
            .unwrap();
        assert!(made.success());
        std::fs::write(scratch.path().join("program.c"), text).unwrap();
        let judge = Judge {
            machine: Machine::of_this_process(shim, LoopSchedule::AsWritten).unwrap(),
            teams: modes
                .iter()
                .map(|&teams| Mode {
                    teams,
                    support: Support::Supported,
                })
                .collect(),
            runs,
            time_limit: Duration::from_secs(2),
            scratch: scratch.path(),
            interrupt: Interrupt::default(),
        };
        let program = Program::new(scratch.path(), Path::new("program.c"), "gcc").unwrap();
        judge.judge(&program, 0).unwrap()
    }

    fn verdicts(case: Case) -> Vec<Verdict> {
        assert_eq!(case.plain, Plain::Passed);
        let managed = case.managed.into_iter();
        managed.map(|managed| managed.verdict).collect()
    }

    #[test]
    fn a_mode_in_which_a_sound_program_fails_is_broken_and_no_other_is() {
        let found = verdicts(judged("int main(void) { return 0; }", &[], &ALL, 1));
        let [fixed, follow, virtually] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(*fixed, Verdict::Passed);
        assert!(
            matches!(follow, Verdict::Broken { how, .. } if how == "exit status 3"),
            "{follow:?}"
        );
        assert!(
            matches!(virtually, Verdict::RealTeams { why } if why.contains("tasks")),
            "{virtually:?}"
        );
    }

    #[test]
    fn a_mode_in_which_a_program_hangs_is_broken() {
        let text = "int main(void) { return 0; }";
        let found = verdicts(judged(text, &["-DHANGS"], &[Teams::Virtual], 1));
        assert!(
            matches!(&found[..], [Verdict::Broken { how, .. }] if how.starts_with("hung")),
            "{found:?}"
        );
    }

    #[test]
    fn a_program_that_needs_exact_teams_is_not_broken_by_follow() {
        let text = "#include <stdlib.h>\nint main(void) { return getenv(\"OMP_DYNAMIC\") != 0; }";
        let found = verdicts(judged(text, &[], &[Teams::Follow], 1));
        assert!(
            matches!(&found[..], [Verdict::NeedsExactTeams { how }] if how == "exit status 3"),
            "{found:?}"
        );
    }

    /// Its first run passes, and makes a file by which all others fail.
    #[test]
    fn a_program_that_fails_plainly_now_and_then_is_not_blamed_on_mapper() {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "#include <fcntl.h>\nint main(void) {{ return open(\"{}/mark\", O_CREAT | O_EXCL, 0600) < 0; }}",
            folder.path().display()
        );
        let found = verdicts(judged(&text, &[], &[Teams::Fixed], 1));
        assert!(
            matches!(&found[..], [Verdict::WrongPlainlyToo { how, .. }] if how == "exit status 1"),
            "{found:?}"
        );
    }

    #[test]
    fn a_program_that_fails_without_mapper_is_tried_in_no_mode() {
        let case = judged("int main(void) { return 4; }", &[], &ALL, 1);
        assert!(
            matches!(&case.plain, Plain::Failed { how, .. } if how == "exit status 4"),
            "{:?}",
            case.plain
        );
        assert!(case.managed.is_empty());
    }
}
