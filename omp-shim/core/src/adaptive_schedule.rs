//! How the threads of a team go through a loop whose chunks grow ([`crate::shared_loop`]).

use core::ffi::c_void;
use core::sync::atomic::Ordering;

use crate::attachment;
use crate::shared_loop::{BEING_MADE, Chunk, FREE, LOOPS, SharedLoop, SharedLoops, Span};
use crate::team_record::TeamRecord;
use crate::thread_state::ThreadState;

/// Has the thread take chunks of a loop that it begins, where the loops of the region grow.
pub fn begin(thread: &ThreadState, span: impl FnOnce() -> Span) -> bool {
    let found = thread
        .record()
        .and_then(|record| Some((record, record.loops_of_region?)));
    let Some((record, loops_of_region)) = found.filter(|(record, _)| record.is_outermost()) else {
        return false;
    };
    let number = u64::from(thread.loops_begun.get());
    let Some(shared) = loops_of_region.loops.get(number as usize % LOOPS) else {
        return false;
    };
    prepare(record, shared, number, span);
    thread.set_shared_loop(Some(shared));
    true
}

/// Sets the loop up unless another thread has; waits until that is done and until the place is free.
fn prepare(record: &TeamRecord, shared: &SharedLoop, number: u64, span: impl FnOnce() -> Span) {
    let mut span = Some(span);
    loop {
        let state = shared.state.load(Ordering::Acquire);
        if state == number {
            return;
        }
        let won = state == FREE
            && shared
                .state
                .compare_exchange(FREE, BEING_MADE, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if won && let Some(span) = span.take() {
            deal(shared, span(), record.runtime.max_threads(record.family));
            shared.state.store(number, Ordering::Release);
            return;
        }
        std::thread::yield_now();
    }
}

/// The thread's next chunk of the loop it is in.
pub fn next(thread: &ThreadState, shared: &'static SharedLoop) -> Option<Chunk> {
    let chunk = shared.take_here(thread.rank.get());
    if chunk.is_none() {
        thread.set_shared_loop(None);
        leave(thread, shared);
    }
    chunk
}

/// The thread has left the loop; the last one frees its place.
fn leave(thread: &ThreadState, shared: &SharedLoop) {
    let members = thread
        .record()
        .map_or(0, |record| record.runtime.team_size(record.family));
    if shared.left.fetch_add(1, Ordering::AcqRel) + 1 == members {
        shared.state.store(FREE, Ordering::Release);
    }
}

/// Has the shim dispense the loop in which an outermost region begins, if the user wants that; says whether it does.
///
/// # Safety
/// `record` is the [`TeamRecord`] of the region.
pub unsafe fn prepare_loop(record: *mut c_void, span: impl FnOnce() -> Span) -> bool {
    // SAFETY: the caller vouches for it.
    let record = unsafe { &*record.cast::<TeamRecord>() };
    let applies = record.loops_of_region.is_some()
        && record.first_loop != 0
        && record.runtime.level(record.family) == 0;
    if applies && let Some(shared) = record.loops_of_region.and_then(SharedLoops::first_loop) {
        prepare(record, shared, 1, span);
    }
    applies
}

/// Divides a loop among the NUMA nodes of the program's CPUs; `team` is its threads, where the CPUs are not known.
pub fn deal(shared: &SharedLoop, span: Span, team: u32) {
    let cpus = match attachment::cpu_count() {
        0 => team,
        cpus => cpus,
    };
    shared.fill(span, cpus.into(), attachment::node_mask());
}
