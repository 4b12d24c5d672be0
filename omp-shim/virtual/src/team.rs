//! The team of the region that runs, and the pool of members it is made from.
//!
//! *Approach.* One pool serves the process: it belongs to the first thread that begins a region, so
//! that each logical thread keeps its thread-local storage from region to region. Other threads'
//! regions are run by the runtime, as are regions within regions.
//!
//! *Invariants.* What describes the region is written by the pool's owner before it posts the orders
//! that start the carriers, and not changed until all of them are through.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use mapper_shim_core::construct::Chunk;

use super::member::OfMember;
use super::member::{CARRY, Member, start_thread};
use super::share::{Entry, RING, Share};
use super::storage::{self, Storage};
use super::thread_pointer::{self, ThreadPointer};
use super::waiting::{self, Countdown, Expected, Rendezvous};
use super::{carrier, control_variables, credentials, kernel, liveness, share};
use mapper_shim_core::construct::{Body, Loop, Outlined};
use mapper_shim_core::logical;
use mapper_shim_core::runtime::Runtime;
use mapper_shim_core::thread_state::{self, ThreadState, thread_block};
use mapper_shim_core::waits;

/// Most members of a team.
pub(super) const MOST_MEMBERS: u32 = 512;
/// Turns of spinning while another thread writes a construct down, which takes it a few instructions.
/// After so many it has lost its CPU, which may be this one.
const SETTER_SPINS: u32 = 100;

/// The pool: room for [`MOST_MEMBERS`], of whom the first so many are there and have an OS thread. Null
/// before it exists.
static MEMBERS: AtomicPtr<Member> = AtomicPtr::new(null_mut());
static STARTED: AtomicU32 = AtomicU32::new(0);
/// A thread owns the pool.
static OWNED: AtomicBool = AtomicBool::new(false);

/// The region that runs.
static FUNCTION: AtomicUsize = AtomicUsize::new(0);
static DATA: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static SIZE: AtomicU32 = AtomicU32::new(0);
static BLOCKS: AtomicU32 = AtomicU32::new(0);
/// Members share the storage of lenders.
static IS_SHARED: AtomicBool = AtomicBool::new(false);
/// Constructs entered and `single`s met in the regions before.
static SHARES_BEFORE: AtomicU64 = AtomicU64::new(0);
static SINGLES_BEFORE: AtomicU32 = AtomicU32::new(0);
/// The region begins inside a loop or sections.
static IS_COMBINED: AtomicBool = AtomicBool::new(false);
/// Regions begun.
static REGIONS: AtomicU32 = AtomicU32::new(0);
/// The same once all blocks of the last have been ordered: before, one that will be may not know yet.
static ORDERED: AtomicU32 = AtomicU32::new(0);
/// Up to when the waiting of parked threads has been counted; 0 when it has not yet.
static PARKED_UNTIL_NS: AtomicU64 = AtomicU64::new(0);
/// A region runs.
static RUNS: AtomicBool = AtomicBool::new(false);

static BLOCKS_LEFT: Countdown = Countdown::new();
static MEETING: Rendezvous = Rendezvous::new();
#[allow(clippy::indexing_slicing, reason = "worked out by the compiler")]
static SHARES: [Share; RING] = {
    let mut shares = [const { Share::new(0) }; RING];
    let mut index = 0;
    while index < RING {
        shares[index] = Share::new(index as u64);
        index += 1;
    }
    shares
};
/// `single` constructs that some member has taken.
static SINGLES_TAKEN: AtomicU32 = AtomicU32::new(0);
/// What `single copyprivate` hands on.
static COPIED: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

thread_block! {
    /// Whether the calling thread owns the members of virtual teams.
    owns_pool: Cell<bool>, "mapper_omp_pool"
}

/// So many members from `first` on.
#[inline(always)]
pub(super) fn members(first: u32, count: u32) -> &'static [Member] {
    let all = MEMBERS.load(Ordering::Relaxed);
    // SAFETY: blocks are cut from the `STARTED` members of the pool, which are never freed.
    unsafe { core::slice::from_raw_parts(all.add(first as usize), count as usize) }
}

/// One member of the pool; it must have that many.
#[inline(always)]
fn member(id: u32) -> &'static Member {
    // SAFETY: as for `members`.
    unsafe { &*MEMBERS.load(Ordering::Relaxed).add(id as usize) }
}

/// The size of the present team.
#[inline(always)]
pub(super) fn size() -> u32 {
    SIZE.load(Ordering::Relaxed)
}

