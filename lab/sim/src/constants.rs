//! The constants of the model that belong to neither a machine nor an application.
//!
//! The protocol of an evaluation freezes them, so that a result says which ones it was computed with.

use crate::application::is_default;
use serde::{Deserialize, Serialize};

/// The law of the queue at a memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryQueue {
    /// Any number of customers.
    #[default]
    Open,
    /// As many customers as misses can be under way.
    Finite,
}

/// Constants of the model. The specification gives the defaults and their sources.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Constants {
    /// Cost of a coherence event within a socket relative to one between sockets [SAM-MPH Fig. 1].
    pub intra_socket: f64,
    /// The same within a core.
    pub within_core: f64,
    /// Share of a memory's bandwidth lost when many threads stream through it.
    pub row_buffer_loss: f64,
    /// Threads beyond the first at which all of that share is lost.
    pub row_buffer_threads: f64,
    /// The law of the queue at a memory.
    #[serde(skip_serializing_if = "is_default")]
    pub memory_queue: MemoryQueue,
    /// Growth of the queue of a saturated memory or link, in service times per unit of utilisation: 2500
    /// continues the tangent at 98 %; with 0 it stops growing and throughput exceeds bandwidth.
    pub saturated_slope: f64,
    /// Cost of waiting at barriers when threads take turns, for runtimes that spin.
    pub spin_wait: f64,
    /// The same for runtimes that sleep.
    pub block_wait: f64,
    /// Loss of an application with more threads than own CPUs: lock holders that do not run.
    pub own_oversubscription: f64,
    /// Loss under plain Linux with more threads than CPUs, set by both baselines of [MAPPER Fig. 2] (target MP-3).
    pub time_sharing: f64,
    /// Instructions per cycle of a spinning thread.
    pub spin_ipc: f64,
    /// Time slice that Linux divides among the threads of a CPU.
    pub sched_latency_s: f64,
    /// The shortest time slice.
    pub sched_granularity_s: f64,
    /// Time a thread loses when it moves to another core.
    pub move_core_s: f64,
    /// Rate at which a thread on a new socket fills its cache.
    pub refill_bytes_per_s: f64,
    /// How long a thread on a new socket finds its data on the old one.
    pub move_node_s: f64,
    /// Time every thread of an application loses when its CPU set changes.
    pub cpuset_s: f64,
    /// Moves per thread and second by Linux's load balancer, half of them between sockets.
    pub balancer_moves_per_s: f64,
    /// CPU time of a decision for 80 threads [MAPPER §4.5.7].
    pub decision_s: f64,
    /// Wake-up delay of a service in time slices per excess runnable thread.
    pub wake_delay_slices: f64,
    /// Length of the cycle of serial and parallel part, in seconds alone on the machine.
    pub cycle_s: f64,
    /// Share of the cycle by which each application starts after the one before.
    pub cycle_offset: f64,
    /// Relative scatter of counters that are always on the PMU.
    pub fixed_noise: f64,
    /// Relative scatter of multiplexed counters over 100 ms.
    pub multiplexed_noise: f64,
    /// The least scatter of multiplexed counters.
    pub least_multiplexed_noise: f64,
}

impl Default for Constants {
    fn default() -> Self {
        Self {
            intra_socket: 0.32,
            within_core: 0.05,
            row_buffer_loss: 0.25,
            row_buffer_threads: 12.0,
            memory_queue: MemoryQueue::Open,
            saturated_slope: 2500.0,
            spin_wait: 0.5,
            block_wait: 0.03,
            own_oversubscription: 0.16,
            time_sharing: 0.08,
            spin_ipc: 1.6,
            sched_latency_s: 24e-3,
            sched_granularity_s: 3e-3,
            move_core_s: 30e-6,
            refill_bytes_per_s: 5e9,
            move_node_s: 0.1,
            cpuset_s: 1e-3,
            balancer_moves_per_s: 2.0,
            decision_s: 5e-3,
            wake_delay_slices: 0.72,
            cycle_s: 5.0,
            cycle_offset: 0.37,
            fixed_noise: 0.005,
            multiplexed_noise: 0.05,
            least_multiplexed_noise: 0.01,
        }
    }
}

