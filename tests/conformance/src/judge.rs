//! The runs of one program and their verdict.
//!
//! A mode is tried only with a program that passes plainly every time; its first failure ends it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use mapper_abi::stand_in::{Allocations, StandIn};
use serde::Serialize;

use super::programs::Program;
use super::run::{Machine, Run, Runner, Teams};

/// Lets a plain runtime choose team sizes, as `follow` requires. By itself libomp changes them only with the machine's load.
const DYNAMIC: [(&str, &str); 2] = [("OMP_DYNAMIC", "true"), ("KMP_DYNAMIC_MODE", "random")];
/// Plain runs with it that must pass before `follow` is blamed.
const DYNAMIC_RUNS: u32 = 3;
/// Plain runs that must all pass before mapper is blamed: runtimes have races that show once in some runs.
const RUNS_BEFORE_BLAME: u32 = 60;
/// A run that takes so many times a plain one has hung.
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

/// A team mode.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Mode {
    pub(crate) teams: Teams,
    pub(crate) support: Support,
}

/// The result of one program in one mode. `how` a run ended, and the end of what it `said`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub(crate) enum Verdict {
    /// Right in every run.
    Passed,
    /// Right in every run, with real teams: the shim did not admit it to the mode, or sent it back.
    RealTeams { why: String },
    /// Wrong, but also under `OMP_DYNAMIC=true`, which `follow` requires.
    NeedsExactTeams { how: String },
    /// Wrong, but sometimes also without mapper; of that run.
    WrongPlainlyToo { how: String, said: String },
    /// Wrong because of mapper, with what the shim reports about the mode.
    Broken {
        how: String,
        said: String,
        shim: Option<String>,
    },
}

/// The result of a program without mapper.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub(crate) enum Plain {
    /// Right in every run.
    Passed,
    /// The compiler refuses it.
    NotCompiled { why: String },
    /// Wrong without mapper.
    Failed { how: String, said: String },
}

/// A program in one mode.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Managed {
    pub(crate) teams: Teams,
    #[serde(flatten)]
    pub(crate) verdict: Verdict,
}

/// All results of one program by one compiler.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Case {
    /// Its path below the folder.
    pub(crate) program: String,
    pub(crate) compiler: String,
    pub(crate) plain: Plain,
    /// For each mode that the shim has.
    pub(crate) managed: Vec<Managed>,
}

impl Case {
    /// What is unusual, for progress lines.
    pub(crate) fn noteworthy(&self) -> Option<&'static str> {
        let broken = |managed: &Managed| matches!(managed.verdict, Verdict::Broken { .. });
        match self.plain {
            Plain::NotCompiled { .. } => Some("not compiled"),
            Plain::Failed { .. } => Some("fails without mapper"),
            Plain::Passed => self
                .managed
                .iter()
                .any(broken)
                .then_some("broken by mapper"),
        }
    }
}

/// How to judge.
pub(crate) struct Judge<'a> {
    pub(crate) machine: Machine,
    pub(crate) teams: Vec<Mode>,
    /// Runs of each kind.
    pub(crate) runs: u32,
    /// The least time after which a run has hung.
    pub(crate) time_limit: Duration,
    /// Where programs are compiled to.
    pub(crate) scratch: &'a Path,
}

impl Judge<'_> {
    /// Compiles and runs a program. An error is this tool's, not the program's.
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
        if let Err(why) = program.compile(
            executable,
            &self.machine.programs_of(&program.compiler).flags,
        )? {
            return Ok(case(Plain::NotCompiled { why }));
        }
        let mut runner = Runner {
            program: executable,
            compiler: &program.compiler,
            machine: &self.machine,
            time_limit: self.time_limit,
        };
        for _ in 0..self.runs {
            let Run {
                failed,
                elapsed,
                said,
            } = runner.plainly(&[])?;
            if let Some(how) = failed {
                return Ok(case(Plain::Failed { how, said }));
            }
            runner.time_limit = runner.time_limit.max(elapsed * SLOWNESS);
        }
        let mut case = case(Plain::Passed);
        let supported = |mode: &&Mode| mode.support == Support::Supported;
        for &Mode { teams, .. } in self.teams.iter().filter(supported) {
            let verdict = self.verdict(&runner, teams, index)?;
            case.managed.push(Managed { teams, verdict });
        }
        Ok(case)
    }

    fn verdict(&self, runner: &Runner<'_>, teams: Teams, index: usize) -> anyhow::Result<Verdict> {
        let mut real_teams = None;
        for turn in 0..self.runs {
            let seed = (index as u64) << 32 | u64::from(turn);
            let mut daemon = stand_in(teams, &self.machine, seed)?;
            let Run { failed, said, .. } = runner.managed(&mut daemon)?;
            let shim = daemon.real_teams_because();
            if let Some(how) = failed {
                let excuse = excuse(runner, teams, &how)?;
                return Ok(excuse.unwrap_or(Verdict::Broken { how, said, shim }));
            }
            real_teams = real_teams.or(shim);
        }
        Ok(match real_teams {
            Some(why) if teams == Teams::Virtual => Verdict::RealTeams { why },
            _ => Verdict::Passed,
        })
    }
}

