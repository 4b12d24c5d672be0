//! Where threads wait for one another in code of clang: barriers, reductions and `copyprivate`.
//!
//! A loop with a `reduction` clause ends with `__kmpc_reduce` and `__kmpc_end_reduce` instead of a barrier. In which of
//! them threads wait depends on how libomp combines the values; by a tree it waits even in `__kmpc_reduce_nowait`.

use core::ffi::{c_int, c_void};

use mapper_shim_core::pass_on::real;
use mapper_shim_core::symbols::Symbol;
use mapper_shim_core::{thread_state, waits};

use crate::kmpc::location::runtime_of;

/// What a reduction's begin returns where each thread adds its own values, and none waits.
const BY_ATOMICS: c_int = 2;

macro_rules! barriers {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?, $waited:expr;)*) => {$(
        /// Waits by the real function of the same name. Safety: as clang calls it.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            location: *mut c_void,
            thread_number: c_int,
            $($argument: $type),*
        ) $(-> $result)? {
            let thread = thread_state::current();
            let runtime = runtime_of(thread, location, Symbol::$name);
            let run = real!(
                runtime, Symbol::$name,
                fn(*mut c_void, c_int $(, $type)*) $(-> $result)?
            );
            // SAFETY: the arguments are the caller's.
            let perhaps = || unsafe { run(location, thread_number $(, $argument)*) };
            // The runtime's own call is measured where the program's call entered the shim.
            if runtime.calls_itself(location as usize) || waits::is_in_barrier() {
                return perhaps();
            }
            waits::at_barrier_or_not(thread, perhaps, $waited)
        }
    )*};
}

barriers! {
    __kmpc_barrier(), |()| true;
    __kmpc_reduce(
        count: c_int, bytes: usize, data: *mut c_void, function: *mut c_void, lock: *mut c_void
    ) -> c_int, |way| *way != BY_ATOMICS;
    __kmpc_reduce_nowait(
        count: c_int, bytes: usize, data: *mut c_void, function: *mut c_void, lock: *mut c_void
    ) -> c_int, |way| *way != BY_ATOMICS;
    __kmpc_end_reduce(lock: *mut c_void), |()| true;
    __kmpc_copyprivate(
        bytes: usize, data: *mut c_void, function: *mut c_void, is_source: c_int
    ), |()| true;
}

/// Waits by the real function, which calls `__kmpc_barrier` with what it was given. Safety: as clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_cancel_barrier(
    location: *mut c_void,
    thread_number: c_int,
) -> c_int {
    let thread = thread_state::current();
    let runtime = runtime_of(thread, location, Symbol::__kmpc_cancel_barrier);
    let run = real!(
        runtime,
        Symbol::__kmpc_cancel_barrier,
        fn(*mut c_void, c_int) -> c_int
    );
    // SAFETY: the arguments are the caller's.
    let wait = || unsafe { run(location, thread_number) };
    match runtime.calls_itself(location as usize) {
        true => wait(),
        false => waits::at_barrier_by_another(thread, wait),
    }
}
