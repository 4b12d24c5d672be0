//! Critical sections and locks: a member that would have to wait lets others on the same CPU run.
//!
//! *Problem.* A member suspended at a barrier or between two turns may hold a lock. If another one on
//! the same carrier blocked in the kernel for it, both would wait for ever.
//!
//! *Approach.* Try; where that fails let the others run and try again; where none of them can run
//! block, as the holder is then on another OS thread. Locks of the program (`omp_set_lock`) remain
//! the runtime's. Critical sections are served here for all threads in all modes: libgomp offers no
//! way to try one, and a lock that two sides take by different means would be none. Named ones keep
//! libgomp's lock in libgomp's word.

use core::ffi::{c_int, c_void};

use super::member::Member;
use super::waiting::Lock;
use super::{carrier, kernel};
use crate::pass_on::{pass_on, runtime_of_caller};
use crate::symbols::Symbol;
use crate::thread_state::{self, ThreadState};

/// The lock of critical sections without a name.
static UNNAMED: Lock = Lock::new();
/// The lock of updates that the CPU cannot do at once.
static ATOMIC: Lock = Lock::new();

/// Turns in vain after which the CPU is offered to other OS threads.
const TURNS: u32 = 32;

/// Has `member` let others run until `attempt` succeeds; false if there are none left to run.
fn retry(member: &'static Member, attempt: impl Fn() -> bool) -> bool {
    let mut turns = 0_u32;
    while carrier::give_way(member) {
        if attempt() {
            return true;
        }
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(TURNS) {
            kernel::sched_yield();
        }
    }
    false
}

fn enter(lock: &Lock) {
    if lock.try_take() {
        return;
    }
    let member = thread_state::current().member.get();
    let taken = member.is_some_and(|member| retry(member, || lock.try_take()));
    if !taken {
        lock.take();
    }
}

/// Enters the critical section without a name.
///
/// # Safety
/// None needed.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_critical_start() {
    enter(&UNNAMED);
}

/// Leaves it.
///
/// # Safety
/// The caller is in it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_critical_end() {
    UNNAMED.give();
}

/// Enters a critical section with a name.
///
/// # Safety
/// To be called as gcc does, with the address of the name's word.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_critical_name_start(word: *mut *mut c_void) {
    // SAFETY: gcc makes a word of pointer size for each name, which starts as zero and serves for
    // nothing else; libgomp has its lock in the first four bytes, too.
    enter(unsafe { Lock::in_word(word.cast()) });
}

/// Leaves it.
///
/// # Safety
/// As for [`GOMP_critical_name_start`]; the caller is in it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_critical_name_end(word: *mut *mut c_void) {
    // SAFETY: as above.
    unsafe { Lock::in_word(word.cast()) }.give();
}

/// Begins an update that the CPU cannot do at once.
///
/// # Safety
/// None needed.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_atomic_start() {
    enter(&ATOMIC);
}

/// Ends it.
///
/// # Safety
/// The caller began one.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_atomic_end() {
    ATOMIC.give();
}

/// Asks the real function `test` for the lock.
fn test(thread: &ThreadState, test: Symbol, lock: *mut c_void) -> bool {
    let function =
        runtime_of_caller(thread).map_or(core::ptr::null_mut(), |runtime| runtime.function(test));
    if function.is_null() {
        return false;
    }
    // SAFETY: callers name functions that take a lock and return an int.
    let function = unsafe {
        core::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn(*mut c_void) -> c_int>(
            function,
        )
    };
    // SAFETY: the lock is the program's, as it passed it.
    unsafe { function(lock) != 0 }
}

/// Takes a lock by trying, as a member does; by `block` where that is no use.
fn set(thread: &ThreadState, by: Symbol, lock: *mut c_void, block: impl FnOnce(*mut c_void)) {
    let taken = thread.member.get().is_some_and(|member| {
        let attempt = || test(thread, by, lock);
        attempt() || retry(member, attempt)
    });
    if !taken {
        block(lock);
    }
}

/// A member that did not get a lock will try again: lets the others run before.
fn after_attempt(thread: &ThreadState, result: c_int) -> c_int {
    if result == 0
        && let Some(member) = thread.member.get()
    {
        carrier::give_way(member);
    }
    result
}

macro_rules! locks {
    ($($set:ident $test:ident;)*) => {$(
        pass_on! {
            $set(lock: *mut c_void): |thread, real| set(thread, Symbol::$test, lock, real);
            $test(lock: *mut c_void) -> c_int: |thread, real| after_attempt(thread, real(lock));
        }
    )*};
}

locks! {
    omp_set_lock omp_test_lock;
    omp_set_lock_ omp_test_lock_;
    omp_set_nest_lock omp_test_nest_lock;
    omp_set_nest_lock_ omp_test_nest_lock_;
}
