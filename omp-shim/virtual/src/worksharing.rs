//! Worksharing constructs as members of a virtual team meet them: loops, sections, `single`, barriers. `gomp::loops`
//! exports the functions of loops that libgomp dispenses in chunks; the rest is exported here.

use core::ffi::{c_long, c_uint, c_ulonglong, c_void};
use core::ptr::NonNull;
use core::sync::atomic::Ordering;

use mapper_shim_core::chunks::{Bound, Bounds, hand_out};
use mapper_shim_core::construct::{Loop, Schedule};
use mapper_shim_core::thread_state::{self, ThreadState};
use mapper_shim_core::{progress, waits};

use super::carrier;
use super::member::{Member, for_members};
use crate::shares;

/// The next chunk of the loop that `member` is in. Safety: the bounds can be written.
#[inline]
unsafe fn next<T: Bound>(thread: &ThreadState, member: &'static Member, bounds: Bounds<T>) -> bool {
    progress::chunk_done(thread);
    // SAFETY: as the caller promises.
    unsafe { hand_out(thread, shares::next_chunk(member), bounds) }
}

/// Has `member` begin a loop; hands out its first chunk. Safety: the bounds can be written.
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

/// The first chunk for `member` of a loop that it has entered. Safety: the bounds can be written.
#[inline]
pub(super) unsafe fn first<T: Bound>(member: &'static Member, bounds: Bounds<T>) -> bool {
    // The thread that entered may have been suspended meanwhile.
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

fn copy_start(member: &'static Member) -> Option<NonNull<c_void>> {
    if shares::takes_single(member) {
        return None;
    }
    carrier::barrier(member);
    NonNull::new(shares::COPIED.load(Ordering::Relaxed))
}

fn copy_end(member: &'static Member, data: *mut c_void) {
    shares::COPIED.store(data, Ordering::Relaxed);
    carrier::barrier(member);
}

for_members! {
    GOMP_barrier() [member => carrier::barrier(Member::of(member))]:
        |member| carrier::barrier(member), |thread, real| waits::at_barrier(thread, real);
    GOMP_single_start() -> bool: |member| shares::takes_single(member), |thread, real| real();
    GOMP_single_copy_start() -> Option<NonNull<c_void>>: |member| copy_start(member),
        // The thread that takes it waits only when it is done.
        |thread, real| waits::at_barrier_or_not(thread, real, Option::is_some);
    GOMP_single_copy_end(data: *mut c_void): |member| copy_end(member, data),
        |thread, real| waits::at_barrier(thread, || real(data));
    GOMP_sections_start(count: c_uint) -> c_uint: |member| {
            shares::enter_share(member, || Loop::sections(count));
            next_section(member)
        },
        |thread, real| real(count);
    GOMP_sections_next() -> c_uint: |member| next_section(member), |thread, real| real();
    GOMP_sections_end(): |member| end_share(member),
        |thread, real| waits::at_barrier(thread, real);
    GOMP_sections_end_nowait(): |member| shares::leave_share(member), |thread, real| real();
    GOMP_loop_end(): |member| end_share(member), |thread, real| waits::at_barrier(thread, real);
    GOMP_loop_end_nowait(): |member| shares::leave_share(member), |thread, real| real();
    GOMP_loop_static_start(
        from: c_long,
        to: c_long,
        increment: c_long,
        chunk: c_long,
        first: *mut c_long,
        end: *mut c_long
    ) -> bool: |member| {
            let describe = || Loop::signed(from, to, increment, Schedule::Static.by(chunk));
            // SAFETY: the places are the caller's.
            unsafe { start(member, describe, Bounds { first, end }) }
        },
        |thread, real| real(from, to, increment, chunk, first, end);
    GOMP_loop_ull_static_start(
        up: bool,
        from: c_ulonglong,
        to: c_ulonglong,
        increment: c_ulonglong,
        chunk: c_ulonglong,
        first: *mut c_ulonglong,
        end: *mut c_ulonglong
    ) -> bool: |member| {
            let division = Schedule::Static.by(chunk as i64);
            let describe = || Loop::unsigned(up, [from, to], increment, division);
            // SAFETY: the places are the caller's.
            unsafe { start(member, describe, Bounds { first, end }) }
        },
        |thread, real| real(up, from, to, increment, chunk, first, end);
    GOMP_loop_static_next(first: *mut c_long, end: *mut c_long) -> bool: |member|
        // SAFETY: the places are the caller's.
        unsafe { next(thread, member, Bounds { first, end }) },
        |thread, real| real(first, end);
    GOMP_loop_ull_static_next(first: *mut c_ulonglong, end: *mut c_ulonglong) -> bool: |member|
        // SAFETY: the places are the caller's.
        unsafe { next(thread, member, Bounds { first, end }) },
        |thread, real| real(first, end);
}
