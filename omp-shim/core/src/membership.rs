//! Entering and leaving the crew of a region.

use core::ffi::c_void;
use core::ptr::NonNull;

use crate::crew::Crew;
use crate::shared_loop::Hall;
use crate::thread_state::{self, LoopState, Owned, ThreadState};
use crate::waits;

/// What a thread was part of before it entered a region.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct Outer {
    crew: Option<Owned>,
    loops_begun: u32,
    rank: u32,
    outer_loop: LoopState,
    shared_loop: Option<Owned>,
}

impl Outer {
    /// Outside all regions and loops.
    #[inline(always)]
    pub fn nothing() -> Self {
        Self {
            crew: None,
            loops_begun: 0,
            rank: 0,
            outer_loop: LoopState::default(),
            shared_loop: None,
        }
    }
}

/// A thread's part in a crew.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    crew: Option<Owned>,
    loops_begun: u32,
    rank: u32,
    shared_loop: Option<Owned>,
}

impl ThreadState {
    /// Makes the thread one of the crew.
    ///
    /// # Safety
    /// The crew must live until [`leave_crew`](Self::leave_crew) is called with the result.
    #[inline(always)]
    pub unsafe fn enter_crew(&self, crew: &Crew) -> Outer {
        waits::end_region(self);
        let outer = Outer {
            crew: self.crew.get(),
            loops_begun: self.loops_begun.get(),
            rank: self.rank.get(),
            shared_loop: self.shared_loop.get(),
            outer_loop: self.enter_region(),
        };
        self.note_crew(crew);
        if crew.first_loop != 0 {
            self.enter_first_loop(crew);
        }
        outer
    }

    /// Makes the thread one of the crew, where that takes no call: outside all regions and loops, and
    /// into a region that does not begin with a loop. Says whether it did; then the result for
    /// [`leave_crew`](Self::leave_crew) is [`Outer::nothing`].
    ///
    /// # Safety
    /// As for [`enter_crew`](Self::enter_crew).
    #[inline(always)]
    pub unsafe fn enter_outermost(&self, crew: &Crew) -> bool {
        let is_simple = crew.first_loop == 0
            && self.crew.get().is_none()
            && !self.is_in_loop()
            && waits::are_counted();
        if is_simple {
            self.note_crew(crew);
        }
        is_simple
    }

    #[inline(always)]
    fn note_crew(&self, crew: &Crew) {
        self.crew.set(Some(NonNull::from(crew).cast()));
        self.loops_begun.set(crew.first_loop);
        self.rank.set(0);
        self.shared_loop.set(None);
        self.stride_less_one.set(crew.stride_less_one);
    }

    /// The region begins in a dispensed loop.
    #[inline(never)]
    fn enter_first_loop(&self, crew: &Crew) {
        self.find_rank(crew);
        if crew.hall.is_some() && crew.is_outermost() {
            self.set_shared_loop(crew.hall.and_then(Hall::first_loop));
        }
    }

    /// Makes the thread part of what it was before.
    #[inline(always)]
    pub fn leave_crew(&self, outer: &Outer) {
        let Some(crew) = outer.crew else {
            return self.leave_outermost(outer.outer_loop);
        };
        self.crew.set(Some(crew));
        self.loops_begun.set(outer.loops_begun);
        self.rank.set(outer.rank);
        self.shared_loop.set(outer.shared_loop);
        self.leave_region(outer.outer_loop);
    }

    /// Outside all regions a thread has no part of a dispensed loop.
    #[inline(always)]
    fn leave_outermost(&self, outer_loop: LoopState) {
        waits::leave_region();
        self.crew.set(None);
        self.loops_begun.set(0);
        self.rank.set(0);
        self.shared_loop.set(None);
        self.leave_region(outer_loop);
    }

    /// Makes the thread part of no crew: for what is not to be taken for the crew's, or because the crew
    /// is no more.
    pub fn take_part(&self) -> Part {
        Part {
            crew: self.crew.take(),
            loops_begun: self.loops_begun.take(),
            rank: self.rank.take(),
            shared_loop: self.shared_loop.take(),
        }
    }

    /// Puts back what [`take_part`](Self::take_part) took.
    pub fn put_part(&self, part: &Part) {
        self.crew.set(part.crew);
        self.loops_begun.set(part.loops_begun);
        self.rank.set(part.rank);
        self.shared_loop.set(part.shared_loop);
    }

    /// Gives a loop that the thread begins its number.
    #[inline]
    pub fn begin_loop(&self, crew: &Crew) {
        self.find_rank(crew);
        if crew.is_outermost() {
            self.loops_begun.set(self.loops_begun.get().wrapping_add(1));
        }
    }

    /// Notes the thread's number in an outermost team.
    #[inline]
    fn find_rank(&self, crew: &Crew) {
        let rank = match crew.is_outermost() {
            true => crew.runtime.thread_num(crew.family),
            false => 0,
        };
        self.rank.set(rank);
        self.passes_since_us.set(0);
    }
}

/// What the threads of a libgomp region start with instead of the outlined function.
///
/// # Safety
/// `crew` is the [`Crew`] of the region, made with the function and its data.
pub unsafe extern "C-unwind" fn run_member(crew: *mut c_void) {
    // SAFETY: the caller vouches for it.
    let crew = unsafe { &*crew.cast::<Crew>() };
    let thread = thread_state::current();
    // SAFETY: the crew lives until the region ends, which is after this function has returned.
    let outer = unsafe { thread.enter_crew(crew) };
    // SAFETY: the crew was made with the outlined function of a region.
    let function = unsafe {
        core::mem::transmute::<usize, unsafe extern "C-unwind" fn(*mut c_void)>(crew.function)
    };
    // SAFETY: as the runtime would have called it.
    unsafe { function(crew.data) };
    // The program may have moved the thread's state to another place meanwhile.
    thread_state::current().leave_crew(&outer);
}
