//! Whether dispensed loops last long enough for parking: a parked thread is put to sleep and woken once more than one
//! that sleeps at the loop's end, which costs two changes of thread in a loop of 100 µs.
//!
//! *Approach.* In programs whose threads sleep there anyway, when the end of a loop woke [`ENOUGH`] parked threads in a
//! row within [`SHORT_US`], the next ones ask for chunks as if they had a CPU. One that still gets chunks of the same
//! loop after that time parks.
//!
//! *Unit.* Microseconds of `CLOCK_MONOTONIC`, modulo 2³² (72 minutes; a multiple of that may be taken for short once).

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use mapper_shim_core::environment;

const SHORT_US: u32 = 500;
const SHORT_NS: u64 = SHORT_US as u64 * 1_000;
/// Parked threads in a row that show so.
const ENOUGH: u32 = 64;

/// What parked threads have seen of loops. Shared by the threads of the process; lost updates do not matter.
#[derive(Debug)]
pub(crate) struct LoopLength {
    short_in_a_row: AtomicU32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Excess {
    /// It asks for a chunk, and is in the loop without a CPU of its own since that time.
    PassesSince(u32),
    Parks,
}

impl LoopLength {
    pub(crate) const fn new() -> Self {
        Self {
            short_in_a_row: AtomicU32::new(0),
        }
    }

    /// What a thread does that passes in this loop since `since_us`, 0 for not at all, at this time.
    pub(crate) fn decide(&self, since_us: u32, now_ns: u64) -> Excess {
        let now_us = ((now_ns / 1_000) as u32).max(1);
        if self.short_in_a_row.load(Ordering::Relaxed) < ENOUGH {
            return Excess::Parks;
        }
        match since_us {
            0 => Excess::PassesSince(now_us),
            _ if now_us.wrapping_sub(since_us) < SHORT_US => Excess::PassesSince(since_us),
            _ => {
                self.short_in_a_row.store(0, Ordering::Relaxed);
                Excess::Parks
            }
        }
    }

    pub(crate) fn note(&self, parked_ns: u64) {
        let in_a_row = self.short_in_a_row.load(Ordering::Relaxed);
        let now = match parked_ns < SHORT_NS {
            true => (in_a_row + 1).min(ENOUGH),
            false => 0,
        };
        if now != in_a_row {
            self.short_in_a_row.store(now, Ordering::Relaxed);
        }
    }
}

/// Whether threads of libgomp sleep as soon as they wait, by its environment.
pub(crate) fn waiting_is_sleep() -> bool {
    /// 0 while nobody looked.
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            let sleeps = environment::libgomp_sleeps_at_once();
            KNOWN.store(1 + u8::from(sleeps), Ordering::Relaxed);
            sleeps
        }
        known => known == 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(parked_ns: impl IntoIterator<Item = u64>) -> LoopLength {
        let length = LoopLength::new();
        parked_ns.into_iter().for_each(|ns| length.note(ns));
        length
    }

    const SHORT: [u64; ENOUGH as usize] = [SHORT_NS - 1; ENOUGH as usize];

    #[test]
    fn threads_park_until_many_loops_in_a_row_were_short() {
        assert_eq!(after([]).decide(0, 7), Excess::Parks);
        assert_eq!(after(SHORT).decide(0, 7_000), Excess::PassesSince(7));
        let interrupted = SHORT.into_iter().skip(1).chain([SHORT_NS, 1, 1]);
        assert_eq!(after(interrupted).decide(0, 7), Excess::Parks);
    }

    #[test]
    fn a_loop_that_turns_out_long_has_its_threads_park_and_those_of_the_next_ones() {
        let length = after(SHORT);
        assert_eq!(length.decide(7, 6_000 + SHORT_NS), Excess::PassesSince(7));
        assert_eq!(length.decide(7, 7_000 + SHORT_NS), Excess::Parks);
        assert_eq!(length.decide(0, 8_000 + SHORT_NS), Excess::Parks);
    }

    #[test]
    fn the_time_may_wrap_around() {
        let length = after(SHORT);
        let wrap_ns = 1_000 << 32;
        assert_eq!(length.decide(0, wrap_ns), Excess::PassesSince(1));
        assert_eq!(
            length.decide(u32::MAX, wrap_ns + 2_000),
            Excess::PassesSince(u32::MAX)
        );
        assert_eq!(length.decide(u32::MAX, wrap_ns + SHORT_NS), Excess::Parks);
    }
}
