//! Functions of the C library that the shim calls or exports in its place, and `errno`.

use core::ffi::{CStr, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use mapper_shim_core::elf;

/// A function of the C library, looked up once, as a rule when the shim is loaded; by `dlsym` only if need be: that takes
/// the lock of a thread that runs constructors, and these may wait for a thread that is here for the first time.
#[repr(C)]
pub(super) struct CFunction {
    /// The address, once known; first, as a stub reads it there.
    address: AtomicPtr<c_void>,
    name: &'static CStr,
}

impl CFunction {
    pub(super) const fn new(name: &'static CStr) -> Self {
        Self {
            address: AtomicPtr::new(null_mut()),
            name,
        }
    }

    pub(super) fn get(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if known.is_null() { self.find() } else { known }
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        let found = match elf::next_definition(self.name) {
            Some(address) => address as *mut c_void,
            // SAFETY: the handle is a special one, the name a C string.
            None => unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) },
        };
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

pub(super) static ERRNO_LOCATION: CFunction = CFunction::new(c"__errno_location");

pub(super) fn look_up() {
    ERRNO_LOCATION.get();
}

pub(super) fn errno() -> *mut c_int {
    let real = ERRNO_LOCATION.get();
    // SAFETY: the C library has the function, of this type.
    let real =
        unsafe { core::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *mut c_int>(real) };
    // SAFETY: it takes nothing.
    unsafe { real() }
}

pub(super) fn fail(error: c_int) -> c_int {
    // SAFETY: it is the calling thread's.
    unsafe { errno().write(error) };
    -1
}

/// Exports functions under the names of the C library's that return an int. The expression gets the real call with the same
/// arguments; after `each`, those of single functions get the real function.
macro_rules! in_place_of_c_library {
    (|$real:ident| $answer:expr; $($name:ident($($argument:ident: $type:ty),*);)*) => {
        $crate::c_library::in_place_of_c_library! { each |$real|
            $($name($($argument: $type),*) => {
                let $real = || $real($($argument),*);
                $answer
            };)*
        }
    };
    (each |$real:ident| $($name:ident($($argument:ident: $type:ty),*) => $answer:expr;)*) => {
        mod real {
            use mapper_shim_core::symbols::c_name;
            use $crate::c_library::CFunction;
            $(
                #[allow(non_upper_case_globals, reason = "named as the function")]
                pub(super) static $name: CFunction =
                    CFunction::new(c_name(concat!(stringify!($name), "\0")));
            )*
        }

        /// Looks all of them up, before a fork.
        pub(crate) fn look_up() {
            $(real::$name.get();)*
        }

        $(
        /// As the C library's function of that name, for members of virtual teams too. Safety: as for that.
        #[cfg_attr(not(miri), unsafe(no_mangle))]
        unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            type Function = unsafe extern "C" fn($($type),*) -> c_int;
            let real = real::$name.get();
            // SAFETY: a function of that name has this type; null becomes `None`.
            let real = unsafe {
                core::mem::transmute::<*mut core::ffi::c_void, Option<Function>>(real)
            };
            let $real = |$($argument: $type),*| match real {
                // SAFETY: the arguments are the caller's, which waits until the call is through.
                Some(real) => unsafe { real($($argument),*) },
                None => $crate::c_library::fail(libc::ENOSYS),
            };
            $answer
        }
    )*};
}
pub(super) use in_place_of_c_library;
