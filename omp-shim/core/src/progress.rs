//! Counting what a thread has completed: iterations of loops that the runtime dispenses in chunks, and parallel
//! regions.
//!
//! *Approach.* A thread that asks for its next chunk has done the one before. The time is noted at the end of loops and
//! regions only: reading the clock costs as much as a small chunk. The clock ticks every few milliseconds; where many
//! regions end between two ticks, most do not read it.
//!
//! *Parallel time.* How long regions take is measured by sample: the time between begin and end of each region that will
//! note the time counts for itself and for those before it that did not. Of many short regions every 17th is measured;
//! an odd number, so that programs whose regions repeat in pairs or fours are sampled evenly.
//!
//! *Invariants.* A chunk costs one addition in the thread's own cache line, and a division only if the increment is not
//! one.

use core::sync::atomic::Ordering;

use mapper_abi::{SlotClaim, SlotSharing};

use crate::features::features;
use crate::thread_state::ThreadState;
use crate::{attachment, clock};

/// The thread came back for more: the chunk it had is done.
#[inline(always)]
pub fn chunk_done(thread: &ThreadState) {
    let done = thread.pending.get();
    if done != 0
        && let Some(claim) = attachment::slot(thread)
    {
        claim.add(&claim.slot.iterations, done);
    }
}

/// There was no more: the thread's share of the loop is done.
#[inline]
pub fn loop_done(thread: &ThreadState) {
    thread.pending.set(0);
    thread.stride_less_one.set(0);
    thread.loop_over();
    if let Some(slot) = thread.slot.get() {
        slot.last_progress_ns
            .store(clock::coarse_now_ns(), Ordering::Relaxed);
    }
}

/// The thread has done so many iterations of a loop, and is done with the loop.
pub fn iterations_done(thread: &ThreadState, iterations: u64) {
    if let Some(claim) = attachment::slot(thread) {
        claim.add(&claim.slot.iterations, iterations);
        claim
            .slot
            .last_progress_ns
            .store(clock::coarse_now_ns(), Ordering::Relaxed);
    }
}

/// When a region began, if its time is measured.
#[derive(Clone, Copy)]
pub struct Began(u64);

impl Began {
    /// A region whose time is not measured.
    pub const UNTIMED: Self = Self(0);

    /// A region that the thread begins now.
    #[inline(always)]
    pub fn now(thread: &ThreadState, claim: SlotClaim<'_>) -> Self {
        if skips_stamp(thread) {
            return Self::UNTIMED;
        }
        Self::timed(claim)
    }

    #[inline(never)]
    fn timed(claim: SlotClaim<'_>) -> Self {
        let now_ns = clock::now_ns();
        if claim.sharing == SlotSharing::Own {
            claim
                .slot
                .parallel_since_ns
                .store(now_ns, Ordering::Relaxed);
        }
        Self(now_ns)
    }
}

/// Whether [`region_done`] will only count.
#[inline(always)]
pub fn skips_stamp(thread: &ThreadState) -> bool {
    thread.regions_to_stamp.get() != 0
}

/// A region that the thread began is done.
#[inline(always)]
pub fn region_done(thread: &ThreadState, claim: SlotClaim<'_>, began: Began) {
    claim.add(&claim.slot.regions, 1);
    match thread.regions_to_stamp.get().checked_sub(1) {
        Some(fewer) => thread.regions_to_stamp.set(fewer),
        None => stamp_region(thread, claim, began),
    }
}

/// Notes the time; again after the next region if the clock has ticked since, else after twice as many as before.
#[inline(never)]
fn stamp_region(thread: &ThreadState, claim: SlotClaim<'_>, Began(began_ns): Began) {
    if began_ns != 0 {
        let lasted_ns = clock::now_ns().saturating_sub(began_ns);
        let regions = u64::from(thread.regions_skipped.get()) + 1;
        claim.add(&claim.slot.parallel_ns, lasted_ns.saturating_mul(regions));
        claim.slot.parallel_since_ns.store(0, Ordering::Relaxed);
    }
    let (slot, now_ns) = (claim.slot, clock::coarse_now_ns());
    // Not in one step: that would wait until all that was written before has reached the cache.
    let ticked = slot.last_progress_ns.load(Ordering::Relaxed) != now_ns;
    if ticked {
        slot.last_progress_ns.store(now_ns, Ordering::Relaxed);
        (features().clock_ticked)(thread, now_ns);
    }
    let skipped = if ticked {
        0
    } else {
        (2 * thread.regions_skipped.get() + 1).min(MAX_SKIPPED)
    };
    thread.regions_skipped.set(skipped);
    thread.regions_to_stamp.set(skipped);
}

const MAX_SKIPPED: u8 = 16;

/// The iterations in a chunk from `first` up to, and without, `end`, in units of the loop variable.
#[inline(always)]
pub fn chunk_size(first: i64, end: i64, stride_less_one: i64) -> u64 {
    let distance = end.wrapping_sub(first);
    if stride_less_one == 0 {
        return distance as u64;
    }
    divide_by_stride(distance, stride_less_one.wrapping_add(1))
}

/// Rounds up in magnitude; nothing for an increment of zero, which no loop has.
#[cold]
fn divide_by_stride(distance: i64, stride: i64) -> u64 {
    let steps = distance.checked_div(stride).unwrap_or(0);
    let rest = distance.checked_rem(stride).unwrap_or(0);
    steps.unsigned_abs().wrapping_add(u64::from(rest != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_has_as_many_iterations_as_the_loop_makes() {
        for (first, end, stride) in [
            (0, 10, 1),
            (0, 10, 3),
            (10, 0, -1),
            (10, 0, -3),
            (-5, 7, 4),
            (3, 3, 2),
            (0, 1, 100),
        ] {
            let mut iterations = 0;
            let mut variable: i64 = first;
            while (variable < end && stride > 0) || (variable > end && stride < 0) {
                iterations += 1;
                variable += stride;
            }
            let size = chunk_size(first, end, stride - 1);
            assert_eq!(size, iterations, "{first} {end} {stride}");
        }
    }

    #[test]
    fn impossible_loops_do_no_harm() {
        assert_eq!(chunk_size(0, 5, -1), 0);
        chunk_size(i64::MIN, 0, -2);
        chunk_size(0, i64::MIN, -2);
    }
}
