//! The next `dlsym`: what the shim's own lookups go by, without being taken for the program's.

use core::ffi::{CStr, c_char, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

type LookUp = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

static REAL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// The next `dlsym` behind the shim's, which may be one of another preloaded library; null if there is none.
pub fn next() -> *mut c_void {
    let real = REAL.load(Ordering::Relaxed);
    if !real.is_null() {
        return real;
    }
    // The C library's first, by its version: this skips the shim's and all others without versions.
    // SAFETY: the handle is a special one, the names are C strings.
    let library =
        unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), c"GLIBC_2.2.5".as_ptr()) };
    // SAFETY: as in `look_up`.
    let next = match unsafe { core::mem::transmute::<*mut c_void, Option<LookUp>>(library) } {
        // SAFETY: as above.
        Some(library) => unsafe { library(libc::RTLD_NEXT, c"dlsym".as_ptr()) },
        None => null_mut(),
    };
    let real = if next.is_null() { library } else { next };
    REAL.store(real, Ordering::Relaxed);
    real
}

/// What `dlsym` answers, without noting the lookup. Not for handles whose meaning depends on the caller.
///
/// # Safety
/// The handle is one of `dlopen`, or `RTLD_DEFAULT`.
pub unsafe fn look_up(handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: a function of that name has this type; null becomes `None`.
    let real = unsafe { core::mem::transmute::<*mut c_void, Option<LookUp>>(next()) };
    // SAFETY: as the caller promises; the name is a C string.
    real.map_or(null_mut(), |real| unsafe { real(handle, name.as_ptr()) })
}
