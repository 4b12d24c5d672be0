//! The threads of one parallel region, as they know of each other.
//!
//! *Problem.* A thread without a CPU may sleep while others do its share of a loop, and has to be woken when they are
//! done. The runtimes do not tell which threads work on the same loop.
//!
//! *Approach.* The thread that begins a region puts a [`TeamRecord`] into its frame or storage
//! ([`kept_records`](crate::region::kept_records)); every thread starts through a small function that notes its
//! address. All threads of a team meet the same loops in the same order, so each numbers a loop that is dispensed in
//! chunks when it begins it.
//!
//! *Invariants.* A thread's team record is `None` outside regions and in regions not begun through the shim. Inside
//! nested regions a thread's rank is 0 and no loop is counted: only outermost teams are changed.

use core::ffi::c_void;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use mapper_abi::doorbell;

use crate::attachment;
use crate::runtime::{Family, Runtime};
use crate::shared_loop::SharedLoops;
use crate::thread_state::ThreadState;

/// What the threads of a region share.
#[repr(C, align(16))]
pub struct TeamRecord {
    /// The outlined function, and its argument: a pointer for gcc, the number of arguments for clang.
    pub(super) function: usize,
    pub(super) data: *mut c_void,
    /// Where the region runs.
    pub runtime: &'static Runtime,
    /// Which interface it came through.
    pub family: Family,
    /// Number of the loop in which threads begin: 1 where the region is a loop, else 0.
    pub(super) first_loop: u32,
    /// What the increment of that loop is, minus one.
    pub(super) stride_less_one: i64,
    /// How many CPUs there were when the region began; 0 when that was not decided.
    cpu_count: u32,
    /// Whether a region of this function has had tasks: `NO_TASKS` or one of the other two.
    tasks: AtomicU8,
    /// Where its loops are dispensed in growing chunks, if they are.
    pub loops_of_region: Option<&'static SharedLoops>,
    /// The last loop of which a thread has found that there is no more of it.
    exhausted: AtomicU32,
    parked: AtomicU32,
}

/// Values of `tasks`: none so far; there are, and the waiting thread is about to be notified; it has been notified.
const NO_TASKS: u8 = 0;
const TASKS_COME: u8 = 1;
const TASKS_KNOWN: u8 = 2;

/// A loop that the threads begin in.
#[derive(Clone, Copy, Debug)]
pub enum Beginning {
    /// None: the region has a body, in which there may be loops.
    Body,
    /// The region is a loop with this increment, whose chunks the runtime dispenses.
    Loop(i64),
    /// The region is a loop with this increment, of which each thread has its own part.
    StaticLoop(i64),
}

impl Drop for TeamRecord {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(loops_of_region) = self.loops_of_region {
            loops_of_region.release();
        }
    }
}

impl TeamRecord {
    /// The outlined function.
    #[inline(always)]
    pub const fn function(&self) -> usize {
        self.function
    }

    /// Whether both are of regions that begin in the same way.
    #[inline(always)]
    pub fn is_like(&self, other: &Self) -> bool {
        self.data == other.data && self.differs_in_data_only(other)
    }

    #[inline(always)]
    fn differs_in_data_only(&self, other: &Self) -> bool {
        self.function == other.function
            && core::ptr::eq(self.runtime, other.runtime)
            && self.family == other.family
            && self.first_loop == other.first_loop
            && self.stride_less_one == other.stride_less_one
            && self.cpu_count == other.cpu_count
            && self.loops_of_region.is_none()
            && other.loops_of_region.is_none()
    }

    /// Whether `there` is a team record of regions with that outlined function.
    ///
    /// # Safety
    /// `there` is a place for a team record that nobody else writes, all zero or with a team record in it.
    #[inline(always)]
    pub unsafe fn holds(there: *const Self, function: usize) -> bool {
        // SAFETY: the function is a number, which zero is, too.
        function != 0 && unsafe { (&raw const (*there).function).read() } == function
    }

    /// Whether `there` is a team record like this one, of which no loop is exhausted yet.
    ///
    /// # Safety
    /// As for [`holds`](Self::holds).
    #[inline(always)]
    pub unsafe fn is_ready(there: *const Self, record: &Self) -> bool {
        // SAFETY: the caller vouches for it. With the function of a region, a team record is there.
        unsafe {
            Self::holds(there, record.function)
                && (*there).is_like(record)
                && (*there).exhausted.load(Ordering::Relaxed) == 0
        }
    }

    /// Whether `there` is a team record that differs from this one at most in its data and progress.
    ///
    /// # Safety
    /// As for [`holds`](Self::holds).
    #[inline(always)]
    pub unsafe fn is_similar(there: *const Self, record: &Self) -> bool {
        // SAFETY: as for `is_ready`.
        unsafe { Self::holds(there, record.function) && (*there).differs_in_data_only(record) }
    }

    /// Makes it the team record of the next region, writing only what differs: the rest stays in other threads' caches.
    #[inline(always)]
    pub fn rewrite(&mut self, record: Self) {
        if self.differs_in_data_only(&record) {
            self.take_data(record.data);
        } else {
            *self = record;
        }
    }

