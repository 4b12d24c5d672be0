//! Work dispensed to logical threads: loops of every schedule, and sections.
//!
//! *Unit.* Iterations, numbered from zero; they become values of the variable when a chunk is handed out.
//!
//! *Approach.* As in libgomp (`loop.c`, `iter.c`): the first thread to reach a construct sets it up, the last to leave
//! frees its place. Threads may run ahead through constructs that do not wait, so there is a ring of places. A place's
//! *ticket* says for which construct of the program it stands and how far its set-up is.
//!
//! *Invariants.* All fields but `next`, `ticket` and `left` are written by the thread that sets the construct up,
//! before the ticket says `ready`. Every thread enters and leaves every construct once, in the same order, as OpenMP
//! demands.

use core::ffi::c_void;
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use mapper_shim_core::adaptive_schedule;
use mapper_shim_core::construct::{Chunk, Loop, Schedule};
use mapper_shim_core::shared_loop::SharedLoop;

use super::kernel;
use super::shared_memory::Memory;

#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    pub(super) id: u32,
    pub(super) team: u32,
    /// Static chunks it has had of this construct.
    pub(super) trips: u64,
}

/// How many constructs a thread may be ahead of another.
pub(super) const RING: usize = 32;

#[repr(align(128))]
pub(super) struct Share {
    ticket: AtomicU64,
    left: AtomicU32,
    schedule: AtomicU32,
    start: AtomicI64,
    end: AtomicI64,
    step: AtomicI64,
    count: AtomicU64,
    chunk: AtomicU64,
    memory: Memory,
    next: OwnLine,
    /// What is left of the loop, if its chunks grow.
    growing: SharedLoop,
    /// Of an ordered loop.
    pub(super) turn: Turn,
}

/// The next iteration to hand out; all threads write here, so it has a cache line to itself.
#[repr(align(128))]
struct OwnLine(AtomicU64);

const FREE: u64 = 0;
const BEING_SET_UP: u64 = 1;
const READY: u64 = 2;

const fn ticket(sequence: u64, stage: u64) -> u64 {
    sequence << 2 | stage
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    Entered,
    /// Another thread is setting it up.
    AlmostReady,
    /// Threads are still in the construct that had this place before.
    Occupied,
}

impl Share {
    /// The place for constructs `first`, `first + RING` and so on.
    pub(super) const fn new(first: u64) -> Self {
        Self {
            ticket: AtomicU64::new(ticket(first, FREE)),
            left: AtomicU32::new(0),
            schedule: AtomicU32::new(0),
            start: AtomicI64::new(0),
            end: AtomicI64::new(0),
            step: AtomicI64::new(0),
            count: AtomicU64::new(0),
            chunk: AtomicU64::new(0),
            memory: Memory::new(),
            next: OwnLine(AtomicU64::new(0)),
            growing: SharedLoop::vacant(),
            turn: Turn::new(),
        }
    }

    #[inline]
    pub(super) fn enter(&self, sequence: u64, team: u32, describe: impl FnOnce() -> Loop) -> Entry {
        match self.ticket.load(Ordering::Acquire) {
            now if now == ticket(sequence, READY) => Entry::Entered,
            now if now == ticket(sequence, FREE) => {
                let mine = self.ticket.compare_exchange(
                    now,
                    ticket(sequence, BEING_SET_UP),
                    Ordering::Acquire,
                    Ordering::Relaxed,
                );
                if mine.is_err() {
                    return Entry::AlmostReady;
                }
                self.set_up(&describe(), team);
                self.ticket
                    .store(ticket(sequence, READY), Ordering::Release);
                Entry::Entered
            }
            now if now == ticket(sequence, BEING_SET_UP) => Entry::AlmostReady,
            _ => Entry::Occupied,
        }
    }

