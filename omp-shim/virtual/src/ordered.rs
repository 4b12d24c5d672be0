//! Ordered loops: their `ordered` regions run in the order of the iterations.
//!
//! *Approach.* As in libgomp (`ordered.c`), chunk by chunk. A loop has a *turn*: the first iteration of the chunk whose
//! `ordered` regions may run. A member that asks for its next chunk waits for its turn and passes it on to where its chunk
//! ended. So chunks are taken in the order of the iterations, too. A member that waits lets the others of its block run, as
//! one of them may have the turn; if none can run, it is on another OS thread.
//!
//! *Invariant.* The turn is always the beginning of a chunk that a member has or will get, or the number of iterations.

use core::ffi::{c_long, c_ulonglong, c_void};
use core::sync::atomic::Ordering;

use mapper_shim_core::chunks::{Bound, Bounds, hand_out};
use mapper_shim_core::construct::{Division, Loop, Schedule};
use mapper_shim_core::symbols::Symbol;
use mapper_shim_core::{logical, progress, thread_state};

use super::exclusion;
use super::generic_starts::{self, Extras};
use super::member::{Member, for_members};
use super::share::Share;
use super::shares;

/// Waits until the `ordered` regions of the member's chunk may run.
fn wait_for_turn(member: &'static Member, share: &Share) {
    let first = member.chunk_first.load(Ordering::Relaxed);
    let is_due = || share.turn.is(first);
    if !is_due() && !exclusion::retry(member, is_due) {
        share.turn.wait_for(first);
    }
}

/// Hands out the member's next chunk. Safety: the bounds can be written.
unsafe fn hand_out_next<T: Bound>(member: &'static Member, bounds: Bounds<T>) -> bool {
    let chunk = shares::next_ordered_chunk(member);
    // The member may have been suspended meanwhile.
    // SAFETY: as the caller promises.
    unsafe { hand_out(thread_state::current(), chunk, bounds) }
}

/// Has `member` begin a loop; hands out its first chunk if requested. Safety: the pointers are the caller's arguments.
unsafe fn start<T: Bound>(
    member: &'static Member,
    describe: impl Fn() -> Loop,
    bounds: Bounds<T>,
    extras: Extras,
) -> bool {
    // SAFETY: as the caller promises.
    unsafe { generic_starts::enter(member, extras, describe) };
    // SAFETY: likewise; if there is a place for one bound there is one for both.
    bounds.first.is_null() || unsafe { hand_out_next(member, bounds) }
}

/// Passes the turn on and hands out the next chunk. Safety: the bounds can be written.
unsafe fn next<T: Bound>(member: &'static Member, bounds: Bounds<T>) -> bool {
    progress::chunk_done(thread_state::current());
    if let Some(share) = shares::share_of(member)
        && member.has_ordered_chunk()
    {
        wait_for_turn(member, share);
        share
            .turn
            .pass_on(member.chunk_last.load(Ordering::Relaxed));
    }
    // SAFETY: as the caller promises.
    unsafe { hand_out_next(member, bounds) }
}

/// How loops with that schedule are divided.
macro_rules! division {
    (Runtime,) => {
        Division::of_settings(logical::runtime())
    };
    ($schedule:ident, $chunk:ident) => {
        Schedule::$schedule.by($chunk as i64)
    };
}

/// Only unsigned loops say which way they go.
macro_rules! up {
    () => {
        true
    };
    ($up:ident) => {
        $up
    };
}

macro_rules! loops {
    ($type:ty: $($start:ident $next:ident $schedule:ident ($($up:ident: $flag:ty)?; $($chunk:ident)?);)*) => {
        for_members! {$(
            $start(
                $($up: $flag,)?
                from: $type,
                to: $type,
                increment: $type,
                $($chunk: $type,)?
                first: *mut $type,
                end: *mut $type
            ) -> bool: |member| {
                    let describe = || {
                        let division = division!($schedule, $($chunk)?);
                        <$type>::work(up!($($up)?), [from, to], increment, division)
                    };
                    let extras = Extras::none(Symbol::$start);
                    // SAFETY: the places are the caller's.
                    unsafe { start(member, describe, Bounds { first, end }, extras) }
                },
                |thread, real| real($($up,)? from, to, increment, $($chunk,)? first, end);
            $next(first: *mut $type, end: *mut $type) -> bool: |member|
                // SAFETY: the places are the caller's.
                unsafe { next(member, Bounds { first, end }) },
                |thread, real| real(first, end);
        )*}
    };
}

loops! { c_long:
    GOMP_loop_ordered_static_start GOMP_loop_ordered_static_next Static (; chunk);
    GOMP_loop_ordered_dynamic_start GOMP_loop_ordered_dynamic_next Dynamic (; chunk);
    GOMP_loop_ordered_guided_start GOMP_loop_ordered_guided_next Guided (; chunk);
    GOMP_loop_ordered_runtime_start GOMP_loop_ordered_runtime_next Runtime (;);
}

loops! { c_ulonglong:
    GOMP_loop_ull_ordered_static_start GOMP_loop_ull_ordered_static_next Static (up: bool; chunk);
    GOMP_loop_ull_ordered_dynamic_start GOMP_loop_ull_ordered_dynamic_next Dynamic (up: bool; chunk);
    GOMP_loop_ull_ordered_guided_start GOMP_loop_ull_ordered_guided_next Guided (up: bool; chunk);
    GOMP_loop_ull_ordered_runtime_start GOMP_loop_ull_ordered_runtime_next Runtime (up: bool;);
}

for_members! {
    GOMP_ordered_start(): |member| {
            if let Some(share) = shares::share_of(member)
                && member.has_ordered_chunk()
            {
                wait_for_turn(member, share);
            }
        },
        |thread, real| real();
    GOMP_loop_ordered_start(
        from: c_long,
        to: c_long,
        increment: c_long,
        schedule: c_long,
        chunk: c_long,
        first: *mut c_long,
        end: *mut c_long,
        reductions: *mut usize,
        memory: *mut *mut c_void
    ) -> bool: |member| {
            let division = || generic_starts::division(schedule, chunk);
            let describe = || Loop::signed(from, to, increment, division());
            let extras = Extras { reductions, memory, symbol: Symbol::GOMP_loop_ordered_start };
            // SAFETY: the places are the caller's.
            unsafe { start(member, describe, Bounds { first, end }, extras) }
        },
        |thread, real| real(from, to, increment, schedule, chunk, first, end, reductions, memory);
    GOMP_loop_ull_ordered_start(
        up: bool,
        from: c_ulonglong,
        to: c_ulonglong,
        increment: c_ulonglong,
        schedule: c_long,
        chunk: c_ulonglong,
        first: *mut c_ulonglong,
        end: *mut c_ulonglong,
        reductions: *mut usize,
        memory: *mut *mut c_void
    ) -> bool: |member| {
            let division = || generic_starts::division(schedule, chunk as i64);
            let describe = || Loop::unsigned(up, [from, to], increment, division());
            let extras = Extras { reductions, memory, symbol: Symbol::GOMP_loop_ull_ordered_start };
            // SAFETY: the places are the caller's.
            unsafe { start(member, describe, Bounds { first, end }, extras) }
        },
        |thread, real|
            real(up, from, to, increment, schedule, chunk, first, end, reductions, memory);
}
