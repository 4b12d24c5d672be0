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

use core::ffi::{c_char, c_int};

pub(super) use signal::come_before;

use super::c_library::in_place_of_c_library;
use super::{pool, proxy_call};

/// Makes the call, on a thread to which no thread pointer is lent. −1 if no thread can be made for it.
pub(super) fn call(call: &dyn Fn() -> c_int) -> c_int {
    match pool::own_thread_pointer() {
        Some(_) => proxy_call::on_new_thread(call),
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