/// The thread pointer with which the OS thread of that number began, if it is a member's. For handlers of signals,
/// too.
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

/// The leads of the present team; none between regions.
pub(super) fn leads() -> impl Iterator<Item = &'static Member> {
    let (size, blocks) = (size(), BLOCKS.load(Ordering::Relaxed));
    let running = RUNS.load(Ordering::Relaxed) && size <= STARTED.load(Ordering::Relaxed);
    let blocks = if running { blocks } else { 0 };
    (0..blocks).map(move |block| member(first_of(block, size, blocks)))
}

/// The first member of a block; of the one after the last, the size of the team.
#[inline(always)]
fn first_of(block: u32, size: u32, blocks: u32) -> u32 {
    (u64::from(block) * u64::from(size) / u64::from(blocks.max(1))) as u32
}

/// How a region would run virtually.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    /// Logical threads.
    pub(crate) size: u32,
    /// CPUs.
    pub(crate) blocks: u32,
    /// What thread-local storage its members have.
    pub(crate) storage: Storage,
}

/// A region to be run.
pub(crate) struct Region {
    /// What it runs.
    pub(crate) body: Body,
    /// The loop or sections it begins in.
    pub(crate) work: Option<Loop>,
    /// How many logical threads, on how many CPUs.
    pub(crate) plan: Plan,
}

/// Whether the calling thread owns the pool, making it the owner if nobody else is.
pub(super) fn own_pool(thread: &ThreadState) -> bool {
    owns_pool().get() || become_owner(thread)
}

#[cold]
fn become_owner(_thread: &ThreadState) -> bool {
    let free = OWNED.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed);
    owns_pool().set(free.is_ok());
    if free.is_ok() && STARTED.load(Ordering::Relaxed) > 0 {
        member(0).adopt_this_thread();
    }
    if free.is_ok() {
        // Settings are each thread's own; those that were noted may be another's.
        control_variables::note_owner();
    }
    free.is_ok()
}

