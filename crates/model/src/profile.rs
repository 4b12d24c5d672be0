//! The conclusions from the readings of one application.

use crate::{Activity, AppId, NodeId, PerformanceCurve, SerialPhase};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The source of a performance value, best first. Values of different sources are never compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PerformanceSource {
    /// The application reports its progress.
    Reported,
    /// The OpenMP shim counts regions and iterations.
    Runtime,
    /// The sum over its CPUs of instructions per cycle [MAPPER §3.3].
    Ipc,
    /// CPU time used: tells activity, not speed.
    CpuTime,
}

impl PerformanceSource {
    /// The unit of the values.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Reported => "units/s",
            Self::Runtime => "progress/s",
            Self::Ipc => "instructions/cycle",
            Self::CpuTime => "CPUs busy",
        }
    }
}

impl fmt::Display for PerformanceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Reported => "reported progress",
            Self::Runtime => "runtime progress",
            Self::Ipc => "instructions per cycle",
            Self::CpuTime => "CPU time",
        })
    }
}

/// A measured performance: more is better.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Performance {
    /// In the unit of the source; finite and not negative.
    pub value: f64,
    /// The source.
    pub source: PerformanceSource,
}

/// The critical bottleneck of an application, in the order of placement [MAPPER §3.4].
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// Coherence traffic between its threads.
    Sharing,
    /// Memory bandwidth.
    Memory,
    /// The cores themselves.
    Compute,
    /// None perceived, or not known.
    #[default]
    None,
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sharing => "sharing",
            Self::Memory => "memory",
            Self::Compute => "compute",
            Self::None => "none",
        })
    }
}

/// SAM-MPH's class of coherence activity [SAM-MPH §3].
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum SharingClass {
    /// Little or no sharing, or not enough history.
    #[default]
    Low,
    /// Some.
    Medium,
    /// So much that its threads should share a socket.
    High,
}

/// Rates of the threads that ran in an interval [MAPPER Tables 1 and 2]; `None` without such a counter.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Rates {
    /// Threads that ran in the interval.
    pub active_threads: u32,
    /// Unhalted cycles of all threads.
    pub cycles: f64,
    /// Instructions per cycle, mean over threads.
    pub ipc: Option<f64>,
    /// Sum over threads of instructions per *nominal* cycle of the interval: `Perf` of [MAPPER §3.3].
    pub ipc_sum: Option<f64>,
    /// Inter-socket coherence events per second.
    pub inter_socket_per_s: Option<f64>,
    /// Intra-socket coherence events per second.
    pub intra_socket_per_s: Option<f64>,
    /// Last-level cache misses per second.
    pub llc_misses_per_s: Option<f64>,
    /// Last-level cache misses per unhalted cycle.
    #[serde(default)]
    pub llc_misses_per_cycle: Option<f64>,
    /// Coherence events per unhalted cycle of the most active thread [SAM-MPH §3].
    pub sharing_per_cycle: Option<f64>,
}

/// Bytes per second between last-level caches and memory, `None` where not counted.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryRate {
    /// With all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes_per_s: Option<f64>,
    /// With the node of the CPU alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_bytes_per_s: Option<f64>,
}

/// Memory traffic of the CPUs of one node.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodeRate {
    /// The node.
    pub node: NodeId,
    /// The traffic.
    pub rate: MemoryRate,
}

/// Whether the application behaves differently than before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseChange {
    /// As before.
    #[default]
    Same,
    /// Its efficiency moved by more than the threshold, or its bottleneck changed.
    Changed,
    /// An earlier phase, [`Profile::region_phase`], is back, with [`Profile::curve`] as measured in it.
    Returned,
}

/// The phase of a program by the parallel regions that it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RegionPhase {
    /// Its number, from 1 in the order of first occurrence.
    pub number: u32,
    /// How many phases there have been.
    pub count: u32,
    /// Its region that was seen last.
    pub region: u64,
}

/// What is known of an application after an interval.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Profile {
    /// The application.
    pub app: AppId,
    /// Intervals with a usable performance value since it arrived.
    pub samples: u64,
    /// Performance of the last interval. Absent when it was idle, when the CPU count changed within the
    /// interval, or while it is not clear to which phase the value belongs.
    pub performance: Option<Performance>,
    /// The CPU count of [`Profile::performance`]; 0 when there is none.
    pub measured_cpus: u32,
    /// Rates of the last interval, where known.
    pub rates: Option<Rates>,
    /// Critical bottleneck.
    pub bottleneck: Bottleneck,
    /// Its contribution to that bottleneck: the aggregate rate of the event.
    pub severity: f64,
    /// SAM-MPH class.
    pub class: SharingClass,
    /// Whether instructions per cycle count as high [SAM-MPH].
    pub ipc_high: bool,
    /// Stalled cycles per inter-socket coherence event since the class last changed.
    pub spc: Option<f64>,
    /// Instructions per cycle since the class last changed.
    pub ipc: Option<f64>,
    /// Performance by CPU count.
    pub curve: PerformanceCurve,
    /// How often the curve started anew for another unit; values of different epochs cannot be compared.
    #[serde(default)]
    pub epoch: u64,
    /// Whether this interval differs from the one before.
    pub phase: PhaseChange,
    /// The phase by its parallel regions, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region_phase: Option<RegionPhase>,
    /// Share of its CPU time in the last interval that it spun at barriers, 0 to 0.95; left out where
    /// instructions are its performance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spun: Option<f64>,
    /// Share of its CPUs' time used in the last interval, 0 to 1, where known.
    pub utilisation: Option<f64>,
    /// Share of the last interval in which it was in a parallel region, 0 to 1, where its runtime tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_share: Option<f64>,
    /// Its memory traffic in the last interval, where counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryRate>,
    /// The same for the CPUs of each node, in ascending order; empty where not counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_by_node: Vec<NodeRate>,
    /// Whether it ran in the last interval.
    #[serde(default)]
    pub activity: Activity,
    /// CPUs the application says it can spare.
    pub spare_cpus: Option<u32>,
    /// Whether it reports that it is serial.
    #[serde(default, skip_serializing_if = "SerialPhase::is_none")]
    pub serial_phase: SerialPhase,
    /// Threads running or runnable at the last reading, where known.
    #[serde(default)]
    pub runnable_threads: Option<u32>,
}

impl Profile {
    /// Nothing known yet.
    pub fn unknown(app: AppId) -> Self {
        Self {
            app,
            ..Self::default()
        }
    }
}
