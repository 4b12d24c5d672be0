//! The command line.

use crate::config::interval::Interval;
use crate::config::types::{AllocationName, Audience, EnforcerChoice, MappingName};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use mapper_host::observe::Choice as CounterChoice;
use mapper_model::CpuSet;
use mapper_pipeline::OverheadBudget;
use std::ffi::OsString;
use std::path::PathBuf;

/// Gives parallel applications CPUs so that each keeps its promised performance.
///
/// What is given here comes before the configuration file.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "mapperd",
    version,
    max_term_width = 100,
    after_help = "Exit status: 0 after an orderly stop, 1 when something failed, 2 for a wrong command \
                  line, 3 when a daemon already listens on the socket.\n\
                  MAPPER_LOG sets what is logged, such as debug or mapperd=debug,warn."
)]
pub(crate) struct Args {
    /// Manage this user's programs by thread affinity, with a socket in a directory of the user's
    #[arg(long, global = true)]
    pub(crate) user: bool,
    /// Listen here [default: /run/mapper/mapper.sock, with --user $XDG_RUNTIME_DIR/mapper/mapper.sock,
    /// without that variable in /run/user/UID or /tmp/mapper-UID]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Read settings from this file [default: /etc/mapper/mapper.toml, with --user
    /// $XDG_CONFIG_HOME/mapper/mapper.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Time between two decisions, from 20ms to 10s [default: 1s]
    #[arg(long, value_name = "TIME")]
    pub(crate) interval: Option<Interval>,
    /// Share of the interval that observing, deciding and enforcing may take; beyond, the interval is
    /// stretched. From 0.001 to 0.5, or 0 for none [default: 0.02]
    #[arg(long, value_name = "SHARE")]
    pub(crate) overhead_budget: Option<OverheadBudget>,
    /// Policy that decides how many CPUs each application gets [default: mapper-next]
    #[arg(long, value_name = "NAME")]
    pub(crate) allocation: Option<AllocationName>,
    /// Policy that decides which CPUs [default: sam_mph]
    #[arg(long, value_name = "NAME")]
    pub(crate) mapping: Option<MappingName>,
    /// How CPUs are confined: auto, cgroup or affinity [default: auto, with --user affinity]
    #[arg(long, value_name = "KIND")]
    pub(crate) enforcer: Option<EnforcerChoice>,
    /// Make control groups in this directory [default: the delegated one, else mapper.slice]
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup_root: Option<PathBuf>,
    /// What is measured: auto, hardware or software [default: auto]
    #[arg(long, value_name = "KIND")]
    pub(crate) counters: Option<CounterChoice>,
    /// CPUs that are never assigned, such as 0-1 [default: none]
    #[arg(long, value_name = "CPUS")]
    pub(crate) reserve: Option<CpuSet>,
    /// Write every observation and plan to this file, one JSON line each
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Keep here what outlives a restart [default: $STATE_DIRECTORY, with --user
    /// state beside the socket]
    #[arg(long, value_name = "PATH")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Thresholds that `mapperd calibrate` measured on this machine [default: /var/lib/mapper/machine.toml, with
    /// --user $XDG_STATE_HOME/mapper/machine.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) machine_profile: Option<PathBuf>,
    /// Stop when nothing was managed for so many seconds [default: never; mapper-launch starts daemons with 600]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) stop_when_idle: Option<u32>,
    /// Read the settings, say whether they are right, and do nothing else
    #[arg(long)]
    pub(crate) check_config: bool,
    /// Print the JSON schema of the configuration file, and do nothing else
    #[arg(long)]
    pub(crate) config_schema: bool,
    /// What to do instead of managing applications
    #[command(subcommand)]
    pub(crate) task: Option<Task>,
}

impl Args {
    pub(crate) const fn audience(&self) -> Audience {
        if self.user {
            Audience::Owner
        } else {
            Audience::Everybody
        }
    }
}

/// What there is to do besides managing applications.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Task {
    /// Measure this machine once: clock, memory bandwidth, shared counters, shared cores
    ///
    /// Takes a few seconds on a small machine and about a minute on a large one, which should be idle meanwhile.
    /// The thresholds found are used from the next start on.
    Calibrate {
        /// Write the profile here [default: where the daemon looks for it]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

/// The error, with a hint where `--check-config` was given the file that belongs to `--config`.
pub(crate) fn with_hint(error: clap::Error, words: &[OsString]) -> clap::Error {
    let (Some(ContextValue::String(file)), true) = (
        error.get(ContextKind::InvalidSubcommand),
        words.iter().any(|word| word == "--check-config"),
    ) else {
        return error;
    };
    let hint = format!(
        "'{file}' is no subcommand; --check-config takes no file, give it with --config:\n\n  \
         mapperd --check-config --config {file}\n"
    );
    Args::command().error(ErrorKind::InvalidSubcommand, hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_help_names_the_default_policies() {
        let help = Args::command().render_long_help().to_string();
        let default = mapper_pipeline::PipelineConfig::default();
        for policy in [default.allocation, default.mapping] {
            assert!(help.contains(&format!("[default: {policy}]")), "{policy}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }
}
