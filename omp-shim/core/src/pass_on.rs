//! Functions of the runtimes that the shim answers for members of virtual teams and else passes on.
//!
//! A stub notes the caller. Where the call was turned into a jump, the return address lies in a module that does not
//! use OpenMP itself; then the runtime of the region is taken, else the last one. Without a runtime (weak references
//! find the shim's functions) the answer is zero. A thread is a member only for the runtime whose region that is
//! ([`member_for`]).

use core::ffi::c_void;

use crate::runtime::{self, Runtime};
use crate::symbols::Symbol;
use crate::thread_state::{self, Logical, ThreadState};
use crate::{caller, logical};

/// The runtime that the caller means.
#[inline(always)]
pub fn runtime_of_caller(thread: &ThreadState) -> Option<&'static Runtime> {
    caller::of_caller(thread, thread.caller.get())
        .or_else(|| thread.record().map(|record| record.runtime))
        .or_else(|| thread.last_runtime.get())
        .or_else(caller::any)
}

/// The member of the virtual team that the thread is to its caller, a call of `symbol`.
#[inline(always)]
pub fn member_for(thread: &ThreadState, symbol: Symbol) -> Option<Logical> {
    let member = thread.member.get()?;
    is_for_team(thread, symbol).then_some(member)
}

/// The same in the simple case: there is one runtime, and no region of another one or of clang's form within.
#[inline(always)]
pub fn member_at_a_glance(thread: &ThreadState) -> Option<Logical> {
    let member = thread.member.get()?;
    (caller::is_sole() && thread.record.get().is_none()).then_some(member)
}

/// Whether the thread's call of `symbol` would have reached the virtual region's runtime, not one of clang's within.
#[inline(always)]
pub fn is_for_team(thread: &ThreadState, symbol: Symbol) -> bool {
    (caller::is_sole() && thread.record.get().is_none()) || is_of_team(thread, symbol)
}

#[inline(never)]
fn is_of_team(thread: &ThreadState, symbol: Symbol) -> bool {
    let is_teams = |runtime| logical::is_of_runtime(runtime, symbol);
    let record = thread.record().map(|record| record.runtime);
    if thread.outer.get().is_some() {
        // Regions of the same runtime within, which know of all levels but the first.
        let caller = caller::of_caller(thread, thread.caller.get()).or(record);
        return caller.is_none_or(is_teams);
    }
    // A member has a team record in regions of another runtime, and in those that clang's code begins.
    match caller::of_caller(thread, thread.caller.get()) {
        Some(runtime) => is_teams(runtime) && !record.is_some_and(is_teams),
        // The call was turned into a jump at the end of a body that the shim had called.
        None => record.is_none(),
    }
}

/// Exports functions. The expression in brackets gets the member in the simple case ([`member_at_a_glance`]).
#[macro_export]
macro_rules! pass_on {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? $([$member:ident => $quick:expr])?:
        |$thread:ident, $real:ident| $answer:expr;)*) => {$(
        /// Answers for members of virtual teams, else calls the real function. Safety: as OpenMP or gcc calls it.
        #[cfg_attr(not(miri), unsafe(no_mangle))]
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? {
            #[inline(never)]
            unsafe extern "C-unwind" fn answer($($argument: $type),*) $(-> $result)? {
                #[allow(unused_variables)]
                let $thread = $crate::thread_state::current();
                #[allow(unused_variables)]
                let $real = |$($argument: $type),*| $(-> $result)? {
                    let symbol = $crate::symbols::Symbol::$name;
                    // A member that has given way may be under another OS thread.
                    let thread = $crate::thread_state::current();
                    let Some(runtime) = $crate::pass_on::runtime_of_caller(thread) else {
                        return Default::default();
                    };
                    let function =
                        $crate::pass_on::real!(runtime, symbol, fn($($type),*) $(-> $result)?);
                    // SAFETY: the arguments are the caller's, or as good.
                    unsafe { function($($argument),*) }
                };
                $answer
            }
            $crate::pass_on::pass_on!(@first answer($($argument: $type),*) $(-> $result)?
                $(, $member => $quick)?);
            core::arch::naked_asm!(
                $crate::thread_state::note_caller!(),
                "jmp {answer}",
                answer = sym first
            )
        }
    )*};
    (@first $answer:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?) => {
        use $answer as first;
    };
    (@first $answer:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?,
        $member:ident => $quick:expr) => {
        // What else there is to look at must not have this one save registers.
        unsafe extern "C-unwind" fn first($($argument: $type),*) $(-> $result)? {
            let thread = $crate::thread_state::current();
            match $crate::pass_on::member_at_a_glance(thread) {
                Some($member) => $quick,
                // SAFETY: the arguments are the caller's.
                None => unsafe { $answer($($argument),*) },
            }
        }
    };
}
pub use pass_on;

/// The real function of that number, as the caller of an exported one means it, once `before` has been passed.
#[inline(always)]
pub fn real_of_caller(number: usize, before: impl FnOnce(&ThreadState, Symbol)) -> *mut c_void {
    let Some(symbol) = Symbol::ALL.get(number).copied() else {
        return core::ptr::null_mut();
    };
    let thread = thread_state::current();
    before(thread, symbol);
    let runtime = runtime_of_caller(thread);
    let real = runtime.map_or(core::ptr::null_mut(), |runtime| runtime.function(symbol));
    if real.is_null() {
        runtime::missing(symbol);
    }
    real
}

/// Exports functions that jump on to the real ones, as found by a function that gets the symbol's number.
#[macro_export]
macro_rules! jump_on {
    ($target:ident: $($name:ident)*) => {$(
        /// Jumps on to the real function of the same name, if it is to be called. Safety: as compilers call it.
        #[cfg_attr(not(miri), unsafe(no_mangle))]
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn $name() {
            // All registers that carry arguments are kept; those on the stack stay where they are.
            core::arch::naked_asm!(
                $crate::thread_state::note_caller!(),
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
                number = const $crate::symbols::Symbol::$name as usize,
                target = sym $target,
            )
        }
    )*};
}
pub use jump_on;

/// The real function behind `symbol`, as the type that its exported twin has.
#[macro_export]
macro_rules! real {
    ($runtime:expr, $symbol:expr, fn($($argument:ty),*) $(-> $result:ty)?) => {{
        let function = $runtime.function($symbol);
        if function.is_null() {
            $crate::runtime::missing($symbol);
        }
        // SAFETY: the runtime's function of that name has this type: libgomp's interface with gcc, which libomp copies.
        unsafe {
            core::mem::transmute::<
                *mut core::ffi::c_void,
                unsafe extern "C-unwind" fn($($argument),*) $(-> $result)?,
            >(function)
        }
    }};
}
pub use real;
