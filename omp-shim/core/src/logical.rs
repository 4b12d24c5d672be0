//! Teams of logical threads, as far as parts that do not run them need to know
//! ([`TeamService`](crate::features::TeamService)).

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crate::looked_up;
use crate::runtime::Runtime;
use crate::symbols::Symbol;
use crate::thread_state::ThreadState;

static WANTED: AtomicBool = AtomicBool::new(false);
static REFUSED: AtomicBool = AtomicBool::new(false);
static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(null_mut());
/// How many forks lie between the program's first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);
static PREEMPTIONS: AtomicU32 = AtomicU32::new(0);

/// The process has attached to a page under `--teams virtual`.
pub fn want() {
    WANTED.store(true, Ordering::Release);
}

/// Whether the user asked for such teams.
#[inline(always)]
pub fn is_wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// No region of this process may have one from now on.
pub fn refuse() {
    REFUSED.store(true, Ordering::Relaxed);
}

/// Whether that is so.
#[inline(always)]
pub fn is_refused() -> bool {
    REFUSED.load(Ordering::Relaxed)
}

/// Whether regions of this process may still have one. If not, all regions are the runtime's, as under `fixed`.
#[inline(always)]
pub fn are_possible() -> bool {
    is_wanted() && !is_refused()
}

/// Whether a region that the thread begins without a size may have to do with such teams; not if teams have one thread.
#[inline(always)]
pub fn may_serve(thread: &ThreadState) -> bool {
    let is_alone = || {
        thread.initial_max_threads.get() == 1
            && !thread.has_set_num_threads.get()
            && !looked_up::may_set()
            && !is_within(thread)
    };
    are_possible() && !is_alone()
}

/// Whether the thread is a logical one, or in a real region of the same runtime within.
#[inline(always)]
pub fn is_within(thread: &ThreadState) -> bool {
    thread.member.get().or(thread.outer.get()).is_some()
}

/// A region begins that would have run in that runtime.
#[inline]
pub fn note_runtime(runtime: &'static Runtime) {
    RUNTIME.store(core::ptr::from_ref(runtime).cast_mut(), Ordering::Relaxed);
}

/// The runtime that the present region would have run in.
pub fn runtime() -> Option<&'static Runtime> {
    // SAFETY: only references to runtimes are stored there.
    unsafe { RUNTIME.load(Ordering::Relaxed).as_ref() }
}

/// Whether `function` is what the present region's runtime has for `symbol`.
pub fn is_function_of_teams(symbol: Symbol, function: *mut c_void) -> bool {
    runtime().is_some_and(|teams| teams.function(symbol) == function)
}

/// Whether a call of `symbol` that goes to `runtime` goes where the present region would have run.
pub fn is_of_runtime(runtime: &Runtime, symbol: Symbol) -> bool {
    self::runtime().is_some_and(|teams| {
        let function = runtime.function(symbol);
        // One runtime may have been found through several modules.
        core::ptr::eq(teams, runtime) || (!function.is_null() && function == teams.function(symbol))
    })
}

/// A process, as the child of a fork knows it from its parent. What was noted in one is not true in another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life(u32);

impl Life {
    /// That of this process.
    #[inline]
    pub fn now() -> Self {
        Self(FORKS.load(Ordering::Relaxed))
    }
}

/// The process is the child of a fork.
pub fn note_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// So many times were OS threads helped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preemptions(u32);

/// How often OS threads were helped, in all; to be compared with what was seen before.
#[inline(always)]
pub fn preemptions() -> Preemptions {
    Preemptions(PREEMPTIONS.load(Ordering::Relaxed))
}

/// One was helped.
pub fn note_preemption() {
    PREEMPTIONS.fetch_add(1, Ordering::Relaxed);
}
