//! Threads of the shim's own in which no handlers of the program's signals run.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::{null, null_mut};

/// Starts one, with all signals blocked; false if there can be no more. It is detached.
///
/// # Safety
/// `run` can be called with `argument` by another thread, at any time from now on.
pub(super) unsafe fn start(
    run: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> bool {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
    // SAFETY: the sets are filled before they are read; the caller vouches for the argument.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let failed = libc::pthread_create(thread.as_mut_ptr(), null(), run, argument);
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
        if failed == 0 {
            libc::pthread_detach(thread.assume_init());
        }
        failed == 0
    }
}
