//! The thread that owns the pool of members: the first that begins a region. The runtime runs other threads' regions.
//! The pool ends with it; the next thread that begins a region owns a new one, in the same places.

use core::cell::Cell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mapper_shim_core::shield::shielded;
use mapper_shim_core::thread_state::{ThreadState, thread_block};
use mapper_shim_core::{logical, waits};

use super::member::{END, Member, OfMember as _};
use super::os_thread::start_thread;
use super::pool::{self, MEMBERS, MOST_MEMBERS, STARTED};
use super::region::{BLOCKS, MEETING, RUNS};
use super::{
    attendants, control_variables, credentials, liveness, shares, storage, tasks, thread_pointer,
};

static OWNED: AtomicBool = AtomicBool::new(false);

/// Up to when the waiting of parked threads has been counted; 0 when it has not yet.
static PARKED_UNTIL_NS: AtomicU64 = AtomicU64::new(0);
thread_block! {
    /// Whether the calling thread owns the members of virtual teams.
    owns_pool: Cell<bool>, "mapper_omp_pool"
}

/// Whether the calling thread owns the pool, making it the owner if nobody else is.
pub(super) fn own_pool(thread: &ThreadState) -> bool {
    owns_pool().get() || become_owner(thread)
}

#[cold]
fn become_owner(_thread: &ThreadState) -> bool {
    let free = OWNED.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed);
    owns_pool().set(free.is_ok());
    if free.is_ok() {
        // Settings are each thread's own; those that were noted may be another's.
        control_variables::forget();
    }
    free.is_ok()
}

/// The calling thread ends.
pub fn owner_ends(_thread: &ThreadState) {
    if owns_pool().take() {
        if !RUNS.load(Ordering::Relaxed) {
            end_pool();
        }
        OWNED.store(false, Ordering::Release);
    }
}

/// Has all threads that serve the pool end, and waits until they touch nothing of it any more.
fn end_pool() {
    let started = STARTED.swap(0, Ordering::Relaxed);
    let members = match started {
        0 => &[],
        _ => pool::members(0, started),
    };
    for member in members {
        member.drop_execution();
        match member.id {
            0 => member.lose_os_thread(),
            _ => member.mailbox.post(END),
        }
    }
    storage::end_donors();
    liveness::end_watcher();
    attendants::wait_for_all();
    liveness::watcher_is_gone();
    PARKED_UNTIL_NS.store(0, Ordering::Relaxed);
}

/// Whether the pool has so many members, making them if it can. For its owner.
#[inline]
pub(super) fn has_members(size: u32) -> bool {
    STARTED.load(Ordering::Relaxed) >= size || make_members(size)
}

#[cold]
fn make_members(size: u32) -> bool {
    if size > MOST_MEMBERS {
        return false;
    }
    let made = shielded(|| {
        if MEMBERS.load(Ordering::Relaxed).is_null() {
            // Memory that is not written takes none.
            let room = Box::leak(Box::<[Member]>::new_uninit_slice(MOST_MEMBERS as usize));
            MEMBERS.store(room.as_mut_ptr().cast(), Ordering::Release);
            thread_pointer::prepare();
        }
        let stack_bytes = control_variables::stack_bytes();
        for id in STARTED.load(Ordering::Relaxed)..size {
            let place = MEMBERS.load(Ordering::Relaxed).wrapping_add(id as usize);
            // SAFETY: `id` is below `MOST_MEMBERS`, and nobody refers to a member that is not started.
            let member: &'static Member = unsafe {
                place.write(Member::new(id));
                &*place
            };
            if id == 0 {
                member.adopt_this_thread();
            } else if !start_thread(member, stack_bytes) {
                return None;
            }
            STARTED.store(member.id + 1, Ordering::Release);
            if id > 0 {
                // The C library has made a thread, and has its handler.
                credentials::come_before();
            }
        }
        Some(())
    });
    made.is_some()
}

/// Counts the waiting of the OS threads that carry nothing, donors included. For the pool's owner, now and then.
pub fn count_parked(thread: &ThreadState, now_ns: u64) {
    if !owns_pool().get() {
        return;
    }
    let since_ns = PARKED_UNTIL_NS.swap(now_ns, Ordering::Relaxed);
    let parked = (STARTED.load(Ordering::Relaxed) + storage::donors())
        .saturating_sub(BLOCKS.load(Ordering::Relaxed));
    if since_ns != 0 && parked > 0 {
        waits::count(thread, u64::from(parked) * now_ns.saturating_sub(since_ns));
    }
}

/// In the child of a fork: nothing of the pool is left but the calling thread.
pub fn after_fork_in_child(thread: &ThreadState) {
    MEMBERS.store(null_mut(), Ordering::Relaxed);
    STARTED.store(0, Ordering::Relaxed);
    PARKED_UNTIL_NS.store(0, Ordering::Relaxed);
    OWNED.store(false, Ordering::Relaxed);
    RUNS.store(false, Ordering::Relaxed);
    shares::clear();
    // Others may have been waiting there when the parent forked.
    MEETING.clear();
    tasks::after_fork_in_child();
    logical::note_fork();
    owns_pool().set(false);
    storage::after_fork_in_child();
    if let Some(member) = thread.member() {
        member.pass_on_held();
    }
    // The other members, whose stacks the child has copies of, must not run there. Within a real region of such a member
    // the thread stays in that one, which is the runtime's.
    thread.set_member(None);
    liveness::watcher_is_gone();
    attendants::after_fork_in_child();
}
