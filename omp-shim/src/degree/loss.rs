//! What smaller teams cost where they turn out to be slower.
//!
//! *Approach.* What was true of sixteen calls need not be true of the next thousand. So each call with fewer threads
//! than allowed is compared with the mean of the full team, during a trial and for as long as the size is in use. What
//! it loses adds up ([`Lag`], a one-sided cumulative sum [Page 1954]); the size is given up at [`TOLERATED`] calls'
//! worth. Trials begin only while what all have lost leaves room for what the next may lose ([`Budget`]).
//!
//! *Unit.* Ticks of the time stamp counter.
//!
//! *Invariants.* One call alone ends no team, however long: its thread may have lost its CPU for a moment.

use core::sync::atomic::{AtomicU64, Ordering};

/// Calls with each size that are counted.
pub(super) const WINDOW: u32 = 16;
/// Calls before them, which may have to make or end threads.
pub(super) const WARM_UP: u32 = 4;
/// Calls of the full team, as time, that a smaller one may lose.
const TOLERATED: u64 = 4;
/// Most of them that one call counts for.
const MOST_AT_ONCE: u64 = 3;
/// A call that gains makes up for one part in this many of such a call.
const MADE_UP: u64 = 16;
/// Of the full team's mean, what a call may take without being a loss: half of the gain that is asked for.
const BEARABLE_PERCENT: u64 = 95;

/// What trials may cost at first, half a millisecond or so.
const FREE: u64 = 1_000_000;
/// One part in this many of the time since the first trial may be lost, beside that.
const PARTS: u64 = 400;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    Holds,
    IsLost,
}

/// How far a smaller team is behind the full one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lag {
    ticks: u64,
}

impl Lag {
    pub(super) const fn none() -> Self {
        Self { ticks: 0 }
    }

    pub(super) fn count(&mut self, ticks: u64, full_mean: u64) -> Standing {
        let bearable = full_mean.saturating_mul(BEARABLE_PERCENT) / 100;
        if ticks > bearable {
            let most = full_mean.saturating_mul(MOST_AT_ONCE);
            self.ticks = self.ticks.saturating_add((ticks - bearable).min(most));
        } else {
            let gained = (bearable - ticks).min(full_mean / MADE_UP);
            self.ticks = self.ticks.saturating_sub(gained);
        }
        match self.ticks > full_mean.saturating_mul(TOLERATED) {
            true => Standing::IsLost,
            false => Standing::Holds,
        }
    }

    /// What a trial of one thread instead of `limit` may lose; at least one call of the full team. One thread takes at
    /// most as long as all together in the full team's shortest call, in which threads hardly waited for CPUs.
    pub(super) fn at_most(full_mean: u64, full_least: u64, limit: u32) -> u64 {
        let alone = full_least.saturating_mul(u64::from(limit));
        let one_call = alone.saturating_sub(full_mean);
        let calls = TOLERATED.div_ceil(MOST_AT_ONCE);
        let until_given_up = one_call
            .saturating_mul(calls)
            .max(full_mean.saturating_mul(TOLERATED));
        let in_all = one_call.saturating_mul(u64::from(WARM_UP + WINDOW));
        until_given_up.min(in_all).max(full_mean)
    }
}

#[derive(Debug)]
pub(super) struct Budget {
    /// When the first call was timed; 0 before.
    began: AtomicU64,
    lost: AtomicU64,
}

impl Budget {
    pub(super) const fn new() -> Self {
        Self {
            began: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }
    }

    pub(super) fn left(&self, now: u64) -> u64 {
        let mut began = self.began.load(Ordering::Relaxed);
        if began == 0 {
            self.began.store(now, Ordering::Relaxed);
            began = now;
        }
        let earned = now.saturating_sub(began) / PARTS;
        let lost = self.lost.load(Ordering::Relaxed);
        earned.saturating_add(FREE).saturating_sub(lost)
    }

    pub(super) fn charge(&self, ticks: u64) {
        if ticks > 0 {
            self.lost.fetch_add(ticks, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls until a team is given up whose calls take so much of the full team's time, in percent.
    fn calls_until_lost(percents: impl IntoIterator<Item = u64>) -> Option<usize> {
        let mut lag = Lag::none();
        percents
            .into_iter()
            .position(|percent| lag.count(percent * 100, 10_000) == Standing::IsLost)
            .map(|calls| calls + 1)
    }

    #[test]
    fn a_team_that_is_slower_is_given_up_after_a_few_calls() {
        assert_eq!(calls_until_lost([200; 100]), Some(4));
        assert_eq!(calls_until_lost([800; 100]), Some(2));
        assert!(calls_until_lost([120; 100]).is_some_and(|calls| calls < 20));
    }

    #[test]
    fn a_team_that_gains_is_kept_through_calls_that_lost_their_cpu() {
        let rarely = [100_000].into_iter().chain([50; 60]);
        assert_eq!(calls_until_lost(rarely.cycle().take(10_000)), None);
        let often = [100_000].into_iter().chain([50; 10]);
        assert_eq!(calls_until_lost(often.cycle().take(10_000)), Some(12));
    }

    #[test]
    fn a_function_that_does_large_work_now_and_then_is_given_up() {
        // The levels of a multigrid method, with one thread over their mean with two.
        let levels = [10, 2, 2, 10, 700, 90].repeat(9);
        assert_eq!(calls_until_lost(levels), Some(11));
    }

    #[test]
    fn a_trial_is_ended_before_it_has_lost_more_than_was_foreseen() {
        for limit in [2, 3, 4, 8, 64] {
            let full_mean = 10_000;
            let alone = full_mean * u64::from(limit);
            let mut lag = Lag::none();
            let mut lost = 0;
            loop {
                lost += alone - full_mean;
                if lag.count(alone, full_mean) == Standing::IsLost {
                    break;
                }
            }
            let foreseen = Lag::at_most(full_mean, full_mean, limit);
            assert!(lost <= foreseen + full_mean, "{limit}: {lost} {foreseen}");
        }
    }

    #[test]
    fn a_team_that_waits_for_cpus_is_cheaply_tried_with_one_thread() {
        // 4 threads that work for 100 each, and wait for 9,900 on the average.
        assert_eq!(Lag::at_most(10_000, 100, 4), 10_000);
        assert!(Lag::at_most(10_000, 10_000, 4) >= 40_000);
    }

    #[test]
    fn trials_may_lose_a_part_of_the_time_and_no_more() {
        let budget = Budget::new();
        assert_eq!(budget.left(5_000), FREE);
        budget.charge(FREE);
        assert_eq!(budget.left(5_000), 0);
        assert_eq!(budget.left(5_000 + 100 * PARTS), 100);
        budget.charge(3 * FREE);
        assert_eq!(budget.left(5_000 + 100 * PARTS), 0);
    }
}