/// The calling thread ends.
pub fn owner_ends(_thread: &ThreadState) {
    if owns_pool().take() {
        if STARTED.load(Ordering::Relaxed) > 0 {
            member(0).lose_os_thread();
        }
        OWNED.store(false, Ordering::Release);
    }
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
    let made = mapper_shim_core::shield::shielded(|| {
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

/// Begins a region: from here on the calling thread is member 0.
#[inline]
pub(crate) fn begin(thread: &ThreadState, runtime: &'static Runtime, region: &Region) {
    let Plan {
        size,
        blocks,
        storage,
    } = region.plan;
    FUNCTION.store(region.body.function as usize, Ordering::Relaxed);
    DATA.store(region.body.data, Ordering::Relaxed);
    SIZE.store(size, Ordering::Relaxed);
    BLOCKS.store(blocks, Ordering::Relaxed);
    IS_SHARED.store(storage == Storage::Shared, Ordering::Relaxed);
    waiting::expect(blocks);
    let regions = REGIONS.load(Ordering::Relaxed).wrapping_add(1);
    REGIONS.store(regions, Ordering::Relaxed);
    logical::note_runtime(runtime);
    IS_COMBINED.store(region.work.is_some(), Ordering::Relaxed);
    let before = SHARES_BEFORE.load(Ordering::Relaxed);
    if let Some(work) = region.work {
        let _ = place(before).enter(before, || work);
    }
    RUNS.store(true, Ordering::Relaxed);
    let lead = member(0);
    if blocks > 1 {
        BLOCKS_LEFT.set(blocks - 1);
        for block in 1..blocks {
            member(first_of(block, size, blocks)).mailbox.post(CARRY);
        }
    }
    ORDERED.store(regions, Ordering::Relaxed);
    open_block(lead, 0, first_of(1, size, blocks));
    if size > blocks {
        liveness::watch();
    }
    thread.set_member(Some(lead));
    carrier::begin_lead(lead);
}

/// Ends the region that `begin` began, when member 0 has run its part.
#[inline]
pub(crate) fn end(thread: &ThreadState) {
    let Some(lead) = thread.member() else {
        return;
    };
    carrier::finish(lead);
    thread.set_member(None);
    if BLOCKS.load(Ordering::Relaxed) > 1 {
        waits::for_others(thread, || BLOCKS_LEFT.wait());
    }
    RUNS.store(false, Ordering::Relaxed);
    SHARES_BEFORE.store(
        lead.shares_entered.load(Ordering::Relaxed),
        Ordering::Relaxed,
    );
    SINGLES_BEFORE.store(lead.singles_met.load(Ordering::Relaxed), Ordering::Relaxed);
    if control_variables::take_dirty() {
        control_variables::restore(lead);
    }
}

/// Prepares the block with that number, from `lead` up to, and without, member `end`.
#[inline]
fn open_block(lead: &'static Member, block: u32, end: u32) {
    let combined = IS_COMBINED.load(Ordering::Relaxed);
    let before = SHARES_BEFORE.load(Ordering::Relaxed);
    let singles = SINGLES_BEFORE.load(Ordering::Relaxed);
    let len = end - lead.id;
    let mut next = lead;
    for member in members(lead.id, len).iter().rev() {
        member.join([lead, next], before, singles);
        next = member;
        if combined {
            let share = core::ptr::from_ref(place(before)).cast_mut();
            member.share.store(share, Ordering::Relaxed);
            member.trips.store(0, Ordering::Relaxed);
            member.shares_entered.store(before + 1, Ordering::Relaxed);
        }
    }
    let is_shared = len > 1 && IS_SHARED.load(Ordering::Relaxed);
    let lender = if is_shared {
        storage::lender(block)
    } else {
        None
    };
    lead.carrier.open(len, lender);
}

/// Carries the block of which the calling OS thread is the lead.
pub(super) fn carry(lead: &'static Member) {
    let (size, blocks) = (SIZE.load(Ordering::Relaxed), BLOCKS.load(Ordering::Relaxed));
    let (block, end) = (0..blocks)
        .map(|block| (block, first_of(block + 1, size, blocks)))
        .find(|(_, end)| *end > lead.id)
        .unwrap_or((blocks - 1, size));
    count_wait_for_region(lead);
    open_block(lead, block, end);
    carrier::begin_lead(lead);
    run_body(lead);
    carrier::finish(lead);
    waits::leave_region();
    BLOCKS_LEFT.count();
}

/// Whether the OS thread of `member` will soon be given an order.
pub(super) fn expected(member: &Member) -> Expected {
    after(
        member.carried.load(Ordering::Relaxed),
        ORDERED.load(Ordering::Relaxed),
    )
}

/// What an OS thread may expect that carried a block last in that region, when all orders of this one are out.
fn after(carried: u32, ordered: u32) -> Expected {
    // While orders go out, those who had theirs may be through already.
    match carried == ordered || carried == ordered.wrapping_add(1) {
        true => Expected::Soon,
        false => Expected::Hardly,
    }
}

/// Counts the time since `lead` was through with the region before. As long as it carried nothing it was
/// parked, and that is counted by [`count_parked`].
#[inline]
fn count_wait_for_region(lead: &Member) {
    let region = REGIONS.load(Ordering::Relaxed);
    let before = lead.carried.swap(region, Ordering::Relaxed);
    let thread = thread_state::current();
    if before.wrapping_add(1) == region {
        waits::end_region(thread);
    } else {
        waits::forget();
    }
}

/// Counts the waiting of the OS threads that carry nothing, which cannot do so themselves. Lenders are among them,
/// as they are among the threads that the daemon knows of. For the pool's
/// owner, now and then.
pub(crate) fn count_parked(thread: &ThreadState, now_ns: u64) {
    if !owns_pool().get() {
        return;
    }
    let since_ns = PARKED_UNTIL_NS.swap(now_ns, Ordering::Relaxed);
    let parked = (STARTED.load(Ordering::Relaxed) + storage::lenders())
        .saturating_sub(BLOCKS.load(Ordering::Relaxed));
    if since_ns != 0 && parked > 0 {
        waits::count(thread, u64::from(parked) * now_ns.saturating_sub(since_ns));
    }
}

/// Runs the region's function for one member.
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
    if thread_state::current().member.get().is_none() {
        // The child of a fork within the region came to its end. There is nobody to go on with; in
        // libgomp it would wait for the team for ever, too.
        loop {
            kernel::futex_wait(&SIZE, SIZE.load(Ordering::Relaxed));
        }
    }
}

/// Waits for the carriers of the other blocks.
#[inline]
pub(super) fn meet_other_blocks() {
    let blocks = BLOCKS.load(Ordering::Relaxed);
    if blocks > 1 {
        waits::for_others(thread_state::current(), || MEETING.meet(blocks));
    }
}

#[inline(always)]
#[allow(
    clippy::indexing_slicing,
    reason = "a remainder is less than what was divided by"
)]
fn place(sequence: u64) -> &'static Share {
    &SHARES[sequence as usize % RING]
}