    fn set_up(&self, work: &Loop, team: u32) {
        self.left.store(0, Ordering::Relaxed);
        self.schedule.store(work.schedule as u32, Ordering::Relaxed);
        self.start.store(work.span.from, Ordering::Relaxed);
        self.end.store(work.span.to, Ordering::Relaxed);
        self.step.store(work.span.increment, Ordering::Relaxed);
        self.count.store(work.span.count, Ordering::Relaxed);
        self.chunk.store(work.chunk, Ordering::Relaxed);
        self.next.0.store(0, Ordering::Relaxed);
        self.turn.begin();
        self.memory.provide(work.memory_bytes);
        if work.schedule == Schedule::Adaptive {
            adaptive_schedule::deal(&self.growing, work.span, team);
        }
    }

    pub(super) fn memory(&self) -> *mut c_void {
        self.memory.address()
    }

    #[inline]
    pub(super) fn leave(&self, sequence: u64, team: u32) {
        if self.left.fetch_add(1, Ordering::AcqRel) + 1 == team {
            self.vacate(sequence);
        }
    }

    /// Makes the place free for the construct after `sequence`, whoever is in it.
    pub(super) fn vacate(&self, sequence: u64) {
        let next = sequence.wrapping_add(RING as u64);
        self.ticket.store(ticket(next, FREE), Ordering::Release);
    }

    #[inline]
    pub(super) fn dispense(&self, asker: Asker) -> Option<Chunk> {
        if self.schedule.load(Ordering::Relaxed) == Schedule::Adaptive as u32 {
            return self.take_growing(asker.id);
        }
        self.take(asker).map(|part| self.chunk_of(part))
    }

    /// The numbers of the next iterations: of the first, and of the one behind the last. Not of a loop whose chunks grow.
    #[inline]
    pub(super) fn take(&self, asker: Asker) -> Option<(u64, u64)> {
        let count = self.count.load(Ordering::Relaxed);
        let chunk = self.chunk.load(Ordering::Relaxed);
        let schedule = self.schedule.load(Ordering::Relaxed);
        if schedule == Schedule::Dynamic as u32 {
            take_dynamic(&self.next.0, count, chunk)
        } else if schedule == Schedule::Guided as u32 {
            take_guided(&self.next.0, count, chunk, asker.team)
        } else {
            static_part(count, chunk, asker)
        }
    }

    #[inline]
    pub(super) fn chunk_of(&self, (first, last): (u64, u64)) -> Chunk {
        let count = self.count.load(Ordering::Relaxed);
        let start = self.start.load(Ordering::Relaxed);
        let step = self.step.load(Ordering::Relaxed);
        let value = |index: u64| start.wrapping_add(step.wrapping_mul(index as i64));
        Chunk {
            first: value(first),
            end: if last == count {
                self.end.load(Ordering::Relaxed)
            } else {
                value(last)
            },
            iterations: last - first,
        }
    }

    #[cold]
    fn take_growing(&self, id: u32) -> Option<Chunk> {
        self.growing.take_here(id).map(Chunk::from)
    }
}

/// Whose `ordered` regions may run: those of the chunk that begins with this iteration.
pub(super) struct Turn {
    first: AtomicU64,
    /// How often it was passed on, for those who sleep.
    passed: AtomicU32,
}

impl Turn {
    const fn new() -> Self {
        Self {
            first: AtomicU64::new(0),
            passed: AtomicU32::new(0),
        }
    }

    fn begin(&self) {
        self.first.store(0, Ordering::Relaxed);
    }

    pub(super) fn is(&self, first: u64) -> bool {
        self.first.load(Ordering::Acquire) == first
    }

    /// For who has it.
    pub(super) fn pass_on(&self, first: u64) {
        self.first.store(first, Ordering::Release);
        self.passed.fetch_add(1, Ordering::Release);
        kernel::futex_wake(&self.passed, u32::MAX >> 1);
    }

