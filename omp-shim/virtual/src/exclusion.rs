//! Critical sections and locks: a member that would have to wait lets others on the same CPU run, since a suspended one
//! may hold the lock.
//!
//! *Approach.* Try; on failure let the others run and try again; if none can run, block: the holder is on another OS
//! thread. The program's locks (`omp_set_lock`) remain the runtime's. Critical sections are served here, for all
//! threads of a process that wants virtual teams: libgomp offers no way to try one, and a lock must not be taken by two
//! means. Named ones keep libgomp's lock in libgomp's word.
//!
//! *Invariants.* Each runtime has locks of its own: a library with another runtime does not wait for this one's.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

use mapper_shim_core::pass_on::{pass_on, runtime_of_caller};
use mapper_shim_core::symbols::Symbol;
use mapper_shim_core::thread_state::{self, ThreadState, thread_block};
use mapper_shim_core::{attachment, logical};

use super::member::{Member, OfMember};
use super::runtimes_lock::RuntimesLock;
use super::waiting::Lock;
use super::{carrier, kernel};

thread_block! {
    /// The lock of a runtime that the calling thread took last and has not released, outside virtual regions.
    held: Cell<*mut RuntimesLock>, "mapper_omp_held"
}

impl RuntimesLock {
    /// Takes it. It is noted, since the call that releases it may be a jump with an unknown caller.
    fn enter(&'static self, thread: &ThreadState) {
        let member = thread.member();
        // Another OS thread may be under a member afterwards.
        enter(thread, &self.lock);
        let this = core::ptr::from_ref(self).cast_mut();
        let outer = match member {
            Some(member) => member.held.swap(this, Ordering::Relaxed),
            None => held().replace(this),
        };
        self.outer.store(outer, Ordering::Relaxed);
    }

    /// Releases the one that the thread, or the member that it is, took last; false if there is none.
    fn leave(thread: &ThreadState) -> bool {
        let member = thread.member();
        let last = match member {
            Some(member) => member.held.load(Ordering::Relaxed),
            None => held().get(),
        };
        // SAFETY: null or one of the locks below.
        let Some(last) = (unsafe { last.as_ref() }) else {
            return false;
        };
        let outer = last.outer.load(Ordering::Relaxed);
        match member {
            Some(member) => member.held.store(outer, Ordering::Relaxed),
            None => held().set(outer),
        }
        last.lock.give();
        true
    }
}

impl Member {
    /// What it holds becomes the thread's, which is not a member any more.
    pub(super) fn pass_on_held(&self) {
        held().set(self.held.swap(null_mut(), Ordering::Relaxed));
    }
}

struct Locks {
    /// The address of its function for critical sections without a name; 0 while nobody has the place.
    runtime: AtomicUsize,
    unnamed: RuntimesLock,
    /// For updates for which the CPU has no atomic instruction.
    atomic: RuntimesLock,
}

/// Most runtimes that are distinguished in one process; further ones share the last place.
const MOST_RUNTIMES: usize = 16;
static LOCKS: [Locks; MOST_RUNTIMES] = [const { Locks::new() }; MOST_RUNTIMES];
static NOBODYS: Locks = Locks::new();

impl Locks {
    const fn new() -> Self {
        Self {
            runtime: AtomicUsize::new(0),
            unnamed: RuntimesLock::new(),
            atomic: RuntimesLock::new(),
        }
    }

    fn of_caller(thread: &ThreadState) -> &'static Self {
        let Some(runtime) = runtime_of_caller(thread) else {
            return &NOBODYS;
        };
        let address = runtime.function(Symbol::GOMP_critical_start) as usize;
        let [.., last] = &LOCKS;
        let mut places = LOCKS.iter();
        places.find(|locks| locks.are_of(address)).unwrap_or(last)
    }

    #[inline(always)]
    fn are_of(&self, runtime: usize) -> bool {
        let owner = self.runtime.load(Ordering::Relaxed);
        owner == runtime || (owner == 0 && self.become_of(runtime))
    }

    #[cold]
    fn become_of(&self, runtime: usize) -> bool {
        let owner = self
            .runtime
            .compare_exchange(0, runtime, Ordering::Relaxed, Ordering::Relaxed);
        owner.is_ok() || owner == Err(runtime)
    }
}

/// Turns in vain after which the CPU is offered to other OS threads.
const TURNS: u32 = 32;

/// Has `member` let others run until `attempt` succeeds; false if there are none left to run.
pub(super) fn retry(member: &'static Member, attempt: impl Fn() -> bool) -> bool {
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

fn enter(thread: &ThreadState, lock: &Lock) {
    if lock.try_take() {
        return;
    }
    let member = thread.member();
    let taken = member.is_some_and(|member| retry(member, || lock.try_take()));
    if !taken {
        lock.take();
    }
}

/// libgomp's lock in the word of a name. Safety: gcc made the word for the name, of pointer size, zero at first, there as
/// long as the code that passes it, and for nothing else.
unsafe fn named<'a>(word: *mut *mut c_void) -> &'a Lock {
    // SAFETY: as the caller promises; libgomp has its lock in the first four bytes, too.
    unsafe { Lock::in_word(word.cast()) }
}

/// Whether critical sections are served here: from the first one on, or not at all.
#[inline]
fn are_served() -> bool {
    attachment::settle();
    logical::is_wanted()
}

pass_on! {
    GOMP_critical_start(): |thread, real| match are_served() {
        true => Locks::of_caller(thread).unnamed.enter(thread),
        false => real(),
    };
    GOMP_critical_end(): |thread, real| if !RuntimesLock::leave(thread) { real() };
    GOMP_critical_name_start(word: *mut *mut c_void): |thread, real| match are_served() {
        // SAFETY: gcc passes it.
        true => enter(thread, unsafe { named(word) }),
        false => real(word),
    };
    GOMP_critical_name_end(word: *mut *mut c_void): |thread, real| match are_served() {
        // SAFETY: likewise.
        true => unsafe { named(word) }.give(),
        false => real(word),
    };
    GOMP_atomic_start(): |thread, real| match are_served() {
        true => Locks::of_caller(thread).atomic.enter(thread),
        false => real(),
    };
    GOMP_atomic_end(): |thread, real| if !RuntimesLock::leave(thread) { real() };
}

fn test(test: Symbol, lock: *mut c_void) -> bool {
    type Test = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
    // Not the calling thread's from before it was suspended.
    let runtime = runtime_of_caller(thread_state::current());
    let function = runtime.map_or(null_mut(), |runtime| runtime.function(test));
    // SAFETY: callers name functions of this type; null becomes `None`.
    let function = unsafe { core::mem::transmute::<*mut c_void, Option<Test>>(function) };
    // SAFETY: the lock is the program's, as it passed it.
    function.is_some_and(|function| unsafe { function(lock) } != 0)
}

/// Takes a lock by trying, as a member does; by `block` where that is no use.
fn set(thread: &ThreadState, by: Symbol, lock: *mut c_void, block: impl FnOnce(*mut c_void)) {
    let taken = thread.member().is_some_and(|member| {
        let attempt = || test(by, lock);
        attempt() || retry(member, attempt)
    });
    if !taken {
        block(lock);
    }
}

/// A member that did not get a lock will try again: lets the others run before.
fn after_attempt(thread: &ThreadState, result: c_int) -> c_int {
    if result == 0
        && let Some(member) = thread.member()
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
