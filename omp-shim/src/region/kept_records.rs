//! Where the team record of a region lies while the region runs.
//!
//! *Problem.* Written anew for each region, its cache line would travel to all cores and back, which makes an empty
//! region of two threads a sixth longer.
//!
//! *Approach.* A thread that begins regions keeps a few team records in its thread-local storage, chosen by the
//! outlined function, each beside what the table of regions says. A region that begins like the one before writes
//! nothing. Where the kept team record is in use the region's lies in the frame of the exported function.
//!
//! *Invariants.* A kept team record belongs to one region at a time, as it says itself. (A thread at the end of a
//! region may carry out a task with another region.) All-zero bytes are one that was never written.

use core::cell::{Cell, UnsafeCell};
use core::ffi::c_void;
use core::mem::{MaybeUninit, offset_of, size_of};
use core::ptr::null;

use mapper_shim_core::team_record::TeamRecord;
use mapper_shim_core::thread_state::thread_block;

use crate::degree::region_table;

const KEPT: usize = 4;
/// A line that all threads read, and one of this thread's. A pair of lines for each made regions no shorter (measured).
const KEPT_BYTES: usize = 128;

const _: () = {
    assert!(size_of::<TeamRecord>() <= 64 && offset_of!(Kept, record) == 0);
    assert!(size_of::<Kept>() == KEPT_BYTES);
};

// Aligned to no more than a line: where libomp loads the shim as a tool, the loader has no place for more.
thread_block! {
    /// The calling thread's kept team records, each zeroed or written by [`Place::keep`].
    records: UnsafeCell<[MaybeUninit<Kept>; KEPT]>, "mapper_omp_records"
}

#[repr(C, align(64))]
struct Kept {
    record: TeamRecord,
    /// A region uses it. From here on the line is the thread's own, unlike that of the team record.
    in_use: Cell<bool>,
    region: Cell<Option<&'static region_table::Entry>>,
    /// The identity that is there, or the bare address.
    identity: Cell<u64>,
}

/// A region whose team record the thread keeps, as the table of regions knows it.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(crate) region: Option<&'static region_table::Entry>,
    pub(crate) identity: u64,
}

impl Known {
    #[inline(always)]
    fn look_up(function: usize) -> Self {
        let region = region_table::find(function);
        let identity = region.map_or(function as u64, region_table::Entry::identity);
        Self { region, identity }
    }

    #[inline(always)]
    pub(crate) fn of(function: usize) -> Self {
        let kept = kept_for(function);
        // SAFETY: it is in this thread's storage, zeroed or written by `keep`. This thread alone writes the function.
        unsafe {
            if TeamRecord::holds(&raw const (*kept).record, function) {
                return (*kept).known();
            }
        }
        Self::look_up(function)
    }
}

impl Kept {
    #[inline(always)]
    fn known(&self) -> Known {
        Known {
            region: self.region.get(),
            identity: self.identity.get(),
        }
    }
}

