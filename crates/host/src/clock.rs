//! The clock that readings are stamped with: `CLOCK_MONOTONIC` in nanoseconds, as the shim stamps its completions, so
//! that the two can be compared. It stands still while the machine is suspended, and no work is done.

use rustix::time::ClockId;
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

/// A source of monotonic time.
pub trait Clock: fmt::Debug {
    /// Now, in nanoseconds from an arbitrary origin; never smaller than before.
    fn now_ns(&self) -> u64;

    /// How long the machine has been suspended since it was booted.
    fn suspended_ns(&self) -> u64;
}

/// The kernel's monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    fn now_ns(&self) -> u64 {
        read(ClockId::Monotonic)
    }

    fn suspended_ns(&self) -> u64 {
        let awake = read(ClockId::Monotonic);
        read(ClockId::Boottime).saturating_sub(awake)
    }
}

fn read(clock: ClockId) -> u64 {
    let now = rustix::time::clock_gettime(clock);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// A clock that stands still until it is moved. Clones share the time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    now_ns: Rc<Cell<u64>>,
    suspended_ns: Rc<Cell<u64>>,
}

impl ManualClock {
    /// Moves the time forward.
    pub fn advance(&self, ns: u64) {
        self.now_ns.set(self.now_ns.get().saturating_add(ns));
    }

    /// Lets the machine sleep: monotonic time stands still, time since boot continues.
    pub fn sleep(&self, ns: u64) {
        self.suspended_ns
            .set(self.suspended_ns.get().saturating_add(ns));
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    fn suspended_ns(&self) -> u64 {
        self.suspended_ns.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monotonic_clock_does_not_run_backwards() {
        let first = MonotonicClock.now_ns();
        assert!(first > 0 && MonotonicClock.now_ns() >= first);
    }

    #[test]
    fn clones_of_a_manual_clock_show_the_same_time() {
        let clock = ManualClock::default();
        let other = clock.clone();
        clock.advance(5);
        assert_eq!(other.now_ns(), 5);
    }
}
