//! Rates of one interval from two cumulative readings [MAPPER §3.2, Tables 1 and 2].
//!
//! Each counter is read with the time it was enabled and the time it ran on the PMU; differences are scaled by the
//! ratio of both. A thread contributes to an event only if the difference makes sense; new threads count from zero,
//! threads that vanished are left out, a reused thread id is a new thread.
//!
//! Table 1 gives rates per thread as `R × events / C` (clock rate over unhalted cycles). Summed over an application
//! this would count threads that take turns on one CPU as if they ran in parallel; so the sums are events per second of
//! the interval, which equals Table 1's sum when every thread runs throughout.
//!
//! Invariant: every rate is finite and not negative, and `None` when no thread offered the event.

use crate::history::SharingSample;
use mapper_model::{
    CounterValue, Event, MemoryRate, MemoryTraffic, NodeRate, NodeTraffic, Rates, ThreadReading,
};

/// The rates of an interval.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct IntervalRates {
    pub(crate) rates: Rates,
    /// For SAM-MPH's classes; `None` when no thread ran.
    pub(crate) sharing: Option<SharingSample>,
    /// Threads whose instruction count was lost: with any, the sum is too low to be a performance.
    pub(crate) lost_threads: u32,
}

/// The events between two readings of a counter, scaled to the time it was enabled. `None` when they
/// do not belong together: the counter or its clocks ran backwards, it never was on the PMU, or it was
/// enabled for longer than the interval (a reading was lost).
fn scaled_difference(
    before: Option<CounterValue>,
    after: CounterValue,
    elapsed_ns: u64,
) -> Option<f64> {
    let before = before.unwrap_or_default();
    let value = after.value.checked_sub(before.value)?;
    let enabled = after.enabled_ns.checked_sub(before.enabled_ns)?;
    let running = after.running_ns.checked_sub(before.running_ns)?;
    // A quarter more than the interval, as the clocks are not read at the same time.
    if enabled > elapsed_ns.saturating_add(elapsed_ns / 4) {
        return None;
    }
    match (running, enabled) {
        (0, 0) if value == 0 => Some(0.0),
        (0, _) => None,
        // More running than enabled is rounding: nothing to scale.
        _ if running >= enabled => Some(value as f64),
        _ => Some(value as f64 * (enabled as f64 / running as f64)),
    }
}

/// One thread's differences, by event.
#[derive(Clone, Copy, Default)]
struct Difference([Option<f64>; Event::ALL.len()]);

impl Difference {
    fn of(before: Option<&ThreadReading>, after: &ThreadReading, elapsed_ns: u64) -> Self {
        Self(Event::ALL.map(|event| {
            let after = after.counters.get(event)?;
            scaled_difference(
                before.and_then(|b| b.counters.get(event)),
                after,
                elapsed_ns,
            )
        }))
    }

    fn get(&self, event: Event) -> Option<f64> {
        self.0[event as usize]
    }

    fn or_zero(&self, event: Event) -> f64 {
        self.get(event).unwrap_or(0.0)
    }
}

/// Sums over threads; an event that no thread offered stays `None`.
#[derive(Default)]
struct Totals([Option<f64>; Event::ALL.len()]);

impl Totals {
    fn add(&mut self, difference: &Difference) {
        for (total, value) in self.0.iter_mut().zip(difference.0) {
            if let Some(value) = value {
                *total = Some(total.unwrap_or(0.0) + value);
            }
        }
    }

    fn get(&self, event: Event) -> Option<f64> {
        self.0[event as usize]
    }
}

/// Memory traffic between two readings; a count that ran backwards gives nothing.
pub(crate) fn memory_between(
    before: MemoryTraffic,
    after: MemoryTraffic,
    elapsed_ns: u64,
) -> MemoryRate {
    let per_second = |before: Option<u64>, after: Option<u64>| {
        let bytes = after?.checked_sub(before?)?;
        (elapsed_ns > 0).then(|| bytes as f64 / (elapsed_ns as f64 * 1e-9))
    };
    MemoryRate {
        total_bytes_per_s: per_second(before.total_bytes, after.total_bytes),
        local_bytes_per_s: per_second(before.local_bytes, after.local_bytes),
    }
}

