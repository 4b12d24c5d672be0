//! The command that starts a program under a setting. All that distinguishes settings is here.

use std::ffi::OsString;
use std::process::Command;

use anyhow::Context as _;

use super::daemon::PrivateDaemon;
use super::shares::Share;
use crate::build::dlb::Loaded;
use crate::data::program::Program;
use crate::data::setting::{Cpus, Manager, Setting};

/// Variables that mapper-launch sets for OpenMP runtimes; they are removed again where the program is not to
/// hear of its CPUs.
const RUNTIME_VARIABLES: [&str; 4] = [
    "OMP_NUM_THREADS",
    "GOMP_SPINCOUNT",
    "KMP_BLOCKTIME",
    "KMP_AFFINITY",
];

/// What settings need besides the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Means<'a> {
    /// CPUs of the machine that the experiment has.
    pub(crate) cpus: usize,
    pub(crate) promise: Option<f64>,
    pub(crate) daemon: Option<&'a PrivateDaemon>,
    pub(crate) dlb: Option<&'a Loaded>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Invocation<'a> {
    pub(crate) program: &'a Program,
    pub(crate) words: &'a [OsString],
    pub(crate) size: Option<u64>,
    pub(crate) steps: u64,
}

impl Invocation<'_> {
    /// The command under a setting, of a program with this fair share.
    pub(crate) fn under(
        &self,
        setting: &Setting,
        share: &Share,
        means: Means<'_>,
    ) -> anyhow::Result<Command> {
        let mut command = match setting.manager {
            Manager::Linux | Manager::Dlb => Command::new(self.first_word()?),
            Manager::Mapper => {
                let daemon = means.daemon.context("no daemon is running")?;
                let mut command = launcher(daemon, setting, self.program, means.promise);
                command.arg(self.first_word()?);
                command
            }
        };
        self.add_arguments(&mut command);
        let threads = match (setting.cpus, setting.threads) {
            (Cpus::Share, _) => Some(share.threads),
            (Cpus::All, Some(times)) => Some(times.get() * means.cpus),
            // OpenMP's runtimes count the CPUs that they may use, these programs all that are online.
            (Cpus::All, None) => (!self.program.threads.heed_openmp()).then_some(means.cpus),
        };
        if let Some(threads) = threads {
            let threads = threads.to_string();
            match self.program.threads.heed_openmp() {
                true => command.env("OMP_NUM_THREADS", threads),
                false => command.args(["--threads", &threads]),
            };
        }
        if setting.passive {
            command.env("OMP_WAIT_POLICY", "passive");
        }
        if setting.manager == Manager::Dlb {
            let dlb = means.dlb.context("the DLB library was not found")?;
            dlb.preload(&mut command, self.program.threads);
        }
        Ok(command)
    }

    fn first_word(&self) -> anyhow::Result<&OsString> {
        self.words.first().context("a command without words")
    }

    fn add_arguments(&self, command: &mut Command) {
        command.args(self.words.iter().skip(1));
        if let Some(size) = self.size {
            command.args(["--size", &size.to_string()]);
        }
        command.args(["--steps", &self.steps.to_string()]);
    }
}

/// The CPUs that a program is confined to, if it is.
pub(crate) fn confinement(setting: &Setting, share: &Share) -> Option<Vec<usize>> {
    (setting.cpus == Cpus::Share).then(|| share.cpus.clone())
}

/// mapper-launch with its options, to which the program's words are added.
fn launcher(
    daemon: &PrivateDaemon,
    setting: &Setting,
    program: &Program,
    promise: Option<f64>,
) -> Command {
    let mut command = daemon.launch(&["--name", program.printed_name()]);
    if let Some(promise) = promise {
        command.args(["--qos", &promise.to_string()]);
    }
    if let Some(teams) = setting.teams {
        command.args(["--teams", teams.option()]);
    }
    if setting.runtime_interface {
        command.arg("--");
    } else {
        command.args(["--no-runtime", "--", "env"]);
        for name in RUNTIME_VARIABLES {
            command.args(["-u", name]);
        }
    }
    command
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
        };
        let share = Share {
            cpus: vec![2, 3],
            threads: 2,
        };
        let means = Means {
            cpus: 4,
            promise: None,
            daemon: None,
            dlb: None,
        };
        let command = invocation.under(&setting, &share, means)?;
        let mut words = String::new();
        for (name, value) in command.get_envs() {
            words += &format!(
                "{}={} ",
                name.display(),
                value.unwrap_or_default().display()
            );
        }
        let arguments = command.get_args().map(|word| word.to_string_lossy());
        words += &arguments.collect::<Vec<_>>().join(" ");
        if let Some(cpus) = confinement(&setting, &share) {
            words += &format!(" on {cpus:?}");
        }
        Ok(words)
    }

    #[test]
    fn an_openmp_program_gets_its_threads_by_the_environment_and_others_by_an_argument() {
        for (program, setting, wanted) in [
            ("md", "plain", "--size 7 --steps 3"),
            (
                "md",
                "passive",
                "OMP_WAIT_POLICY=passive --size 7 --steps 3",
            ),
            ("md", "plain-4n", "OMP_NUM_THREADS=16 --size 7 --steps 3"),
            (
                "md",
                "static",
                "OMP_NUM_THREADS=2 --size 7 --steps 3 on [2, 3]",
            ),
            (
                "queens",
                "static",
                "--size 7 --steps 3 --threads 2 on [2, 3]",
            ),
            ("queens", "plain", "--size 7 --steps 3 --threads 4"),
        ] {
            assert_eq!(words(program, setting).unwrap(), wanted);
        }
    }

    #[test]
    fn a_managed_setting_without_a_daemon_is_an_error() {
        assert!(words("md", "virtual").is_err());
    }
}
