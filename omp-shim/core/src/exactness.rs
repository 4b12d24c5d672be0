//! Whether the program sees to the sizes of its teams itself.

use core::sync::atomic::{AtomicBool, Ordering};

use mapper_abi::TeamsOff;

use crate::attachment;
use crate::looked_up;
use crate::thread_state::ThreadState;

/// The program called `omp_set_dynamic(0)`, in whichever thread.
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

/// The program called `omp_set_num_threads`. Outside regions that fixes the teams of this thread;
/// inside, it concerns nested regions only, which are never touched.
pub fn note_set_num_threads(thread: &ThreadState, level: u32) {
    if level == 0 {
        thread.has_set_num_threads.set(true);
    }
}

/// The program called `omp_set_dynamic`. Strictly this concerns the calling thread; a program that
/// relies on exact teams in one thread is taken to do so in all.
pub fn note_set_dynamic(dynamic: i64) {
    DYNAMIC_IS_OFF.store(dynamic == 0, Ordering::Relaxed);
}

/// Reports the team that the outermost regions of a thread have if nobody changes it, unless the program sees to
/// that itself.
#[cold]
pub fn report_real_team(thread: &ThreadState) {
    if of(thread).is_none() {
        attachment::note_allocation();
        attachment::report_team(thread.initial_max_threads.get());
    }
}