/// The calling thread's kept team record for regions of that outlined function, by Fibonacci hashing.
#[inline(always)]
fn kept_for(function: usize) -> *mut Kept {
    let hash = (function as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = hash as usize >> (64 - KEPT.ilog2());
    records().get().cast::<Kept>().wrapping_add(number)
}

/// A kept team record that nobody uses, ready for a region as it is.
#[derive(Clone, Copy)]
pub(crate) struct Ready(&'static Kept);

impl Ready {
    #[inline(always)]
    pub(crate) fn like(record: &TeamRecord) -> Option<Self> {
        let kept = kept_for(record.function());
        // SAFETY: it is in this thread's storage, zeroed or written by `keep`. Others only read it, while it is in use.
        unsafe {
            let is_free = !(*kept).in_use.get();
            let is_ready = is_free && TeamRecord::is_ready(&raw const (*kept).record, record);
            is_ready.then(|| Self(&*kept))
        }
    }

    #[inline(always)]
    pub(crate) fn known(self) -> Known {
        self.0.known()
    }
}

/// A kept team record that nobody uses, of regions that differ in their data at most.
pub(crate) struct Similar(*mut Kept);

impl Similar {
    #[inline(always)]
    pub(crate) fn to(record: &TeamRecord) -> Option<Self> {
        let kept = kept_for(record.function());
        // SAFETY: as for `Ready::like`.
        unsafe {
            let is_free = !(*kept).in_use.get();
            let is_similar = is_free && TeamRecord::is_similar(&raw const (*kept).record, record);
            is_similar.then_some(Self(kept))
        }
    }

    #[inline(always)]
    pub(crate) fn known(&self) -> Known {
        // SAFETY: it is in this thread's storage, written by `keep`, and no region uses it.
        unsafe { (*self.0).known() }
    }

    /// Has it be the team record of a region with that data, until [`release`](Self::release).
    #[inline(always)]
    pub(crate) fn occupy(&mut self, data: *mut c_void) -> *const TeamRecord {
        // SAFETY: it is in this thread's storage, written by `keep`, and not in use, so nobody has a reference to it.
        unsafe {
            (*self.0).record.take_data(data);
            (*self.0).in_use.set(true);
            &raw const (*self.0).record
        }
    }

    #[inline(always)]
    pub(crate) fn release(self) {
        // SAFETY: it is in this thread's storage; this cell is the thread's own.
        unsafe { (*self.0).in_use.set(false) };
    }
}

/// The team record of a region, or where it is kept; lies in the frame of the exported function.
#[repr(C, align(16))]
pub(crate) struct Place {
    /// The team record: one of the kept ones, or the one below; null while there is none.
    record: *const TeamRecord,
    here: MaybeUninit<TeamRecord>,
}

impl Place {
    /// Where the address of the team record lies in it.
    pub(crate) const CREW_OFFSET: usize = offset_of!(Self, record);

    #[inline(always)]
    pub(crate) const fn empty() -> Self {
        Self {
            record: null(),
            here: MaybeUninit::uninit(),
        }
    }

    /// Puts the team record of a region here, which must stay where it is until [`clear`](Self::clear).
    #[inline(always)]
    pub(crate) fn put(&mut self, record: TeamRecord) -> *const TeamRecord {
        self.record = self.here.write(record);
        self.record
    }

    /// Keeps the team record of a region, written only as far as it differs, or puts it here where that is not possible.
    #[inline(always)]
    pub(crate) fn keep(&mut self, record: TeamRecord) -> *const TeamRecord {
        let kept = kept_for(record.function());
        // SAFETY: it is in this thread's storage, zeroed or written here, and read by others only while in use.
        unsafe {
            if (*kept).in_use.get() || record.loops_of_region.is_some() {
                return self.put(record);
            }
            if TeamRecord::holds(&raw const (*kept).record, record.function()) {
                (*kept).record.rewrite(record);
            } else {
                let Known { region, identity } = Known::look_up(record.function());
                if region.is_some_and(|region| !region.is_identified()) {
                    // Another thread is at it.
                    return self.put(record);
                }
                kept.write(Kept {
                    record,
                    in_use: Cell::new(false),
                    region: Cell::new(region),
                    identity: Cell::new(identity),
                });
            }
            Self::resume_in(self, Ready(&*kept));
        }
        self.record
    }

    /// Makes `there` a place whose team record is a kept one as it is. Safety: `there` is room for a place.
    #[inline(always)]
    pub(crate) unsafe fn resume_in(there: *mut Self, Ready(kept): Ready) {
        kept.in_use.set(true);
        // The whole of what is kept, not the team record alone: `clear` goes back from one to the other.
        let record: *const TeamRecord = (&raw const *kept).cast();
        // SAFETY: the caller vouches for it; the other field may have any value.
        unsafe { (&raw mut (*there).record).write(record) };
    }

    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        let record = core::mem::replace(&mut self.record, null());
        if record.is_null() {
            return;
        }
        // SAFETY: the team record is the one that `put` has written below, and all threads have left it; or it
        // is the first field of one that is kept in this thread's storage.
        unsafe {
            if core::ptr::eq(record, self.here.as_ptr()) {
                self.here.assume_init_drop();
            } else {
                (*record.cast::<Kept>()).in_use.set(false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::without_provenance_mut;
    use mapper_shim_core::runtime::{Family, Runtime};
    use mapper_shim_core::team_record::Beginning;

    std::thread_local! {
        static NOWHERE: &'static Runtime = Box::leak(Box::new(Runtime::empty()));
    }

    fn record(function: usize, data: usize) -> TeamRecord {
        let (data, nowhere) = (without_provenance_mut(data), NOWHERE.with(|it| *it));
        TeamRecord::new(function, data, nowhere, Family::Gomp, Beginning::Body)
    }

    #[test]
    fn a_region_like_the_last_one_finds_its_team_record_as_it_was() {
        let mut place = Place::empty();
        assert!(Ready::like(&record(0x1230, 1)).is_none());
        let first = place.keep(record(0x1230, 1));
        assert!(Ready::like(&record(0x1230, 1)).is_none(), "it is in use");
        // SAFETY: it is in this thread's storage and has been written.
        unsafe { (*first).exhaust(7) };
        place.clear();
        let again = Ready::like(&record(0x1230, 1));
        assert!(again.is_none(), "loops are counted anew");
        let second = place.keep(record(0x1230, 2));
        assert_eq!(first, second);
        // SAFETY: likewise.
        let found = unsafe { &*second };
        assert!(!found.is_exhausted(1));
        assert!(found.is_like(&record(0x1230, 2)) && !found.is_like(&record(0x1230, 1)));
        place.clear();
        assert!(Ready::like(&record(0x1230, 2)).is_some());
        assert!(Ready::like(&record(0x1230, 1)).is_none());
    }

    #[test]
    fn a_nested_region_has_a_team_record_of_its_own() {
        let (mut outer, mut inner) = (Place::empty(), Place::empty());
        let first = outer.keep(record(0x4560, 1));
        let second = inner.keep(record(0x4560, 2));
        assert_ne!(first, second);
        // SAFETY: both have been written and not been cleared.
        unsafe {
            assert!((*first).is_like(&record(0x4560, 1)));
            assert!((*second).is_like(&record(0x4560, 2)));
        }
        inner.clear();
        assert!(Ready::like(&record(0x4560, 1)).is_none());
        outer.clear();
        assert!(Ready::like(&record(0x4560, 1)).is_some());
    }

    #[test]
    fn a_kept_team_record_is_reused_for_another_function_with_the_same_place() {
        for function in (0x1000..0x1400).step_by(0x10) {
            let mut place = Place::empty();
            let kept = place.keep(record(function, 3));
            // SAFETY: it has been written.
            assert!(unsafe { (*kept).is_like(&record(function, 3)) });
            place.clear();
            let ready = Ready::like(&record(function, 3)).unwrap();
            for known in [ready.known(), Known::of(function)] {
                let region = region_table::find(function).unwrap();
                assert!(core::ptr::eq(known.region.unwrap(), region));
                assert_eq!(known.identity, region.identity());
            }
        }
    }
}
