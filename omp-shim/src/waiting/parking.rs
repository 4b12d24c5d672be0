//! Parking: threads for which there is no CPU leave dispensed loops to the others.
//!
//! *Approach.* A thread whose number in its team is not below the number of CPUs sleeps when it asks for a chunk, until
//! another thread has found the loop exhausted or the allocation has grown. To runtime and program it is as if the
//! kernel had not scheduled the thread, so every result is that of a conforming run. Thread 0 never parks, and short
//! loops may not be worth it ([`crate::waiting::loop_length`]). Sleepers of all teams share one bell in the page
//! ([`mapper_abi::doorbell`]), rung with each allocation and by a thread that finds a loop exhausted when members of
//! its team are parked.
//!
//! *Programs whose iterations wait for one another* would be slow or stuck if a parked thread had to do the iteration
//! that another one waits for. So no thread sleeps longer than [`PATIENCE`] without taking a chunk; and where that is
//! repeatedly in vain, because the program completed nothing in all that time, parking ends for good.
//!
//! *Invariants.* A chunk costs two loads and a comparison. Static schedules are left alone.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

use mapper_abi::ReportFlags;
use mapper_abi::doorbell::{self, WaitEnd};
use mapper_shim_core::runtime::{Family, Runtime};
use mapper_shim_core::team_record::{Beginning, TeamRecord};
use mapper_shim_core::thread_state::ThreadState;
use mapper_shim_core::{attachment, clock, waits};

use crate::waiting::loop_length::{self, Excess, LoopLength};

const PATIENCE: Duration = Duration::from_millis(200);
/// How often no thread of the program may have completed anything in the second half of such a sleep.
const PATIENCE_TIMES: u32 = 3;

/// How often none had.
static STALLED: AtomicU32 = AtomicU32::new(0);
static LOOPS: LoopLength = LoopLength::new();

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dispensed {
    Always,
    /// `schedule(runtime)`: it depends on the schedule that is set.
    IfScheduled,
    /// They are not, or not by a team that is acted upon.
    Never,
}

#[inline(always)]
pub(crate) fn combined_loop(runtime: &Runtime, dispensed: Dispensed, increment: i64) -> Beginning {
    if dispensed == Dispensed::Always || runtime.dispenses_runtime_loops(Family::Gomp) {
        Beginning::Loop(increment)
    } else {
        Beginning::StaticLoop(increment)
    }
}

/// To be called when a thread begins a loop, before its first chunk. Says for certain whether it is dispensed.
#[inline]
pub(crate) fn before_loop(
    thread: &ThreadState,
    runtime: &Runtime,
    dispensed: Dispensed,
) -> Dispensed {
    if thread.record.get().is_none() {
        return Dispensed::Never;
    }
    let is_dispensed =
        dispensed == Dispensed::Always || runtime.dispenses_runtime_loops(Family::Gomp);
    note_loop(thread, is_dispensed);
    before_chunk(thread);
    match is_dispensed {
        true => Dispensed::Always,
        false => Dispensed::Never,
    }
}

/// To be called when a thread begins a loop. Others may do its share if it `is_dispensed`.
#[inline]
pub(crate) fn note_loop(thread: &ThreadState, is_dispensed: bool) {
    if let Some(record) = thread.record() {
        thread.begin_loop(record);
        if !is_dispensed {
            thread.rank.set(0);
        }
    }
}

/// To be called when a thread asks for a chunk of a loop that is dispensed: parks it if it has no CPU.
#[inline(always)]
pub(crate) fn before_chunk(thread: &ThreadState) {
    if is_excess(thread) {
        park(thread);
    }
}

/// Whether there are no more CPUs than threads with lower numbers. A count of 0 means that nothing was decided.
#[inline(always)]
fn is_excess(thread: &ThreadState) -> bool {
    thread.rank.get() > attachment::cpu_count().wrapping_sub(1)
}

#[cold]
#[inline(never)]
fn park(thread: &ThreadState) {
    let (Some(record), Some(bell)) = (thread.record(), attachment::bell()) else {
        return;
    };
    if STALLED.load(Ordering::Relaxed) >= PATIENCE_TIMES {
        return;
    }
    let number = thread.loops_begun.get();
    if passes(thread, record) {
        return;
    }
    // Seen when half of the patience is over: what was completed just before is counted by then.
    let mut done_before = None;
    let parked_ns = clock::now_ns();
    record.park();
    loop {
        let heard = doorbell::listen(bell);
        if record.is_exhausted(number) {
            LOOPS.note(clock::now_ns().saturating_sub(parked_ns));
            break;
        }
        if !is_excess(thread) {
            break;
        }
        if doorbell::wait(bell, heard, PATIENCE / 2) == WaitEnd::TimedOut {
            let done = attachment::completions();
            let Some(before) = done_before.replace(done) else {
                continue;
            };
            if before == done && STALLED.fetch_add(1, Ordering::Relaxed) + 1 == PATIENCE_TIMES {
                attachment::report_flag(ReportFlags::PARKING_ENDED);
            }
            break;
        }
    }
    record.unpark();
    waits::count(thread, clock::now_ns().saturating_sub(parked_ns));
}

/// Whether the thread goes on without a CPU of its own, as loops are short.
fn passes(thread: &ThreadState, record: &TeamRecord) -> bool {
    // libomp's threads do not sleep at once by the same variables.
    if record.family != Family::Gomp || !loop_length::waiting_is_sleep() {
        return false;
    }
    match LOOPS.decide(thread.passes_since_us.get(), clock::now_ns()) {
        Excess::PassesSince(since_us) => {
            thread.passes_since_us.set(since_us);
            true
        }
        Excess::Parks => false,
    }
}
