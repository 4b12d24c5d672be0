//! Functions of the runtimes that the shim answers at times, and passes on at others.
//!
//! A stub in front notes the caller, as for all exported functions. The call may have been turned
//! into a jump, so that the return address lies in a module that does not use OpenMP itself (the barrier
//! at the end of a region's body: in the shim, which called the body); then the runtime of the region is
//! taken, else the one met last. Where there is none (programs that refer to these functions weakly find
//! the shim's) the answer is zero, as outside all regions.

use core::ffi::{c_int, c_uint, c_void};

use crate::runtime::{self, Runtime};
use crate::thread_state::ThreadState;

/// The runtime that the caller means.
#[inline(always)]
pub(crate) fn runtime_of_caller(thread: &ThreadState) -> Option<&'static Runtime> {
    runtime::of_caller(thread, thread.caller.get())
        .or_else(|| thread.crew().map(|crew| crew.runtime))
        .or_else(|| thread.last_runtime.get())
        .or_else(runtime::any)
}

/// What a function answers where there is no runtime.
pub(crate) trait Nothing {
    /// The answer.
    fn nothing() -> Self;
}

macro_rules! nothing {
    ($($type:ty = $value:expr;)*) => {$(
        impl Nothing for $type {
            fn nothing() -> Self {
                $value
            }
        }
    )*};
}

nothing! {
    () = ();
    bool = false;
    c_int = 0;
    c_uint = 0;
    *mut c_void = core::ptr::null_mut();
}

/// Exports functions. The expression gets the calling thread's state and the real function.
macro_rules! pass_on {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?:
        |$thread:ident, $real:ident| $answer:expr;)*) => {$(
        /// Answers for members of virtual teams, else calls the real function of the same name.
        ///
        /// # Safety
        /// To be called as the OpenMP specification says, or as gcc does.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? {
            unsafe extern "C-unwind" fn answer($($argument: $type),*) $(-> $result)? {
                let $thread = $crate::thread_state::current();
                #[allow(unused_variables)]
                let $real = |$($argument: $type),*| $(-> $result)? {
                    let symbol = $crate::symbols::Symbol::$name;
                    let function = $crate::pass_on::runtime_of_caller($thread)
                        .map_or(core::ptr::null_mut(), |runtime| runtime.function(symbol));
                    if function.is_null() {
                        return $crate::pass_on::Nothing::nothing();
                    }
                    // SAFETY: a function of that name has this type in every runtime.
                    let function = unsafe {
                        core::mem::transmute::<
                            *mut core::ffi::c_void,
                            unsafe extern "C-unwind" fn($($type),*) $(-> $result)?,
                        >(function)
                    };
                    // SAFETY: the arguments are the caller's, or as good.
                    unsafe { function($($argument),*) }
                };
                $answer
            }
            core::arch::naked_asm!(
                $crate::thread_state::note_caller!(),
                "jmp {answer}",
                answer = sym answer
            )
        }
    )*};
}
pub(crate) use pass_on;
