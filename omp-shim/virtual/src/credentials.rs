//! Changing the user and the groups that a process runs as, in a program with virtual teams.
//!
//! *Problem.* The C library has every thread make the system call, by signal 33: it marks each thread by its thread
//! pointer, signals until no mark is left, and makes the caller's call itself. Where a member runs on a carrier, the
//! thread pointer is the member's (or a donor's): the handler would remove the wrong mark, the signalling never end,
//! and the OS thread of a member that calls be left out.
//!
//! *Approach.* The handler runs under the OS thread's own thread pointer ([`signal`]). For a member a new thread, to
//! which nothing is lent, makes the call. (A member must not change its user in a signal handler, where no thread can
//! be made.)
//!
//! *Other signals to threads* (`tests/shim/signals.rs`). Functions that signal single threads may be called by modules
//! without constructs only ([`super::kernel_state`]). They reach the OS thread that runs the member; the handler runs
//! under the thread pointer in force there. A cancelled member sees it at its next cancellation point; asynchronously,
//! what the OS thread runs at that moment is cancelled. The child of a fork is the member that forked, alone.

mod signal;

use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

pub(super) use signal::come_before;

use super::c_library::{self, fail, in_place_of_c_library};
use super::{kernel, pool, quiet_thread};

struct ProxyCall<'a> {
    call: &'a dyn Fn() -> c_int,
    answer: AtomicI32,
    errno: AtomicI32,
    is_done: AtomicBool,
}

static PROXY_CALLS_RUN: AtomicU32 = AtomicU32::new(0);

impl ProxyCall<'_> {
    extern "C" fn run(proxy_call: *mut c_void) -> *mut c_void {
        // SAFETY: `send` passes an proxy call, and keeps it until it is done.
        let proxy_call = unsafe { &*proxy_call.cast::<ProxyCall<'_>>() };
        let answer = (proxy_call.call)();
        proxy_call.answer.store(answer, Ordering::Relaxed);
        // SAFETY: it is the calling thread's.
        let errno = unsafe { c_library::errno().read() };
        proxy_call.errno.store(errno, Ordering::Relaxed);
        proxy_call.is_done.store(true, Ordering::Release);
        // From here on the proxy call may be gone.
        PROXY_CALLS_RUN.fetch_add(1, Ordering::Release);
        kernel::futex_wake(&PROXY_CALLS_RUN, u32::MAX >> 1);
        null_mut()
    }

    /// Makes a thread that makes the call. Its `errno` becomes the caller's if the call fails.
    fn send(call: &dyn Fn() -> c_int) -> c_int {
        let proxy_call = ProxyCall {
            call,
            answer: AtomicI32::new(0),
            errno: AtomicI32::new(0),
            is_done: AtomicBool::new(false),
        };
        let argument = core::ptr::from_ref(&proxy_call).cast_mut().cast();
        // SAFETY: the proxy call stays until it is done, which is waited for below. The calls are the C library's
        // functions with the caller's arguments, which any thread may call.
        if !unsafe { quiet_thread::start(Self::run, argument) } {
            return fail(libc::EAGAIN);
        }
        loop {
            let run = PROXY_CALLS_RUN.load(Ordering::Acquire);
            if proxy_call.is_done.load(Ordering::Acquire) {
                break;
            }
            kernel::futex_wait(&PROXY_CALLS_RUN, run);
        }
        match proxy_call.answer.load(Ordering::Relaxed) {
            -1 => fail(proxy_call.errno.load(Ordering::Relaxed)),
            answer => answer,
        }
    }
}

/// Makes the call, on a thread to which no thread pointer is lent. −1 if no thread can be made for it.
pub(super) fn call(call: &dyn Fn() -> c_int) -> c_int {
    match pool::own_thread_pointer() {
        Some(_) => ProxyCall::send(call),
        None => call(),
    }
}

in_place_of_c_library! {
    |real| call(&real);
    setuid(user: libc::uid_t);
    setgid(group: libc::gid_t);
    seteuid(user: libc::uid_t);
    setegid(group: libc::gid_t);
    setreuid(real_user: libc::uid_t, user: libc::uid_t);
    setregid(real_group: libc::gid_t, group: libc::gid_t);
    setresuid(real_user: libc::uid_t, user: libc::uid_t, saved_user: libc::uid_t);
    setresgid(real_group: libc::gid_t, group: libc::gid_t, saved_group: libc::gid_t);
    setgroups(count: libc::size_t, groups: *const libc::gid_t);
    initgroups(user: *const c_char, group: libc::gid_t);
}
