//! How long it pays to go on spinning where a thread has a CPU of its own.
//!
//! *Problem.* What mapper does not manage may use the program's CPUs. Then a carrier that spins keeps its CPU from the
//! very thread for which the others wait, and each barrier takes a time slice. The allocation does not tell.
//!
//! *Approach.* Spinning in vain (for another cause than the other threads' work, or a serial phase) makes the next one
//! a quarter as long; rewarded spinning doubles it. At the shortest, many sleeps in a row that spinning could have
//! spared make one try that would have spared them all.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// How many times as long a thread spins that keeps no other from running: with the launcher's 10 µs, a millisecond.
pub const MOST_PATIENCE: u32 = 100;
/// Turns after which no thread is patient any longer: what libgomp spins in a program that is alone.
pub const MOST_TURNS: u32 = 300_000;

/// How many times as long as the shortest, as a power of two.
const HIGHEST: u32 = 7;
const SLEEPS: u32 = 64;
/// How long threads spin at the lowest level, about: what the launcher chose.
const BASE_NS: u64 = 10_000;
/// What counts as a short sleep: about as long as the longest spinning.
const SHORT_NS: u64 = 1_000_000;

/// Threads of the process share it; what gets lost where two write at the same time does not matter.
#[derive(Debug)]
pub struct Patience {
    level: AtomicU32,
    /// Short sleeps in a row at the lowest level.
    short_sleeps: AtomicU32,
    longest_ns: AtomicU64,
}

impl Patience {
    /// All of it.
    pub const fn full() -> Self {
        Self {
            level: AtomicU32::new(HIGHEST),
            short_sleeps: AtomicU32::new(0),
            longest_ns: AtomicU64::new(0),
        }
    }

    /// How many times as long to spin as without patience.
    pub fn times(&self) -> u32 {
        1 << self.level.load(Ordering::Relaxed).min(HIGHEST)
    }

    /// Patient spinning came to what it was waiting for.
    pub fn rewarded(&self) {
        let level = self.level.load(Ordering::Relaxed);
        if level < HIGHEST {
            self.level.store(level + 1, Ordering::Relaxed);
        }
    }

    /// Spinning as long as [`Self::times`] says was in vain, and the wait took so long in all.
    pub fn slept(&self, nanoseconds: u64) {
        let level = self.level.load(Ordering::Relaxed);
        if level > 0 {
            self.level.store(level.saturating_sub(2), Ordering::Relaxed);
            self.short_sleeps.store(0, Ordering::Relaxed);
            return;
        }
        if nanoseconds >= SHORT_NS {
            self.short_sleeps.store(0, Ordering::Relaxed);
            return;
        }
        let before = self.short_sleeps.load(Ordering::Relaxed);
        let longest_ns = match before {
            0 => nanoseconds,
            _ => nanoseconds.max(self.longest_ns.load(Ordering::Relaxed)),
        };
        self.longest_ns.store(longest_ns, Ordering::Relaxed);
        self.short_sleeps
            .store((before + 1) % SLEEPS, Ordering::Relaxed);
        if before + 1 == SLEEPS {
            self.level.store(level_for(longest_ns), Ordering::Relaxed);
        }
    }
}

/// The least level, but for the lowest, at which threads spin for so long.
fn level_for(nanoseconds: u64) -> u32 {
    let enough = |level: &u32| BASE_NS << level >= nanoseconds;
    (1..HIGHEST).find(enough).unwrap_or(HIGHEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(long_sleeps: u32) -> Patience {
        let patience = Patience::full();
        (0..long_sleeps).for_each(|_| patience.slept(SHORT_NS));
        patience
    }

    #[test]
    fn a_few_waits_in_vain_end_it_and_rewards_bring_it_back() {
        let all = Patience::full().times();
        assert!(all >= 100);
        assert_eq!(after(1).times(), all / 4);
        let patience = after(4);
        assert_eq!(patience.times(), 1);
        for times in [2, 4, 8] {
            patience.rewarded();
            assert_eq!(patience.times(), times);
        }
        (0..100).for_each(|_| patience.rewarded());
        assert_eq!(patience.times(), all);
    }

    #[test]
    fn a_serial_phase_between_many_short_waits_costs_little_of_it() {
        let patience = Patience::full();
        for _ in 0..1_000 {
            patience.slept(10 * SHORT_NS);
            (0..3).for_each(|_| patience.rewarded());
        }
        assert_eq!(patience.times(), Patience::full().times());
    }

    #[test]
    fn many_short_sleeps_in_a_row_make_one_try() {
        let patience = after(4);
        for _ in 0..10 {
            (1..SLEEPS).for_each(|_| patience.slept(SHORT_NS - 1));
            patience.slept(SHORT_NS);
        }
        assert_eq!(patience.times(), 1);
        (0..SLEEPS).for_each(|_| patience.slept(10_000));
        assert_eq!(patience.times(), 2);
        patience.slept(SHORT_NS);
        assert_eq!(patience.times(), 1);
        // As much as would have spared the longest of them.
        patience.slept(150_000);
        (1..SLEEPS).for_each(|_| patience.slept(20_000));
        assert_eq!(patience.times(), 16);
        (0..2).for_each(|_| patience.slept(SHORT_NS));
        assert_eq!(patience.times(), 1);
        (0..SLEEPS).for_each(|_| patience.slept(20_000));
        assert_eq!(patience.times(), 2);
    }
}
