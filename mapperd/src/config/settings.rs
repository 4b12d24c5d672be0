//! The settings of the daemon: command line, then configuration file, then defaults.

use crate::config::access::Access;
use crate::config::adopt_rules::AdoptRules;
use crate::config::args::Args;
use crate::config::file::{ConfigFile, MetricsConfig};
use crate::config::interval::Interval;
use crate::config::moved::Moved;
use crate::config::program_rules::ProgramRules;
use crate::config::types::{Audience, EnforcerChoice, ProfilePlace, base_directory, variable};
use anyhow::Context;
use mapper_control::socket_path::{SYSTEM_SOCKET, Surroundings};
use mapper_host::cpus::UsableCpus;
use mapper_host::observe::Choice as CounterChoice;
use mapper_model::{CpuSet, Lending};
use mapper_pipeline::{OverheadBudget, PipelineConfig};
use std::path::{Path, PathBuf};
use std::time::Duration;

const SYSTEM_CONFIG: &str = "/etc/mapper/mapper.toml";

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) audience: Audience,
    pub(crate) socket: PathBuf,
    pub(crate) interval: Interval,
    pub(crate) overhead_budget: OverheadBudget,
    pub(crate) enforcer: EnforcerChoice,
    pub(crate) cgroup_root: Option<PathBuf>,
    pub(crate) counters: CounterChoice,
    pub(crate) reserve: CpuSet,
    pub(crate) record: Option<PathBuf>,
    /// What outlives a restart is kept here; without it nothing is.
    pub(crate) state_dir: Option<PathBuf>,
    pub(crate) pipeline: PipelineConfig,
    pub(crate) machine_profile: ProfilePlace,
    pub(crate) access: Access,
    /// The operator's rules about programs.
    pub(crate) programs: ProgramRules,
    /// The rules that mapper is delivered with.
    pub(crate) shipped_programs: ProgramRules,
    pub(crate) adopt: AdoptRules,
    pub(crate) metrics: MetricsConfig,
    /// Stop after so long without anything to manage.
    pub(crate) stop_when_idle: Option<Duration>,
    /// What the file gives at a former place.
    pub(crate) moved: Vec<Moved>,
    read_from: Option<PathBuf>,
    /// The command line, to read everything again.
    sources: Args,
}

impl Settings {
    /// The command line that they were gathered with.
    pub(crate) const fn sources(&self) -> &Args {
        &self.sources
    }

    /// The CPUs that are never assigned, for a measurement of the machine.
    pub(crate) fn reserve(args: &Args) -> anyhow::Result<CpuSet> {
        let file = read_file(config_path(args).as_deref())?;
        Ok(args.reserve.clone().or(file.reserve).unwrap_or_default())
    }

    /// Reads the configuration file and adds what the command line and the environment say.
    pub(crate) fn gather(args: Args) -> anyhow::Result<Self> {
        let path = config_path(&args);
        let file = read_file(path.as_deref())?;
        let origin = path.as_ref().map(|path| path.display().to_string());
        let mut settings = Self::merge(args, file, &origin.unwrap_or_default())?;
        settings.read_from = path;
        Ok(settings)
    }

    /// What was read, for messages.
    pub(crate) fn origin(&self) -> String {
        match &self.read_from {
            Some(path) => format!("configuration {}", path.display()),
            None => "command line".to_owned(),
        }
    }

    /// What `--check-config` says of settings that could be read.
    pub(crate) fn checked(&self) -> String {
        match &self.read_from {
            Some(path) => format!("{}: the settings are valid\n", path.display()),
            None => format!(
                "no configuration file: {} is not there, and none was named with --config; the settings are valid\n",
                usual_path(&self.sources).map_or_else(
                    || "the usual one".to_owned(),
                    |path| path.display().to_string()
                )
            ),
        }
    }

    /// Refuses a reserve with which the daemon does not start on this machine: it names other CPUs, or leaves none.
    pub(crate) fn reserve_fits(&self) -> anyhow::Result<()> {
        self.reserve_is_here()?;
        let usable = UsableCpus::system(self.reserve.clone());
        let usable = usable.read(&mapper_host::cpus::own_affinity()?, &CpuSet::new())?;
        match usable.why_none() {
            Some(why) => anyhow::bail!("reserve {}: {why}", self.reserve),
            None => Ok(()),
        }
    }

    /// Whether all CPUs that are to be reserved are this machine's.
    pub(crate) fn reserve_is_here(&self) -> anyhow::Result<()> {
        let present = mapper_host::cpus::present()?;
        let elsewhere = self.reserve.difference(&present);
        anyhow::ensure!(
            elsewhere.is_empty(),
            "reserve {}: this machine has no CPU {elsewhere}, it has {present}; reserve CPUs that it has",
            self.reserve
        );
        Ok(())
    }

