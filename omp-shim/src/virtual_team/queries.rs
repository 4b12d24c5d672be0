//! What a member of a virtual team is told when it asks about its team, and about itself.
//!
//! Functions of the runtime's that answer for the calling thread. In a virtual region the shim answers;
//! in a real region within one the runtime does, whose account lacks one level; elsewhere the runtime
//! alone. Fortran's forms have an underscore and take addresses.

use core::ffi::c_int;

use super::{carrier, kernel, team};
use crate::pass_on::pass_on;
use crate::thread_state::ThreadState;

/// Levels that the runtime does not know of.
fn hidden_levels(thread: &ThreadState) -> c_int {
    c_int::from(thread.member.get().is_some() || thread.outer.get().is_some())
}

fn team_size() -> c_int {
    c_int::try_from(team::size()).unwrap_or(c_int::MAX)
}

/// The thread's ancestor's number at `level`; `deeper` answers for levels that the runtime knows.
fn ancestor(thread: &ThreadState, level: c_int, deeper: impl FnOnce(c_int) -> c_int) -> c_int {
    let Some(member) = thread.member.get().or(thread.outer.get()) else {
        return deeper(level);
    };
    match level {
        0 => 0,
        1 => c_int::try_from(member.id).unwrap_or(c_int::MAX),
        2.. if thread.member.get().is_none() => deeper(level - 1),
        _ => -1,
    }
}

/// The size of the team at `level`.
fn size_at(thread: &ThreadState, level: c_int, deeper: impl FnOnce(c_int) -> c_int) -> c_int {
    if hidden_levels(thread) == 0 {
        return deeper(level);
    }
    match level {
        0 => 1,
        1 => team_size(),
        2.. if thread.member.get().is_none() => deeper(level - 1),
        _ => -1,
    }
}

macro_rules! queries {
    ($($name:ident $fortran:ident: |$thread:ident, $real:ident| $answer:expr;)*) => {$(
        pass_on! {
            $name() -> c_int: |$thread, $real| $answer;
            $fortran() -> c_int: |$thread, $real| $answer;
        }
    )*};
}

queries! {
    omp_get_thread_num omp_get_thread_num_: |thread, real| match thread.member.get() {
        Some(member) => member.id as c_int,
        None => real(),
    };
    omp_get_num_threads omp_get_num_threads_: |thread, real| match thread.member.get() {
        Some(_) => team::size() as c_int,
        None => real().max(1),
    };
    omp_in_parallel omp_in_parallel_: |thread, real| match hidden_levels(thread) {
        0 => real(),
        _ => 1,
    };
    omp_get_level omp_get_level_: |thread, real| real() + hidden_levels(thread);
    omp_get_active_level omp_get_active_level_: |thread, real| real() + hidden_levels(thread);
}

pass_on! {
    omp_get_ancestor_thread_num(level: c_int) -> c_int: |thread, real|
        ancestor(thread, level, real);
    omp_get_team_size(level: c_int) -> c_int: |thread, real| size_at(thread, level, real);
}

macro_rules! fortran_levels {
    ($($name:ident($type:ty) $answer:ident;)*) => {$(
        pass_on! {
            $name(level: *const $type) -> c_int: |thread, real| {
                // SAFETY: Fortran passes the address of an integer.
                let wanted = c_int::try_from(unsafe { level.read() }).unwrap_or(-1);
                $answer(thread, wanted, |level| {
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

/// Lets another thread run: for a member, another one on the same CPU. Programs that wait for one
/// another by hand call this while they do.
///
/// # Safety
/// None needed.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sched_yield() -> c_int {
    if let Some(member) = crate::thread_state::current().member.get()
        && carrier::give_way(member)
    {
        return 0;
    }
    kernel::sched_yield()
}
