//! The members that there are: one pool for the process, so that logical threads keep their storage between regions.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::kernel;
use super::member::Member;
use super::thread_pointer::{self, ThreadPointer};

pub(super) const MOST_MEMBERS: u32 = 512;
/// Room for [`MOST_MEMBERS`], of which the first so many exist and have an OS thread. Null before it exists.
pub(super) static MEMBERS: AtomicPtr<Member> = AtomicPtr::new(null_mut());
pub(super) static STARTED: AtomicU32 = AtomicU32::new(0);
/// So many members from `first` on.
#[inline(always)]
pub(super) fn members(first: u32, count: u32) -> &'static [Member] {
    let all = MEMBERS.load(Ordering::Relaxed);
    // SAFETY: blocks are cut from the `STARTED` members of the pool, which are never freed.
    unsafe { core::slice::from_raw_parts(all.add(first as usize), count as usize) }
}

/// One member of the pool; it must have that many.
#[inline(always)]
pub(super) fn member(id: u32) -> &'static Member {
    // SAFETY: as for `members`.
    unsafe { &*MEMBERS.load(Ordering::Relaxed).add(id as usize) }
}

/// The thread pointer with which the OS thread of that number began, if it is a member's. Also for signal handlers.
pub(super) fn thread_pointer_of(os_thread: libc::pid_t) -> Option<ThreadPointer> {
    let started = STARTED.load(Ordering::Acquire);
    let of_members = match started {
        0 => &[],
        _ => members(0, started),
    };
    let found = of_members
        .iter()
        .find(|member| member.os_thread() == os_thread);
    found.map(Member::thread_pointer)
}

/// The thread pointer of the calling OS thread itself, if it runs under another one.
pub(super) fn own_thread_pointer() -> Option<ThreadPointer> {
    thread_pointer_of(kernel::thread_number()).filter(|own| *own != thread_pointer::current())
}
