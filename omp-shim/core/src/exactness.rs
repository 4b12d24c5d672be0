//! Whether the program itself decides on the sizes of its teams.

use core::sync::atomic::{AtomicBool, Ordering};

use mapper_abi::TeamsOff;

use crate::thread_state::ThreadState;
use crate::{attachment, looked_up};

static DYNAMIC_IS_OFF: AtomicBool = AtomicBool::new(false);

/// Why the program's teams are exact, if they are.
pub fn of(thread: &ThreadState) -> Option<TeamsOff> {
    if thread.has_set_num_threads.get() {
        Some(TeamsOff::SetNumThreads)
    } else if DYNAMIC_IS_OFF.load(Ordering::Relaxed) {
        Some(TeamsOff::SetDynamic)
    } else {
        looked_up::exactness()
    }
}

/// The program called `omp_set_num_threads`, which fixes the thread's teams, inside regions only nested ones.
pub fn note_set_num_threads(thread: &ThreadState, level: u32) {
    if level == 0 {
        thread.has_set_num_threads.set(true);
    }
}

/// The program called `omp_set_dynamic`. Strictly this concerns the calling thread; here it counts for all.
pub fn note_set_dynamic(dynamic: i64) {
    DYNAMIC_IS_OFF.store(dynamic == 0, Ordering::Relaxed);
}

/// Reports the size of a thread's unchanged outermost regions, unless the program decides on it.
#[cold]
pub fn report_real_team(thread: &ThreadState) {
    if of(thread).is_none() {
        attachment::note_allocation();
        attachment::report_team(thread.initial_max_threads.get());
    }
}
