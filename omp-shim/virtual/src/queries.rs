//! What a member of a virtual team gets when it queries its team and itself: in a virtual region the shim's answer; in
//! a real region within one the runtime's, which lacks one level. Fortran's forms have an underscore and take
//! addresses.

use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicBool, Ordering};

use mapper_shim_core::attachment;
use mapper_shim_core::logical::is_within;
use mapper_shim_core::pass_on::{is_for_team, pass_on};
use mapper_shim_core::symbols::Symbol;
use mapper_shim_core::thread_state::ThreadState;

use super::member::{Member, OfMember, member_for};
use super::{carrier, kernel};
use crate::region;

/// Where the thread is, beyond what the runtime knows.
#[derive(Clone, Copy)]
enum Hidden {
    /// In no virtual region of the runtime that is called.
    Nowhere,
    Member(&'static Member),
    /// It is in a real region that the member began.
    Within(&'static Member),
}

impl Hidden {
    fn of(thread: &ThreadState, symbol: Symbol) -> Self {
        if !is_within(thread) || !is_for_team(thread, symbol) {
            return Self::Nowhere;
        }
        match (thread.member(), thread.outer_member()) {
            (Some(member), _) => Self::Member(member),
            (None, Some(outer)) => Self::Within(outer),
            (None, None) => Self::Nowhere,
        }
    }

    fn levels(self) -> c_int {
        match self {
            Self::Nowhere => 0,
            Self::Member(_) | Self::Within(_) => 1,
        }
    }
}

fn team_size() -> c_int {
    c_int::try_from(region::size()).unwrap_or(c_int::MAX)
}

/// The thread's ancestor's number at `level`; `deeper` answers for levels that the runtime knows.
fn ancestor(hidden: Hidden, level: c_int, deeper: impl FnOnce(c_int) -> c_int) -> c_int {
    match (hidden, level) {
        (Hidden::Nowhere, _) => deeper(level),
        (_, 0) => 0,
        (Hidden::Member(member) | Hidden::Within(member), 1) => {
            c_int::try_from(member.id).unwrap_or(c_int::MAX)
        }
        (Hidden::Within(_), 2..) => deeper(level - 1),
        _ => -1,
    }
}

fn size_at(hidden: Hidden, level: c_int, deeper: impl FnOnce(c_int) -> c_int) -> c_int {
    match (hidden, level) {
        (Hidden::Nowhere, _) => deeper(level),
        (_, 0) => 1,
        (_, 1) => team_size(),
        (Hidden::Within(_), 2..) => deeper(level - 1),
        _ => -1,
    }
}

macro_rules! queries {
    ($($name:ident $fortran:ident $([$member:ident => $quick:expr])?:
        |$thread:ident, $symbol:ident, $real:ident| $answer:expr;)*) => {$(
        pass_on! {
            $name() -> c_int $([$member => $quick])?: |$thread, $real| {
                let $symbol = Symbol::$name;
                $answer
            };
            $fortran() -> c_int $([$member => $quick])?: |$thread, $real| {
                let $symbol = Symbol::$fortran;
                $answer
            };
        }
    )*};
}

queries! {
    omp_get_thread_num omp_get_thread_num_ [member => Member::of(member).id as c_int]: |thread, symbol, real| match member_for(thread, symbol) {
        Some(member) => member.id as c_int,
        None => real(),
    };
    omp_get_num_threads omp_get_num_threads_ [_member => region::size() as c_int]: |thread, symbol, real| match member_for(thread, symbol) {
        Some(_) => region::size() as c_int,
        None => real().max(1),
    };
    // Programs refuse to have more threads than CPUs, and have one where they have been launched on one CPU.
    omp_get_num_procs omp_get_num_procs_: |_thread, _symbol, real|
        real().max(c_int::try_from(attachment::most_cpus()).unwrap_or(c_int::MAX));
    omp_in_parallel omp_in_parallel_: |thread, symbol, real| match Hidden::of(thread, symbol) {
        Hidden::Nowhere => real(),
        Hidden::Member(_) | Hidden::Within(_) => 1,
    };
    omp_get_level omp_get_level_: |thread, symbol, real|
        real() + Hidden::of(thread, symbol).levels();
    omp_get_active_level omp_get_active_level_: |thread, symbol, real|
        real() + Hidden::of(thread, symbol).levels();
}

pass_on! {
    omp_get_ancestor_thread_num(level: c_int) -> c_int: |thread, real|
        ancestor(Hidden::of(thread, Symbol::omp_get_ancestor_thread_num), level, real);
    omp_get_team_size(level: c_int) -> c_int: |thread, real|
        size_at(Hidden::of(thread, Symbol::omp_get_team_size), level, real);
}

macro_rules! fortran_levels {
    ($($name:ident($type:ty) $answer:ident;)*) => {$(
        pass_on! {
            $name(level: *const $type) -> c_int: |thread, real| {
                // SAFETY: Fortran passes the address of an integer.
                let wanted = c_int::try_from(unsafe { level.read() }).unwrap_or(-1);
                $answer(Hidden::of(thread, Symbol::$name), wanted, |level| {
                    let level = <$type>::from(level);
                    real(&raw const level)
                })
            };
        }
    )*};
}

fortran_levels! {
    omp_get_ancestor_thread_num_(i32) ancestor;
    omp_get_ancestor_thread_num_8_(i64) ancestor;
    omp_get_team_size_(i32) size_at;
    omp_get_team_size_8_(i64) size_at;
}

/// A module calls `clone`. (The child of a `vfork` may only exec or end.)
static MAKES_CHILDREN_IN_ITS_MEMORY: AtomicBool = AtomicBool::new(false);

pub(super) fn note_import(name: &CStr) {
    if [c"clone", c"__clone"].contains(&name) {
        MAKES_CHILDREN_IN_ITS_MEMORY.store(true, Ordering::Relaxed);
    }
}

/// Lets another thread run: for a member, another one on the same CPU. Programs that wait by hand call it. Safety: none.
#[cfg_attr(not(miri), unsafe(no_mangle))]
unsafe extern "C-unwind" fn sched_yield() -> c_int {
    if let Some(member) = mapper_shim_core::thread_state::current().member()
        && (!MAKES_CHILDREN_IN_ITS_MEMORY.load(Ordering::Relaxed) || carrier::carries(member))
        && carrier::give_way(member)
    {
        return 0;
    }
    kernel::sched_yield()
}
