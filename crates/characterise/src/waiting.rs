//! How much of an application's CPU time was spinning at barriers [MAPPER §3.2].
//!
//! A spinning thread retires instructions as a working one does. The shim measures how long threads
//! waited at barriers, but not whether they spun or slept. Unit: nanoseconds of thread time, summed.
//!
//! In an interval of length `E`, `T` threads have `T·E` between them, of which `B` was on CPUs and
//! `O = T·E − B` off them. A wait counts in the interval in which it ends, so time off CPUs that no wait
//! used is carried forward as credit `C`. Of the time `W` waited, what can have been slept was slept:
//!
//! ```text
//! slept = min(W, O + C),   C' = O + C − slept,   share = (W − slept) / B   within 0 and 0.95
//! ```
//!
//! Invariant: summed up since the first reading, no more counts as spun than was. Threads that are off
//! their CPUs for other reasons make shares smaller, never larger. It does not hold for one interval alone
//! (a wait that was *spun* through several counts in the last), for a thread that lives between two
//! readings and that no runtime counts, and for a wait slept before the first reading. The test on phases
//! asks for two intervals in a row, so that one of these is no phase.
//!
//! A waiting loop retires about six instructions around a pause of 10 cycles on the x86 processors with
//! the shortest, 40 to 140 on later ones: at most [`SPIN_IPC`] a cycle. No more than that is left out for
//! each CPU that spun, nor more than the share of all instructions. `W` comes from a shared page and may
//! be nonsense; by the upper bound of the share a performance never becomes zero.

use serde::{Deserialize, Serialize};

/// The largest share that is left out.
const MOST: f64 = 0.95;

/// The most instructions a cycle that a loop with a pause in it retires: six in ten cycles.
pub(crate) const SPIN_IPC: f64 = 0.6;

/// The thread time of an application in an interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct ThreadTime {
    pub(crate) elapsed_ns: u64,
    /// Threads that the application had at any time in it; too many make the share smaller.
    pub(crate) threads: u32,
    /// Time on CPUs.
    pub(crate) busy_ns: u64,
    /// Time of the waits at barriers that ended, spinning or asleep.
    pub(crate) waited_ns: u64,
}

/// Time off CPUs that no wait used yet.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SleepCredit {
    off_ns: u64,
}

impl SleepCredit {
    /// The part of the time on CPUs that counts as spun, from 0 to 0.95.
    pub(crate) fn spun_share(&mut self, time: ThreadTime) -> f64 {
        let all_ns = u64::from(time.threads).saturating_mul(time.elapsed_ns);
        let off_ns = all_ns
            .saturating_sub(time.busy_ns)
            .saturating_add(self.off_ns);
        let slept_ns = time.waited_ns.min(off_ns);
        self.off_ns = off_ns - slept_ns;
        if time.busy_ns == 0 {
            return 0.0;
        }
        ((time.waited_ns - slept_ns) as f64 / time.busy_ns as f64).clamp(0.0, MOST)
    }
}

