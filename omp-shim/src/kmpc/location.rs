//! The interface between clang and LLVM's libomp, which Intel's compilers share.
//!
//! | module | job |
//! |---|---|
//! | `regions` | regions, and the microtasks that their threads run |
//! | `barrier` | barriers |
//! | `static_loops` | static loops |
//! | `dispatch` | loops dispensed in chunks |
//!
//! The caller is known by the location descriptor that each call carries, which lies in the calling
//! module. For programs that gcc compiled libomp calls some of these functions itself, with a location
//! of its own; what they do is counted a level above, and their sections not at all.

use core::ffi::c_void;
use mapper_shim_core::caller;

use mapper_shim_core::runtime::{self, Runtime};
use mapper_shim_core::symbols::Symbol;
use mapper_shim_core::thread_state::ThreadState;

/// Where a call is meant to go.
#[inline(always)]
pub(crate) fn runtime_of(
    thread: &ThreadState,
    location: *const c_void,
    symbol: Symbol,
) -> &'static Runtime {
    match caller::of_caller(thread, location as usize).or_else(|| thread.last_runtime.get()) {
        Some(runtime) => runtime,
        None => runtime::missing(symbol),
    }
}
