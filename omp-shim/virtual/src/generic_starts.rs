//! The starts of worksharing constructs by which gcc (from version 9 on) asks for more than chunks: shared memory, for
//! `scan` and `lastprivate(conditional:)`, and reductions over tasks, which `admission` refuses. The loops continue by
//! the ordinary functions. Ordered ones are in [`super::ordered`].

use core::ffi::{c_long, c_uint, c_ulonglong, c_void};
use core::ptr::null_mut;

use mapper_shim_core::chunks::{Bound, Bounds};
use mapper_shim_core::construct::{Division, Loop, Schedule};
use mapper_shim_core::logical;
use mapper_shim_core::symbols::Symbol;

use super::member::{Member, for_members};
use super::unserved::refuse;
use super::worksharing::{self, next_section};
use crate::shares;

/// How a loop with that schedule is divided: by the program's settings unless it is a known one.
pub(super) fn division(schedule: c_long, chunk: i64) -> Division {
    match Schedule::of_kind(schedule) {
        Some(schedule) => schedule.by(chunk),
        None => Division::of_settings(logical::runtime()),
    }
}

#[derive(Clone, Copy)]
pub(super) struct Extras {
    /// A description of reductions over tasks, or null.
    pub(super) reductions: *mut usize,
    /// The size of the memory wanted, then its place; or null.
    pub(super) memory: *mut *mut c_void,
    pub(super) symbol: Symbol,
}

impl Extras {
    pub(super) const fn none(symbol: Symbol) -> Self {
        Self {
            reductions: null_mut(),
            memory: null_mut(),
            symbol,
        }
    }
}

/// Has `member` enter a construct. Safety: `extras` are of the caller's arguments.
pub(super) unsafe fn enter(member: &'static Member, extras: Extras, describe: impl Fn() -> Loop) {
    let Extras {
        reductions,
        memory,
        symbol,
    } = extras;
    if !reductions.is_null() {
        refuse(symbol);
    }
    if memory.is_null() {
        shares::enter_share(member, describe);
        return;
    }
    // SAFETY: as the caller promises. gcc puts the size where the address is to be.
    let bytes = unsafe { *memory } as usize;
    shares::enter_share(member, || describe().with_memory(bytes));
    // SAFETY: as above.
    unsafe { *memory = shares::memory(member) };
}

/// Has `member` begin a loop; hands out its first chunk if requested. Safety: the pointers are the caller's arguments.
unsafe fn start<T: Bound>(
    member: &'static Member,
    describe: impl Fn() -> Loop,
    bounds: Bounds<T>,
    extras: Extras,
) -> bool {
    // SAFETY: as the caller promises.
    unsafe { enter(member, extras, describe) };
    // SAFETY: likewise; if there is a place for one bound there is one for both.
    bounds.first.is_null() || unsafe { worksharing::first(member, bounds) }
}

for_members! {
    GOMP_loop_start(
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
            let describe = || Loop::signed(from, to, increment, division(schedule, chunk));
            let extras = Extras { reductions, memory, symbol: Symbol::GOMP_loop_start };
            // SAFETY: the places are the caller's.
            unsafe { start(member, describe, Bounds { first, end }, extras) }
        },
        |thread, real| real(from, to, increment, schedule, chunk, first, end, reductions, memory);
    GOMP_loop_ull_start(
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
            let division = || division(schedule, chunk as i64);
            let describe = || Loop::unsigned(up, [from, to], increment, division());
            let extras = Extras { reductions, memory, symbol: Symbol::GOMP_loop_ull_start };
            // SAFETY: the places are the caller's.
            unsafe { start(member, describe, Bounds { first, end }, extras) }
        },
        |thread, real|
            real(up, from, to, increment, schedule, chunk, first, end, reductions, memory);
    GOMP_sections2_start(
        count: c_uint,
        reductions: *mut usize,
        memory: *mut *mut c_void
    ) -> c_uint: |member| {
            let extras = Extras { reductions, memory, symbol: Symbol::GOMP_sections2_start };
            // SAFETY: the places are the caller's.
            unsafe { enter(member, extras, || Loop::sections(count)) };
            next_section(member)
        },
        |thread, real| real(count, reductions, memory);
}
