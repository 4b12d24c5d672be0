//! The names of threads that members of a virtual team set and query. The C library names the calling thread by a
//! system call, which on a carrier names another member's OS thread; so a new thread makes the call (`credentials`).

use core::ffi::{c_char, c_int};

use super::c_library::in_place_of_c_library;
use super::credentials;

in_place_of_c_library! {
    |real| match credentials::call(&real) {
        // No thread could be made. These functions return the number of an error.
        -1 => libc::EAGAIN,
        answer => answer,
    };
    pthread_setname_np(thread: libc::pthread_t, name: *const c_char);
    pthread_getname_np(thread: libc::pthread_t, name: *mut c_char, size: usize);
}
