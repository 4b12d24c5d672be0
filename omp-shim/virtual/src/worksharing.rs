//! Worksharing constructs as members of a virtual team meet them: loops, sections, `single`, barriers.
//!
//! Loops that libgomp dispenses in chunks are exported by `gomp::loops`, which calls [`start`] and
//! [`next`] for members; the rest is exported here.

use crate::shares;
use core::ffi::{c_long, c_uint, c_ulonglong, c_void};
use core::sync::atomic::Ordering;

use super::carrier;
use super::member::Member;
use super::member::member_for;
use mapper_shim_core::chunks::{Bound, Bounds, hand_out};
use mapper_shim_core::construct::{Division, Loop, Schedule, unsigned};
use mapper_shim_core::pass_on::pass_on;
use mapper_shim_core::progress;
use mapper_shim_core::symbols::Symbol;
use mapper_shim_core::thread_state::{self, ThreadState};
use mapper_shim_core::waits;

/// The next chunk of the loop that `member` is in.
///
/// # Safety
/// The bounds can be written.
#[inline]
unsafe fn next<T: Bound>(thread: &ThreadState, member: &'static Member, bounds: Bounds<T>) -> bool {
    progress::chunk_done(thread);
    // SAFETY: as the caller promises.
    unsafe { hand_out(thread, shares::next_chunk(member), bounds) }
}

/// Has `member` begin a loop; hands out its first chunk.
///
/// # Safety
/// The bounds can be written.
#[inline]
unsafe fn start<T: Bound>(
    member: &'static Member,
    describe: impl Fn() -> Loop,
    bounds: Bounds<T>,
) -> bool {
    shares::enter_share(member, describe);
    // SAFETY: as the caller promises.
    unsafe { first(member, bounds) }
}

/// The first chunk for `member` of a loop that it has entered.
///
/// # Safety
/// The bounds can be written.
#[inline]
pub(super) unsafe fn first<T: Bound>(member: &'static Member, bounds: Bounds<T>) -> bool {
    // The thread that entered may have given way meanwhile.
    let thread = thread_state::current();
    // SAFETY: as the caller promises.
    unsafe { hand_out(thread, shares::next_chunk(member), bounds) }
}

/// The number of the member's next section; 0 if there is none.
pub(super) fn next_section(member: &Member) -> c_uint {
    shares::next_chunk(member).map_or(0, |chunk| chunk.first as c_uint)
}

fn end_share(member: &'static Member) {
    shares::leave_share(member);
    carrier::barrier(member);
}

fn static_division(chunk: i64) -> Division {
    Division {
        schedule: Schedule::Static,
        chunk,
    }
}

/// Takes a `single copyprivate`, or waits for what its taker hands on.
fn copy_start(member: &'static Member) -> *mut c_void {
    if shares::takes_single(member) {
        return core::ptr::null_mut();
    }
    carrier::barrier(member);
    shares::copied().load(Ordering::Relaxed)
}

fn copy_end(member: &'static Member, data: *mut c_void) {
    shares::copied().store(data, Ordering::Relaxed);
    carrier::barrier(member);
}

pass_on! {
    GOMP_barrier() [member => carrier::barrier(Member::of(member))]: |thread, real| match member_for(thread, Symbol::GOMP_barrier) {
        Some(member) => carrier::barrier(member),
        None => waits::at_barrier(thread, real),
    };
    GOMP_single_start() -> bool: |thread, real| match member_for(thread, Symbol::GOMP_single_start) {
        Some(member) => shares::takes_single(member),
        None => real(),
    };
    GOMP_single_copy_start() -> *mut c_void: |thread, real| match member_for(thread, Symbol::GOMP_single_copy_start) {
        Some(member) => copy_start(member),
        // Who takes it waits only when it is done.
        None => waits::at_barrier_or_not(thread, real, |data| !data.is_null()),
    };
    GOMP_single_copy_end(data: *mut c_void): |thread, real| match member_for(thread, Symbol::GOMP_single_copy_end) {
        Some(member) => copy_end(member, data),
        None => waits::at_barrier(thread, || real(data)),
    };
    GOMP_sections_start(count: c_uint) -> c_uint: |thread, real| match member_for(thread, Symbol::GOMP_sections_start) {
        Some(member) => {
            shares::enter_share(member, || Loop::sections(count));
            next_section(member)
        }
        None => real(count),
    };
    GOMP_sections_next() -> c_uint: |thread, real| match member_for(thread, Symbol::GOMP_sections_next) {
        Some(member) => next_section(member),
        None => real(),
    };
    GOMP_sections_end(): |thread, real| match member_for(thread, Symbol::GOMP_sections_end) {
        Some(member) => end_share(member),
        None => waits::at_barrier(thread, real),
    };
    GOMP_sections_end_nowait(): |thread, real| match member_for(thread, Symbol::GOMP_sections_end_nowait) {
        Some(member) => shares::leave_share(member),
        None => real(),
    };
    GOMP_loop_end(): |thread, real| match member_for(thread, Symbol::GOMP_loop_end) {
        Some(member) => end_share(member),
        None => waits::at_barrier(thread, real),
    };
    GOMP_loop_end_nowait(): |thread, real| match member_for(thread, Symbol::GOMP_loop_end_nowait) {
        Some(member) => shares::leave_share(member),
        None => real(),
    };
    GOMP_loop_static_start(
        from: c_long,
        to: c_long,
        increment: c_long,
        chunk: c_long,
        first: *mut c_long,
        end: *mut c_long
    ) -> bool: |thread, real| match member_for(thread, Symbol::GOMP_loop_static_start) {
        Some(member) => {
            let describe = || Loop::signed(from, to, increment, Schedule::Static, chunk);
            // SAFETY: the places are the caller's.
            unsafe { start(member, describe, Bounds { first, end }) }
        }
        None => real(from, to, increment, chunk, first, end),
    };
    GOMP_loop_ull_static_start(
        up: bool,
        from: c_ulonglong,
        to: c_ulonglong,
        increment: c_ulonglong,
        chunk: c_ulonglong,
        first: *mut c_ulonglong,
        end: *mut c_ulonglong
    ) -> bool: |thread, real| match member_for(thread, Symbol::GOMP_loop_ull_static_start) {
        Some(member) => {
            let division = static_division(chunk as i64);
            let describe = || unsigned(up, [from, to], increment, division);
            // SAFETY: the places are the caller's.
            unsafe { start(member, describe, Bounds { first, end }) }
        }
        None => real(up, from, to, increment, chunk, first, end),
    };
    GOMP_loop_static_next(first: *mut c_long, end: *mut c_long) -> bool: |thread, real|
        match member_for(thread, Symbol::GOMP_loop_static_next) {
            // SAFETY: the places are the caller's.
            Some(member) => unsafe { next(thread, member, Bounds { first, end }) },
            None => real(first, end),
        };
    GOMP_loop_ull_static_next(first: *mut c_ulonglong, end: *mut c_ulonglong) -> bool:
        |thread, real| match member_for(thread, Symbol::GOMP_loop_ull_static_next) {
            // SAFETY: the places are the caller's.
            Some(member) => unsafe { next(thread, member, Bounds { first, end }) },
            None => real(first, end),
        };
}