/// Instructions a cycle, summed over CPUs, less those of spinning for `share` of the time of `busy_cpus`.
pub(crate) fn without_spinning(ipc_sum: f64, share: f64, busy_cpus: f64) -> f64 {
    ipc_sum - share * ipc_sum.min(SPIN_IPC * busy_cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    fn time(threads: u32, busy_ms: u64, waited_ms: u64) -> ThreadTime {
        ThreadTime {
            elapsed_ns: SECOND,
            threads,
            busy_ns: busy_ms * 1_000_000,
            waited_ns: waited_ms * 1_000_000,
        }
    }

    fn share(threads: u32, busy_ms: u64, waited_ms: u64) -> f64 {
        SleepCredit::default().spun_share(time(threads, busy_ms, waited_ms))
    }

    #[test]
    fn what_was_waited_on_cpus_is_left_out_and_what_was_slept_is_not() {
        // Two threads on CPUs all the time, of which one second was waiting: half.
        assert_eq!(share(2, 2000, 1000), 0.5);
        // The same waits, but a second was off the CPUs: all of it may have been slept.
        assert_eq!(share(2, 1000, 1000), 0.0);
        // Half a second was off the CPUs: half a second was spun, of 1.5 s.
        assert!((share(2, 1500, 1000) - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn a_sleep_through_a_long_serial_part_is_not_held_for_spinning_when_it_ends() {
        let mut credit = SleepCredit::default();
        for _ in 0..60 {
            assert_eq!(credit.spun_share(time(4, 1000, 0)), 0.0);
        }
        // Three threads wake after a minute; all four work.
        assert_eq!(credit.spun_share(time(4, 4000, 180_000)), 0.0);
        // The credit is used up: what is waited on CPUs now was spun.
        assert_eq!(credit.spun_share(time(4, 4000, 1000)), 0.25);
    }

    #[test]
    fn nonsense_leaves_something() {
        assert_eq!(share(2, 2000, u64::MAX / 2_000_000), 0.95);
        assert_eq!(share(0, 2000, 1000), 0.5);
        assert_eq!(share(2, 0, 1000), 0.0);
        let mut credit = SleepCredit { off_ns: u64::MAX };
        assert_eq!(credit.spun_share(time(u32::MAX, 0, 0)), 0.0);
    }

    #[test]
    fn no_more_instructions_are_left_out_than_a_spinning_loop_retires() {
        // Two CPUs, of which one spun, at four instructions a cycle in all: at most 0.6 were spun.
        assert_eq!(without_spinning(4.0, 0.5, 2.0), 4.0 - SPIN_IPC);
        // Fewer than that on average: the share of them.
        assert_eq!(without_spinning(0.5, 0.5, 2.0), 0.25);
        assert_eq!(without_spinning(4.0, 0.0, 2.0), 4.0);
    }

    /// What a thread does for a while, in this order; the wait spins, then sleeps.
    #[derive(Clone, Copy, Debug)]
    struct Part {
        preempted_ms: u64,
        work_ms: u64,
        spun_ms: u64,
        slept_ms: u64,
    }

    fn parts() -> impl Strategy<Value = Vec<Part>> {
        let up_to = |ms: u64| prop_oneof![Just(0u64), 0..ms];
        let part = (up_to(300), up_to(1500), up_to(800), up_to(6000)).prop_map(
            |(preempted_ms, work_ms, spun_ms, slept_ms)| Part {
                preempted_ms,
                work_ms,
                spun_ms,
                slept_ms,
            },
        );
        proptest::collection::vec(part, 0..12)
    }

    /// What a thread had done by a moment: spun, on CPUs, waited as counted so far.
    fn done_by(parts: &[Part], at_ms: u64) -> [u64; 3] {
        let [mut spun, mut busy, mut waited] = [0; 3];
        let mut now = 0;
        for part in parts {
            now += part.preempted_ms;
            busy += part.work_ms.min(at_ms.saturating_sub(now));
            now += part.work_ms;
            let here = part.spun_ms.min(at_ms.saturating_sub(now));
            spun += here;
            busy += here;
            now += part.spun_ms + part.slept_ms;
            if now <= at_ms {
                waited += part.spun_ms + part.slept_ms;
            }
        }
        [spun, busy, waited]
    }

    fn life_ms(parts: &[Part]) -> u64 {
        let length = |p: &Part| p.preempted_ms + p.work_ms + p.spun_ms + p.slept_ms;
        parts.iter().map(length).sum()
    }

    proptest! {
        /// Threads end within intervals, waits begin in earlier ones, and threads are preempted.
        #[test]
        fn never_more_is_held_for_spun_than_was_spun_so_far(
            threads in proptest::collection::vec(parts(), 1..6),
        ) {
            let mut credit = SleepCredit::default();
            let (mut held_ms, mut before) = (0.0, [0; 3]);
            for second in 1..40u64 {
                let at_ms = second * 1000;
                let alive = threads.iter().filter(|parts| life_ms(parts) > at_ms - 1000).count();
                let now = threads.iter().fold([0; 3], |sum, parts| {
                    let one = done_by(parts, at_ms);
                    [sum[0] + one[0], sum[1] + one[1], sum[2] + one[2]]
                });
                let (busy, waited) = (now[1] - before[1], now[2] - before[2]);
                before = now;
                held_ms += credit.spun_share(time(alive as u32, busy, waited)) * busy as f64;
                prop_assert!(held_ms <= now[0] as f64 + 1e-6, "{held_ms} of {} ms", now[0]);
            }
        }
    }
}
