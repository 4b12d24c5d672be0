//! The command line.

use crate::hosts::HostName;
use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::{ArgValueCandidates, CompletionCandidate};
use mapper_control::schema::{AdoptRequest, AdoptTarget, AppStatus, MemoryPolicy};
use mapper_control::{Client, socket_path};
use mapper_model::bounds::OutOfRange;
use mapper_model::{AppName, CpuRange, Lending, Qos, Weight};
use std::path::PathBuf;
use std::time::Duration;

const AT_ONCE: Duration = Duration::from_millis(300);

/// Shows and explains what mapperd does.
#[derive(Debug, Parser)]
#[command(name = "mapperctl", version, max_term_width = 100)]
pub(crate) struct Arguments {
    /// The daemon's socket [default: MAPPER_SOCKET, the system's daemon, the user's daemon]
    #[arg(long, value_name = "PATH", global = true, value_hint = ValueHint::FilePath)]
    pub(crate) socket: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) question: Question,
}

/// What can be asked of a daemon.
#[derive(Debug, Subcommand)]
pub enum Question {
    /// The programs that run, their CPUs, and their speed against what was promised
    Status {
        /// Also how the daemon works, all that is measured, and the reason of each allocation
        #[arg(long, short, conflicts_with_all = ["json", "schema", "hosts"])]
        verbose: bool,

        /// Ask these machines over ssh instead, as with `ssh HOST mapperctl status`
        #[arg(
            long,
            value_name = "HOST,HOST…",
            value_delimiter = ',',
            conflicts_with = "schema"
        )]
        hosts: Vec<HostName>,

        /// Print the daemon's reply as JSON
        #[arg(long)]
        json: bool,

        /// Print the JSON schema of that instead, without asking a daemon
        #[arg(long, conflicts_with = "json")]
        schema: bool,
    },
    /// The machine and the applications on it, drawn anew again and again (q ends it)
    Top {
        /// Time between two looks, such as 500ms or 2s
        #[arg(long, default_value = "1s", value_parser = interval, allow_hyphen_values = true)]
        interval: Duration,
    },
    /// One application: its performance by CPU count, its promise, its last decisions; or what it was, if it has ended
    Explain {
        /// The application's name or id
        #[arg(add = ArgValueCandidates::new(running))]
        name: String,
        /// Print the daemon's reply as JSON
        #[arg(long)]
        json: bool,
    },
    /// The hundred applications that ended last: when, on how many CPUs, how fast
    History {
        /// Print the daemon's reply as JSON
        #[arg(long)]
        json: bool,
    },
    /// What further CPUs would bring to the programs that are known, and which go well together
    Advise {
        /// Print the daemon's reply as JSON
        #[arg(long)]
        json: bool,
    },
    /// What one application got so far, or until it ended
    Report {
        /// The application's name or id
        #[arg(add = ArgValueCandidates::new(running))]
        name: String,
        /// Print the daemon's reply as JSON
        #[arg(long)]
        json: bool,
    },
    /// The policies the daemon can use
    Policies {
        /// Print the daemon's reply as JSON
        #[arg(long)]
        json: bool,
    },
    /// What this machine offers to mapper, what is missing, why, and how to get it
    ///
    /// Ends with what to do next, also where no daemon runs.
    Doctor {
        /// Exit with status 1 if something is missing, or no daemon answers
        #[arg(long)]
        check: bool,

        /// Print what was found as JSON
        #[arg(long)]
        json: bool,
    },
    /// Pack a report for those who look for a fault: one file, without secrets
    ///
    /// In it are what doctor, status, explain and history say, the configuration, the end of the log, the topology and
    /// the versions. Left out are command lines and environments of programs, users, the machine's name, and comments.
    Gather {
        /// Write it here [default: mapper-report-TIME.tar.gz in the current folder]
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        out: Option<PathBuf>,
    },
    /// Have something managed that runs already: a process, a control group or a unit of systemd
    Adopt(Adopt),
    /// End the management of what was adopted, and give it back what it had before
    Release {
        /// The application's name or id
        #[arg(add = ArgValueCandidates::new(running))]
        name: String,
    },
    /// Give a running application another promise, from the next decision on
    #[command(allow_missing_positional = true)]
    Promise {
        /// The application's name or id; without one, the application that this command is part of
        #[arg(add = ArgValueCandidates::new(running))]
        name: Option<String>,
        /// Share of its fair-share performance, such as 0.85 or 85%
        #[arg(value_name = "SHARE", allow_negative_numbers = true)]
        qos: Qos,
    },
    /// Have the daemon read its configuration again, without touching applications
    Reload,
}

