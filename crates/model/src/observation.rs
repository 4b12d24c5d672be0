//! What was read from the machine: the input of one decision.
//!
//! Readings are *cumulative* and raw. Anything may be missing, and what comes from an application's
//! shared page may be nonsense: readers bound it, and the characterisation checks it again.

use crate::{AppId, AppSpec, CpuSet, NodeId, ThreadId};
use serde::{Deserialize, Serialize};

/// Why a decision is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// An interval has passed: the readings are complete and count as a sample.
    #[default]
    Interval,
    /// Applications arrived, left or changed their wishes, or CPUs came or went, within an interval.
    /// The readings are not a sample, and nothing is explored.
    Membership,
}

/// The input of a decision.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Observation {
    /// Counts the decisions, from 1.
    pub tick: u64,
    /// Monotonic time of the reading, in nanoseconds from an arbitrary origin.
    pub now_ns: u64,
    /// Why the decision is taken.
    #[serde(default)]
    pub trigger: Trigger,
    /// CPUs that may be given out: online, delegated to mapper, not isolated, not reserved.
    pub usable: CpuSet,
    /// The applications under management, in order of arrival.
    pub apps: Vec<AppObservation>,
}

/// Why decisions leave an application on the CPUs that it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fixed {
    /// The operator set its CPUs.
    ByOperator,
    /// A limit around it allows none of the usable CPUs.
    ByLimit,
}

/// What was read from one application.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AppObservation {
    /// The application.
    pub app: AppId,
    /// Its wishes and its promise.
    pub spec: AppSpec,
    /// The CPUs in force for it now, as read back from the kernel; empty before its first placement.
    pub effective: CpuSet,
    /// The CPUs that the application may use at all; `None`: every usable one.
    ///
    /// The intersection of everything but mapper that keeps it off CPUs: a mask that its owner set
    /// (`taskset`), the limit of a slice or group around it (`AllowedCPUs=`). It may name CPUs that are
    /// not usable. Decisions give it CPUs of this set only, as many as fit beside others with such
    /// sets; where there are too few for one each, it shares. A set without a usable CPU is ignored and
    /// reported.
    #[serde(default, alias = "own_mask", skip_serializing_if = "Option::is_none")]
    pub allowed: Option<CpuSet>,
    /// Why it stays on its effective CPUs; `None`: decisions place it. The CPUs of one that the operator set
    /// are not among the usable ones of the observation while others are left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed: Option<Fixed>,
    /// The readings.
    #[serde(default)]
    pub reading: Reading,
}

/// Cumulative readings of one application.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Reading {
    /// One entry per live thread, in ascending order of thread id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<ThreadReading>,
    /// Progress counted by the OpenMP shim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeProgress>,
    /// Progress reported by the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<ReportedProgress>,
    /// CPU time used so far by all its threads, including those that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_time_ns: Option<u64>,
    /// Bytes between its caches and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryTraffic>,
    /// The same for the CPUs of each node, in ascending order; empty where that is not counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_by_node: Vec<NodeTraffic>,
    /// Threads running or runnable at the time of the reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runnable_threads: Option<u32>,
    /// CPUs the application says it does not need now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare_cpus: Option<u32>,
    /// Whether the application reports that it is serial now, and can spare CPUs.
    #[serde(default, skip_serializing_if = "SerialPhase::is_none")]
    pub serial_phase: SerialPhase,
    /// What was seen of threads that wait for one another by spinning, if they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spinning: Option<Spinning>,
}

/// Threads that wait for one another by spinning, outside OpenMP.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Spinning {
    /// Threads that were busy.
    pub threads: u32,
    /// The share of their CPU time that they waited, where they had fewer CPUs than threads.
    pub share: f64,
}

/// A part of a program for which one CPU is enough, by its own report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SerialPhase {
    /// There is none now.
    #[default]
    None,
    /// It has begun and not ended.
    Open,
}

impl SerialPhase {
    /// Whether there is none now.
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// Bytes between last-level caches and memory so far, `None` where they are not counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MemoryTraffic {
    /// With all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// With the node of the CPU alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_bytes: Option<u64>,
}

