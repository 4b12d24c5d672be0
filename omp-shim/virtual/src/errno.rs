//! Where the C library has `errno`.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use mapper_shim_core::elf;

/// The C library's function, once looked up.
pub(super) static REAL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Where the calling thread's `errno` lies.
pub(super) fn location() -> *mut c_int {
    let mut real = REAL.load(Ordering::Relaxed);
    if real.is_null() {
        real = find();
        REAL.store(real, Ordering::Relaxed);
    }
    // SAFETY: the function of that name has this type.
    let real =
        unsafe { core::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *mut c_int>(real) };
    // SAFETY: it takes nothing.
    unsafe { real() }
}

/// Not by `dlsym` if it can be helped: it takes the lock that whoever runs a library's constructors holds, and a
/// constructor may wait for a thread that is here for the first time.
#[cold]
fn find() -> *mut c_void {
    match elf::next_definition(c"__errno_location") {
        Some(address) => address as *mut c_void,
        // SAFETY: the handle is a special one, the name a C string. The C library has the function.
        None => unsafe { libc::dlsym(libc::RTLD_NEXT, c"__errno_location".as_ptr()) },
    }
}
