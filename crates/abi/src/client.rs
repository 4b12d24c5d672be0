//! The application's side: opens the page, reads the allocation, counts progress.
//!
//! *Slots.* A thread claims a slot when it first counts something and then is its only writer, so that counting is a plain
//! load and store. It releases the slot when it ends; the next thread continues from the totals there. When all are in use,
//! further threads share the last slot and add to it atomically. A forked thread claims anew in the child, since parent
//! and child share the page.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

use crate::allocation::Allocation;
use crate::error::PageError;
use crate::layout::{
    FLAG_PARKING_ENDED, FLAG_SLOTS_EXHAUSTED, FLAG_STORAGE_SHARED, OwnReportBlock, ReportBlock,
    SLOT_COUNT, ThreadSlot,
};
use crate::mapping::{Access, Mapping};
use crate::seqlock::Stamped;
use crate::token::Token;

/// The page as its application sees it.
#[derive(Debug)]
pub struct ClientPage {
    mapping: Mapping,
}

/// A thread of a process, as a slot names its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotOwner {
    /// Process id.
    pub process: u32,
    /// Thread id.
    pub thread: u32,
}

impl SlotOwner {
    const fn to_raw(self) -> u64 {
        (self.process as u64) << 32 | self.thread as u64
    }
}

/// Whether other threads write to the same slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotSharing {
    /// No: plain loads and stores suffice.
    Own,
    /// Yes: additions are atomic.
    Shared,
}

/// What programs that have ended left in a page.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Leftovers {
    /// Slots by number, with their owners.
    slots: Vec<(usize, u64)>,
    /// What they reported of themselves; 0 where others use the page as well.
    teams_off: u32,
    preemptions: u32,
    flags: u32,
}

/// A slot to count in.
#[derive(Clone, Copy, Debug)]
pub struct SlotClaim<'page> {
    /// The slot.
    pub slot: &'page ThreadSlot,
    /// Whether other threads write to it.
    pub sharing: SlotSharing,
}

impl SlotClaim<'_> {
    /// Adds `amount` to one of the slot's counters.
    #[inline]
    pub fn add(&self, counter: &AtomicU64, amount: u64) {
        match self.sharing {
            SlotSharing::Own => {
                let sum = counter.load(Ordering::Relaxed).wrapping_add(amount);
                counter.store(sum, Ordering::Relaxed);
            }
            SlotSharing::Shared => {
                counter.fetch_add(amount, Ordering::Relaxed);
            }
        }
    }
}

/// Attempts to claim a slot. One fails when another thread, which looks for a released slot, takes a new one between its
/// being counted and its being occupied.
const CLAIM_ATTEMPTS: u32 = 8;

impl ClientPage {
    /// Opens the page at `path` and checks that it is the one with `token`.
    pub fn open(path: &Path, token: Token) -> Result<Self, PageError> {
        // The path names a descriptor of the launcher, whose number may be another process's by now: an unknown file may
        // neither block this process nor become its terminal.
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = open(path, flags, Mode::empty()).map_err(|source| PageError::Open {
            path: path.to_owned(),
            source,
        })?;
        let mapping = Mapping::new(&fd, Access::ReadWrite)?;
        mapping.check_header(token)?;
        Ok(Self { mapping })
    }

    /// The sequence number of the allocation, by one relaxed load; an unchanged number means an unchanged allocation.
    #[inline]
    pub fn sequence(&self) -> u32 {
        self.sequence_word().load(Ordering::Relaxed)
    }

    /// The place of the sequence number, for frequent reading.
    #[inline]
    pub fn sequence_word(&self) -> &AtomicU32 {
        &self.mapping.allocation.sequence
    }

    /// The place of the number of CPUs, likewise; 0 before the first decision.
    #[inline]
    pub fn cpu_count_word(&self) -> &AtomicU32 {
        &self.mapping.allocation.cpu_count
    }

    /// The allocation; `None` when the daemon died while it wrote one.
    pub fn allocation(&self) -> Option<Stamped<Allocation>> {
        self.mapping.allocation.read()
    }

    /// Where the application describes itself.
    pub fn report(&self) -> &ReportBlock {
        &self.mapping.report
    }

    /// Where the application's own code reports.
    pub fn own(&self) -> &OwnReportBlock {
        &self.mapping.own
    }

