//! What the daemon does now.

use crate::schema::launch::cut;
use crate::schema::{AdoptTarget, MemoryPolicy, PartitionStatus};
use mapper_model::{
    AppId, AppName, Bottleneck, CpuSet, MemoryRate, Performance, PerformanceSource, Qos, Reason,
    TeamMode, Topology, Weight,
};
use serde::{Deserialize, Serialize};

/// Reply to `Status`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Status {
    /// [`PROTOCOL`](crate::PROTOCOL).
    pub protocol: u32,
    /// The daemon.
    pub daemon: DaemonStatus,
    /// The machine.
    pub topology: TopologyStatus,
    /// The applications in order of arrival.
    pub apps: Vec<AppStatus>,
}

/// The longest text of an application in a status in brief.
const BRIEF_BYTES: usize = 64;

impl Status {
    /// The same with less about each application: texts that users chose are cut, reasons and notes are left out, which
    /// `Explain` gives for one application.
    #[must_use]
    pub fn brief(&self) -> Self {
        let brief = |app: &AppStatus| AppStatus {
            command: cut(app.command.clone(), BRIEF_BYTES),
            adopted: app.adopted.clone().map(|target| match target {
                AdoptTarget::Pid(pid) => AdoptTarget::Pid(pid),
                AdoptTarget::Cgroup(path) => AdoptTarget::Cgroup(cut(path, BRIEF_BYTES)),
                AdoptTarget::Unit(name) => AdoptTarget::Unit(cut(name, BRIEF_BYTES)),
            }),
            reasons: Vec::new(),
            runtime: RuntimeStatus {
                notes: Vec::new(),
                ..app.runtime.clone()
            },
            ..app.clone()
        };
        Self {
            apps: self.apps.iter().map(brief).collect(),
            ..self.clone()
        }
    }
}

/// The daemon.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DaemonStatus {
    /// Its version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// For how long it has run.
    pub uptime_ns: u64,
    /// Time between two decisions, as set.
    pub interval_ns: u64,
    /// The present time, where it is longer, as deciding would otherwise cost too much.
    #[serde(default)]
    pub stretched: Option<StretchedInterval>,
    /// Decisions taken so far.
    pub decisions: u64,
    /// The allocation policy: how many CPUs each.
    pub allocation: String,
    /// The mapping policy: which CPUs.
    pub mapping: String,
    /// How CPU sets are put in force.
    pub enforcer: Selection,
    /// Where measurements come from.
    pub counters: Selection,
    /// How applications that ask for it are isolated, or why none can be; absent from a daemon that does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Selection>,
    /// The oldest change of control groups that the kernel has not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_up: Option<HeldUpChange>,
}

/// A change of control groups that the kernel does not finish, as long as the memory of a program cannot be moved.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeldUpChange {
    /// What was written, and where.
    pub change: String,
    /// For how long.
    pub lasting_ns: u64,
}

/// An interval that is longer than set, so that deciding keeps within its budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StretchedInterval {
    /// Time between two decisions.
    pub interval_ns: u64,
    /// The time that was set.
    pub asked_ns: u64,
    /// CPU time of one: observing, deciding and enforcing.
    pub pass_ns: u64,
}

/// What was chosen among several ways, and why not a better one.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Selection {
    /// The way in use.
    pub name: String,
    /// For each better way, why it could not be used: `perf: no hardware counters`. Empty when the
    /// best is in use.
    #[serde(default)]
    pub not_better: Vec<String>,
}

/// The machine in a few numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TopologyStatus {
    /// Hardware threads.
    pub cpus: u32,
    /// Physical cores.
    pub cores: u32,
    /// Sockets.
    pub sockets: u32,
    /// NUMA nodes.
    pub nodes: u32,
    /// CPUs that the daemon may give out.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub usable: CpuSet,
    /// Those of them that no application holds.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub free: CpuSet,
    /// The source of the topology.
    pub source: String,
    /// Where the hardware threads are, for a picture of the machine; empty from a daemon that does not tell.
    #[serde(default)]
    pub layout: Vec<SocketLayout>,
}

/// The part of a socket that belongs to one NUMA node: mostly the whole of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SocketLayout {
    /// The number of the socket, from 0.
    pub socket: u32,
    /// The number of the node as the kernel counts.
    pub node: u32,
    /// The hardware threads of each core.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub cores: Vec<CpuSet>,
}

impl SocketLayout {
    /// All parts of a machine, socket by socket.
    pub fn of(topology: &Topology) -> Vec<Self> {
        let mut layout = Vec::new();
        for (socket, cpus) in (0..).zip(topology.sockets()) {
            for node in topology.nodes() {
                let part = topology.node_cpus(node.id).intersection(cpus);
                let cores = topology.cores().iter();
                let cores: Vec<CpuSet> = cores
                    .filter(|core| !core.is_disjoint(&part))
                    .cloned()
                    .collect();
                if !cores.is_empty() {
                    layout.push(Self {
                        socket,
                        node: node.id.0,
                        cores,
                    });
                }
            }
        }
        layout
    }
}

