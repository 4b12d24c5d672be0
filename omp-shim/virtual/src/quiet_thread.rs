//! Threads of the shim's own that run no handlers of the program's signals.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::null;

use super::kernel::{self, SignalMask};

/// Starts one, with all signals blocked but the C library's own; false if there can be no more. It is detached. Safety:
/// `run` can be called with `argument` by another thread, at any time from now on.
pub(super) unsafe fn start(
    run: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> bool {
    let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
    // A thread begins with the mask of its maker. By the kernel, since `preserved` notes the program's calls.
    let before = kernel::signal_mask();
    kernel::set_signal_mask(SignalMask::THE_PROGRAMS);
    // SAFETY: the caller vouches for the argument.
    let failed = unsafe { libc::pthread_create(thread.as_mut_ptr(), null(), run, argument) };
    kernel::set_signal_mask(before);
    if failed == 0 {
        // SAFETY: written by the call above, and nobody else knows of it.
        unsafe { libc::pthread_detach(thread.assume_init()) };
    }
    failed == 0
}
