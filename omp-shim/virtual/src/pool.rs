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

#[inline(always)]
pub(super) fn member(id: u32) -> &'static Member {
    // SAFETY: as for `members`.
    unsafe { &*MEMBERS.load(Ordering::Relaxed).add(id as usize) }
}

/// The OS thread's own thread pointer, if it is a member's and another is in force. Also for signal handlers.
pub(super) fn own_thread_pointer() -> Option<ThreadPointer> {
    let (this, started) = (kernel::thread_number(), STARTED.load(Ordering::Acquire));
    let all = match started {
        0 => &[],
        _ => members(0, started),
    };
    let own = all.iter().find(|member| member.os_thread() == this)?;
    Some(own.thread_pointer()).filter(|own| *own != thread_pointer::current())
}