    /// Sleeps until it is that one's turn. Another OS thread has it.
    pub(super) fn wait_for(&self, first: u64) {
        loop {
            let passed = self.passed.load(Ordering::Acquire);
            if self.is(first) {
                return;
            }
            kernel::futex_wait(&self.passed, passed);
        }
    }
}

/// Below these, `next` does not overflow before threads have asked in vain two thousand million times: once a loop each.
const SAFE_COUNT: u64 = 1 << 48;
const SAFE_CHUNK: u64 = 1 << 32;

#[inline]
fn take_dynamic(next: &AtomicU64, count: u64, chunk: u64) -> Option<(u64, u64)> {
    let chunk = chunk.clamp(1, count.max(1));
    if count < SAFE_COUNT && chunk < SAFE_CHUNK {
        // Without reading first: that would fetch the line twice from a CPU that has taken a chunk meanwhile.
        let first = next.fetch_add(chunk, Ordering::Relaxed);
        return (first < count).then(|| (first, count.min(first + chunk)));
    }
    take(next, count, |_| chunk)
}

fn take_guided(next: &AtomicU64, count: u64, chunk: u64, team: u32) -> Option<(u64, u64)> {
    take(next, count, |left| {
        left.div_ceil(u64::from(team.max(1))).max(chunk).max(1)
    })
}

/// Takes as many iterations as `size` says of those left.
fn take(next: &AtomicU64, count: u64, size: impl Fn(u64) -> u64) -> Option<(u64, u64)> {
    let mut first = next.load(Ordering::Relaxed);
    loop {
        let left = count.checked_sub(first).filter(|left| *left > 0)?;
        let last = first + size(left).min(left);
        match next.compare_exchange_weak(first, last, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Some((first, last)),
            Err(now) => first = now,
        }
    }
}

fn static_part(count: u64, chunk: u64, asker: Asker) -> Option<(u64, u64)> {
    let (id, team) = (u64::from(asker.id), u64::from(asker.team.max(1)));
    if chunk == 0 {
        if asker.trips > 0 {
            return None;
        }
        let (each, rest) = (count / team, count % team);
        let first = each * id + id.min(rest);
        let last = first + each + u64::from(id < rest);
        return (first < last).then_some((first, last));
    }
    let first = asker
        .trips
        .checked_mul(team)?
        .checked_add(id)?
        .checked_mul(chunk)?;
    (first < count).then(|| (first, count.min(first.saturating_add(chunk))))
}

#[cfg(test)]
mod tests {
    use super::*;
    /// The values of a loop's variable, in ascending order.
    fn values(first: i64, end: i64, step: i64) -> Vec<i64> {
        let is_before_end = |value: &i64| if step > 0 { *value < end } else { *value > end };
        let next = |value: &i64| Some(value + step);
        let mut values: Vec<i64> = core::iter::successors(Some(first), next)
            .take_while(is_before_end)
            .collect();
        values.sort_unstable();
        values
    }

    /// All iterations that a team of `team` threads gets, by value, in no order.
    fn run(work: Loop, team: u32) -> Vec<i64> {
        let share = Share::new(0);
        assert_eq!(share.enter(0, 4, || work), Entry::Entered);
        let mut values = Vec::new();
        let mut all_trips = vec![0; team as usize];
        let mut active = true;
        while active {
            active = false;
            for id in 0..team {
                let trips = all_trips[id as usize];
                let asker = Asker { id, team, trips };
                if let Some(chunk) = share.dispense(asker) {
                    all_trips[id as usize] += 1;
                    active = true;
                    values.extend(self::values(chunk.first, chunk.end, work.span.increment));
                }
            }
        }
        values.sort_unstable();
        values
    }