/// The applications that run, for completions: none where no daemon answers at once.
fn running() -> Vec<CompletionCandidate> {
    let socket = socket_path::socket_path(None);
    let status = Client::connect(&socket, AT_ONCE).and_then(|mut client| client.status());
    let apps = status.map(|status| status.apps).unwrap_or_default();
    let candidate =
        |app: AppStatus| CompletionCandidate::new(app.name.as_str()).help(Some(app.command.into()));
    apps.into_iter().map(candidate).collect()
}

/// Time between two looks: the daemon is not to be kept busy with them.
fn interval(text: &str) -> Result<Duration, String> {
    let (number, milliseconds) = match text.strip_suffix("ms") {
        Some(number) => (number, 1.0),
        // A number without a unit is refused, as mapperd does: 1 may be meant for either.
        None => (text.strip_suffix('s').unwrap_or_default(), 1000.0),
    };
    number
        .trim()
        .parse::<f64>()
        .ok()
        .map(|number| number * milliseconds)
        .filter(|ms| (100.0..=60_000.0).contains(ms))
        .map(|ms| Duration::from_secs_f64(ms / 1000.0))
        .ok_or_else(|| "give a time from 100ms to 60s, with its unit".to_owned())
}

fn from_one(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number >= 1);
    number.ok_or_else(|| "give a whole number from 1".to_owned())
}

/// What is to be adopted, and with which promise.
#[derive(Debug, Args)]
pub struct Adopt {
    #[command(flatten)]
    target: Target,

    /// Its name [default: that of its program, group or unit]
    #[arg(long)]
    name: Option<AppName>,

    /// Promised share of its performance on a fair share of the CPUs, above 0 and up to 1
    /// [default: 0.85, or what the administrator allows]
    #[arg(long, allow_negative_numbers = true)]
    qos: Option<Qos>,

    /// Its weight in the fair share
    #[arg(long, default_value_t = Weight::default(), allow_negative_numbers = true)]
    weight: Weight,

    /// The fewest CPUs it gets
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = from_one, allow_negative_numbers = true)]
    min_cpus: u32,

    /// The most CPUs it can use
    #[arg(long, value_name = "N", value_parser = from_one, allow_negative_numbers = true)]
    max_cpus: Option<u32>,

    /// Keep its CPUs to itself even while it is idle
    #[arg(long)]
    no_lend: bool,

    /// Memory on NUMA machines: `keep` it where it is, or have it follow the CPUs (`local`)
    #[arg(long, value_name = "POLICY", default_value = "keep")]
    mem: MemoryPolicy,

    /// Print the daemon's reply as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// One of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Target {
    /// A process, with all its descendants
    #[arg(long, value_parser = from_one, allow_negative_numbers = true)]
    pid: Option<u32>,

    /// A control group that is delegated, by its path below /sys/fs/cgroup
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,

    /// A unit of systemd: its CPUs are changed through systemd (AllowedCPUs=)
    #[arg(long, value_name = "NAME")]
    unit: Option<String>,
}

impl Adopt {
    pub(crate) fn request(&self) -> Result<AdoptRequest, OutOfRange> {
        let Target { pid, cgroup, unit } = &self.target;
        let target = match (pid, cgroup, unit) {
            (Some(pid), ..) => AdoptTarget::Pid(*pid),
            (_, Some(path), _) => AdoptTarget::Cgroup(path.clone()),
            (.., unit) => AdoptTarget::Unit(unit.clone().unwrap_or_default()),
        };
        Ok(AdoptRequest {
            target,
            name: self.name.clone(),
            qos: self.qos,
            weight: self.weight,
            cpus: CpuRange::new(self.min_cpus, self.max_cpus)?,
            lending: match self.no_lend {
                true => Lending::Never,
                false => Lending::WhenIdle,
            },
            memory: self.mem,
        })
    }
}
