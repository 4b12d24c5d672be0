//! The starts of worksharing constructs by which gcc (from version 9 on) asks for more than chunks:
//! memory that the threads share, for `scan` and `lastprivate(conditional:)`, and reductions over tasks.
//!
//! The loops go on by the ordinary functions. Reductions over tasks are not served: modules with them
//! import functions for which `admission` refuses virtual teams.

use crate::shares;
use core::ffi::{c_long, c_uint, c_ulonglong, c_void};
use mapper_shim_core::chunks::Bound;
use mapper_shim_core::chunks::Bounds;
use mapper_shim_core::construct::Division;
use mapper_shim_core::construct::unsigned;
use mapper_shim_core::logical;

use super::member::Member;
use super::member::member_for;
use super::unserved::refuse;
use super::worksharing::{self, next_section};
use mapper_shim_core::construct::{Loop, Schedule};
use mapper_shim_core::pass_on::pass_on;
use mapper_shim_core::symbols::Symbol;

/// Values of the argument for the schedule, besides a bit for monotonic ones.
const STATIC: c_long = 1;
const DYNAMIC: c_long = 2;
const GUIDED: c_long = 3;
const KIND: c_long = 0x7fff_ffff;

/// How a loop with that schedule is divided: as the program's settings say unless it is a known one.
fn division(schedule: c_long, chunk: i64) -> Division {
    let schedule = match schedule & KIND {
        STATIC => Schedule::Static,
        DYNAMIC => Schedule::Dynamic,
        GUIDED => Schedule::Guided,
        _ => return Division::of_settings(logical::runtime()),
    };
    Division { schedule, chunk }
}

/// What a construct asks for besides chunks.
#[derive(Clone, Copy)]
struct Extras {
    /// A description of reductions over tasks, or null.
    reductions: *mut usize,
    /// Holds the size of the memory wanted, then its place; or null.
    memory: *mut *mut c_void,
    /// Who asks.
    symbol: Symbol,
}

/// Has `member` enter a construct.
///
/// # Safety
/// `extras` are of the caller's arguments.
unsafe fn enter(member: &'static Member, extras: Extras, describe: impl Fn() -> Loop) {
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
    // SAFETY: the caller vouches for it. gcc puts the size where the address is to be.
    let bytes = unsafe { *memory } as usize;
    shares::enter_share(member, || describe().with_memory(bytes));
    // SAFETY: as above.
    unsafe { *memory = shares::memory(member) };
}

/// Has `member` begin a loop; hands out its first chunk, if the program asks for it.
///
/// # Safety
/// The pointers are the caller's arguments.
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

pass_on! {
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
    ) -> bool: |thread, real| match member_for(thread, Symbol::GOMP_loop_start) {
        Some(member) => {
            let describe = || {
                let Division { schedule, chunk } = division(schedule, chunk);
                Loop::signed(from, to, increment, schedule, chunk)
            };
            let extras = Extras { reductions, memory, symbol: Symbol::GOMP_loop_start };
            // SAFETY: the places are the caller's.
            unsafe { start(member, describe, Bounds { first, end }, extras) }
        }
        None => real(from, to, increment, schedule, chunk, first, end, reductions, memory),
    };
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
    ) -> bool: |thread, real| match member_for(thread, Symbol::GOMP_loop_ull_start) {
        Some(member) => {
            let describe = || {
                let division = division(schedule, chunk as i64);
                unsigned(up, [from, to], increment, division)
            };
            let extras = Extras { reductions, memory, symbol: Symbol::GOMP_loop_ull_start };
            // SAFETY: the places are the caller's.
            unsafe { start(member, describe, Bounds { first, end }, extras) }
        }
        None => real(up, from, to, increment, schedule, chunk, first, end, reductions, memory),
    };
    GOMP_sections2_start(
        count: c_uint,
        reductions: *mut usize,
        memory: *mut *mut c_void
    ) -> c_uint: |thread, real| match member_for(thread, Symbol::GOMP_sections2_start) {
        Some(member) => {
            let extras = Extras { reductions, memory, symbol: Symbol::GOMP_sections2_start };
            // SAFETY: the places are the caller's.
            unsafe { enter(member, extras, || Loop::sections(count)) };
            next_section(member)
        }
        None => real(count, reductions, memory),
    };
}
