//! Functions of a runtime that the program looks up by a handle of its library (`ctypes`, threadpoolctl). Calls by such
//! an address do not pass the shim, so it exports `dlsym`, to learn of the lookup and to keep results right:
//!
//! - *settings*: virtual teams compare what they noted with the runtime before every region and in every member
//!   (`virtual_team::control_variables`); `omp_set_num_threads` and `omp_set_dynamic` count as called;
//! - *unnamed critical sections and atomics*: the shim's own function is the answer, for virtual teams have their own
//!   locks;
//! - *other functions of teams*: no virtual teams from the next region on; within a virtual region the shim's own
//!   function is the answer. That finds the runtime by its caller, so the module must use the runtime in which it was
//!   found.
//!
//! *Invariants.* `dlsym` is called before anything is set up (by sanitizers), under locks, and with handles whose
//! meaning depends on the caller. So the stub jumps on to the next `dlsym` with arguments and return address as they
//! were, unless the answer is the shim's own; special handles and other names cause no call. The program's own lookup
//! comes last, for `dlerror`. `dlvsym` is not exported: by it the next `dlsym` is found without calling what a
//! sanitizer may be about to replace.

use core::ffi::{CStr, c_char, c_void};
use core::ptr::null_mut;

use crate::elf::{self, Module};
use crate::features::features;
use crate::lookup::{look_up, next};
use crate::runtime::{self, Family};
use crate::shield::shielded;
use crate::symbols::{Symbol, Uses};
use crate::{caller, logical, looked_up, thread_state};

#[repr(C)]
struct Course {
    /// By a jump to this one; null where there is an answer.
    next: *mut c_void,
    answer: *mut c_void,
}

/// Whether a name begins as OpenMP's do. Safety: `name` is a C string.
unsafe fn is_openmp(name: *const c_char) -> bool {
    let begins = |prefix: &[u8]| {
        prefix.iter().enumerate().all(|(place, byte)| {
            // SAFETY: all before were equal to bytes of the prefix, so the string has not ended.
            let letter = unsafe { name.add(place).read() };
            letter.cast_unsigned() == *byte
        })
    };
    [&b"omp_"[..], b"GOMP_", b"__kmpc_", b"GOACC_"]
        .into_iter()
        .any(begins)
}

unsafe extern "C" fn before(handle: *mut c_void, name: *const c_char, caller: usize) -> Course {
    let go_on = |next| Course {
        next,
        answer: null_mut(),
    };
    let next = next();
    let is_special = handle == libc::RTLD_DEFAULT || handle == libc::RTLD_NEXT;
    // SAFETY: the program passes a C string, and the C library would read it as well.
    if is_special || name.is_null() || !unsafe { is_openmp(name) } {
        return go_on(next);
    }
    // SAFETY: likewise.
    let name = unsafe { CStr::from_ptr(name) };
    // SAFETY: the handle is what the program would have the C library look at.
    match shielded(|| unsafe { examine(handle, name, caller) }) {
        Some(answer) => Course {
            next: null_mut(),
            answer,
        },
        None => go_on(next),
    }
}

/// The answer to a lookup if that is not the real function. Safety: as for `dlsym`; the handle is not a special one.
unsafe fn examine(handle: *mut c_void, name: &CStr, caller: usize) -> Option<*mut c_void> {
    let text = name.to_str().ok()?;
    let uses = looked_up::uses(text);
    if uses.is_empty() {
        return None;
    }
    // SAFETY: as the caller promises.
    let function = unsafe { look_up(handle, name) };
    let module = elf::module_containing(function as usize)?;
    // SAFETY: likewise.
    if module.is_this() || !unsafe { is_runtime(handle, &module) } {
        return None;
    }
    let symbol = Symbol::ALL
        .iter()
        .copied()
        .find(|symbol| uses.contains(Uses::TEAM) && symbol.name() == name);
    let answer = symbol.and_then(|symbol| instead_of(symbol, function, caller));
    let is_served = answer.is_some() && symbol.is_some_and(is_of_shims_locks);
    if !is_served {
        looked_up::note(uses);
        if uses.contains(Uses::TEAM) {
            (features().team_function_looked_up)();
        }
    }
    answer
}

/// Whether `module`, where something was found by the handle, is an OpenMP runtime. Safety: as for [`look_up`].
unsafe fn is_runtime(handle: *mut c_void, module: &Module) -> bool {
    [Family::Gomp, Family::Kmpc].into_iter().any(|family| {
        // SAFETY: as the caller promises.
        let mark = unsafe { look_up(handle, family.mark().name()) };
        module.contains(mark as usize)
    })
}

