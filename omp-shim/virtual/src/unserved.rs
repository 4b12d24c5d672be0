//! Constructs that virtual teams do not serve, met by a member of one.
//!
//! *Problem.* `admission` refuses virtual teams to a process with such constructs, from the next region
//! on. A library with them that is loaded within a virtual region, and called there, would find the
//! runtime that knows of no team: every member would get the whole of a loop, or wait for ever.
//!
//! *Approach.* The functions by which those constructs begin that would go wrong are exported here. For a
//! member the program ends with a message; for everybody else the stub jumps on to the real function,
//! whose arguments it leaves as they are. Tasks, `taskwait` and cancellation outside their constructs
//! are right as they are: the runtime runs tasks at once for a thread without a team.

use super::member::member_for;
use core::ffi::c_void;
use mapper_shim_core::pass_on::{jump_on, real_of_caller};
use mapper_shim_core::runtime;
use mapper_shim_core::symbols::Symbol;

/// Ends the program: what it called is not served, and came within one and the same virtual region. To
/// go on would be to get it wrong.
#[cold]
pub(super) fn refuse(symbol: Symbol) -> ! {
    let name = symbol.name().to_string_lossy();
    runtime::refuse(&format!(
        "{name} is not supported with virtual teams, and the library that calls it was loaded inside a parallel region"
    ))
}

/// The real function of that number, for who is no member.
unsafe extern "C" fn target(number: usize) -> *mut c_void {
    real_of_caller(number, |thread, symbol| {
        if member_for(thread, symbol).is_some() {
            refuse(symbol);
        }
    })
}

jump_on! { target:
    GOMP_loop_ordered_static_start
    GOMP_loop_ordered_dynamic_start
    GOMP_loop_ordered_guided_start
    GOMP_loop_ordered_runtime_start
    GOMP_loop_ordered_start
    GOMP_loop_ull_ordered_static_start
    GOMP_loop_ull_ordered_dynamic_start
    GOMP_loop_ull_ordered_guided_start
    GOMP_loop_ull_ordered_runtime_start
    GOMP_loop_ull_ordered_start
    GOMP_loop_doacross_static_start
    GOMP_loop_doacross_dynamic_start
    GOMP_loop_doacross_guided_start
    GOMP_loop_doacross_runtime_start
    GOMP_loop_doacross_start
    GOMP_loop_ull_doacross_static_start
    GOMP_loop_ull_doacross_dynamic_start
    GOMP_loop_ull_doacross_guided_start
    GOMP_loop_ull_doacross_runtime_start
    GOMP_loop_ull_doacross_start
    GOMP_scope_start
    GOMP_target
    GOMP_target_ext
}
