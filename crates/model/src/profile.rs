//! What the monitor concludes from the readings of one application.

use crate::{Activity, AppId, NodeId, PerformanceCurve, SerialPhase};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Where a performance value comes from, best first. Values of different sources are never
/// compared or mixed.
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
    #[must_use]
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
    /// The value, in the unit of the source; finite and not negative.
    pub value: f64,
    /// Where it comes from.
    pub source: PerformanceSource,
}

/// The critical bottleneck of an application, in order of priority when CPUs are placed
/// [MAPPER §3.4]: data sharing before memory bandwidth before compute.
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

/// Rates over one interval, aggregated over the threads that ran [MAPPER Tables 1 and 2]. `None`
/// where the machine has no such counter.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Rates {
    /// Threads that ran in the interval.
    pub active_threads: u32,
    /// Unhalted cycles of all threads.
    pub cycles: f64,
    /// Instructions per cycle, averaged over the threads that ran.
    pub ipc: Option<f64>,
    /// Sum over threads of instructions per *nominal* cycle of the interval: `Perf` of [MAPPER §3.3].
    pub ipc_sum: Option<f64>,
    /// Inter-socket coherence events per second, all threads.
    pub inter_socket_per_s: Option<f64>,
    /// Intra-socket coherence events per second, all threads.
    pub intra_socket_per_s: Option<f64>,
    /// Last-level cache misses per second, all threads.
    pub llc_misses_per_s: Option<f64>,
    /// Last-level cache misses per unhalted cycle, over all threads.
    #[serde(default)]
    pub llc_misses_per_cycle: Option<f64>,
    /// Coherence events per unhalted cycle of the most active thread [SAM-MPH §3].
    pub sharing_per_cycle: Option<f64>,
}

/// Bytes per second between last-level caches and memory, `None` where they are not counted.
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
    /// What its CPUs asked for.
    pub rate: MemoryRate,
}

/// Whether the application behaves differently from before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseChange {
    /// As before.
    #[default]
    Same,
    /// Its efficiency moved by more than the threshold, or its bottleneck class changed.
    Changed,
    /// It is in an earlier phase again, which [`Profile::region_phase`] tells, and
    /// [`Profile::curve`] is what was measured in that one.
    Returned,
}

/// The phase of a program by the parallel regions that it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RegionPhase {
    /// Which it is, from 1 in the order in which they were first seen.
    pub number: u32,
    /// How many there have been.
    pub count: u32,
    /// The identity of the region of it that was seen last.
    pub region: u64,
}

/// What is known of an application after an interval.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Profile {
    /// The application.
    pub app: AppId,
    /// Samples taken since it arrived (intervals with a usable performance value).
    pub samples: u64,
    /// Performance of the last interval, if it could be measured. Absent when the CPU count
    /// changed within the interval, so that no value belongs to two counts; where it is not clear
    /// yet to which phase the value belongs; and where it was idle.
    pub performance: Option<Performance>,
    /// The CPU count at which [`Profile::performance`] was measured; 0 when there is none.
    pub measured_cpus: u32,
    /// Rates of the last interval, where counters exist.
    pub rates: Option<Rates>,
    /// Critical bottleneck.
    pub bottleneck: Bottleneck,
    /// How much it contributes to that bottleneck: the aggregate rate of the event concerned.
    pub severity: f64,
    /// SAM-MPH class.
    pub class: SharingClass,
    /// SAM-MPH: instructions per cycle counts as high.
    pub ipc_high: bool,
    /// Cumulative stalled cycles per inter-socket coherence event since the class last changed.
    pub spc: Option<f64>,
    /// Cumulative instructions per cycle since the class last changed.
    pub ipc: Option<f64>,
    /// Performance by CPU count.
    pub curve: PerformanceCurve,
    /// Counts how often the curve was started anew because the unit of its values changed. Values
    /// from before are not to be compared with values from after.
    #[serde(default)]
    pub epoch: u64,
    /// Whether this interval differs from the one before.
    pub phase: PhaseChange,
    /// The phase by its parallel regions, where these are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region_phase: Option<RegionPhase>,
    /// Share of its CPU time in the last interval that it spun at barriers, 0 to 0.95, which is left
    /// out where instructions are its performance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spun: Option<f64>,
    /// Share of its CPUs' time that was used in the last interval, 0 to 1, where known.
    pub utilisation: Option<f64>,
    /// Its memory traffic in the last interval, where the processor counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryRate>,
    /// The same of the CPUs of each node, in ascending order; empty where that is not counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_by_node: Vec<NodeRate>,
    /// Whether it did anything in the last interval.
    #[serde(default)]
    pub activity: Activity,
    /// CPUs the application says it can spare.
    pub spare_cpus: Option<u32>,
    /// Whether it says that it is serial.
    #[serde(default, skip_serializing_if = "SerialPhase::is_none")]
    pub serial_phase: SerialPhase,
    /// Threads that were running or runnable at the last reading, where known.
    #[serde(default)]
    pub runnable_threads: Option<u32>,
}

impl Profile {
    /// Nothing known yet.
    #[must_use]
    pub fn unknown(app: AppId) -> Self {
        Self {
            app,
            samples: 0,
            performance: None,
            measured_cpus: 0,
            rates: None,
            bottleneck: Bottleneck::None,
            severity: 0.0,
            class: SharingClass::Low,
            ipc_high: false,
            spc: None,
            ipc: None,
            curve: PerformanceCurve::new(),
            epoch: 0,
            phase: PhaseChange::Same,
            region_phase: None,
            spun: None,
            utilisation: None,
            memory: None,
            memory_by_node: Vec::new(),
            activity: Activity::Active,
            spare_cpus: None,
            serial_phase: SerialPhase::None,
            runnable_threads: None,
        }
    }
}
