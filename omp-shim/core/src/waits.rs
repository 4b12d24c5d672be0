//! How long threads wait for one another at barriers: what judges a program by its instructions [MAPPER §3.2] has to
//! know.
//!
//! *Unit.* Nanoseconds of thread time between arriving at a barrier and leaving it, spinning or asleep; between the end
//! of a thread's part of a region and the end of the region (for pool threads: the beginning of the next one); and time
//! parked. In a virtual team the carriers wait; the pool's owner counts for the threads that carry nothing.
//!
//! *Approach.* Reading the clock twice costs as much as a fast barrier. So after a short wait a random number of waits
//! is skipped (at random, so as not to fall into step with the program), and the next one measured stands for them. If
//! that one is long, each of those skipped counts for the longest short wait, and none is skipped as long as one of the
//! last [`WATCHFUL`] waits was long.
//!
//! *Tasks.* Threads that wait may carry out tasks, and the runtimes do not tell when. A wait is left out if its region
//! has had a task or one is made meanwhile ([`crate::waiting::tasks`]), so the sum is a lower bound, which the daemon
//! expects. `taskwait` and the end of a task group do not count as waiting.
//!
//! *Invariants.* No work is counted. A wait that is not measured costs a decrement and a comparison. Only outermost
//! teams are measured. Threads that share a slot add atomically.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::features::features;
use crate::team_record::TeamRecord;
use crate::thread_state::{self, ThreadState, thread_block};
use crate::{attachment, clock};

/// Shorter waits are sampled. More than unequal parts of a short loop or a timer tick make: at 4 µs 62 % were measured.
const SHORT_NS: u64 = 16_000;
/// Most waits skipped in a row, a power of two, less one.
const MOST_SKIPPED: u64 = 127;

/// Waits after a long one that are all measured.
const WATCHFUL: u16 = 256;

/// How often it has come up that threads which wait may do work meanwhile.
static WORK_CAME_UP: AtomicU32 = AtomicU32::new(0);

/// A thread's waits.
#[derive(Debug, Default)]
pub struct Waits {
    /// Of those after a long one, how many are still to be measured.
    watchful: Cell<u16>,
    to_skip: Cell<u16>,
    /// Waits that the next one measured stands for, besides itself.
    skipped: Cell<u16>,
    /// When the thread left its part of the last region; 0 when that is not measured.
    left_region_ns: Cell<u64>,
    /// [`WORK_CAME_UP`] at that time.
    left_region_work: Cell<u32>,
    /// The runtime is in a barrier that is measured, and may come to another one on its way.
    in_barrier: Cell<bool>,
}

thread_block! {
    waits: Waits, "mapper_omp_waits"
}

impl Waits {
    #[inline(always)]
    fn is_chosen(&self) -> bool {
        match self.to_skip.get().checked_sub(1) {
            Some(fewer) => {
                self.to_skip.set(fewer);
                false
            }
            None => true,
        }
    }

    fn skip_another(&self) {
        self.to_skip.set(self.to_skip.get().saturating_add(1));
    }

    /// What a wait of this length counts for; decides which wait is measured next.
    fn weigh(&self, waited_ns: u64, random: u64) -> u64 {
        let skipped = u64::from(self.skipped.get());
        let watchful = match waited_ns < SHORT_NS {
            true => self.watchful.get().saturating_sub(1),
            false => WATCHFUL,
        };
        self.watchful.set(watchful);
        let skip = match watchful {
            0 => (random & MOST_SKIPPED) as u16,
            _ => 0,
        };
        self.skipped.set(skip);
        self.to_skip.set(skip);
        waited_ns.saturating_add(waited_ns.min(SHORT_NS) * skipped)
    }

    /// The chosen wait may have been work: it stands for none of those skipped, and the next one is chosen.
    fn leave_out(&self) {
        self.skipped.set(0);
    }
}

/// Runs `wait`, which is a barrier.
#[inline(always)]
pub fn at_barrier<T>(thread: &ThreadState, wait: impl FnOnce() -> T) -> T {
    match thread.record.get() {
        None => wait(),
        Some(_) => for_others(thread, wait),
    }
}

/// Runs `perhaps`, in which the calling thread waits or not: `waited` tells by its result.
#[inline(always)]
pub fn at_barrier_or_not<T>(
    thread: &ThreadState,
    perhaps: impl FnOnce() -> T,
    waited: impl FnOnce(&T) -> bool,
) -> T {
    if thread.record.get().is_none() {
        return perhaps();
    }
    measure(thread, perhaps, waited)
}

/// Runs `wait`, which is a barrier for which the runtime may call another one's function: that is the same wait.
#[inline]
pub fn at_barrier_by_another<T>(thread: &ThreadState, wait: impl FnOnce() -> T) -> T {
    at_barrier(thread, || {
        waits().in_barrier.set(true);
        let result = wait();
        waits().in_barrier.set(false);
        result
    })
}

/// Whether a wait is part of one that is measured already.
#[inline(always)]
pub fn is_in_barrier() -> bool {
    waits().in_barrier.get()
}

/// Runs `wait`, in which the calling thread waits for others.
#[inline(always)]
pub fn for_others<T>(thread: &ThreadState, wait: impl FnOnce() -> T) -> T {
    measure(thread, wait, |_| true)
}

