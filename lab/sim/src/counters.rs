//! The counters of an application as hardware would show them: cumulative counts for each thread, with a scatter
//! that is small for counters that are always on the PMU and larger for those that share it. The first thread does
//! the work of serial parts; parallel parts are divided evenly.

use crate::constants::Constants;
use crate::noise::Noise;
use crate::performance::Events;
use crate::service;
use mapper_model::{
    CounterValue, Counters, Event, MemoryTraffic, NodeId, NodeTraffic, Reading, ReportedProgress,
    ThreadId, ThreadReading,
};

/// What a counter of this event shows of them.
fn counted(events: &Events, event: Event) -> f64 {
    match event {
        Event::Cycles => events.cycles,
        Event::Instructions => events.instructions,
        Event::LlcMisses => events.misses,
        Event::SnoopHit | Event::SnoopHitModified => events.intra_socket / 2.0,
        Event::RemoteHitModified => events.inter_socket,
        Event::L2PendingStalls => events.stalls,
    }
}

/// Memory traffic of an application from one node, in bytes or bytes per second.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Requested {
    pub(crate) total: f64,
    pub(crate) own: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct Bank {
    threads: u32,
    first_tid: u32,
    /// Since the last reading, in serial and in parallel parts.
    since: [Events; 2],
    /// Cumulative, for the first thread and each other one.
    shown: [Shown; 2],
    /// Cumulative, by node; empty if not reported.
    requested: Vec<Requested>,
    /// Latencies since the last report, each with its duration.
    latencies: Vec<(f64, f64)>,
    noise: Noise,
}

#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    counts: [f64; Event::ALL.len()],
    ran_ns: f64,
}

impl Bank {
    pub(crate) fn new(threads: u32, first_tid: u32, noise: Noise) -> Self {
        Self {
            threads: threads.max(1),
            first_tid,
            since: [Events::default(); 2],
            shown: [Shown::default(); 2],
            requested: Vec::new(),
            latencies: Vec::new(),
            noise,
        }
    }

    pub(crate) fn count(&mut self, parallel: bool, rates: &Events, seconds: f64) {
        self.since[usize::from(parallel)].add(rates, seconds);
    }

    /// Counts the memory traffic of a time by node: exact, as it is not multiplexed.
    pub(crate) fn count_traffic(&mut self, per_s: &[Requested], seconds: f64) {
        self.requested.resize(per_s.len(), Requested::default());
        for (sum, requested) in self.requested.iter_mut().zip(per_s) {
            sum.total += requested.total * seconds;
            sum.own += requested.own * seconds;
        }
    }

    /// Counts a time in which requests had this 99th percentile.
    pub(crate) fn serve(&mut self, p99_s: f64, seconds: f64) {
        if seconds > 0.0 {
            self.latencies.push((p99_s, seconds));
        }
    }

    /// What the program reports of the time since its last report: exact, as it counts its requests itself.
    pub(crate) fn report(&mut self, now_ns: u64) -> Option<ReportedProgress> {
        let p99_s = service::overall_p99_s(&std::mem::take(&mut self.latencies))?;
        Some(ReportedProgress::Latency {
            latency_ns: 1e9 * p99_s,
            at_ns: now_ns,
        })
    }

    pub(crate) fn read(
        &mut self,
        constants: &Constants,
        clock_hz: f64,
        interval_s: f64,
        runnable: f64,
    ) -> Reading {
        let multiplexed = (constants.multiplexed_noise * (0.1 / interval_s.max(1e-3)).sqrt())
            .max(constants.least_multiplexed_noise);
        let threads = f64::from(self.threads);
        let [serial, parallel] = std::mem::take(&mut self.since);
        for event in Event::ALL {
            let scatter = match event {
                Event::Cycles | Event::Instructions => constants.fixed_noise,
                _ => multiplexed,
            };
            let factor = self.noise.factor(scatter);
            let each = factor * counted(&parallel, event) / threads;
            self.shown[0].counts[event as usize] += each + factor * counted(&serial, event);
            self.shown[1].counts[event as usize] += each;
        }
        let ran_ns = |cycles: f64| 1e9 * cycles / clock_hz;
        let each_ns = ran_ns(parallel.cycles / threads);
        self.shown[0].ran_ns += each_ns + ran_ns(serial.cycles);
        self.shown[1].ran_ns += each_ns;
        let total_ns = self.shown[0].ran_ns + (threads - 1.0) * self.shown[1].ran_ns;
        let [first, other] = self.shown.map(Shown::counters);
        Reading {
            threads: (0..self.threads)
                .map(|thread| ThreadReading {
                    tid: ThreadId(self.first_tid + thread),
                    started: u64::from(self.first_tid),
                    counters: if thread == 0 { first } else { other },
                })
                .collect(),
            cpu_time_ns: Some(total_ns as u64),
            runnable_threads: Some(runnable.round() as u32),
            memory_by_node: (self.requested.iter().zip(0..))
                .map(|(requested, node)| NodeTraffic {
                    node: NodeId(node),
                    traffic: MemoryTraffic {
                        total_bytes: Some(requested.total as u64),
                        local_bytes: Some(requested.own as u64),
                    },
                })
                .collect(),
            ..Reading::default()
        }
    }
}