/// The same for each node that is in both readings.
pub(crate) fn by_node_between(
    before: &[NodeTraffic],
    after: &[NodeTraffic],
    elapsed_ns: u64,
) -> Vec<NodeRate> {
    let of = |after: &NodeTraffic| {
        let before = before.iter().find(|before| before.node == after.node)?;
        Some(NodeRate {
            node: after.node,
            rate: memory_between(before.traffic, after.traffic, elapsed_ns),
        })
    };
    after.iter().filter_map(of).collect()
}

/// The rates between two readings of the same application, both in ascending order of thread id;
/// `None` when no time has passed or no thread was read.
pub(crate) fn between(
    before: &[ThreadReading],
    after: &[ThreadReading],
    elapsed_ns: u64,
    clock_hz: f64,
) -> Option<IntervalRates> {
    if elapsed_ns == 0 || after.is_empty() {
        return None;
    }
    let seconds = elapsed_ns as f64 * 1e-9;
    let mut totals = Totals::default();
    let mut active = 0u32;
    let (mut ipc_total, mut ipc_threads) = (0.0, 0u32);
    let mut most_active: Option<Active> = None;
    let mut lost_threads = 0;
    let mut old = before.iter().peekable();
    for thread in after {
        while old.next_if(|b| b.tid < thread.tid).is_some() {}
        let same = old
            .peek()
            .copied()
            .filter(|b| b.tid == thread.tid && b.started == thread.started);
        let difference = Difference::of(same, thread, elapsed_ns);
        totals.add(&difference);
        let counted = |t: &ThreadReading| t.counters.get(Event::Instructions).is_some();
        if difference.get(Event::Instructions).is_none()
            && (counted(thread) || same.is_some_and(counted))
        {
            lost_threads += 1;
        }
        let cycles = difference.or_zero(Event::Cycles);
        if cycles > 0.0 {
            active += 1;
            if let Some(instructions) = difference.get(Event::Instructions) {
                ipc_total += instructions / cycles;
                ipc_threads += 1;
            }
            let candidate = Active::of(&difference, cycles);
            if most_active
                .as_ref()
                .is_none_or(|present| candidate.outranks(present))
            {
                most_active = Some(candidate);
            }
        }
    }

    let per_second = |total: Option<f64>| total.map(|t| t / seconds).filter(|r| r.is_finite());
    let hits = totals.get(Event::SnoopHit);
    let modified = totals.get(Event::SnoopHitModified);
    let intra = match (hits, modified) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
    };
    let inter = totals.get(Event::RemoteHitModified);
    let coherence_known = intra.is_some() || inter.is_some();
    let cycles = totals.get(Event::Cycles).unwrap_or(0.0);
    let instructions = totals.get(Event::Instructions);
    let nominal_cycles = clock_hz * seconds;
    let rates = Rates {
        active_threads: active,
        cycles,
        ipc: (ipc_threads > 0).then(|| ipc_total / f64::from(ipc_threads)),
        ipc_sum: instructions
            .map(|i| i / nominal_cycles)
            .filter(|v| v.is_finite() && *v >= 0.0),
        inter_socket_per_s: per_second(inter),
        intra_socket_per_s: per_second(intra),
        llc_misses_per_s: per_second(totals.get(Event::LlcMisses)),
        llc_misses_per_cycle: totals
            .get(Event::LlcMisses)
            .map(|misses| misses / cycles)
            .filter(|rate| rate.is_finite()),
        sharing_per_cycle: most_active
            .as_ref()
            .filter(|_| coherence_known)
            .map(|a| a.inter_per_cycle + a.intra_per_cycle),
    };
    let sharing = most_active.map(|thread| SharingSample {
        inter_per_cycle: thread.inter_per_cycle,
        intra_per_cycle: thread.intra_per_cycle,
        ipc: thread.ipc,
        stalls: totals.get(Event::L2PendingStalls),
        inter_events: inter.unwrap_or(0.0),
        instructions: instructions.unwrap_or(0.0),
        cycles,
    });
    Some(IntervalRates {
        rates,
        sharing,
        lost_threads,
    })
}

