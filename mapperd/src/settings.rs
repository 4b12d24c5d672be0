//! What the daemon is told: command line, then configuration file, then defaults.

use crate::args::Args;
use crate::interval::Interval;
use crate::selection::EnforcerChoice;
use anyhow::{Context, bail};
use mapper_allocate::AllocationConfig;
use mapper_control::socket_path::{SYSTEM_SOCKET, Surroundings};
use mapper_host::counters::Choice as CounterChoice;
use mapper_map::MappingConfig;
use mapper_model::{CpuSet, MachineProfile};
use mapper_monitor::MonitorConfig;
use mapper_pipeline::PipelineConfig;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Who may connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Audience {
    /// Every user; who may do what is decided by credentials.
    Everybody,
    /// The user who runs the daemon.
    Owner,
}

/// Everything the daemon is told.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) audience: Audience,
    pub(crate) socket: PathBuf,
    pub(crate) interval: Interval,
    pub(crate) enforcer: EnforcerChoice,
    pub(crate) cgroup_root: Option<PathBuf>,
    pub(crate) counters: CounterChoice,
    pub(crate) reserve: CpuSet,
    pub(crate) record: Option<PathBuf>,
    pub(crate) pipeline: PipelineConfig,
}

/// The configuration file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    interval: Option<Interval>,
    allocation: Option<String>,
    mapping: Option<String>,
    enforcer: Option<EnforcerChoice>,
    cgroup_root: Option<PathBuf>,
    counters: Option<Parsed<CounterChoice>>,
    socket: Option<PathBuf>,
    reserve: Option<CpuSet>,
    record: Option<PathBuf>,
    /// How readings are judged.
    monitor: MonitorConfig,
    /// Settings of the allocation policy.
    allocate: AllocationConfig,
    /// Settings of the mapping policy.
    map: MappingConfig,
    /// Thresholds of the machine.
    machine: MachineProfile,
}

/// A value that is written in the file as on the command line.
#[derive(Clone, Copy, Debug)]
struct Parsed<T>(T);

impl<'de, T> Deserialize<'de> for Parsed<T>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

impl Settings {
    /// Reads the configuration file and adds what the command line and the environment say.
    pub(crate) fn gather(args: Args) -> anyhow::Result<Self> {
        let file = match &args.config {
            Some(path) => File::read(path)?,
            None => File::default(),
        };
        let defaults = PipelineConfig::default();
        let pipeline = PipelineConfig {
            allocation: args
                .allocation
                .or(file.allocation)
                .unwrap_or(defaults.allocation),
            mapping: args.mapping.or(file.mapping).unwrap_or(defaults.mapping),
            monitor: file.monitor,
            allocate: file.allocate,
            map: file.map,
            machine: file.machine,
        };
        let audience = if args.user {
            Audience::Owner
        } else {
            Audience::Everybody
        };
        let socket = match args.socket.or(file.socket) {
            Some(socket) => socket,
            None => default_socket(audience)?,
        };
        let enforcer = args.enforcer.or(file.enforcer).unwrap_or(match audience {
            Audience::Everybody => EnforcerChoice::Auto,
            Audience::Owner => EnforcerChoice::Affinity,
        });
        Ok(Self {
            audience,
            socket,
            interval: args.interval.or(file.interval).unwrap_or_default(),
            enforcer,
            cgroup_root: args.cgroup_root.or(file.cgroup_root),
            counters: args
                .counters
                .or(file.counters.map(|Parsed(choice)| choice))
                .unwrap_or_default(),
            reserve: args.reserve.or(file.reserve).unwrap_or_default(),
            record: args.record.or(file.record),
            pipeline,
        })
    }
}

fn default_socket(audience: Audience) -> anyhow::Result<PathBuf> {
    match audience {
        Audience::Everybody => Ok(SYSTEM_SOCKET.into()),
        Audience::Owner => match Surroundings::of_process().user_socket() {
            Some(socket) => Ok(socket),
            None => bail!(
                "XDG_RUNTIME_DIR is not set, so there is no place for the socket of a user's \
                 daemon; set it, or name one with --socket"
            ),
        },
    }
}

impl File {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("read configuration {}", path.display()))?;
        let file: Self =
            toml::from_str(&text).with_context(|| format!("configuration {}", path.display()))?;
        let names = || format!("configuration {}", path.display());
        if let Some(name) = &file.allocation {
            mapper_allocate::find(name).with_context(names)?;
        }
        if let Some(name) = &file.mapping {
            mapper_map::find(name).with_context(names)?;
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn gather(text: &str, flags: &[&str]) -> anyhow::Result<Settings> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mapper.toml");
        std::fs::write(&path, text).unwrap();
        let config = path.to_str().unwrap();
        let line = ["mapperd", "--config", config]
            .into_iter()
            .chain(flags.iter().copied());
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
            ("[machine]\nclock = 3\n", &["line 2", "`clock`", "clock_hz"]),
            ("counters = \"perf\"\n", &["line 1", "\"perf\"", "hardware"]),
            (
                "allocation = \"best\"\n",
                &["mapper.toml", "\"best\"", "fair"],
            ),
        ] {
            let error = format!("{:#}", gather(text, &[]).unwrap_err());
            assert!(error.contains("mapper.toml"), "{error}");
            for part in says {
                assert!(error.contains(part), "{text}: {error}");
            }
        }
    }
}
