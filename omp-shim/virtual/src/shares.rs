//! The worksharing constructs that the members of the present team are in.

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use mapper_shim_core::construct::{Chunk, Loop};

use super::member::Member;
use super::region::size;
use super::share::{self, Entry, RING, Share};
use super::{carrier, kernel};

/// Turns of spinning while another thread sets a construct up: after so many it has lost its CPU, perhaps to this one.
const SETTER_SPINS: u32 = 100;

/// Constructs entered and `single`s met in the regions before.
pub(super) static SHARES_BEFORE: AtomicU64 = AtomicU64::new(0);
pub(super) static SINGLES_BEFORE: AtomicU32 = AtomicU32::new(0);
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
static SINGLES_TAKEN: AtomicU32 = AtomicU32::new(0);
/// What the member that took a `single copyprivate` hands on to the others.
pub(super) static COPIED: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

#[inline(always)]
#[allow(
    clippy::indexing_slicing,
    reason = "a remainder is less than what was divided by"
)]
pub(super) fn place(sequence: u64) -> &'static Share {
    &SHARES[sequence as usize % RING]
}

#[inline]
pub(super) fn enter_share(member: &'static Member, describe: impl Fn() -> Loop) {
    let sequence = member.shares_entered.load(Ordering::Relaxed);
    member.shares_entered.store(sequence + 1, Ordering::Relaxed);
    let place = place(sequence);
    let mut turns = 0;
    loop {
        match place.enter(sequence, size(), &describe) {
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

#[inline(always)]
pub(super) fn share_of(member: &Member) -> Option<&'static Share> {
    // SAFETY: null or one of `SHARES`.
    unsafe { member.share.load(Ordering::Relaxed).as_ref() }
}

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

/// The same of an ordered loop; the member keeps which iterations it got.
pub(super) fn next_ordered_chunk(member: &Member) -> Option<Chunk> {
    let share = share_of(member)?;
    let trips = member.trips.load(Ordering::Relaxed);
    let part = share.take(share::Asker {
        id: member.id,
        team: size(),
        trips,
    });
    let (first, last) = part.unwrap_or_default();
    member.chunk_first.store(first, Ordering::Relaxed);
    member.chunk_last.store(last, Ordering::Relaxed);
    member.trips.store(trips + 1, Ordering::Relaxed);
    part.map(|part| share.chunk_of(part))
}

pub(super) fn memory(member: &Member) -> *mut c_void {
    share_of(member).map_or(null_mut(), Share::memory)
}

#[inline]
pub(super) fn leave_share(member: &Member) {
    if let Some(share) = share_of(member) {
        let sequence = member.shares_entered.load(Ordering::Relaxed) - 1;
        share.leave(sequence, size());
    }
}

#[inline]
pub(super) fn takes_single(member: &Member) -> bool {
    let met = member.singles_met.load(Ordering::Relaxed);
    let next = met.wrapping_add(1);
    member.singles_met.store(next, Ordering::Relaxed);
    SINGLES_TAKEN
        .compare_exchange(met, next, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok()
}

pub(super) fn clear() {
    SHARES_BEFORE.store(0, Ordering::Relaxed);
    SINGLES_BEFORE.store(0, Ordering::Relaxed);
    SINGLES_TAKEN.store(0, Ordering::Relaxed);
    for (index, share) in SHARES.iter().enumerate() {
        share.vacate((index as u64).wrapping_sub(RING as u64));
    }
}
