//! Entering and leaving the team record of a region.

use core::ffi::c_void;
use core::ptr::NonNull;

use crate::shared_loop::SharedLoops;
use crate::team_record::TeamRecord;
use crate::thread_state::{self, LoopState, Owned, ThreadState};
use crate::waits;

/// A thread's part in a team record.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub struct Part {
    record: Option<Owned>,
    loops_begun: u32,
    rank: u32,
    shared_loop: Option<Owned>,
}

/// What a thread was part of before it entered a region; by default nothing.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C, align(16))]
pub struct Outer {
    part: Part,
    outer_loop: LoopState,
}

impl ThreadState {
    /// Makes the thread one of the team record.
    ///
    /// # Safety
    /// The team record must live until [`leave_team`](Self::leave_team) is called with the result.
    #[inline(always)]
    pub unsafe fn join_team(&self, record: &TeamRecord) -> Outer {
        waits::end_region(self);
        let outer = Outer {
            part: self.part(),
            outer_loop: self.enter_region(),
        };
        self.note_record(record);
        if record.first_loop != 0 {
            self.enter_first_loop(record);
        }
        outer
    }

    /// The same where it takes no call: outside all regions and loops, into a region that does not begin with a loop.
    /// Says whether it did; then [`leave_team`](Self::leave_team) gets the default.
    ///
    /// # Safety
    /// As for [`join_team`](Self::join_team).
    #[inline(always)]
    pub unsafe fn enter_outermost(&self, record: &TeamRecord) -> bool {
        let is_simple = record.first_loop == 0
            && self.record.get().is_none()
            && !self.is_in_loop()
            && waits::are_counted();
        if is_simple {
            self.note_record(record);
        }
        is_simple
    }

    #[inline(always)]
    fn note_record(&self, record: &TeamRecord) {
        self.record.set(Some(NonNull::from(record).cast()));
        self.loops_begun.set(record.first_loop);
        self.rank.set(0);
        self.shared_loop.set(None);
        self.stride_less_one.set(record.stride_less_one);
    }

    /// The region begins in a dispensed loop.
    #[inline(never)]
    fn enter_first_loop(&self, record: &TeamRecord) {
        self.find_rank(record);
        if record.loops_of_region.is_some() && record.is_outermost() {
            self.set_shared_loop(record.loops_of_region.and_then(SharedLoops::first_loop));
        }
    }

    /// Makes the thread part of what it was before.
    #[inline(always)]
    pub fn leave_team(&self, outer: &Outer) {
        if outer.part.record.is_some() {
            self.put_part(&outer.part);
        } else {
            // Outside all regions a thread has no part of a dispensed loop.
            waits::leave_region();
            self.put_part(&Part::default());
        }
        self.leave_region(outer.outer_loop);
    }

    #[inline(always)]
    fn part(&self) -> Part {
        Part {
            record: self.record.get(),
            loops_begun: self.loops_begun.get(),
            rank: self.rank.get(),
            shared_loop: self.shared_loop.get(),
        }
    }

    /// Makes the thread part of no team record: in other work, or because the team record is gone.
    pub fn take_part(&self) -> Part {
        let part = self.part();
        self.put_part(&Part::default());
        part
    }

    /// Restores what [`take_part`](Self::take_part) took.
    #[inline(always)]
    pub fn put_part(&self, part: &Part) {
        self.record.set(part.record);
        self.loops_begun.set(part.loops_begun);
        self.rank.set(part.rank);
        self.shared_loop.set(part.shared_loop);
    }

    /// Gives a loop that the thread begins its number.
    #[inline]
    pub fn begin_loop(&self, record: &TeamRecord) {
        self.find_rank(record);
        if record.is_outermost() {
            self.loops_begun.set(self.loops_begun.get().wrapping_add(1));
        }
    }

    /// Notes the thread's number in an outermost team.
    #[inline]
    fn find_rank(&self, record: &TeamRecord) {
        let rank = match record.is_outermost() {
            true => record.runtime.thread_num(record.family),
            false => 0,
        };
        self.rank.set(rank);
        self.passes_since_us.set(0);
    }
}

/// What the threads of a libgomp region start with in place of the outlined function.
///
/// # Safety
/// `record` is the [`TeamRecord`] of the region, made with the function and its data.
pub unsafe extern "C-unwind" fn run_member(record: *mut c_void) {
    // SAFETY: the caller vouches for it.
    let record = unsafe { &*record.cast::<TeamRecord>() };
    let thread = thread_state::current();
    // SAFETY: the team record lives until the region ends, which is after this function has returned.
    let outer = unsafe { thread.join_team(record) };
    // SAFETY: the team record was made with the outlined function of a region.
    let function = unsafe {
        core::mem::transmute::<usize, unsafe extern "C-unwind" fn(*mut c_void)>(record.function)
    };
    // SAFETY: as the runtime would have called it.
    unsafe { function(record.data) };
    // The program may have moved the thread's state to another place meanwhile.
    thread_state::current().leave_team(&outer);
}
