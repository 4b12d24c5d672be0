//! The names of threads that members of a virtual team set and ask for.
//!
//! *Problem.* The C library sets the name of another thread by that one's number, but that of the calling thread by a system call
//! for whoever makes it: on a carrier, that names another member's OS thread.
//!
//! *Approach.* A member that runs on another one's OS thread has a thread made that calls in its place, as for
//! changing the user ([`credentials`]): to that one the member is another thread. So each member's name is that of the OS
//! thread that is its own, wherever it runs.

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::AtomicPtr;

use super::credentials;

static REAL_SET: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static REAL_GET: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

type Set = unsafe extern "C" fn(libc::pthread_t, *const c_char) -> c_int;
type Get = unsafe extern "C" fn(libc::pthread_t, *mut c_char, usize) -> c_int;

/// Looks both up, before a thread of the program's is in need of them.
pub(crate) fn look_up() {
    credentials::real(&REAL_SET, c"pthread_setname_np");
    credentials::real(&REAL_GET, c"pthread_getname_np");
}

/// Makes the call in the member's place if need be; returns an error's number, as the functions do.
fn call(call: &dyn Fn() -> c_int) -> c_int {
    match credentials::call(call) {
        // No thread could be made.
        -1 => libc::EAGAIN,
        answer => answer,
    }
}

/// As the C library's function of that name, for members of virtual teams, too.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_setname_np(thread: libc::pthread_t, name: *const c_char) -> c_int {
    let real = credentials::real(&REAL_SET, c"pthread_setname_np");
    // SAFETY: a function of that name has this type; null becomes `None`.
    match unsafe { core::mem::transmute::<*mut c_void, Option<Set>>(real) } {
        // SAFETY: the arguments are the caller's, who waits until the call is through.
        Some(real) => call(&|| unsafe { real(thread, name) }),
        None => libc::ENOSYS,
    }
}

/// As the C library's function of that name, for members of virtual teams, too.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_getname_np(
    thread: libc::pthread_t,
    name: *mut c_char,
    size: usize,
) -> c_int {
    let real = credentials::real(&REAL_GET, c"pthread_getname_np");
    // SAFETY: a function of that name has this type; null becomes `None`.
    match unsafe { core::mem::transmute::<*mut c_void, Option<Get>>(real) } {
        // SAFETY: as above.
        Some(real) => call(&|| unsafe { real(thread, name, size) }),
        None => libc::ENOSYS,
    }
}
