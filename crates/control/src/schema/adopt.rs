//! Programs that already run come under management, and leave it.

use crate::PROTOCOL;
use crate::schema::{MemoryPolicy, check_pid, one, out_of_range};
use mapper_model::bounds::OutOfRange;
use mapper_model::{AppId, AppName, CpuRange, CpuSet, Lending, Qos, Weight};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The longest name of a group or unit that is accepted.
const MAX_NAME_BYTES: usize = 4096;
const NAME_HINT: &str = "give the name of one that has processes";

/// Something that runs: on the wire an object with just one of these members.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AdoptTarget {
    /// A process with its descendants.
    Pid(u32),
    /// A control group, by its path below the mount of cgroup v2.
    Cgroup(String),
    /// A unit of systemd.
    Unit(String),
}

impl fmt::Display for AdoptTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pid(pid) => write!(f, "process {pid}"),
            Self::Cgroup(path) => write!(f, "control group {path}"),
            Self::Unit(name) => write!(f, "unit {name}"),
        }
    }
}

/// `Adopt`: something that already runs is to be managed until it ends or is released.
///
/// Users may adopt their own processes, and control groups that were delegated to them; the administrator anything.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "AdoptWire", into = "AdoptWire")]
pub struct AdoptRequest {
    /// What to adopt.
    pub target: AdoptTarget,
    /// Its name; if absent, that of its program, group or unit.
    pub name: Option<AppName>,
    /// The promise; if absent, the default, as far as the user's grant permits.
    pub qos: Option<Qos>,
    /// Its weight in the fair share.
    pub weight: Weight,
    /// The CPU counts it can use.
    pub cpus: CpuRange,
    /// Whether others may use its CPUs while it is idle.
    pub lending: Lending,
    /// The policy for its memory when its CPUs change.
    pub memory: MemoryPolicy,
}

impl AdoptRequest {
    /// A request with every default.
    pub fn of(target: AdoptTarget) -> Self {
        Self {
            target,
            name: None,
            qos: None,
            weight: Weight::default(),
            cpus: CpuRange::default(),
            lending: Lending::default(),
            memory: MemoryPolicy::default(),
        }
    }
}

/// The request as it is on the wire: flat.
#[derive(Clone, Serialize, Deserialize)]
struct AdoptWire {
    protocol: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cgroup: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<AppName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    qos: Option<Qos>,
    #[serde(default)]
    weight: Weight,
    #[serde(default = "one")]
    min_cpus: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_cpus: Option<u32>,
    #[serde(default)]
    lending: Lending,
    #[serde(default)]
    memory: MemoryPolicy,
}

impl TryFrom<AdoptWire> for AdoptRequest {
    type Error = OutOfRange;

    fn try_from(wire: AdoptWire) -> Result<Self, OutOfRange> {
        let named = |what, name: String| {
            if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains('\0') {
                let start: String = name.chars().take(40).collect();
                return Err(out_of_range(what, start, NAME_HINT));
            }
            Ok(name)
        };
        let target = match (wire.pid, wire.cgroup, wire.unit) {
            (Some(pid), None, None) => {
                AdoptTarget::Pid(check_pid(pid, "give a process that runs")?)
            }
            (None, Some(path), None) => AdoptTarget::Cgroup(named("cgroup", path)?),
            (None, None, Some(name)) => AdoptTarget::Unit(named("unit", name)?),
            (None, None, None) => {
                return Err(out_of_range("target", "none", "give pid, cgroup or unit"));
            }
            _ => {
                let hint = "give pid, cgroup or unit, and not two of them";
                return Err(out_of_range("target", "more than one", hint));
            }
        };
        Ok(Self {
            target,
            name: wire.name,
            qos: wire.qos,
            weight: wire.weight,
            cpus: CpuRange::new(wire.min_cpus, wire.max_cpus)?,
            lending: wire.lending,
            memory: wire.memory,
        })
    }
}

impl From<AdoptRequest> for AdoptWire {
    fn from(request: AdoptRequest) -> Self {
        let (mut pid, mut cgroup, mut unit) = (None, None, None);
        match request.target {
            AdoptTarget::Pid(number) => pid = Some(number),
            AdoptTarget::Cgroup(path) => cgroup = Some(path),
            AdoptTarget::Unit(name) => unit = Some(name),
        }
        Self {
            protocol: PROTOCOL,
            pid,
            cgroup,
            unit,
            name: request.name,
            qos: request.qos,
            weight: request.weight,
            min_cpus: request.cpus.min(),
            max_cpus: request.cpus.max(),
            lending: request.lending,
            memory: request.memory,
        }
    }
}

/// Reply to `Adopt`; the application is confined already.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AdoptReply {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// The application.
    pub app: AppId,
    /// Its name.
    pub name: AppName,
    /// What was adopted.
    pub adopted: AdoptTarget,
    /// How many processes it has.
    pub processes: u32,
    /// The CPUs it has now.
    pub cpus: CpuSet,
    /// Their number.
    pub cpu_count: u32,
}

/// `Release`: an adopted application is managed no more and gets back what it had before.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReleaseRequest {
    /// Its name or its id.
    pub name: String,
}

/// Reply to `Release`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReleaseReply {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// The application that it was.
    pub app: AppId,
    /// Its name.
    pub name: AppName,
    /// What was released.
    pub adopted: AdoptTarget,
    /// What could not be restored, and what was done instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_survives_the_wire() {
        for target in [
            AdoptTarget::Pid(7),
            AdoptTarget::Cgroup("/jobs/1".into()),
            AdoptTarget::Unit("db.service".into()),
        ] {
            let request = AdoptRequest {
                name: Some(AppName::new("db").unwrap()),
                qos: Some(Qos::new(0.7).unwrap()),
                cpus: CpuRange::new(2, Some(6)).unwrap(),
                memory: MemoryPolicy::Local,
                ..AdoptRequest::of(target)
            };
            let text = serde_json::to_string(&request).unwrap();
            let read: AdoptRequest = serde_json::from_str(&text).unwrap();
            assert_eq!(read, request);
        }
    }

    #[test]
    fn just_one_target_is_taken_and_only_one_that_can_be() {
        for (fields, says) in [
            ("", "give pid, cgroup or unit"),
            (r#","pid":3,"unit":"a.service""#, "and not two of them"),
            (r#","pid":0"#, "pid 0: give"),
            (r#","pid":4294967295"#, "pid 4294967295: give"),
            (r#","cgroup":"""#, "cgroup : give"),
            (r#","unit":"a\u0000b""#, "give the name"),
            (r#","pid":3,"qos":2"#, "qos 2: give"),
            (r#","pid":3,"min_cpus":3,"max_cpus":2"#, "max-cpus 2"),
        ] {
            let text = format!("{{\"protocol\":2{fields}}}");
            let error = serde_json::from_str::<AdoptRequest>(&text).unwrap_err();
            assert!(error.to_string().contains(says), "{text}: {error}");
        }
    }
}
