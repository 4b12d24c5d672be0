//! Noticing that the machine was suspended.
//!
//! Monotonic time and everything that is measured stop meanwhile. Still, caches are cold and clocks have changed: the
//! interval is no sample. Changes of the wall clock do not matter, since it is not used.

use mapper_host::clock::Clock;
use std::time::Duration;

/// The shortest suspension for which an interval does not count.
const SLEPT: Duration = Duration::from_millis(100);

/// For how many nanoseconds the machine had been suspended since boot when that was last read: the difference of
/// `CLOCK_BOOTTIME` and `CLOCK_MONOTONIC`, which stops meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sleep(u64);

impl Sleep {
    pub(crate) fn until_now(clock: &dyn Clock) -> Self {
        Self(clock.suspended_ns())
    }

    /// Whether the machine was suspended since the last call.
    pub(crate) fn has_slept(&mut self, clock: &dyn Clock) -> bool {
        let before = std::mem::replace(self, Self::until_now(clock));
        let slept_ns = self.0.saturating_sub(before.0);
        let slept = Duration::from_nanos(slept_ns);
        if slept < SLEPT {
            return false;
        }
        tracing::info!("the machine was suspended for {slept:.1?}");
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_host::clock::ManualClock;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn only_the_interval_with_a_suspension_does_not_count() {
        let clock = ManualClock::default();
        // A suspension before the daemon started is in no interval.
        clock.sleep(3600 * SECOND_NS);
        let mut sleep = Sleep::until_now(&clock);
        let mut passed = |slept_ns| {
            clock.advance(SECOND_NS);
            clock.sleep(slept_ns);
            sleep.has_slept(&clock)
        };
        assert!(!passed(0));
        assert!(passed(5 * SECOND_NS));
        assert!(!passed(0));
        // The two clocks are read one after the other, so that they differ a little.
        assert!(!passed(1_000_000));
        assert!(passed(SECOND_NS));
    }
}