/// Enters the next worksharing construct of `member`.
#[inline]
pub(super) fn enter_share(member: &'static Member, describe: impl Fn() -> Loop) {
    let sequence = member.shares_entered.load(Ordering::Relaxed);
    member.shares_entered.store(sequence + 1, Ordering::Relaxed);
    let place = place(sequence);
    let mut turns = 0;
    loop {
        match place.enter(sequence, &describe) {
            Entry::Entered => break,
            Entry::AlmostReady if turns < SETTER_SPINS => {
                turns += 1;
                core::hint::spin_loop();
            }
            Entry::AlmostReady => {
                kernel::sched_yield();
            }
            Entry::Occupied => {
                if !carrier::give_way(member) {
                    kernel::sched_yield();
                }
            }
        }
    }
    member
        .share
        .store(core::ptr::from_ref(place).cast_mut(), Ordering::Relaxed);
    member.trips.store(0, Ordering::Relaxed);
}

/// The construct that `member` is in.
#[inline(always)]
fn share_of(member: &Member) -> Option<&'static Share> {
    // SAFETY: null or one of `SHARES`.
    unsafe { member.share.load(Ordering::Relaxed).as_ref() }
}

/// The next chunk for `member`.
#[inline]
pub(super) fn next_chunk(member: &Member) -> Option<Chunk> {
    let trips = member.trips.load(Ordering::Relaxed);
    let chunk = share_of(member)?.dispense(share::Asker {
        id: member.id,
        team: size(),
        trips,
    })?;
    member.trips.store(trips + 1, Ordering::Relaxed);
    Some(chunk)
}

/// The memory that the construct shares which `member` is in.
pub(super) fn memory(member: &Member) -> *mut c_void {
    share_of(member).map_or(null_mut(), Share::memory)
}

/// Leaves the construct that `member` is in.
#[inline]
pub(super) fn leave_share(member: &Member) {
    if let Some(share) = share_of(member) {
        let sequence = member.shares_entered.load(Ordering::Relaxed) - 1;
        share.leave(sequence, size());
    }
}

/// Whether `member` is the first to meet the next `single`.
#[inline]
pub(super) fn takes_single(member: &Member) -> bool {
    let met = member.singles_met.load(Ordering::Relaxed);
    member
        .singles_met
        .store(met.wrapping_add(1), Ordering::Relaxed);
    SINGLES_TAKEN
        .compare_exchange(
            met,
            met.wrapping_add(1),
            Ordering::AcqRel,
            Ordering::Relaxed,
        )
        .is_ok()
}

/// What the member that took a `single copyprivate` hands on to the others.
pub(super) fn copied() -> &'static AtomicPtr<c_void> {
    &COPIED
}

/// In the child of a fork: nothing of the pool is left but the calling thread.
pub(crate) fn after_fork_in_child(thread: &ThreadState) {
    MEMBERS.store(null_mut(), Ordering::Relaxed);
    STARTED.store(0, Ordering::Relaxed);
    PARKED_UNTIL_NS.store(0, Ordering::Relaxed);
    OWNED.store(false, Ordering::Relaxed);
    RUNS.store(false, Ordering::Relaxed);
    SHARES_BEFORE.store(0, Ordering::Relaxed);
    SINGLES_BEFORE.store(0, Ordering::Relaxed);
    SINGLES_TAKEN.store(0, Ordering::Relaxed);
    // Others may have been waiting there when the parent forked.
    MEETING.clear();
    logical::note_fork();
    for (index, share) in SHARES.iter().enumerate() {
        share.vacate((index as u64).wrapping_sub(RING as u64));
    }
    owns_pool().set(false);
    storage::after_fork_in_child();
    if let Some(member) = thread.member() {
        member.pass_on_held();
    }
    // The others of its team, whose stacks the child has a copy of, must not run there.
    // Within a real region of such a member it stays in that one, which is the runtime's.
    thread.set_member(None);
    liveness::after_fork_in_child();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_carried_a_block_expects_the_next_one_until_all_orders_have_gone_to_others() {
        let last = u32::MAX;
        // Regions 7 and 8: the orders of 8 are going out, then are out.
        assert_eq!(after(7, 7), Expected::Soon);
        assert_eq!(after(8, 7), Expected::Soon);
        assert_eq!(after(8, 8), Expected::Soon);
        assert_eq!(after(7, 8), Expected::Hardly);
        assert_eq!(after(0, last), Expected::Soon);
        assert_eq!(after(last, 0), Expected::Hardly);
    }
}