    /// The command line comes before the file, which comes before the defaults. `origin` names the file for people.
    pub(crate) fn merge(args: Args, file: ConfigFile, origin: &str) -> anyhow::Result<Self> {
        let expert = file.expert;
        let sources = args.clone();
        let audience = args.audience();
        let defaults = PipelineConfig::default();
        let allocation = args.allocation.or(file.allocation).map(|name| name.0);
        let mapping = args.mapping.or(expert.mapping).map(|name| name.0);
        let pipeline = PipelineConfig {
            allocation: allocation.unwrap_or(defaults.allocation),
            mapping: mapping.unwrap_or(defaults.mapping),
            monitor: expert.characterise,
            allocate: expert.allocate,
            map: expert.placement,
            machine: expert.machine,
            lending: match expert.lend {
                Some(false) => Lending::Never,
                Some(true) | None => Lending::WhenIdle,
            },
        };
        let usual_socket = || match audience {
            Audience::Everybody => SYSTEM_SOCKET.into(),
            Audience::Owner => Surroundings::of_process().user_socket(),
        };
        let socket = args.socket.or(expert.socket).unwrap_or_else(usual_socket);
        let enforcer = args.enforcer.or(file.enforcer).unwrap_or(match audience {
            Audience::Everybody => EnforcerChoice::Auto,
            Audience::Owner => EnforcerChoice::Affinity,
        });
        let overhead_budget = args.overhead_budget.or(expert.overhead_budget);
        let state_dir = args.state_dir.or(expert.state_dir);
        Ok(Self {
            audience,
            socket,
            interval: args.interval.or(file.interval).unwrap_or_default(),
            overhead_budget: overhead_budget.unwrap_or_default(),
            enforcer,
            cgroup_root: args.cgroup_root.or(expert.cgroup_root),
            counters: args.counters.or(expert.counters).unwrap_or_default(),
            reserve: args.reserve.or(file.reserve).unwrap_or_default(),
            record: args.record.or(expert.record),
            state_dir: state_dir.or_else(|| default_state_dir(audience)),
            pipeline,
            machine_profile: ProfilePlace::find(args.machine_profile, audience),
            access: Access::resolve(&file.access)?,
            programs: ProgramRules::resolve(origin, &file.program)?,
            shipped_programs: ProgramRules::shipped()
                .context("read the shipped list of programs")?,
            adopt: AdoptRules::resolve(&file.adopt)?,
            metrics: file.metrics,
            stop_when_idle: args.stop_when_idle.map(|s| Duration::from_secs(s.into())),
            moved: file.moved,
            read_from: None,
            sources,
        })
    }
}

fn read_file(path: Option<&Path>) -> anyhow::Result<ConfigFile> {
    let file = path.map(ConfigFile::read).transpose()?;
    Ok(file.unwrap_or_default())
}

/// Where systemd or the user's environment keeps state. Without either nothing outlives a restart.
fn default_state_dir(audience: Audience) -> Option<PathBuf> {
    // Several are separated by colons; the unit has one.
    variable("STATE_DIRECTORY").or_else(|| match audience {
        Audience::Everybody => None,
        // The state is worth nothing after a reboot, and this directory lasts as long.
        Audience::Owner => Some(Surroundings::of_process().user_dir.join("state")),
    })
}

/// The file to read: the one named, else the usual one if it exists.
fn config_path(args: &Args) -> Option<PathBuf> {
    if let Some(path) = &args.config {
        return Some(path.clone());
    }
    // One that cannot be inspected exists: reading it shows what is wrong.
    usual_path(args).filter(|path| path.try_exists().unwrap_or(true))
}

fn usual_path(args: &Args) -> Option<PathBuf> {
    match args.audience() {
        Audience::Owner => {
            Some(base_directory("XDG_CONFIG_HOME", ".config")?.join("mapper/mapper.toml"))
        }
        Audience::Everybody => Some(SYSTEM_CONFIG.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::assert_says;
    use clap::Parser;

    fn gather(text: &str, flags: &[&str]) -> anyhow::Result<Settings> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mapper.toml");
        std::fs::write(&path, text).unwrap();
        let config = path.to_str().unwrap();
        let line = [&["mapperd", "--config", config], flags].concat();
        Settings::gather(Args::parse_from(line))
    }

    #[test]
    fn the_command_line_comes_before_the_file_and_the_file_before_the_defaults() {
        let text = "interval = \"250ms\"\ncounters = \"software\"\nreserve = \"0-1\"\n";
        let settings = gather(text, &["--interval", "2s"]).unwrap();
        assert_eq!(settings.interval.to_string(), "2s");
        assert_eq!(settings.counters, CounterChoice::Software);
        assert_eq!(settings.reserve.to_string(), "0-1");
        assert_eq!(settings.enforcer, EnforcerChoice::Auto);
        assert_eq!(settings.socket, Path::new(SYSTEM_SOCKET));
        assert_eq!(settings.pipeline, PipelineConfig::default());
    }

    #[test]
    fn a_bad_file_is_named_with_line_and_key() {
        for (text, says) in [
            (
                "interval = \"1s\"\nintervall = \"1s\"\n",
                &["line 2", "`intervall`", "expected one of"][..],
            ),
            (
                "interval = \"1h\"\n",
                &["line 1", "interval \"1h\"", "20ms to 10s"],
            ),
            (
                "interval = \"20ms\"\noverhead_budget = 2\n",
                &["line 2", "overhead budget 2", "0.001 to 0.5"],
            ),
            ("[machine]\nclock = 3\n", &["line 2", "`clock`", "clock_hz"]),
            ("counters = \"perf\"\n", &["line 1", "\"perf\"", "hardware"]),
            (
                "allocation = \"best\"\n",
                &["line 1", "mapper.toml", "\"best\"", "fair"],
            ),
        ] {
            let error = gather(text, &[]).unwrap_err();
            assert_says(&error, &["mapper.toml"]);
            assert_says(&error, says);
        }
    }
}
