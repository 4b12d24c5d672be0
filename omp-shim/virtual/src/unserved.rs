//! Constructs that virtual teams do not support, met by a member.
//!
//! `admission` refuses virtual teams to a process with such constructs from the next region on. A library with them
//! that is loaded and called within a virtual region would reach the runtime, which knows of no team: wrong results, or
//! waits for ever. So the functions that begin them are exported here: for a member the program ends with a message;
//! otherwise the stub jumps on. Tasks, `taskwait` and cancellation outside their constructs are right as they are.

use core::ffi::c_void;

use mapper_shim_core::pass_on::{jump_on, real_of_caller};
use mapper_shim_core::runtime;
use mapper_shim_core::symbols::Symbol;

use super::member::member_for;

/// Ends the program, as its results would be wrong.
#[cold]
pub(super) fn refuse(symbol: Symbol) -> ! {
    let name = symbol.name().to_string_lossy();
    runtime::refuse(&format!(
        "{name} is not supported with virtual teams, and the library that calls it was loaded inside a parallel region"
    ))
}

unsafe extern "C" fn target(number: usize) -> *mut c_void {
    real_of_caller(number, |thread, symbol| {
        if member_for(thread, symbol).is_some() {
            refuse(symbol);
        }
    })
}

jump_on! { target:
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
