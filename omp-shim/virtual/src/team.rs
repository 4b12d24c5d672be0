//! Running a region with a virtual team: its blocks are opened, carried and closed.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use mapper_shim_core::features::Request;
use mapper_shim_core::thread_state::{self, ThreadState};
use mapper_shim_core::{logical, waits};

use super::member::{CARRY, Member, OfMember as _};
use super::pool::{member, members};
use super::region::{
    BLOCKS, DATA, FUNCTION, IS_SHARED, Plan, RUNS, SIZE, first_of, has_given_up, run_body,
};
use super::shares::{SHARES_BEFORE, SINGLES_BEFORE, place};
use super::storage::{self, Storage};
use super::waiting::{self, Countdown, Expected};
use super::{carrier, control_variables, liveness, region, tasks};

static IS_COMBINED: AtomicBool = AtomicBool::new(false);
static REGIONS: AtomicU32 = AtomicU32::new(0);
/// The same once all blocks of the last have been started.
static ORDERED: AtomicU32 = AtomicU32::new(0);
static BLOCKS_LEFT: Countdown = Countdown::new();

/// Begins a region: from here on the calling thread is member 0.
#[inline]
pub(crate) fn begin(region: &Request<'_>, plan: Plan) {
    let (size, blocks) = (plan.size, plan.blocks);
    FUNCTION.store(region.body.function as usize, Ordering::Relaxed);
    DATA.store(region.body.data, Ordering::Relaxed);
    SIZE.store(size, Ordering::Relaxed);
    BLOCKS.store(blocks, Ordering::Relaxed);
    IS_SHARED.store(plan.storage == Storage::Shared, Ordering::Relaxed);
    region::EXPECTS_TASKS.store(tasks::may_come(), Ordering::Relaxed);
    waiting::expect(blocks);
    let regions = REGIONS.load(Ordering::Relaxed).wrapping_add(1);
    REGIONS.store(regions, Ordering::Relaxed);
    logical::note_runtime(region.start.runtime);
    IS_COMBINED.store(region.work.is_some(), Ordering::Relaxed);
    let before = SHARES_BEFORE.load(Ordering::Relaxed);
    if let Some(work) = region.work {
        let _ = place(before).enter(before, size, || work);
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
    if size > blocks || has_given_up() {
        liveness::watch();
    }
    region.start.thread.set_member(Some(lead));
    carrier::begin_lead(lead);
}

/// Ends the region that `begin` began, when member 0 has run its part.
#[inline]
pub(crate) fn end(thread: &ThreadState) {
    let Some(lead) = thread.member() else {
        return;
    };
    carrier::end_body(lead);
    carrier::finish(lead);
    thread.set_member(None);
    if BLOCKS.load(Ordering::Relaxed) > 1 {
        waits::for_others(thread, || BLOCKS_LEFT.wait());
    }
    RUNS.store(false, Ordering::Relaxed);
    let shares = lead.shares_entered.load(Ordering::Relaxed);
    SHARES_BEFORE.store(shares, Ordering::Relaxed);
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
    let donor = is_shared.then(|| storage::donor(block)).flatten();
    lead.carrier.open(len, donor);
}

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
    carrier::end_body(lead);
    carrier::finish(lead);
    waits::leave_region();
    BLOCKS_LEFT.count();
}

pub(super) fn expected(member: &Member) -> Expected {
    let carried = member.carried.load(Ordering::Relaxed);
    after(carried, ORDERED.load(Ordering::Relaxed))
}

/// The same for one that last carried a block in region `carried`, when all orders of region `ordered` are out.
fn after(carried: u32, ordered: u32) -> Expected {
    // While orders go out, those who had theirs may be through already.
    match carried == ordered || carried == ordered.wrapping_add(1) {
        true => Expected::Soon,
        false => Expected::Hardly,
    }
}

/// Counts the time since `lead` was through with the last region; a parked thread's is counted by [`count_parked`].
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_carrier_expects_the_next_block_until_all_orders_are_out() {
        let last = u32::MAX;
        // Regions 7 and 8: the orders of 8 are going out, then are out.
        for (carried, ordered, expected) in [
            (7, 7, Expected::Soon),
            (8, 7, Expected::Soon),
            (8, 8, Expected::Soon),
            (7, 8, Expected::Hardly),
            (0, last, Expected::Soon),
            (last, 0, Expected::Hardly),
        ] {
            assert_eq!(after(carried, ordered), expected, "{carried} {ordered}");
        }
    }
}