    /// Makes it the team record of a region like the one before, with other data.
    #[inline(always)]
    pub fn take_data(&mut self, data: *mut c_void) {
        if self.data != data {
            self.data = data;
        }
        if *self.exhausted.get_mut() != 0 {
            *self.exhausted.get_mut() = 0;
        }
    }

    /// Where the outlined function lies in it.
    pub const FUNCTION_OFFSET: usize = offset_of!(Self, function);
    /// Where the data or the number of arguments lie in it.
    pub const DATA_OFFSET: usize = offset_of!(Self, data);

    /// The team record of a region that is about to start, with loops that the runtime dispenses.
    #[inline(always)]
    pub fn new(
        function: usize,
        data: *mut c_void,
        runtime: &'static Runtime,
        family: Family,
        beginning: Beginning,
    ) -> Self {
        let (first_loop, stride_less_one) = match beginning {
            Beginning::Body => (0, 0),
            Beginning::Loop(increment) => (1, increment.wrapping_sub(1)),
            Beginning::StaticLoop(increment) => (0, increment.wrapping_sub(1)),
        };
        Self {
            function,
            data,
            runtime,
            family,
            first_loop,
            stride_less_one,
            cpu_count: 0,
            tasks: AtomicU8::new(NO_TASKS),
            loops_of_region: None,
            exhausted: AtomicU32::new(0),
            parked: AtomicU32::new(0),
        }
    }

    /// The same with growing loops, if those are on.
    #[inline(always)]
    pub fn with_growing_loops(mut self) -> Self {
        self.loops_of_region = SharedLoops::claim();
        self
    }

    /// The same for a region whose static loops may be divided among fewer threads than it has.
    #[inline(always)]
    pub fn on_cpus(mut self, cpu_count: u32) -> Self {
        self.cpu_count = cpu_count;
        self
    }

    /// How many threads had CPUs when the region began; `u32::MAX` if that is not known.
    #[inline(always)]
    pub const fn active(&self) -> u32 {
        self.cpu_count.wrapping_sub(1).saturating_add(1)
    }

    /// Whether it is known how many CPUs there were, so that there may be more threads.
    #[inline(always)]
    pub const fn may_exceed_cpus(&self) -> bool {
        self.cpu_count != 0
    }

    /// Whether the thread is in an outermost region. A false `if` clause makes a nested region of libomp's invisible.
    #[inline]
    pub fn is_outermost(&self) -> bool {
        self.runtime.level(self.family) == 1
    }

    /// Whether the region may have tasks, which its threads carry out while they wait for one another.
    pub fn has_tasks(&self) -> bool {
        self.tasks.load(Ordering::Relaxed) != NO_TASKS
    }

    /// A thread is about to make a task; `tell` those that wait. Both of two first threads tell, so none is too early.
    #[inline]
    pub fn note_task(&self, tell: impl FnOnce()) {
        if self.tasks.load(Ordering::Acquire) != TASKS_KNOWN {
            self.tasks.store(TASKS_COME, Ordering::Relaxed);
            tell();
            self.tasks.store(TASKS_KNOWN, Ordering::Release);
        }
    }

    /// Whether a thread has found that loop or a later one exhausted.
    pub fn is_exhausted(&self, number: u32) -> bool {
        self.exhausted.load(Ordering::SeqCst) >= number
    }

    /// Notes that a thread found the loop exhausted; says whether it is the first, with others parked.
    #[inline]
    pub fn exhaust(&self, number: u32) -> bool {
        if self.exhausted.load(Ordering::Relaxed) >= number {
            return false;
        }
        // Sequentially consistent with `park`: the thread that parks sees the loop exhausted, or it is seen here.
        self.exhausted.fetch_max(number, Ordering::SeqCst);
        self.parked.load(Ordering::SeqCst) != 0
    }

    /// Counts a thread that is about to look whether it may sleep.
    pub fn park(&self) {
        self.parked.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts it off again.
    pub fn unpark(&self) {
        self.parked.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ThreadState {
    /// The team record that the thread is part of.
    #[inline(always)]
    pub fn record(&self) -> Option<&TeamRecord> {
        // SAFETY: only `join_team` sets it, and `leave_team` resets it before the region ends; until then the team
        // record lives in the frame or the storage of the thread that began the region.
        self.record
            .get()
            .map(|record| unsafe { record.cast::<TeamRecord>().as_ref() })
    }

    /// To be called when the runtime had no chunk for the thread: its part of the loop is over.
    #[inline]
    pub fn loop_over(&self) {
        let Some(record) = self.record().filter(|record| record.is_outermost()) else {
            return;
        };
        // Loops that are not seen to begin (ordered ones, doacross) are left alone.
        self.rank.set(0);
        if record.exhaust(self.loops_begun.get()) {
            ring();
        }
    }
}

#[cold]
fn ring() {
    if let Some(bell) = attachment::bell() {
        doorbell::ring(bell);
    }
}
