//! How much of an application's CPU time was spinning at barriers [MAPPER §3.2].
//!
//! *Problem.* A thread that spins retires instructions as one that works does. Taken for work, they
//! make a program look the better the more of its time it waits. The shim measures how long threads
//! waited at barriers, but not whether they spun or slept, and sleeping retires nothing.
//!
//! *Unit.* Nanoseconds of thread time in one interval, summed over threads.
//!
//! *Approach.* In an interval of length `E`, `T` threads have `T·E` between them. `B` of it was on
//! CPUs, so `O = T·E − B` was off them. Of the time `W` that was waited at barriers, at most `O` was
//! slept; the rest was spun:
//!
//! ```text
//! spun ≥ W − O,   share = (W − O) / B      within 0 and 0.95
//! ```
//!
//! The least it can have been is taken, so that work is never taken for waiting: threads that are off
//! their CPUs for other reasons (preempted, reading files) make the share smaller, never larger. A
//! spinning thread is taken to retire instructions at the mean rate of the application.
//!
//! A wait is counted when it ends, so it may belong to intervals before; no more than all thread time
//! of this one is taken. `W` comes from a shared page and may be nonsense; by the upper bound the
//! performance of an application never becomes nothing.

/// The largest share that is left out.
const MOST: f64 = 0.95;

/// The thread time of an application in an interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ThreadTime {
    /// Length of the interval.
    pub elapsed_ns: u64,
    /// Threads of the application.
    pub threads: u32,
    /// Time on CPUs.
    pub busy_ns: u64,
    /// Time waited at barriers, spinning or asleep.
    pub waited_ns: u64,
}

impl ThreadTime {
    /// The part of the time on CPUs that was certainly spent spinning, from 0 to 0.95.
    #[must_use]
    pub fn spun_share(self) -> f64 {
        let all_ns = f64::from(self.threads) * self.elapsed_ns as f64;
        let busy_ns = (self.busy_ns as f64).min(all_ns);
        if busy_ns <= 0.0 {
            return 0.0;
        }
        let waited_ns = (self.waited_ns as f64).min(all_ns);
        ((waited_ns - (all_ns - busy_ns)) / busy_ns).clamp(0.0, MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    fn share(threads: u32, busy_ms: u64, waited_ms: u64) -> f64 {
        ThreadTime {
            elapsed_ns: SECOND,
            threads,
            busy_ns: busy_ms * 1_000_000,
            waited_ns: waited_ms * 1_000_000,
        }
        .spun_share()
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
    fn nonsense_leaves_something() {
        assert_eq!(share(2, 2000, u64::MAX / 2_000_000), 0.95);
        assert_eq!(share(0, 2000, 1000), 0.0);
        assert_eq!(share(2, 0, 1000), 0.0);
    }

    proptest! {
        #[test]
        fn never_more_is_left_out_than_was_spun(
            work in 0u64..2000, spun in 0u64..2000, slept in 0u64..2000, preempted in 0u64..2000,
        ) {
            // Some threads' time, divided; the last of them is padded with work.
            let threads = 8;
            let work = work + 8000 - (work + spun + slept + preempted).min(8000);
            let got = share(threads, work + spun, spun + slept);
            let truth = spun as f64 / ((work + spun) as f64).max(1.0);
            prop_assert!(got <= truth + 1e-9, "{got} of {truth}");
        }
    }
}