    #[test]
    fn every_schedule_hands_out_every_iteration_once() {
        use Schedule::{Adaptive, Dynamic, Guided, Static};
        for schedule in [Static, Dynamic, Guided, Adaptive] {
            for chunk in [0, 1, 3, 100] {
                for (start, end, step) in
                    [(0, 37, 1), (5, 40, 3), (40, 3, -4), (3, 3, 1), (9, 2, 2)]
                {
                    for team in [1, 2, 5] {
                        let work = Loop::signed(start, end, step, schedule.by(chunk));
                        let expected = self::values(start, end, step);
                        assert_eq!(run(work, team), expected, "{work:?} {team}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_static_schedule_without_chunk_gives_each_thread_one_part() {
        let part = |id, trips| static_part(10, 0, Asker { id, team: 4, trips });
        assert_eq!(part(0, 0), Some((0, 3)));
        assert_eq!(part(1, 0), Some((3, 6)));
        assert_eq!(part(2, 0), Some((6, 8)));
        assert_eq!(part(3, 0), Some((8, 10)));
        assert_eq!(part(0, 1), None);
    }

    #[test]
    fn the_largest_loops_do_not_overflow() {
        let all = Loop::unsigned(true, [0, u64::MAX], 1, Schedule::Dynamic.by(1 << 62));
        assert_eq!(all.span.count, u64::MAX);
        let share = Share::new(0);
        share.enter(0, 4, || all);
        let (id, team, trips) = (0, 2, 0);
        let asker = Asker { id, team, trips };
        let mut chunks = 0;
        while let Some(chunk) = share.dispense(asker) {
            chunks += 1;
            assert!(chunk.first as u64 <= chunk.end as u64);
            assert!(chunks < 10);
        }
        assert_eq!(chunks, 4);
        let even = Schedule::Static.by(0);
        let down = Loop::unsigned(false, [10, 0], 3_u64.wrapping_neg(), even);
        assert_eq!(down.span.count, 4);
        let signed = Loop::signed(i64::MIN, i64::MAX, 1, Schedule::Guided.by(1));
        assert_eq!(signed.span.count, u64::MAX);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn threads_that_ask_in_vain_never_bring_iterations_back() {
        for (count, chunk) in [
            (0, 1),
            (5, 2),
            (SAFE_COUNT - 1, SAFE_CHUNK - 1),
            (SAFE_COUNT, 1 << 47),
            (u64::MAX, u64::MAX),
        ] {
            let next = AtomicU64::new(count.saturating_sub(1));
            let last = take_dynamic(&next, count, chunk);
            assert_eq!(last, count.checked_sub(1).map(|last| (last, count)));
            for _ in 0..100_000 {
                assert_eq!(take_dynamic(&next, count, chunk), None, "{count} {chunk}");
            }
        }
    }

    #[test]
    fn the_memory_of_a_construct_is_zero_when_it_is_entered() {
        let share = Share::new(0);
        for (round, bytes) in [100, 40, 0, 5000].into_iter().enumerate() {
            let sequence = (round * RING) as u64;
            share.enter(sequence, 4, || Loop::sections(1).with_memory(bytes));
            let memory = share.memory().cast::<u8>();
            assert_eq!(memory.is_null(), bytes == 0);
            assert_eq!(memory as usize % 64, 0);
            if bytes > 0 {
                // SAFETY: that much was asked for.
                let memory = unsafe { core::slice::from_raw_parts_mut(memory, bytes) };
                assert!(memory.iter().all(|byte| *byte == 0), "{round}");
                memory.fill(7);
            }
            share.leave(sequence, 1);
        }
    }

    #[test]
    fn a_place_is_free_again_when_all_have_left() {
        let share = Share::new(3);
        let work = || Loop::sections(2);
        assert_eq!(share.enter(3 + RING as u64, 4, work), Entry::Occupied);
        assert_eq!(share.enter(3, 4, work), Entry::Entered);
        assert_eq!(share.enter(3, 4, || panic!("set up twice")), Entry::Entered);
        share.leave(3, 2);
        assert_eq!(share.enter(3 + RING as u64, 4, work), Entry::Occupied);
        share.leave(3, 2);
        assert_eq!(share.enter(3 + RING as u64, 4, work), Entry::Entered);
    }
}
