//! The constants of the model that belong to neither a machine nor an application.
//!
//! They are frozen in the protocol of an evaluation, so that a result says under which it was had.

use crate::queue::MemoryQueue;
use serde::{Deserialize, Serialize};

/// Constants of the model. The defaults are those of the specification; what each was taken from is
/// said there.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Constants {
    /// Cost of a coherence event within a socket, relative to one between sockets
    /// [SAM-MPH Fig. 1].
    pub intra_socket: f64,
    /// Cost of one within a core.
    pub within_core: f64,
    /// Share of a memory's bandwidth that is lost when many threads stream through it; 0 leaves
    /// saturation without loss.
    pub row_buffer_loss: f64,
    /// Threads beyond the first with which the whole of that share is lost.
    pub row_buffer_threads: f64,
    /// The law of the queue at a memory.
    #[serde(skip_serializing_if = "MemoryQueue::is_open")]
    pub memory_queue: MemoryQueue,
    /// How steeply the queue of a saturated memory or link grows, in service times per unit of
    /// utilisation: 2500 goes on along the tangent at 98 %; 0 lets it grow no further, and
    /// throughput exceed bandwidth.
    pub saturated_slope: f64,
    /// Cost of waiting at barriers when threads take turns, for runtimes that spin.
    pub spin_wait: f64,
    /// The same for runtimes that sleep.
    pub block_wait: f64,
    /// Loss of an application with more threads than CPUs of its own: locks held by threads that
    /// do not run.
    pub own_oversubscription: f64,
    /// Loss under plain Linux when there are more threads than CPUs. Set by the two baselines of
    /// [MAPPER Fig. 2] (target MP-3).
    pub time_sharing: f64,
    /// Instructions per cycle of a thread that spins.
    pub spin_ipc: f64,
    /// Time slice that Linux divides among the threads of a CPU.
    pub sched_latency_s: f64,
    /// The shortest time slice.
    pub sched_granularity_s: f64,
    /// Time that a thread loses on moving to another core.
    pub move_core_s: f64,
    /// Rate at which a thread that moved to another socket fills its cache again.
    pub refill_bytes_per_s: f64,
    /// How long a thread that moved to another socket finds its data on the old one.
    pub move_node_s: f64,
    /// Time that every thread of an application loses when its CPU set is changed.
    pub cpuset_s: f64,
    /// Moves per thread and second by Linux's load balancer, half of them between sockets.
    pub balancer_moves_per_s: f64,
    /// CPU time of a decision for 80 threads [MAPPER §4.5.7].
    pub decision_s: f64,
    /// Wake-up delay of a service in time slices, per runnable thread too many.
    pub wake_delay_slices: f64,
    /// Length of the cycle of serial and parallel part, in seconds alone on the machine.
    pub cycle_s: f64,
    /// By which share of the cycle each application begins later than the one before.
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

impl Constants {
    /// As the worked fixed points have it: saturation without loss, and queues that do not grow
    /// beyond 50 service times.
    #[must_use]
    pub fn of_the_vectors(self) -> Self {
        Self {
            row_buffer_loss: 0.0,
            saturated_slope: 0.0,
            ..self
        }
    }

    /// The time slice with this many runnable threads per CPU.
    #[must_use]
    pub fn slice_s(&self, runnable_per_cpu: f64) -> f64 {
        (self.sched_latency_s / runnable_per_cpu.max(1.0)).max(self.sched_granularity_s)
    }
}
