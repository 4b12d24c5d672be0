//! What happens at the start and at the end of a parallel region, whatever the runtime.
//!
//! *Invariants.* `begin` and `end` run on the thread that meets the construct. Between them the real
//! runtime runs the region; everything `end` needs lies in the [`OpenRegion`] that `begin` returned,
//! on the stack of the exported function.

use core::sync::atomic::{AtomicBool, Ordering};

use mapper_abi::TeamsOff;

use crate::attachment;
use crate::progress;
use crate::runtime::{Family, Runtime};
use crate::team::{self, Request, Verdict};
use crate::thread_state::{LoopState, ThreadState};

/// The program called `omp_set_dynamic(0)`, in whichever thread.
static DYNAMIC_IS_OFF: AtomicBool = AtomicBool::new(false);

/// What the end of a region needs to know.
#[repr(C)]
pub(crate) struct OpenRegion {
    outer_loop: LoopState,
}

impl OpenRegion {
    /// A region that lies in no loop.
    pub(crate) fn without_loop() -> Self {
        Self {
            outer_loop: LoopState::default(),
        }
    }
}

/// A region that is about to start.
pub(crate) struct Start<'a> {
    /// The thread that meets it.
    pub(crate) thread: &'a ThreadState,
    /// Where it will run.
    pub(crate) runtime: &'static Runtime,
    /// Which functions of that runtime the region uses.
    pub(crate) family: Family,
    /// The outlined function.
    pub(crate) function: usize,
    /// `num_threads` as the compiler passes it.
    pub(crate) asked: u32,
}

/// A region that may start.
pub(crate) struct Started {
    /// `num_threads` to pass on.
    pub(crate) num_threads: u32,
    /// For [`end`].
    pub(crate) open: OpenRegion,
}

/// Decides on the team of a region and remembers what it interrupts.
#[inline]
pub(crate) fn begin(start: &Start<'_>) -> Started {
    let Start {
        thread,
        runtime,
        family,
        function,
        asked,
    } = *start;
    let open = OpenRegion {
        outer_loop: thread.enter_region(),
    };
    let Some(claim) = attachment::slot(thread) else {
        return Started {
            num_threads: asked,
            open,
        };
    };
    claim.slot.region.store(function as u64, Ordering::Relaxed);
    let first = !thread.has_begun.get();
    if first || !is_last_runtime(thread, runtime) {
        meet_runtime(start);
    }
    let verdict = team::decide(Request {
        asked,
        exact: exactness(thread),
        first,
        initial_max: thread.initial_max_threads.get(),
        limit: attachment::team_limit(),
    });
    let num_threads = match verdict {
        Verdict::Full => {
            let full = thread.initial_max_threads.get();
            if attachment::is_news(full) && runtime.level(family) == 0 {
                attachment::report_team(full);
            }
            asked
        }
        Verdict::Lower(size) if runtime.level(family) == 0 => {
            if attachment::is_news(size) {
                attachment::report_team(size);
            }
            size
        }
        Verdict::Lower(_) | Verdict::Untouched(None) => asked,
        Verdict::Untouched(Some(reason)) => {
            attachment::report_teams_off(reason);
            asked
        }
    };
    Started { num_threads, open }
}

/// Counts a region and goes back to what it interrupted.
#[inline]
pub(crate) fn end(thread: &ThreadState, open: &OpenRegion) {
    thread.leave_region(open.outer_loop);
    progress::region_done(thread);
}

/// The first region of a thread, or its first one in this runtime.
#[cold]
fn meet_runtime(start: &Start<'_>) {
    let Start {
        thread,
        runtime,
        family,
        ..
    } = *start;
    if !is_last_runtime(thread, runtime) {
        thread.last_runtime.set(Some(runtime));
        attachment::report_runtime(family.runtimes());
    }
    if !thread.has_begun.get() && runtime.level(family) == 0 {
        thread.has_begun.set(true);
        let max_threads = runtime.max_threads(family);
        thread.initial_max_threads.set(max_threads);
        attachment::report_max_threads(max_threads);
    }
}

fn is_last_runtime(thread: &ThreadState, runtime: &Runtime) -> bool {
    thread
        .last_runtime
        .get()
        .is_some_and(|last| core::ptr::eq(last, runtime))
}

/// Why the program's teams are exact, if they are.
fn exactness(thread: &ThreadState) -> Option<TeamsOff> {
    if thread.has_set_num_threads.get() {
        Some(TeamsOff::SetNumThreads)
    } else if DYNAMIC_IS_OFF.load(Ordering::Relaxed) {
        Some(TeamsOff::SetDynamic)
    } else {
        None
    }
}

/// The program called `omp_set_num_threads`. Outside regions that fixes the teams of this thread;
/// inside, it concerns nested regions only, which are never touched.
pub(crate) fn note_set_num_threads(thread: &ThreadState, level: u32) {
    if level == 0 {
        thread.has_set_num_threads.set(true);
    }
}

/// The program called `omp_set_dynamic`. Strictly this concerns the calling thread; a program that
/// relies on exact teams in one thread is taken to do so in all.
pub(crate) fn note_set_dynamic(dynamic: i64) {
    DYNAMIC_IS_OFF.store(dynamic == 0, Ordering::Relaxed);
}
