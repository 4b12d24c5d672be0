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

use crate::pass_on::{member_for, runtime_of_caller};
use crate::runtime;
use crate::shield::shielded;
use crate::symbols::Symbol;
use crate::thread_state::{self, note_caller};

/// Ends the program: what it called is not served, and came within one and the same virtual region. To
/// go on would be to get it wrong.
#[cold]
pub(super) fn refuse(symbol: Symbol) -> ! {
    let _ = shielded(|| {
        let name = symbol.name().to_string_lossy();
        writeln!(
            std::io::stderr(),
            "libmapper_omp: {name} is not served by virtual teams, and the library that calls it was \
             loaded within a parallel region; start the program with --teams fixed"
        )
        .ok()
    });
    // SAFETY: ends the process at once, without running anything of the program's.
    unsafe { libc::_exit(127) }
}

/// The real function of that number.
unsafe extern "C" fn target(number: usize) -> *mut c_void {
    let Some(symbol) = Symbol::ALL.get(number).copied() else {
        return core::ptr::null_mut();
    };
    let thread = thread_state::current();
    if member_for(thread, symbol).is_some() {
        refuse(symbol);
    }
    let real = runtime_of_caller(thread).map_or(core::ptr::null_mut(), |r| r.function(symbol));
    if real.is_null() {
        runtime::missing(symbol);
    }
    real
}

macro_rules! unserved {
    ($($name:ident)*) => {$(
        /// Begins a construct by the real function of the same name, or refuses to.
        ///
        /// # Safety
        /// To be called as gcc does.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn $name() {
            // All registers that carry arguments are kept; those on the stack stay where they are.
            core::arch::naked_asm!(
                note_caller!(),
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "sub rsp, 8",
                "mov edi, {number}",
                "call {target}",
                "add rsp, 8",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "jmp rax",
                number = const Symbol::$name as usize,
                target = sym target,
            )
        }
    )*};
}

unserved! {
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