/// Bytes between the last-level caches of one node and memory so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeTraffic {
    /// The node of the CPUs.
    pub node: NodeId,
    /// Their traffic.
    pub traffic: MemoryTraffic,
}

/// Cumulative readings of one thread.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ThreadReading {
    /// The thread.
    pub tid: ThreadId,
    /// When it started, in any unit that does not repeat for a reused thread id.
    pub started: u64,
    /// Its hardware counters.
    #[serde(default)]
    pub counters: Counters,
}

/// A hardware event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Unhalted cycles (`C` of [MAPPER Table 1]).
    Cycles,
    /// Retired instructions.
    Instructions,
    /// Last-level cache misses.
    LlcMisses,
    /// Snoop hits: a clean line found in another core of the socket (`SH`).
    SnoopHit,
    /// Snoop hits on modified lines within the socket (`SHM`).
    SnoopHitModified,
    /// Modified lines found in another socket (`RHM`).
    RemoteHitModified,
    /// Cycles stalled with an L2 miss pending, for SAM-MPH's stalls per coherence event.
    L2PendingStalls,
}

impl Event {
    /// Every event, in the order of the fields of [`Counters`].
    pub const ALL: [Self; 7] = [
        Self::Cycles,
        Self::Instructions,
        Self::LlcMisses,
        Self::SnoopHit,
        Self::SnoopHitModified,
        Self::RemoteHitModified,
        Self::L2PendingStalls,
    ];
}

/// A cumulative count and how long it was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CounterValue {
    /// Events counted so far.
    pub value: u64,
    /// Time the counter was enabled so far.
    pub enabled_ns: u64,
    /// Time the counter was on the PMU so far (less than enabled when events are multiplexed).
    pub running_ns: u64,
}

/// The counters of a thread, `None` where the machine or the kernel has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counters([Option<CounterValue>; 7]);

impl Counters {
    /// The reading of one event.
    pub const fn get(&self, event: Event) -> Option<CounterValue> {
        self.0[event as usize]
    }

    /// Sets the reading of one event.
    pub const fn set(&mut self, event: Event, value: CounterValue) {
        self.0[event as usize] = Some(value);
    }

    /// Whether nothing was counted at all.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

/// Cumulative progress as the OpenMP shim counts it, over all threads and processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RuntimeProgress {
    /// Parallel regions completed.
    pub regions: u64,
    /// Loop iterations completed in loops that the runtime dispenses.
    pub iterations: u64,
    /// Thread time waited at barriers, where measured.
    pub wait_ns: Option<u64>,
    /// Time in parallel regions, summed over the threads that started them, where measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_ns: Option<u64>,
    /// Monotonic time of the last completion that was counted; 0 before the first.
    pub last_ns: u64,
    /// Threads that have counted progress.
    pub threads: u32,
    /// Identity of the running region (its outlined function), 0 when unknown.
    pub region: u64,
}

/// Progress as the application reports it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ReportedProgress {
    /// Work done so far, in the application's own unit; more per second is better.
    Work {
        /// Cumulative amount.
        #[serde(deserialize_with = "number_or_nan")]
        done: f64,
        /// Monotonic time of the report.
        at_ns: u64,
    },
    /// A latency observed over the last while; less is better.
    Latency {
        /// The latency.
        #[serde(deserialize_with = "number_or_nan")]
        latency_ns: f64,
        /// Monotonic time of the report.
        at_ns: u64,
    },
}

/// JSON has no NaN or infinity, which an application may report: they are written as `null`.
fn number_or_nan<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_that_is_no_number_survives_saving() {
        for done in [f64::NAN, f64::INFINITY] {
            let report = ReportedProgress::Work { done, at_ns: 7 };
            let text = serde_json::to_string(&report).unwrap();
            let ReportedProgress::Work { done, at_ns } = serde_json::from_str(&text).unwrap()
            else {
                panic!("{text} became another kind");
            };
            assert!(done.is_nan() && at_ns == 7);
        }
    }
}
