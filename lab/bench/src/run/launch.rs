//! The command that starts a program under a setting. All that distinguishes settings is here.

use std::ffi::OsString;
use std::num::NonZero;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use super::daemon::PrivateDaemon;
use super::processes::Launch;
use super::shares::Share;
use crate::build::dlb::Loaded;
use crate::data::{Cpus, Manager, Program, Setting};

/// Variables that mapper-launch sets for OpenMP runtimes; they are removed again where the program is not to
/// hear of its CPUs.
const RUNTIME_VARIABLES: [&str; 4] = [
    "OMP_NUM_THREADS",
    "GOMP_SPINCOUNT",
    "KMP_BLOCKTIME",
    "KMP_AFFINITY",
];

/// What sets the number of threads of the runtimes and libraries that real programs have: all that a user who tunes
/// by hand could set.
const BY_HAND: [&str; 8] = [
    "LOKY_MAX_CPU_COUNT",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
];

/// A piece of a program's work, and what settings need besides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Invocation<'a> {
    pub(crate) program: &'a Program,
    pub(crate) words: &'a [OsString],
    pub(crate) size: Option<u64>,
    pub(crate) steps: u64,
    /// CPUs of the machine that the experiment has.
    pub(crate) cpus: usize,
    pub(crate) promise: Option<f64>,
    pub(crate) daemon: Option<&'a PrivateDaemon>,
    pub(crate) dlb: Option<&'a Loaded>,
}

impl Invocation<'_> {
    /// The start of the program under a setting, with this fair share.
    pub(crate) fn under(&self, setting: &Setting, share: &Share) -> anyhow::Result<Launch> {
        let words = self.words.split_first();
        let (first, others) = words.context("a command without words")?;
        let mut command = match setting.manager {
            Manager::Linux | Manager::Dlb => Command::new(first),
            Manager::Mapper => self.launcher(setting, first)?,
        };
        match &self.program.recipe {
            Some(recipe) => {
                let asked = recipe.threads.map_or(self.cpus, NonZero::get);
                let is_share = setting.cpus == Cpus::Share;
                let threads = if is_share { share.threads } else { asked }.to_string();
                if is_share {
                    command.envs(BY_HAND.map(|name| (name, &threads)));
                }
                let words = others.iter().map(|word| word.to_string_lossy());
                command.args(words.map(|word| word.replace("{threads}", &threads)));
            }
            None => {
                command.args(others);
                if let Some(size) = self.size {
                    command.args(["--size", &size.to_string()]);
                }
                command.args(["--steps", &self.steps.to_string()]);
            }
        }
        let heeds_openmp = self.program.threads.heed_openmp();
        let threads = match (setting.cpus, setting.threads) {
            (Cpus::Share, _) => Some(share.threads),
            (Cpus::All, Some(times)) => Some(times.get() * self.cpus),
            // OpenMP's runtimes count the CPUs that they may use, these programs all that are online.
            (Cpus::All, None) => (!heeds_openmp).then_some(self.cpus),
        };
        if let Some(threads) = threads.map(|threads| threads.to_string()) {
            match heeds_openmp {
                true => command.env("OMP_NUM_THREADS", threads),
                false => command.args(["--threads", &threads]),
            };
        }
        if setting.passive {
            command.env("OMP_WAIT_POLICY", "passive");
        }
        if setting.manager == Manager::Dlb {
            let dlb = self.dlb.context("the DLB library was not found")?;
            dlb.preload(&mut command, self.program.threads);
        }
        Ok(Launch {
            command,
            cpus: (setting.cpus == Cpus::Share).then(|| share.cpus.clone()),
            delay: Duration::ZERO,
            printed: None,
        })
    }

    /// mapper-launch with its options and the first of the program's words.
    fn launcher(&self, setting: &Setting, first: &OsString) -> anyhow::Result<Command> {
        let daemon = self.daemon.context("no daemon is running")?;
        let mut command = daemon.launch(&["--name", self.program.printed_name()]);
        if let Some(promise) = self.promise {
            command.args(["--qos", &promise.to_string()]);
        }
        if let Some(teams) = setting.teams {
            command.args(["--teams", teams.as_str()]);
        }
        if setting.no_runtime {
            command.args(["--no-runtime", "--", "env"]);
            command.args(RUNTIME_VARIABLES.iter().flat_map(|name| ["-u", name]));
        } else {
            command.arg("--");
        }
        command.arg(first);
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arguments and the variables of a program under a setting of four CPUs, two of them its share.
    fn words(program: &str, setting: &str) -> anyhow::Result<String> {
        let (program, setting) = (Program::find(program)?, Setting::find(setting)?);
        let invocation = Invocation {
            program: &program,
            words: &["prog".into()],
            size: Some(7),
            steps: 3,
            cpus: 4,
            promise: None,
            daemon: None,
            dlb: None,
        };
        let (cpus, threads) = (vec![2, 3], 2);
        let launch = invocation.under(&setting, &Share { cpus, threads })?;
        let mut words = String::new();
        for (name, value) in launch.command.get_envs() {
            let value = value.unwrap_or_default();
            words += &format!("{}={} ", name.display(), value.display());
        }
        let arguments = launch.command.get_args().map(|word| word.to_string_lossy());
        words += &arguments.collect::<Vec<_>>().join(" ");
        let cpus = launch.cpus.map(|cpus| format!(" on {cpus:?}"));
        words += &cpus.unwrap_or_default();
        Ok(words)
    }

    #[test]
    fn an_openmp_program_gets_its_threads_by_the_environment_and_others_by_an_argument() {
        for (program, setting, wanted) in [
            ("md", "plain", ""),
            ("md", "passive", "OMP_WAIT_POLICY=passive "),
            ("md", "plain-4n", "OMP_NUM_THREADS=16 "),
            ("md", "static", "OMP_NUM_THREADS=2 | on [2, 3]"),
            ("queens", "static", "| --threads 2 on [2, 3]"),
            ("queens", "plain", "| --threads 4"),
        ] {
            let (before, after) = wanted.split_once('|').unwrap_or((wanted, ""));
            let wanted = format!("{before}--size 7 --steps 3{after}");
            assert_eq!(words(program, setting).unwrap(), wanted);
        }
        // A real program takes no steps.
        assert_eq!(words("zstd", "plain").unwrap(), "");
        let by_hand = words("zstd", "hand").unwrap();
        let libraries = ["OPENBLAS_NUM_THREADS=2", "RAYON_NUM_THREADS=2"];
        assert!(libraries.iter().all(|of| by_hand.contains(of)), "{by_hand}");
        // There is no daemon.
        assert!(words("md", "virtual").is_err());
    }
}
