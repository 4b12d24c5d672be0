//! A call of the C library that another OS thread makes for the calling one.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use super::c_library::{self, fail};
use super::{kernel, quiet_thread};

pub(super) struct ProxyCall<'a> {
    call: &'a dyn Fn() -> c_int,
    answer: AtomicI32,
    /// 0 if the call has not failed.
    errno: AtomicI32,
    is_done: AtomicBool,
}

static PROXY_CALLS_RUN: AtomicU32 = AtomicU32::new(0);

impl<'a> ProxyCall<'a> {
    const fn new(call: &'a dyn Fn() -> c_int) -> Self {
        Self {
            call,
            answer: AtomicI32::new(0),
            errno: AtomicI32::new(0),
            is_done: AtomicBool::new(false),
        }
    }

    /// Makes the call on this thread, whose `errno` stays as it was.
    fn run(&self) {
        let errno = c_library::errno();
        // SAFETY: it is the calling thread's.
        let before = unsafe { errno.replace(0) };
        let answer = (self.call)();
        self.answer.store(answer, Ordering::Relaxed);
        // SAFETY: likewise.
        let failed = unsafe { errno.replace(before) };
        self.errno.store(failed, Ordering::Relaxed);
        self.is_done.store(true, Ordering::Release);
        // From here on the proxy call may be gone.
        PROXY_CALLS_RUN.fetch_add(1, Ordering::Release);
        kernel::futex_wake(&PROXY_CALLS_RUN, u32::MAX >> 1);
    }

    /// Waits until another thread has made the call; its `errno` becomes the caller's if it failed.
    fn answer(&self) -> c_int {
        loop {
            let run = PROXY_CALLS_RUN.load(Ordering::Acquire);
            if self.is_done.load(Ordering::Acquire) {
                break;
            }
            kernel::futex_wait(&PROXY_CALLS_RUN, run);
        }
        let answer = self.answer.load(Ordering::Relaxed);
        match (answer, self.errno.load(Ordering::Relaxed)) {
            (-1, errno) if errno != 0 => fail(errno),
            _ => answer,
        }
    }
}

/// Has a thread of its own make the call. −1 if there can be none. Any thread may make the call.
pub(super) fn on_new_thread(call: &dyn Fn() -> c_int) -> c_int {
    extern "C" fn run(proxy_call: *mut c_void) -> *mut c_void {
        // SAFETY: see below.
        unsafe { &*proxy_call.cast::<ProxyCall<'_>>() }.run();
        null_mut()
    }
    let proxy_call = ProxyCall::new(call);
    let argument = core::ptr::from_ref(&proxy_call).cast_mut().cast();
    // SAFETY: the proxy call stays until it is done, which is waited for below.
    if !unsafe { quiet_thread::start(run, argument) } {
        return fail(libc::EAGAIN);
    }
    proxy_call.answer()
}

/// Has the thread that gets the order make the call, by [`run`]. Any thread may make the call.
pub(super) fn by_order(call: &dyn Fn() -> c_int, order: impl FnOnce(*mut c_void)) -> c_int {
    let proxy_call = ProxyCall::new(call);
    order(core::ptr::from_ref(&proxy_call).cast_mut().cast());
    proxy_call.answer()
}

/// Makes a call that was ordered. Safety: the order is that of a [`by_order`] that waits.
pub(super) unsafe fn run(order: *mut c_void) {
    // SAFETY: the caller vouches for it, and who ordered it waits until it is done.
    unsafe { &*order.cast::<ProxyCall<'_>>() }.run();
}