/// A thread as a candidate for the application's most active one.
struct Active {
    cycles: f64,
    inter_per_cycle: f64,
    intra_per_cycle: f64,
    ipc: f64,
}

impl Active {
    fn of(difference: &Difference, cycles: f64) -> Self {
        let intra =
            difference.or_zero(Event::SnoopHit) + difference.or_zero(Event::SnoopHitModified);
        Self {
            cycles,
            inter_per_cycle: difference.or_zero(Event::RemoteHitModified) / cycles,
            intra_per_cycle: intra / cycles,
            ipc: difference.or_zero(Event::Instructions) / cycles,
        }
    }

    /// Whether this thread says more about its application than `other`: more activity, unless it ran
    /// for less than a hundredth of the other's time, whose few events would mean nothing.
    fn outranks(&self, other: &Self) -> bool {
        if self.cycles < 0.01 * other.cycles {
            return false;
        }
        if other.cycles < 0.01 * self.cycles {
            return true;
        }
        let activity = |a: &Self| a.inter_per_cycle + a.intra_per_cycle;
        activity(self)
            .total_cmp(&activity(other))
            .then(self.cycles.total_cmp(&other.cycles))
            .is_gt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::{Counters, NodeId, ThreadId};

    const SECOND: u64 = 1_000_000_000;

    fn thread(tid: u32, started: u64, counts: &[(Event, u64)], ran_ns: u64) -> ThreadReading {
        let mut counters = Counters::default();
        for &(event, count) in counts {
            counters.set(event, value(count, ran_ns, ran_ns));
        }
        ThreadReading {
            tid: ThreadId(tid),
            started,
            counters,
        }
    }

    fn basic(tid: u32, instructions: u64, cycles: u64, ran_ns: u64) -> ThreadReading {
        let counts = [(Event::Instructions, instructions), (Event::Cycles, cycles)];
        thread(tid, 1, &counts, ran_ns)
    }

    const fn value(value: u64, enabled_ns: u64, running_ns: u64) -> CounterValue {
        CounterValue {
            value,
            enabled_ns,
            running_ns,
        }
    }

    #[test]
    fn a_multiplexed_counter_is_scaled_and_readings_must_belong_together() {
        let scaled = scaled_difference(Some(value(100, 1000, 500)), value(350, 2000, 1000), SECOND);
        assert_eq!(scaled, Some(500.0));
        let before = Some(value(100, 1000, 1000));
        for after in [
            value(99, 2000, 2000),
            value(200, 900, 2000),
            value(200, 2000, 900),
            value(200, 2000, 1000),
            value(200, 3 * SECOND, 3 * SECOND),
        ] {
            assert_eq!(scaled_difference(before, after, SECOND), None, "{after:?}");
        }
    }

    #[test]
    fn performance_is_the_sum_and_ipc_the_mean_over_the_threads_that_ran() {
        let before = [basic(1, 0, 0, 0), basic(2, 0, 0, 0), basic(3, 5, 5, 5)];
        let after = [
            basic(1, 1_000_000_000, 2_000_000_000, SECOND),
            basic(2, 3_000_000_000, 2_000_000_000, SECOND),
            basic(3, 5, 5, 5),
        ];
        let rates = between(&before, &after, SECOND, 2e9).unwrap().rates;
        assert_eq!(rates.active_threads, 2);
        assert_eq!(rates.ipc, Some(1.0));
        assert_eq!(rates.ipc_sum, Some(2.0));
        assert_eq!(rates.llc_misses_per_s, None);
        assert_eq!(rates.sharing_per_cycle, None);
    }

    #[test]
    fn a_reused_thread_id_is_a_new_thread() {
        let before = [basic(7, 900, 900, 900)];
        let mut reused = basic(7, 400, 100, 100);
        reused.started = 2;
        let rates = between(&before, &[reused], SECOND, 1e9).unwrap().rates;
        assert_eq!(rates.cycles, 100.0);
        assert_eq!(rates.ipc, Some(4.0));
    }

    #[test]
    fn threads_that_come_and_go_do_not_spoil_the_rest() {
        let before = [basic(1, 0, 0, 0), basic(3, 0, 0, 0), basic(5, 0, 0, 0)];
        let after = [
            basic(2, 10, 10, 10),
            basic(3, 20, 10, 10),
            basic(9, 10, 10, 10),
        ];
        let rates = between(&before, &after, SECOND, 1e9).unwrap().rates;
        assert_eq!((rates.active_threads, rates.cycles), (3, 30.0));
    }

    #[test]
    fn sharing_is_that_of_the_most_active_thread_that_ran_for_more_than_a_moment() {
        let shared = |tid, cycles, rhm| {
            let counts = [(Event::Cycles, cycles), (Event::RemoteHitModified, rhm)];
            thread(tid, 1, &counts, SECOND)
        };
        let after = [
            shared(1, 1_000_000, 100),
            shared(2, 1_000_000, 700),
            // Seven events in a thousand cycles say nothing.
            shared(3, 1000, 7),
        ];
        let interval = between(&[], &after, SECOND, 1e9).unwrap();
        assert_eq!(interval.rates.sharing_per_cycle, Some(7e-4));
        assert_eq!(interval.sharing.unwrap().inter_events, 807.0);
    }

    #[test]
    fn a_thread_whose_counter_was_lost_is_reported() {
        let before = [basic(1, 0, 0, 0), basic(2, 500, 500, 500)];
        let after = [basic(1, 10, 10, 10), basic(2, 100, 100, 100)];
        let silent = [basic(1, 10, 10, 10), thread(2, 1, &[], 0)];
        for after in [after, silent] {
            let interval = between(&before, &after, SECOND, 1e9).unwrap();
            assert_eq!(interval.lost_threads, 1);
        }
    }

    #[test]
    fn no_time_or_no_thread_gives_no_rates() {
        assert_eq!(between(&[], &[basic(1, 1, 1, 1)], 0, 1e9), None);
        assert_eq!(between(&[basic(1, 1, 1, 1)], &[], SECOND, 1e9), None);
    }

    #[test]
    fn memory_traffic_is_per_second_and_never_of_counts_that_ran_backwards() {
        let traffic = |total, local| MemoryTraffic {
            total_bytes: total,
            local_bytes: local,
        };
        let before = traffic(Some(1_000), None);
        let rate = memory_between(before, traffic(Some(4_000), Some(7)), SECOND / 2);
        assert_eq!(rate.total_bytes_per_s, Some(6_000.0));
        assert_eq!(rate.local_bytes_per_s, None);
        let back = memory_between(traffic(Some(9), Some(1)), traffic(Some(8), Some(1)), 1);
        assert_eq!(back.total_bytes_per_s, None);
        assert_eq!(back.local_bytes_per_s, Some(0.0));
        let at_once = memory_between(traffic(Some(1), None), traffic(Some(2), None), 0);
        assert_eq!(at_once, MemoryRate::default());
    }

    #[test]
    fn traffic_of_a_node_is_known_where_both_readings_have_it() {
        let of = |node, total| NodeTraffic {
            node: NodeId(node),
            traffic: MemoryTraffic {
                total_bytes: Some(total),
                local_bytes: None,
            },
        };
        let rates = by_node_between(&[of(0, 5), of(2, 10)], &[of(1, 7), of(2, 30)], SECOND);
        assert_eq!(rates.len(), 1);
        assert_eq!(rates[0].node, NodeId(2));
        assert_eq!(rates[0].rate.total_bytes_per_s, Some(20.0));
    }
}