/// One application. Of another user's, what that user alone may see is empty or has its default.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AppStatus {
    /// Its id.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub id: AppId,
    /// Its name.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub name: AppName,
    /// The process it was started as.
    pub pid: u32,
    /// The user it runs as.
    pub uid: u32,
    /// The user whom it counts for, if another: one runs as a subordinate uid in a user namespace, say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<u32>,
    /// Its command line.
    pub command: String,
    /// What the policy does with it, in a word or two (`steady`, `exploring`), or `another user's`.
    pub state: String,
    /// The CPUs it holds.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cpus: CpuSet,
    /// How many these are.
    pub cpu_count: u32,
    /// The fair share it is measured against.
    pub fair_cpus: u32,
    /// CPUs of idle applications among those it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub borrowed: Option<CpuSet>,
    /// CPUs of others that it uses besides while those leave them idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub idle_time: Option<CpuSet>,
    /// The promise.
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub qos: Qos,
    /// Its weight in the fair share.
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub weight: Weight,
    /// The fewest CPUs it asked for.
    pub min_cpus: u32,
    /// The most CPUs it can use, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cpus: Option<u32>,
    /// The performance it is promised, in the unit of `performance`, once known.
    #[serde(default)]
    pub floor: Option<f64>,
    /// Its performance in the last interval, if it could be measured.
    #[serde(default)]
    pub performance: Option<PerformanceStatus>,
    /// Its memory traffic in the last interval, where the processor counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_traffic: Option<MemoryRate>,
    /// Its critical bottleneck.
    #[serde(default)]
    pub bottleneck: Bottleneck,
    /// What the shim may do with its teams.
    pub teams: TeamMode,
    /// Who decided that, such as `rule 2 of /etc/mapper/mapper.toml`; empty when not known.
    #[serde(default)]
    pub teams_by: String,
    /// The runtime interface.
    pub runtime: RuntimeStatus,
    /// What is done with its memory when its CPUs move.
    #[serde(default)]
    pub memory: MemoryPolicy,
    /// What has become of its isolation, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<PartitionStatus>,
    /// What it was before, if it was adopted and not launched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<AdoptTarget>,
    /// Why it has these CPUs, the decisive reason last.
    #[serde(default)]
    pub reasons: Vec<GivenReason>,
    /// The reasons in one plain sentence.
    pub sentence: String,
}

impl AppStatus {
    /// Its state where it is another user's.
    pub const OUTLINED: &str = "another user's";

    /// The user whom it counts for.
    pub fn user(&self) -> u32 {
        self.account.unwrap_or(self.uid)
    }
}

/// A performance with its unit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PerformanceStatus {
    /// The value; more is better.
    pub value: f64,
    /// Where it comes from. Values of different sources cannot be compared.
    pub source: PerformanceSource,
    /// The unit of the value.
    pub unit: String,
}

/// The JSON schema of `mapperctl status --json`, as `deploy/status.schema.json` holds it.
///
/// Its version is that of the protocol: within it members are added, and none changes its meaning, type
/// or unit.
#[cfg(feature = "schema")]
pub fn status_schema() -> String {
    let mut schema = schemars::schema_for!(Status);
    schema.insert("title".to_owned(), "mapperctl status --json".into());
    schema.insert(
        "$id".to_owned(),
        format!("urn:mapper:status:{}", crate::PROTOCOL).into(),
    );
    if let Some(protocol) = schema.pointer_mut("/properties/protocol") {
        protocol["const"] = crate::PROTOCOL.into();
        protocol["description"] = "Version of the protocol, and of this schema.".into();
    }
    let text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text + "\n"
}

impl From<Performance> for PerformanceStatus {
    fn from(performance: Performance) -> Self {
        Self {
            value: performance.value,
            source: performance.source,
            unit: performance.source.unit().to_owned(),
        }
    }
}

/// The runtime interface of one application.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuntimeStatus {
    /// Whether it is there.
    pub state: RuntimeState,
    /// Which OpenMP runtimes it serves (`libgomp`, `libomp`).
    #[serde(default)]
    pub runtimes: Vec<String>,
    /// What is worth knowing: why a mode is off, that waiting spins.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Whether the runtime interface of an application is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RuntimeState {
    /// It was not wanted (`--no-runtime`), or the application was not started by mapper-launch.
    #[default]
    Off,
    /// A page is there, but no shim has attached: not yet, or the program has no OpenMP.
    Waiting,
    /// The shim reports.
    Attached,
    /// It cannot reach the program's OpenMP runtime; the notes say why.
    Unreachable,
    /// A state that only a newer daemon knows.
    #[serde(other)]
    Unknown,
}

/// What every reason has: its name. The numbers beside it belong to that reason.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "only its shape is published")]
struct ReasonShape {
    /// Which reason it is.
    reason: String,
}

/// A reason, or one that only a newer daemon knows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum GivenReason {
    /// A reason this version knows.
    Known(#[cfg_attr(feature = "schema", schemars(with = "ReasonShape"))] Reason),
    /// Any other: passed on as it came.
    Other(serde_json::Value),
}

impl From<Reason> for GivenReason {
    fn from(reason: Reason) -> Self {
        Self::Known(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_of_a_newer_daemon_is_passed_on_and_a_state_is_read_as_unknown() {
        let text = r#"{"reason":"moon_phase","full":true}"#;
        let shown: GivenReason = serde_json::from_str(text).unwrap();
        assert!(matches!(shown, GivenReason::Other(_)));
        let again = serde_json::to_value(&shown).unwrap();
        assert_eq!(
            again,
            serde_json::from_str::<serde_json::Value>(text).unwrap()
        );

        let state: RuntimeState = serde_json::from_str("\"hibernating\"").unwrap();
        assert_eq!(state, RuntimeState::Unknown);

        let steady: GivenReason = serde_json::from_str(r#"{"reason":"steady"}"#).unwrap();
        assert_eq!(steady, GivenReason::Known(Reason::Steady));
    }
}
