//! Worksharing constructs as members of a virtual team meet them: loops, sections, `single`, barriers.
//!
//! Loops that libgomp dispenses in chunks are exported by `gomp::loops`, which calls [`start`] and
//! [`next`] for members; the rest is exported here.

use core::ffi::{c_long, c_uint, c_ulonglong, c_void};
use core::sync::atomic::Ordering;

use super::control_variables;
use super::member::Member;
use super::share::{Chunk, Direction, Loop, Schedule};
use super::{carrier, team};
use crate::core::pass_on::{member_for, pass_on};
use crate::core::progress;
use crate::core::symbols::Symbol;
use crate::core::thread_state::{self, ThreadState};
use crate::core::waits;

/// Values of `omp_sched_t`, as `omp_get_schedule` returns them.
const STATIC: c_long = 1;
const DYNAMIC: c_long = 2;
const GUIDED: c_long = 3;
/// A bit beside them.
const MONOTONIC: c_long = 0x8000_0000;

/// How a loop is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Division {
    /// The kind.
    pub(crate) schedule: Schedule,
    /// Size of chunks; 0 for none given.
    pub(crate) chunk: i64,
}

impl Division {
    fn of_kind(kind: c_long, chunk: i64) -> Self {
        match kind & !MONOTONIC {
            DYNAMIC => Self {
                schedule: Schedule::Dynamic,
                chunk,
            },
            GUIDED => Self {
                schedule: Schedule::Guided,
                chunk,
            },
            STATIC => Self {
                schedule: Schedule::Static,
                chunk,
            },
            // Automatic, or unknown: libgomp divides evenly.
            _ => Self {
                schedule: Schedule::Static,
                chunk: 0,
            },
        }
    }

    /// What the calling thread's settings say for `schedule(runtime)`.
    pub(crate) fn of_settings() -> Self {
        team::runtime().map_or(Self::of_kind(STATIC, 0), Self::by)
    }

    /// The same, in that runtime.
    pub(crate) fn by(runtime: &crate::core::runtime::Runtime) -> Self {
        let schedule = control_variables::run_schedule(runtime);
        let kind = c_long::from(schedule.kind) & 0xffff_ffff;
        Self::of_kind(kind, schedule.chunk.into())
    }
}

/// A loop bound, as bits.
pub(crate) trait Bound: Copy {
    /// The value whose bits these are.
    fn from_bits(bits: i64) -> Self;
}

impl Bound for c_long {
    #[inline(always)]
    fn from_bits(bits: i64) -> Self {
        bits
    }
}

impl Bound for c_ulonglong {
    #[inline(always)]
    fn from_bits(bits: i64) -> Self {
        bits as u64
    }
}

/// Where to put a chunk's bounds.
#[derive(Clone, Copy)]
pub(crate) struct Bounds<T> {
    pub(crate) first: *mut T,
    pub(crate) end: *mut T,
}

/// Hands a chunk to the program; returns whether there was one.
///
/// # Safety
/// The bounds can be written.
#[inline]
unsafe fn hand_out<T: Bound>(
    thread: &ThreadState,
    chunk: Option<Chunk>,
    bounds: Bounds<T>,
) -> bool {
    let Some(chunk) = chunk else {
        progress::loop_done(thread);
        return false;
    };
    thread.pending.set(chunk.iterations);
    // SAFETY: the caller vouches for the places.
    unsafe {
        bounds.first.write(T::from_bits(chunk.first));
        bounds.end.write(T::from_bits(chunk.end));
    }
    true
}

/// The next chunk of the loop that `member` is in.
///
/// # Safety
/// The bounds can be written.
#[inline]
pub(crate) unsafe fn next<T: Bound>(
    thread: &ThreadState,
    member: &'static Member,
    bounds: Bounds<T>,
) -> bool {
    progress::chunk_done(thread);
    // SAFETY: as the caller promises.
    unsafe { hand_out(thread, team::next_chunk(member), bounds) }
}

/// Has `member` begin a loop; hands out its first chunk.
///
/// # Safety
/// The bounds can be written.
#[inline]
pub(crate) unsafe fn start<T: Bound>(
    member: &'static Member,
    describe: impl Fn() -> Loop,
    bounds: Bounds<T>,
) -> bool {
    team::enter_share(member, describe);
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
    unsafe { hand_out(thread, team::next_chunk(member), bounds) }
}

/// An unsigned loop as gcc describes it.
pub(crate) fn unsigned(up: bool, bounds: [u64; 2], step: u64, division: Division) -> Loop {
    let direction = if up { Direction::Up } else { Direction::Down };
    let chunk = division.chunk as u64;
    Loop::unsigned(direction, bounds, step, division.schedule, chunk)
}

/// The number of the member's next section; 0 if there is none.
pub(super) fn next_section(member: &Member) -> c_uint {
    team::next_chunk(member).map_or(0, |chunk| chunk.first as c_uint)
}

fn end_share(member: &'static Member) {
    team::leave_share(member);
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
    if team::takes_single(member) {
        return core::ptr::null_mut();
    }
    carrier::barrier(member);
    team::copied().load(Ordering::Relaxed)
}

fn copy_end(member: &'static Member, data: *mut c_void) {
    team::copied().store(data, Ordering::Relaxed);
    carrier::barrier(member);
}

pass_on! {
    GOMP_barrier() [member => carrier::barrier(member)]: |thread, real| match member_for(thread, Symbol::GOMP_barrier) {
        Some(member) => carrier::barrier(member),
        None => waits::at_barrier(thread, real),
    };
    GOMP_single_start() -> bool: |thread, real| match member_for(thread, Symbol::GOMP_single_start) {
        Some(member) => team::takes_single(member),
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
            team::enter_share(member, || Loop::sections(count));
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
        Some(member) => team::leave_share(member),
        None => real(),
    };
    GOMP_loop_end(): |thread, real| match member_for(thread, Symbol::GOMP_loop_end) {
        Some(member) => end_share(member),
        None => waits::at_barrier(thread, real),
    };
    GOMP_loop_end_nowait(): |thread, real| match member_for(thread, Symbol::GOMP_loop_end_nowait) {
        Some(member) => team::leave_share(member),
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