impl Shown {
    fn counters(self) -> Counters {
        let mut counters = Counters::default();
        let ran_ns = self.ran_ns as u64;
        for event in Event::ALL {
            let value = CounterValue {
                value: self.counts[event as usize] as u64,
                enabled_ns: ran_ns,
                running_ns: ran_ns,
            };
            counters.set(event, value);
        }
        counters
    }
}

/// Cumulative counts of all threads, as a policy reads them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) instructions: f64,
    pub(crate) cycles: f64,
    pub(crate) between_sockets: f64,
    pub(crate) within_socket: f64,
}

impl Counted {
    pub(crate) fn of(reading: &Reading) -> Self {
        let sum = |event: Event| -> f64 {
            let threads = reading.threads.iter();
            let counters = threads.filter_map(|thread| thread.counters.get(event));
            counters.map(|counter| counter.value as f64).sum()
        };
        Self {
            instructions: sum(Event::Instructions),
            cycles: sum(Event::Cycles),
            between_sockets: sum(Event::RemoteHitModified),
            within_socket: sum(Event::SnoopHit) + sum(Event::SnoopHitModified),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(cycles: f64) -> Events {
        Events {
            cycles,
            instructions: cycles,
            misses: cycles,
            ..Events::default()
        }
    }

    #[test]
    fn the_first_thread_does_the_serial_work_and_all_share_the_parallel_work() {
        let constants = Constants {
            fixed_noise: 0.0,
            ..Constants::default()
        };
        let mut bank = Bank::new(4, 100, Noise::new(1, 1));
        bank.count(false, &rates(1e9), 0.5);
        bank.count(true, &rates(4e9), 0.5);
        let reading = bank.read(&constants, 1e9, 1.0, 4.0);
        for (thread, expected) in [(0, 1_000_000_000), (3, 500_000_000)] {
            let counters = reading.threads[thread].counters;
            let found = counters.get(Event::Instructions).unwrap();
            assert_eq!((found.value, found.enabled_ns), (expected, expected));
        }
        assert_eq!(reading.cpu_time_ns, Some(2_500_000_000));
    }

    #[test]
    fn a_latency_is_reported_once_and_is_that_of_the_time_since_the_report_before() {
        let mut bank = Bank::new(4, 100, Noise::new(1, 1));
        let mut reported = |latencies: &[(f64, f64)]| {
            for &(p99_s, seconds) in latencies {
                bank.serve(p99_s, seconds);
            }
            bank.report(7).map(|report| match report {
                ReportedProgress::Latency { latency_ns, at_ns } => (latency_ns.round(), at_ns),
                ReportedProgress::Work { .. } => panic!("not a latency"),
            })
        };
        assert_eq!(reported(&[(0.25, 1.0)]), Some((0.25e9, 7)));
        assert_eq!(reported(&[]), None);
        assert_eq!(reported(&[(0.5, 0.0)]), None, "of no time");
        assert_eq!(reported(&[(0.5, 1.0)]), Some((0.5e9, 7)));
    }

    /// The relative scatter of the counts of an event in intervals of this length.
    fn scatter(event: Event, interval_s: f64) -> f64 {
        let mut bank = Bank::new(1, 1, Noise::new(5, 9));
        let mut before = 0;
        let mut counts = Vec::new();
        for _ in 0..4000 {
            bank.count(true, &rates(1e9), interval_s);
            let reading = bank.read(&Constants::default(), 1e9, interval_s, 1.0);
            let now = reading.threads[0].counters.get(event).unwrap().value;
            counts.push((now - before) as f64 / (1e9 * interval_s));
            before = now;
        }
        let mean = counts.iter().sum::<f64>() / 4000.0;
        let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / 4000.0;
        // Right on average: three standard errors.
        assert!((mean - 1.0).abs() < 3.0 * variance.sqrt() / 4000f64.sqrt());
        variance.sqrt()
    }

    #[test]
    fn multiplexed_counters_scatter_by_the_root_of_the_interval_and_others_always_alike() {
        for (interval_s, multiplexed) in
            [(0.1, 0.05), (0.4, 0.025), (0.9, 0.05 / 3.0), (10.0, 0.01)]
        {
            for (event, expected) in [(Event::LlcMisses, multiplexed), (Event::Cycles, 0.005)] {
                let off = scatter(event, interval_s) / expected - 1.0;
                // 4000 samples give a standard deviation to 1.1 %; three times that.
                assert!(off.abs() < 0.035, "{event:?}, {interval_s}: {off}");
            }
        }
    }
}
