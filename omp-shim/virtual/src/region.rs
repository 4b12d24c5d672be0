//! The region that runs: what it runs, how large its team is, and how that is cut into blocks.
//!
//! *Invariants.* Written by the pool's owner before it starts the carriers, and not changed until all are through.

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use mapper_shim_core::construct::Outlined;
use mapper_shim_core::{thread_state, waits};

use super::member::Member;
use super::pool::{STARTED, member};
use super::storage::Storage;
use super::waiting::Rendezvous;
use super::{control_variables, kernel};

pub(super) static FUNCTION: AtomicUsize = AtomicUsize::new(0);
pub(super) static DATA: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
pub(super) static SIZE: AtomicU32 = AtomicU32::new(0);
pub(super) static BLOCKS: AtomicU32 = AtomicU32::new(0);
pub(super) static IS_SHARED: AtomicBool = AtomicBool::new(false);
/// Tasks may come, for which its blocks meet.
pub(super) static EXPECTS_TASKS: AtomicBool = AtomicBool::new(false);
pub(super) static RUNS: AtomicBool = AtomicBool::new(false);

pub(super) static MEETING: Rendezvous = Rendezvous::new();
static GAVE_UP: AtomicBool = AtomicBool::new(false);

/// Whether the program needs as many OS threads as it has logical ones.
#[inline(always)]
pub(super) fn has_given_up() -> bool {
    GAVE_UP.load(Ordering::Relaxed)
}

/// It does from the next region on; says whether it did before.
pub(super) fn give_up() -> bool {
    GAVE_UP.swap(true, Ordering::Relaxed)
}

#[inline(always)]
pub(super) fn size() -> u32 {
    SIZE.load(Ordering::Relaxed)
}

#[inline(always)]
pub(super) fn blocks() -> u32 {
    BLOCKS.load(Ordering::Relaxed)
}

#[inline(always)]
pub(super) fn expects_tasks() -> bool {
    EXPECTS_TASKS.load(Ordering::Relaxed)
}

/// The leads of the present team; none between regions.
pub(super) fn leads() -> impl Iterator<Item = &'static Member> {
    let (size, blocks) = (size(), BLOCKS.load(Ordering::Relaxed));
    let running = RUNS.load(Ordering::Relaxed) && size <= STARTED.load(Ordering::Relaxed);
    let blocks = if running { blocks } else { 0 };
    (0..blocks).map(move |block| member(first_of(block, size, blocks)))
}

/// The first member of a block; of the one after the last, the size of the team.
#[inline(always)]
pub(super) fn first_of(block: u32, size: u32, blocks: u32) -> u32 {
    (u64::from(block) * u64::from(size) / u64::from(blocks.max(1))) as u32
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    pub(crate) size: u32,
    pub(crate) blocks: u32,
    pub(crate) storage: Storage,
}

pub(super) fn run_body(member: &'static Member) {
    // Where storage is shared nobody can have changed settings: none of the functions that do is called.
    if !member.lead().carrier.is_shared() {
        control_variables::adopt(member);
    }
    let function = FUNCTION.load(Ordering::Relaxed);
    // SAFETY: the address is that of a region's outlined function, stored by `begin`.
    let function = unsafe { core::mem::transmute::<usize, Outlined>(function) };
    // SAFETY: as the runtime would have called it, with the data of the same region.
    unsafe { function(DATA.load(Ordering::Relaxed)) };
    stay_in_child_of_fork();
}

/// The child of a fork within the region came to an end of what it can do. In libgomp it would wait for the team for ever too.
#[inline(always)]
pub(super) fn stay_in_child_of_fork() {
    if thread_state::current().member.get().is_none() {
        stay();
    }
}

#[cold]
fn stay() -> ! {
    loop {
        kernel::futex_wait(&SIZE, SIZE.load(Ordering::Relaxed));
    }
}

#[inline]
pub(super) fn meet_other_blocks() {
    let blocks = BLOCKS.load(Ordering::Relaxed);
    if blocks > 1 {
        waits::for_others(thread_state::current(), || MEETING.meet(blocks));
    }
}