    /// A slot for the thread `owner`, which has none. When none is left, those of processes that `is_gone` accepts are
    /// reused: a process that is killed or ends by `_exit` releases nothing.
    #[must_use]
    pub fn claim_slot(&self, owner: SlotOwner, is_gone: impl FnMut(u32) -> bool) -> SlotClaim<'_> {
        let own = self.claim_own_slot(owner).or_else(|| {
            self.release_processes(is_gone);
            self.claim_own_slot(owner)
        });
        if let Some(slot) = own {
            return SlotClaim {
                slot,
                sharing: SlotSharing::Own,
            };
        }
        let [.., last] = &self.mapping.slots;
        occupy(last, owner);
        let flags = &self.mapping.report.flags;
        flags.fetch_or(FLAG_SLOTS_EXHAUSTED, Ordering::Relaxed);
        SlotClaim {
            slot: last,
            sharing: SlotSharing::Shared,
        }
    }

    fn claim_own_slot(&self, owner: SlotOwner) -> Option<&ThreadSlot> {
        (0..CLAIM_ATTEMPTS).find_map(|_| {
            if take_one(&self.mapping.report.slots_released) {
                self.used_slots().iter().find(|slot| occupy(slot, owner))
            } else {
                self.next_slot().filter(|slot| occupy(slot, owner))
            }
        })
    }

    /// A slot that no thread had before, except the last.
    fn next_slot(&self) -> Option<&ThreadSlot> {
        let claimed = &self.mapping.report.slots_claimed;
        let next = claimed.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |claimed| {
            ((claimed as usize) < SLOT_COUNT).then_some(claimed + 1)
        });
        let next = next.ok()? as usize;
        let [own @ .., _last] = &self.mapping.slots;
        own.get(next)
    }

    /// Releases the slot of a thread that ends. Its totals stay.
    pub fn release_slot(&self, claim: SlotClaim<'_>, owner: SlotOwner) {
        if claim.sharing == SlotSharing::Own {
            self.release(claim.slot, owner.to_raw());
        }
    }

    /// Releases all slots of the processes that `ends` accepts.
    pub fn release_processes(&self, mut ends: impl FnMut(u32) -> bool) {
        for slot in self.used_slots() {
            let owner = slot.owner.load(Ordering::Relaxed);
            if owner != 0 && ends((owner >> 32) as u32) {
                self.release(slot, owner);
            }
        }
    }

    /// Releases a slot that has this owner.
    fn release(&self, slot: &ThreadSlot, owner: u64) {
        if vacate(slot, owner) {
            let released = &self.mapping.report.slots_released;
            released.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// What programs that have ended left: the slots of the program that `process` was before it executed its present one,
    /// which has none yet; and what is reported on the page, unless it may be from a process that `is_gone` rejects. (The
    /// slots of other ended processes are reused when no others are left.)
    #[must_use]
    pub fn leftovers(&self, process: u32, mut is_gone: impl FnMut(u32) -> bool) -> Leftovers {
        let mut leftovers = Leftovers::default();
        let mut is_shared = false;
        for (index, slot) in self.used_slots().iter().enumerate() {
            let owner = slot.owner.load(Ordering::Relaxed);
            match (owner >> 32) as u32 {
                0 => {}
                other if other == process => leftovers.slots.push((index, owner)),
                other => is_shared |= !is_gone(other),
            }
        }
        if !is_shared {
            let report = &self.mapping.report;
            leftovers.teams_off = report.teams_off.load(Ordering::Relaxed);
            leftovers.preemptions = report.preemptions.load(Ordering::Relaxed);
            leftovers.flags =
                report.flags.load(Ordering::Relaxed) & (FLAG_PARKING_ENDED | FLAG_STORAGE_SHARED);
        }
        leftovers
    }

    /// Removes leftovers; what has been written since stays.
    pub fn discard(&self, leftovers: &Leftovers) {
        for &(index, owner) in &leftovers.slots {
            if let Some(slot) = self.used_slots().get(index) {
                self.release(slot, owner);
            }
        }
        let report = &self.mapping.report;
        let relaxed = Ordering::Relaxed;
        let teams_off = &report.teams_off;
        let _ = teams_off.compare_exchange(leftovers.teams_off, 0, relaxed, relaxed);
        let fewer = |now: u32| Some(now.saturating_sub(leftovers.preemptions));
        let _ = report.preemptions.fetch_update(relaxed, relaxed, fewer);
        report.flags.fetch_and(!leftovers.flags, relaxed);
    }

    /// Whether threads of another process have slots. Those of a killed process count until they are reused.
    pub fn has_other_processes(&self, process: u32) -> bool {
        self.used_slots().iter().any(|slot| {
            let owner = slot.owner.load(Ordering::Relaxed);
            owner != 0 && (owner >> 32) as u32 != process
        })
    }

    /// How many threads have a slot, including those of killed processes.
    #[must_use]
    pub fn threads(&self) -> u32 {
        let report = &self.mapping.report;
        let released = report.slots_released.load(Ordering::Relaxed);
        let claimed = report.slots_claimed.load(Ordering::Relaxed);
        claimed.saturating_sub(released)
    }

    /// Iterations and regions completed by all threads, to see whether there is progress.
    pub fn completions(&self) -> u64 {
        let claimed = self.mapping.report.slots_claimed.load(Ordering::Acquire) as usize;
        let slots = self.mapping.slots.iter().take(claimed);
        slots.fold(0, |sum, slot| {
            sum.wrapping_add(slot.iterations.load(Ordering::Relaxed))
                .wrapping_add(slot.regions.load(Ordering::Relaxed))
        })
    }

    /// The slots that were handed out, without the shared one.
    fn used_slots(&self) -> &[ThreadSlot] {
        let claimed = self.mapping.report.slots_claimed.load(Ordering::Acquire) as usize;
        let slots = self.mapping.slots.get(..claimed.min(SLOT_COUNT - 1));
        slots.unwrap_or_default()
    }
}

/// Makes a free slot the owner's.
fn occupy(slot: &ThreadSlot, owner: SlotOwner) -> bool {
    // Acquire: the totals of the owner before, which released it, have to be visible.
    let occupied = slot
        .owner
        .compare_exchange(0, owner.to_raw(), Ordering::Acquire, Ordering::Relaxed)
        .is_ok();
    if occupied {
        // The owner before may have been killed in a region.
        slot.parallel_since_ns.store(0, Ordering::Relaxed);
    }
    occupied
}

fn vacate(slot: &ThreadSlot, owner: u64) -> bool {
    slot.owner
        .compare_exchange(owner, 0, Ordering::Release, Ordering::Relaxed)
        .is_ok()
}

/// Takes one from a counter unless it is zero.
fn take_one(counter: &AtomicU32) -> bool {
    let less = |count: u32| count.checked_sub(1);
    let taken = counter.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
    taken.is_ok()
}
