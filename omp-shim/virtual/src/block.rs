//! A block of members, as data: how far they are, and who may touch it.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::first_stop::FirstStop;
use super::gate::Gate;
use super::thread_pointer::ThreadPointer;
use super::waiting::Lock;

#[repr(C, align(128))]
#[derive(Default)]
pub(crate) struct Carrier {
    pub(super) len: AtomicU32,
    /// Those that neither wait at a barrier nor are through with the region.
    pub(super) left: AtomicU32,
    pub(super) done: AtomicU32,
    /// Barriers that the block has passed, in units of `BARRIER`.
    pub(super) barriers_passed: AtomicU32,
    pub(super) is_shared: AtomicBool,
    pub(super) donor: AtomicUsize,
    pub(super) gate: Gate,
    pub(super) holds_lock: AtomicBool,
    pub(super) on_loan: AtomicU32,
    pub(super) lock: Lock,
    pub(super) news: AtomicU32,
    pub(super) first_stop: FirstStop,
    /// When a member that makes or executes tasks last let the others run.
    pub(super) gave_way_ns: AtomicU64,
}

impl Carrier {
    /// Takes a new block of `len` members, who share the storage of `donor` if there is one.
    #[inline]
    pub(super) fn open(&self, len: u32, donor: Option<ThreadPointer>) {
        self.len.store(len, Ordering::Relaxed);
        self.left.store(len, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        self.gave_way_ns.store(0, Ordering::Relaxed);
        self.is_shared.store(donor.is_some(), Ordering::Relaxed);
        if let Some(ThreadPointer(donor)) = donor {
            self.donor.store(donor, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    pub(super) fn donor(&self) -> ThreadPointer {
        ThreadPointer(self.donor.load(Ordering::Relaxed))
    }

    /// The carrier's OS thread goes back to the program's code.
    #[inline(always)]
    pub(super) fn leave(&self) {
        if self.holds_lock.load(Ordering::Relaxed) {
            self.drop_lock();
        }
        self.gate.leave();
    }

    #[cold]
    pub(super) fn drop_lock(&self) {
        self.holds_lock.store(false, Ordering::Relaxed);
        self.lock.give();
    }
}

/// A member that `carrier::change` continued is there: the one that left may be continued by others.
pub(super) extern "C" fn landed(carrier: *const c_void) {
    // SAFETY: only `change` has this called, with a carrier, which is never freed.
    unsafe { &*carrier.cast::<Carrier>() }.leave();
}
