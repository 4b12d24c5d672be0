//! Barriers as clang emits them: `__kmpc_barrier`, explicit ones and those at the ends of loops.

use core::ffi::{c_int, c_void};

use crate::libgomp_regions::real;
use crate::libomp::runtime_of;
use crate::symbols::Symbol;
use crate::thread_state;
use crate::waits;

/// Waits by the real function of the same name.
///
/// # Safety
/// To be called as clang does.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_barrier(location: *mut c_void, thread_number: c_int) {
    let thread = thread_state::current();
    let runtime = runtime_of(thread, location, Symbol::__kmpc_barrier);
    let run = real!(runtime, Symbol::__kmpc_barrier, fn(*mut c_void, c_int));
    // SAFETY: the arguments are the caller's.
    waits::at_barrier(thread, || unsafe { run(location, thread_number) });
}
