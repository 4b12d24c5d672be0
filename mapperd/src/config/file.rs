//! The keys of the configuration file.
//!
//! Each key has a default; `deploy/mapper.toml` lists all with default and meaning, and
//! `deploy/mapper.schema.json` is the JSON schema for editors. Tests compare both with this code.

use crate::config::access::AccessRule;
use crate::config::adopt_rules::AdoptRule;
use crate::config::interval::Interval;
use crate::config::moved::Moved;
use crate::config::program_rules::ProgramRule;
use crate::config::types::{AllocationName, EnforcerChoice, MappingName, parsed};
use mapper_allocate::AllocationConfig;
use mapper_characterise::CharacteriserConfig;
use mapper_host::observe::Choice as CounterChoice;
use mapper_model::{CpuSet, MachineProfile};
use mapper_pipeline::OverheadBudget;
use mapper_placement::PlacementConfig;
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The file with every key, its default and its meaning.
pub(crate) const COMMENTED: &str = include_str!("../../../deploy/mapper.toml");

/// The configuration of mapperd.
///
/// What the command line says comes before what stands here.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "mapper.toml")]
pub(crate) struct ConfigFile {
    /// Time between two decisions, from 20ms to 10s, such as "1s" or "250ms".
    #[serde(deserialize_with = "parsed")]
    #[schemars(with = "Option<String>")]
    pub(crate) interval: Option<Interval>,
    /// Policy that decides how many CPUs each application gets; `mapperctl policies` lists them.
    #[serde(deserialize_with = "parsed")]
    #[schemars(with = "Option<String>")]
    pub(crate) allocation: Option<AllocationName>,
    /// How CPUs are confined: "auto", "cgroup" or "affinity".
    #[serde(deserialize_with = "parsed")]
    #[schemars(with = "Option<String>")]
    pub(crate) enforcer: Option<EnforcerChoice>,
    /// CPUs that are never assigned, such as "0-1".
    #[schemars(with = "Option<String>")]
    pub(crate) reserve: Option<CpuSet>,
    /// Who may do what: the first rule that fits a user decides.
    pub(crate) access: Vec<AccessRule>,
    /// What is settled for programs whose users leave it open: the first rule that fits decides.
    pub(crate) program: Vec<ProgramRule>,
    /// What is managed without anybody's call: the first rule that fits decides.
    pub(crate) adopt: Vec<AdoptRule>,
    /// Where metrics are served.
    pub(crate) metrics: MetricsConfig,
    /// What an operator need not judge: places that the service manager sets, and settings of the policies
    /// and of how readings are judged.
    pub(crate) expert: Expert,
    // The places of `expert`'s keys in earlier versions; see `former_places`.
    #[serde(deserialize_with = "parsed")]
    #[schemars(skip)]
    pub(crate) counters: Option<CounterChoice>,
    #[schemars(skip)]
    pub(crate) socket: Option<PathBuf>,
    #[schemars(skip)]
    pub(crate) overhead_budget: Option<OverheadBudget>,
    #[serde(deserialize_with = "parsed")]
    #[schemars(skip)]
    pub(crate) mapping: Option<MappingName>,
    #[schemars(skip)]
    pub(crate) cgroup_root: Option<PathBuf>,
    #[schemars(skip)]
    pub(crate) record: Option<PathBuf>,
    #[schemars(skip)]
    pub(crate) state_dir: Option<PathBuf>,
    #[schemars(skip)]
    pub(crate) monitor: Option<CharacteriserConfig>,
    #[schemars(skip)]
    pub(crate) allocate: Option<AllocationConfig>,
    #[schemars(skip)]
    pub(crate) map: Option<PlacementConfig>,
    #[schemars(skip)]
    pub(crate) machine: Option<MachineProfile>,
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) moved: Vec<Moved>,
}

/// Keys that few operators need.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Expert {
    /// Policy that decides which CPUs; `mapperctl policies` lists them.
    #[serde(deserialize_with = "parsed")]
    #[schemars(with = "Option<String>")]
    pub(crate) mapping: Option<MappingName>,
    /// What is measured: "auto", "hardware" or "software".
    #[serde(deserialize_with = "parsed")]
    #[schemars(with = "Option<String>")]
    pub(crate) counters: Option<CounterChoice>,
    /// Share of the interval that observing, deciding and enforcing may take, from 0.001 to 0.5; beyond, the
    /// interval is stretched. 0: whatever it takes.
    #[schemars(with = "Option<f64>")]
    pub(crate) overhead_budget: Option<OverheadBudget>,
    /// Whether the CPUs of idle applications are lent to others.
    pub(crate) lend: Option<bool>,
    /// The control socket.
    pub(crate) socket: Option<PathBuf>,
    /// Make control groups in this directory.
    pub(crate) cgroup_root: Option<PathBuf>,
    /// Where is kept what outlives a restart of the daemon.
    pub(crate) state_dir: Option<PathBuf>,
    /// Write every observation and plan to this file, one JSON line each.
    pub(crate) record: Option<PathBuf>,
    /// How readings are judged.
    pub(crate) characterise: CharacteriserConfig,
    /// Settings of the allocation policy.
    pub(crate) allocate: AllocationConfig,
    /// Settings of the policy that decides which CPUs.
    pub(crate) placement: PlacementConfig,
    /// Thresholds of the machine.
    pub(crate) machine: MachineProfile,
}

/// Where metrics are served, in the format of Prometheus, at `/metrics` over HTTP.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct MetricsConfig {
    /// A Unix socket that only the user of the daemon may connect to.
    pub(crate) socket: Option<PathBuf>,
    /// An address on the loopback device, such as "127.0.0.1:9455". Every user of the machine can
    /// read there.
    #[serde(deserialize_with = "loopback")]
    #[schemars(with = "Option<String>")]
    pub(crate) tcp: Option<SocketAddr>,
}

fn loopback<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(from)?;
    match text.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => Ok(Some(address)),
        _ => Err(serde::de::Error::custom(format!(
            "metrics address {text:?}: give an address and port on the loopback device, such as \
             127.0.0.1:9455"
        ))),
    }
}
