//! How the threads of a team go through a loop whose chunks grow ([`crate::shared_loop`]).

use crate::adaptive_schedule;
use core::ffi::c_void;
use core::sync::atomic::Ordering;

use crate::attachment;
use crate::crew::Crew;
use crate::shared_loop::{BEING_MADE, Chunk, FREE, Hall, LOOPS, SharedLoop, Span};
use crate::thread_state::ThreadState;

/// Has the thread take chunks of a loop that it begins, if that is the crew's way.
pub fn begin(thread: &ThreadState, span: impl FnOnce() -> Span) -> bool {
    let found = thread.crew().and_then(|crew| Some((crew, crew.hall?)));
    let Some((crew, hall)) = found.filter(|(crew, _)| crew.is_outermost()) else {
        return false;
    };
    let number = u64::from(thread.loops_begun.get());
    let Some(shared) = hall.loops.get(number as usize % LOOPS) else {
        return false;
    };
    prepare(crew, shared, number, span);
    thread.set_shared_loop(Some(shared));
    true
}

/// Makes the loop in which the threads of a region begin.
pub fn prepare_first(crew: &Crew, span: impl FnOnce() -> Span) {
    if let Some(shared) = crew.hall.and_then(Hall::first_loop) {
        prepare(crew, shared, 1, span);
    }
}

/// Makes the loop, unless another thread does or has done; waits until that is done and, before, until
/// the place is free.
fn prepare(crew: &Crew, shared: &SharedLoop, number: u64, span: impl FnOnce() -> Span) {
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
            deal(shared, span(), crew.runtime.max_threads(crew.family));
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

/// The thread needs the loop no more; the last one to say so frees its place.
fn leave(thread: &ThreadState, shared: &SharedLoop) {
    let members = thread
        .crew()
        .map_or(0, |crew| crew.runtime.team_size(crew.family));
    if shared.left.fetch_add(1, Ordering::AcqRel) + 1 == members {
        shared.state.store(FREE, Ordering::Release);
    }
}

/// Has the loop in which a region begins dispensed by the shim, if that is wanted and the region is an
/// outermost one; says whether it is.
///
/// # Safety
/// `crew` is the [`Crew`] of the region.
pub unsafe fn prepare_loop(crew: *mut c_void, span: impl FnOnce() -> Span) -> bool {
    // SAFETY: the caller vouches for it.
    let crew = unsafe { &*crew.cast::<Crew>() };
    let applies =
        crew.hall.is_some() && crew.first_loop != 0 && crew.runtime.level(crew.family) == 0;
    if applies {
        adaptive_schedule::prepare_first(crew, span);
    }
    applies
}

/// Deals the iterations of a loop out to the nodes of the program's CPUs; `team` is how many threads there are to take
/// them, where the number of CPUs has not been decided.
pub fn deal(shared: &SharedLoop, span: Span, team: u32) {
    let cpus = match attachment::cpu_count() {
        0 => team,
        cpus => cpus,
    };
    shared.fill(span, cpus.into(), attachment::node_mask());
}
