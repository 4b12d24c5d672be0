//! The making of tasks.
//!
//! Tasks are the runtimes' own business. The shim hears of them for one reason: threads carry them out while they
//! wait for one another at barriers, and that is no waiting ([`mapper_shim_core::waits`]). So it suffices to hear of a region's
//! first one, before it is made.
//!
//! What clang compiles has all tasks, those of taskloops and those with dependences included, allocated by one
//! function.

use core::ffi::c_void;

use mapper_shim_core::pass_on::{jump_on, real_of_caller};
use mapper_shim_core::waits;

/// The real function of that number.
unsafe extern "C" fn target(number: usize) -> *mut c_void {
    real_of_caller(number, |thread, _| waits::task_comes(thread))
}

jump_on! { target:
    GOMP_task
    GOMP_taskloop
    GOMP_taskloop_ull
    __kmpc_omp_task_alloc
    __kmpc_omp_target_task_alloc
}