/// Whether it takes or releases a lock that is the shim's where virtual teams are wanted.
fn is_of_shims_locks(symbol: Symbol) -> bool {
    matches!(
        symbol,
        Symbol::GOMP_critical_start
            | Symbol::GOMP_critical_end
            | Symbol::GOMP_atomic_start
            | Symbol::GOMP_atomic_end
    )
}

/// The shim's function instead of the runtime's `function` for the module at `caller`, where the runtime's would be wrong.
fn instead_of(symbol: Symbol, function: *mut c_void, caller: usize) -> Option<*mut c_void> {
    let thread = thread_state::current();
    let concerns_member =
        thread.member.get().is_some() && logical::is_function_of_teams(symbol, function);
    if !concerns_member && !is_of_shims_locks(symbol) {
        return None;
    }
    let is_callers = caller::of_caller(thread, caller)
        .is_some_and(|runtime| runtime.function(symbol) == function);
    // SAFETY: the handle is a special one that means the same for all libraries that are preloaded.
    let own = unsafe { look_up(libc::RTLD_DEFAULT, symbol.name()) };
    let is_own = || elf::module_containing(own as usize).is_some_and(|module| module.is_this());
    if is_callers && is_own() {
        return Some(own);
    }
    if concerns_member {
        let name = symbol.name().to_string_lossy();
        runtime::refuse(&format!(
            "dlsym(\"{name}\") inside a parallel region is not supported with virtual teams"
        ));
    }
    None
}

/// Learns of a lookup and jumps on to the next function of that name. Safety: as for the C library's.
#[cfg_attr(not(miri), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "mov rdx, qword ptr [rsp + 16]",
        "sub rsp, 8",
        "call {before}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jz 2f",
        "jmp rax",
        "2:",
        "mov rax, rdx",
        "ret",
        before = sym before,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_classed_as_settings_team_functions_or_neither() {
        for (name, uses) in [
            ("omp_set_num_threads", Uses::NUM_THREADS),
            ("omp_set_num_threads_", Uses::NUM_THREADS),
            ("omp_set_num_threads_8_", Uses::NUM_THREADS),
            ("omp_set_dynamic_8_", Uses::DYNAMIC),
            ("omp_set_schedule", Uses::SETTING),
            ("omp_set_max_active_levels_", Uses::SETTING),
            ("__kmpc_push_num_threads", Uses::NUM_THREADS | Uses::TEAM),
            ("omp_get_thread_num", Uses::TEAM),
            ("omp_set_lock_", Uses::TEAM),
            ("GOMP_barrier", Uses::TEAM),
            ("GOMP_taskwait", Uses::TEAM),
            ("omp_pause_resource_all", Uses::TEAM),
            ("__kmpc_fork_call", Uses::TEAM),
            // What threadpoolctl asks for besides.
            ("omp_get_max_threads", Uses::NONE),
            ("omp_get_wtime", Uses::NONE),
            ("omp_unset_lock", Uses::NONE),
            ("omp_something_new", Uses::NONE),
        ] {
            assert_eq!(looked_up::uses(name), uses, "{name}");
        }
    }

    #[test]
    fn names_are_openmps_by_how_they_begin() {
        for (name, expected) in [
            (c"omp_get_level", true),
            (c"GOMP_barrier", true),
            (c"__kmpc_barrier", true),
            (c"ompt_start_tool", false),
            (c"omp", false),
            (c"GOM", false),
            (c"", false),
            (c"malloc", false),
        ] {
            // SAFETY: it is a C string.
            assert_eq!(unsafe { is_openmp(name.as_ptr()) }, expected, "{name:?}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the loader")]
    fn lookups_in_libraries_that_are_no_runtimes_change_nothing() {
        // SAFETY: null names the program, and the names are C strings.
        unsafe {
            let program = libc::dlopen(core::ptr::null(), libc::RTLD_LAZY);
            assert!(!libc::dlsym(program, c"malloc".as_ptr()).is_null());
            assert!(libc::dlsym(program, c"omp_get_wtime".as_ptr()).is_null());
            assert!(!libc::dlerror().is_null(), "the error is the program's");
            let _ = libc::dlsym(program, c"omp_set_num_threads".as_ptr());
        }
        assert!(!looked_up::may_set() && !looked_up::concerns_teams());
        assert_eq!(looked_up::exactness(), None);
    }
}
