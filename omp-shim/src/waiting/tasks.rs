//! Tasks: threads carry them out while they wait at barriers, which is no waiting ([`mapper_shim_core::waits`]). So the shim
//! needs to know of a region's first one before it is made. clang's code allocates all tasks by one function.

use core::ffi::c_void;

use mapper_shim_core::pass_on::{jump_on, real_of_caller};
use mapper_shim_core::waits;

unsafe extern "C" fn target(number: usize) -> *mut c_void {
    real_of_caller(number, |thread, _| waits::task_comes(thread))
}

jump_on! { target:
    __kmpc_omp_task_alloc
    __kmpc_omp_target_task_alloc
}