/// A constant out of its range.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{0} is {1}: give {2} to {3}")]
pub struct ConstantError(&'static str, f64, f64, f64);

impl Constants {
    /// Checks every number. Beyond these ranges speeds become negative or no numbers at all.
    ///
    /// # Errors
    /// [`ConstantError`] names the constant, its value and its range.
    pub fn check(&self) -> Result<(), ConstantError> {
        /// No modelled delay is longer, in seconds.
        const LONG: f64 = 100.0;
        let least_noise = self.least_multiplexed_noise;
        let ranges = [
            ("intra_socket", self.intra_socket, 0.0, 1.0),
            ("within_core", self.within_core, 0.0, 1.0),
            ("row_buffer_loss", self.row_buffer_loss, 0.0, 0.99),
            ("row_buffer_threads", self.row_buffer_threads, 0.1, 1e4),
            ("saturated_slope", self.saturated_slope, 0.0, 1e6),
            ("spin_wait", self.spin_wait, 0.0, 100.0),
            ("block_wait", self.block_wait, 0.0, 100.0),
            ("own_oversubscription", self.own_oversubscription, 0.0, 0.99),
            ("time_sharing", self.time_sharing, 0.0, 0.99),
            ("spin_ipc", self.spin_ipc, 0.0, 16.0),
            ("sched_latency_s", self.sched_latency_s, 1e-6, LONG),
            ("sched_granularity_s", self.sched_granularity_s, 1e-6, LONG),
            ("move_core_s", self.move_core_s, 0.0, LONG),
            ("refill_bytes_per_s", self.refill_bytes_per_s, 1e6, 1e15),
            ("move_node_s", self.move_node_s, 0.0, LONG),
            ("cpuset_s", self.cpuset_s, 0.0, LONG),
            ("balancer_moves_per_s", self.balancer_moves_per_s, 0.0, 1e6),
            ("decision_s", self.decision_s, 0.0, LONG),
            ("wake_delay_slices", self.wake_delay_slices, 0.0, 1e3),
            ("cycle_s", self.cycle_s, 1e-3, 1e5),
            ("cycle_offset", self.cycle_offset, 0.0, 1.0),
            ("fixed_noise", self.fixed_noise, 0.0, 1.0),
            ("multiplexed_noise", self.multiplexed_noise, 0.0, 1.0),
            ("least_multiplexed_noise", least_noise, 0.0, 1.0),
        ];
        for (name, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(ConstantError(name, value, least, most));
            }
        }
        Ok(())
    }

    pub(crate) fn slice_s(&self, runnable_per_cpu: f64) -> f64 {
        (self.sched_latency_s / runnable_per_cpu.max(1.0)).max(self.sched_granularity_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_has_a_range_and_is_refused_beyond_it_with_value_and_range() {
        let usual = Constants::default();
        usual.check().unwrap();
        let written = serde_json::to_value(usual).unwrap();
        let refused = |name: &str, value: f64| {
            let mut written = written.clone();
            written[name] = value.into();
            let changed: Constants = serde_json::from_value(written).unwrap();
            changed.check().unwrap_err().to_string()
        };
        // The law of the queue is no number and is not written.
        assert_eq!(written.as_object().unwrap().len(), 24);
        for name in written.as_object().unwrap().keys() {
            for impossible in [-1.0, 1e300] {
                let error = refused(name, impossible);
                assert!(error.starts_with(&format!("{name} is ")), "{error}");
                assert!(error.contains(": give "), "{error}");
            }
        }
        for (name, value, range) in [
            ("row_buffer_loss", 5.0, "0 to 0.99"),
            ("time_sharing", 2.0, "0 to 0.99"),
            ("cycle_s", 0.0, "0.001 to 100000"),
        ] {
            let error = format!("{name} is {value}: give {range}");
            assert_eq!(refused(name, value), error);
        }
        let cycle_s = f64::NAN;
        assert!(Constants { cycle_s, ..usual }.check().is_err());
    }
}