#[inline(always)]
fn measure<T>(
    thread: &ThreadState,
    wait: impl FnOnce() -> T,
    waited: impl FnOnce(&T) -> bool,
) -> T {
    if !waits().is_chosen() {
        let result = wait();
        if !waited(&result) {
            waits().skip_another();
        }
        return result;
    }
    let work = work_to_come(thread);
    let from_ns = clock::now_ns();
    let result = wait();
    if waited(&result) {
        // The wait may have moved the thread's state to another place.
        count_since(thread_state::current(), from_ns, work);
    }
    result
}

/// [`WORK_CAME_UP`], if threads of the region in which the calling one is have nothing to do so far while they wait.
#[inline]
fn work_to_come(thread: &ThreadState) -> Option<u32> {
    // In this order: of tasks that this number does not tell of, the team record does.
    let work = WORK_CAME_UP.load(Ordering::Acquire);
    let none_yet = !thread.record().is_some_and(TeamRecord::has_tasks);
    none_yet.then_some(work)
}

/// The thread is about to make a task.
#[inline]
pub fn task_comes(thread: &ThreadState) {
    // Without a team record its threads count no waits.
    if let Some(record) = thread.record() {
        record.note_task(work_comes);
    }
}

/// Threads that wait may have work from now on of which nothing more will be heard.
pub fn work_comes() {
    WORK_CAME_UP.fetch_add(1, Ordering::Release);
}

/// The thread has done its part of a region.
#[inline(always)]
pub fn leave_region() {
    if waits().is_chosen() {
        note_leaving(thread_state::current());
    }
}

#[cold]
#[inline(never)]
fn note_leaving(thread: &ThreadState) {
    let now_ns = clock::now_ns();
    match work_to_come(thread) {
        Some(work) => {
            waits().left_region_ns.set(now_ns);
            waits().left_region_work.set(work);
        }
        None => leave_out(now_ns),
    }
}

/// Whether [`end_region`] has nothing to do.
#[inline(always)]
pub fn are_counted() -> bool {
    waits().left_region_ns.get() == 0
}

/// The region is over for the thread that began it, or another one begins for a thread of the pool.
#[inline(always)]
pub fn end_region(thread: &ThreadState) {
    let from_ns = waits().left_region_ns.replace(0);
    if from_ns != 0 {
        count_since(thread, from_ns, Some(waits().left_region_work.get()));
    }
}

/// What the thread has waited for since it left its part of a region was not the end of that region.
#[inline(always)]
pub fn forget() {
    waits().left_region_ns.set(0);
}

/// Counts a wait that was measured for its own sake.
pub fn count(thread: &ThreadState, waited_ns: u64) {
    if let Some(claim) = attachment::slot(thread) {
        claim.add(&claim.slot.wait_ns, waited_ns);
    }
}

/// Counts a wait that has just ended, if none of it was work: `work` is what [`work_to_come`] said when it began.
#[cold]
#[inline(never)]
fn count_since(thread: &ThreadState, from_ns: u64, work: Option<u32>) {
    let now_ns = clock::now_ns();
    if work != Some(WORK_CAME_UP.load(Ordering::Relaxed)) {
        return leave_out(now_ns);
    }
    let random = now_ns.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let waited_ns = now_ns.saturating_sub(from_ns);
    count(thread, waits().weigh(waited_ns, random));
    (features().waited)(waited_ns, now_ns);
}

fn leave_out(now_ns: u64) {
    waits().leave_out();
    (features().wait_passed)(now_ns);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_waits_are_all_measured_and_count_as_they_are() {
        let waits = Waits::default();
        for random in 0..100 {
            assert!(waits.is_chosen());
            assert_eq!(waits.weigh(1_000_000, random), 1_000_000);
        }
    }

    #[test]
    fn a_long_wait_after_short_ones_does_not_stand_for_them() {
        let (waits, second_ns) = (Waits::default(), 1_000_000_000);
        assert!(waits.is_chosen());
        assert_eq!(waits.weigh(100, MOST_SKIPPED), 100);
        while !waits.is_chosen() {}
        let counted_ns = waits.weigh(second_ns, 0);
        assert_eq!(counted_ns, second_ns + MOST_SKIPPED * SHORT_NS);
    }

    /// How many of so many waits are measured, what is counted of them, and what they took.
    fn count_of(waits: u64, length_ns: impl Fn(u64) -> u64) -> [u64; 3] {
        let thread = Waits::default();
        let (mut measured, mut counted_ns, mut true_ns, mut random) = (0, 0, 0, 1_u64);
        for length_ns in (0..waits).map(length_ns) {
            true_ns += length_ns;
            if thread.is_chosen() {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                measured += 1;
                counted_ns += thread.weigh(length_ns, random >> 40);
            }
        }
        [measured, counted_ns, true_ns]
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn long_waits_among_short_ones_are_not_missed() {
        for every in [2, 10, 100] {
            for long_ns in [50_000, 1_000_000] {
                let length_ns = |wait| match wait % every {
                    0 => long_ns,
                    _ => 1_000,
                };
                let [_, counted_ns, true_ns] = count_of(100_000, length_ns);
                let share = counted_ns as f64 / true_ns as f64;
                assert!((0.9..1.1).contains(&share), "{every} {long_ns}: {share}");
            }
        }
    }

    #[test]
    fn a_short_wait_stands_for_those_that_were_skipped_before_it() {
        let [measured, counted_ns, true_ns] = count_of(100_000, |_| 100);
        assert!(measured < 10_000, "{measured} measured");
        let missing_ns = true_ns.checked_sub(counted_ns).unwrap();
        assert!(missing_ns < 100 * (MOST_SKIPPED + 1), "{missing_ns}");
    }
}