fn stand_in(teams: Teams, machine: &Machine, seed: u64) -> anyhow::Result<StandIn> {
    let allocations = Allocations::Changing(seed);
    StandIn::new(teams.mode(), &machine.cpus, allocations).context("make a page")
}

/// The verdict on a wrong run if it is not because of mapper.
fn excuse(runner: &Runner<'_>, teams: Teams, how: &str) -> anyhow::Result<Option<Verdict>> {
    if teams == Teams::Follow {
        for _ in 0..DYNAMIC_RUNS {
            if runner.plainly(&DYNAMIC)?.failed.is_some() {
                let how = how.to_owned();
                return Ok(Some(Verdict::NeedsExactTeams { how }));
            }
        }
    }
    for _ in 0..RUNS_BEFORE_BLAME {
        let Run { failed, said, .. } = runner.plainly(&[])?;
        if let Some(how) = failed {
            return Ok(Some(Verdict::WrongPlainlyToo { how, said }));
        }
    }
    Ok(None)
}

/// Which modes the shim has: those in which it attaches to its page. Tried with the first compiler.
pub(crate) fn supported(
    wanted: &[Teams],
    compilers: &[String],
    machine: &Machine,
    scratch: &Path,
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
    if let Err(why) = program.compile(&executable, &machine.programs_of(compiler).flags)? {
        bail!("{compiler} -fopenmp does not work: {why}");
    }
    let runner = Runner {
        program: &executable,
        compiler,
        machine,
        time_limit: Duration::from_secs(20),
    };
    let mut modes = Vec::new();
    for &teams in wanted {
        let mut daemon = stand_in(teams, machine, 1)?;
        runner.managed(&mut daemon)?;
        let attached = daemon.report().attached();
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
    use super::super::run::LoopSchedule;
    use super::*;
    use mapper_report::interrupt::Interrupt;
    use mapper_report::workspace;
    use std::process::Command;

    const SOUND: &str = "int main(void) { return 0; }";

    /// The result of a program of this text with a shim that breaks `follow` and, made with `-DHANGS`, `virtual`.
    fn judged(text: &str, shim_flags: &[&str], modes: &[Teams]) -> Case {
        let scratch = tempfile::tempdir().unwrap();
        let shim = scratch.path().join("shim.so");
        let here = workspace::root().join("tests/conformance/src");
        let made = Command::new("gcc")
            .args(["-shared", "-fPIC", "-Wall", "-Werror", "-I"])
            .arg(workspace::root().join("crates/abi/include"))
            .args(shim_flags)
            .arg(here.join("breaking_shim.c"))
            .arg("-o")
            .arg(&shim)
            .status()
            .unwrap();
        assert!(made.success());
        std::fs::write(scratch.path().join("program.c"), text).unwrap();
        let mode = |&teams: &Teams| Mode {
            teams,
            support: Support::Supported,
        };
        let (schedule, interrupt) = (LoopSchedule::AsWritten, Interrupt::default());
        let judge = Judge {
            machine: Machine::of_this_process(shim, schedule, interrupt).unwrap(),
            teams: modes.iter().map(mode).collect(),
            runs: 1,
            time_limit: Duration::from_secs(2),
            scratch: scratch.path(),
        };
        let program = Program::new(scratch.path(), Path::new("program.c"), "gcc").unwrap();
        judge.judge(&program, 0).unwrap()
    }

    #[test]
    fn each_program_comes_to_the_verdict_on_what_it_or_the_shim_does_and_to_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let exact = "#include <stdlib.h>\nint main(void) { return getenv(\"OMP_DYNAMIC\") != 0; }";
        // Its first run passes, and makes a file by which all others fail.
        let racy = format!(
            "#include <fcntl.h>\nint main(void) {{ return open({mark:?}, O_CREAT | O_EXCL, 0600) < 0; }}"
        );
        let needs = "NeedsExactTeams: exit status 3\" }";
        let plainly = "WrongPlainlyToo: exit status 1\"";
        for (text, shim_flags, mode, begins) in [
            (SOUND, &[][..], Teams::Fixed, "Passed"),
            (SOUND, &[], Teams::Follow, "Broken: exit status 3"),
            (SOUND, &["-DHANGS"], Teams::Virtual, "Broken: hung"),
            (SOUND, &[], Teams::Virtual, "RealTeams"),
            (exact, &[], Teams::Follow, needs),
            (&racy, &[], Teams::Fixed, plainly),
        ] {
            let case = judged(text, shim_flags, &[mode]);
            assert_eq!((&case.plain, case.managed.len()), (&Plain::Passed, 1));
            let found = format!("{:?}", case.managed[0].verdict);
            let found = found.replace(" { how: \"", ": ");
            assert!(found.starts_with(begins), "{found}");
            assert!(begins != "RealTeams" || found.contains("tasks"), "{found}");
        }
    }

    #[test]
    fn a_program_that_fails_without_mapper_is_tried_in_no_mode() {
        let all = [Teams::Fixed, Teams::Follow, Teams::Virtual];
        let case = judged("int main(void) { return 4; }", &[], &all);
        let failed = matches!(&case.plain, Plain::Failed { how, .. } if how == "exit status 4");
        assert!(failed, "{:?}", case.plain);
        assert!(case.managed.is_empty());
    }
}
