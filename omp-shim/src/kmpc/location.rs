//! The interface between clang and LLVM's libomp, which Intel's compilers share.
//!
//! Each call carries a location descriptor, which lies in the calling module. For programs that gcc compiled libomp calls
//! some of these functions itself, with a location of its own; these calls are counted a level above.

use core::ffi::c_void;

use mapper_shim_core::caller;
use mapper_shim_core::runtime::{self, Runtime};
use mapper_shim_core::symbols::Symbol;
use mapper_shim_core::thread_state::ThreadState;

#[inline(always)]
pub(crate) fn runtime_of(
    thread: &ThreadState,
    location: *const c_void,
    symbol: Symbol,
) -> &'static Runtime {
    caller::of_caller(thread, location as usize)
        .or_else(|| thread.last_runtime.get())
        .unwrap_or_else(|| runtime::missing(symbol))
}
