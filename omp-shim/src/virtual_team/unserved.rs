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

use core::ffi::c_void;
use std::io::Write as _;

use crate::core::pass_on::{jump_on, member_for, real_of_caller};
use crate::core::shield::shielded;
use crate::core::symbols::Symbol;

/// Ends the program: what it called is not served, and came within one and the same virtual region. To
/// go on would be to get it wrong.
#[cold]
pub(super) fn refuse(symbol: Symbol) -> ! {
    end(
        symbol,
        "is not served by virtual teams, and the library that calls it was loaded within a parallel region",
    )
}

/// Ends the program: a member looked up the function by a handle, and would be told wrong by it.
#[cold]
pub(crate) fn refuse_lookup(symbol: Symbol) -> ! {
    end(
        symbol,
        "is looked up by a handle of its library within the parallel region of a virtual team, by a module that does \
         not use that library itself",
    )
}

fn end(symbol: Symbol, why: &str) -> ! {
    let _ = shielded(|| {
        let name = symbol.name().to_string_lossy();
        writeln!(
            std::io::stderr(),
            "libmapper_omp: {name} {why}; start the program with --teams fixed"
        )
        .ok()
    });
    // SAFETY: ends the process at once, without running anything of the program's.
    unsafe { libc::_exit(127) }
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
