//! How many threads a region is worth.
//!
//! *Problem.* A small region is done sooner by one thread than by eight that first have to be woken:
//! 15 times sooner has been reported of libraries on small data. Neither program nor runtime looks.
//!
//! *Approach.* Where the number of OS threads is the shim's to choose (teams under `follow`, carriers of
//! virtual teams), it times each region (by its outlined function). As long as its calls are short
//! ([`SMALL`]) with as many as the allocation allows, it tries one thread and then, where the runtime changes sizes cheaply,
//! half as many, half of that, and so on while it helps, for [`WINDOW`] calls each, and keeps the size
//! with the least time, if that is a gain of [`GAIN_PERCENT`]. Now and then it tries again. (libgomp
//! ends threads when a team is smaller than the one before, unless it is of one thread, and makes
//! them anew for the next; so there it is all or one.)
//!
//! *Calls of very different length.* One function may do large and small work in turn (the levels of a
//! multigrid method). The means of windows compare like with like only if the work is alike, so a
//! region of which some calls are long keeps, or gets back, the full team, for longer each time.
//!
//! *What is left over.* CPUs that no region with a noticeable part of the time needs are reported to
//! the daemon as spare.
//!
//! *Unit.* Ticks of the time stamp counter, some 0.3 to 1 ns each, compared only with one another and
//! with generous limits.
//!
//! *Invariants.* A region that nothing is tried with costs a load, a store and a comparison. What is
//! known of a region is guarded by a flag that nobody waits for: who finds it taken does without.

use core::cell::UnsafeCell;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Calls that take longer than this, some 10 ms, are worth every thread.
const SMALL: u64 = 25_000_000;
/// Calls that take less than this, some 100 µs, are no reason to give a trial up.
const LOST_CPU: u64 = 250_000;
/// Among this many calls ...
const SEEN: u32 = 32;
/// ... so many long ones are more than a thread that lost its CPU for a moment.
const LONG: u32 = 2;
/// Calls with each size that are counted.
const WINDOW: u32 = 16;
/// Calls before them, which may have to make or end threads.
const WARM_UP: u32 = 4;
/// What a smaller team has to gain.
const GAIN_PERCENT: u64 = 10;
/// Calls until the sizes are tried again.
const REST: u32 = 1_000;
/// How often that is doubled at most, once for each trial that brought nothing new.
const MOST_DOUBLINGS: u32 = 12;

/// Which sizes a runtime changes to cheaply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sizes {
    /// All.
    Any,
    /// The full team and a single thread.
    AllOrOne,
}

/// The team of a region that is about to start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    /// How many threads.
    pub(crate) size: u32,
    /// Whether [`Degree::learn`] wants to know how long it takes.
    pub(crate) timed: bool,
}

/// What is known of a region.
pub(crate) struct Degree {
    /// Calls with the full team that need no look.
    rest: AtomicU32,
    /// The limit for which that was found.
    limit: AtomicU32,
    taken: AtomicBool,
    trials: UnsafeCell<Trials>,
}

// SAFETY: `trials` is accessed only by `Degree::with`, by one thread at a time.
unsafe impl Sync for Degree {}

impl fmt::Debug for Degree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Degree")
            .field("rest", &self.rest)
            .finish_non_exhaustive()
    }
}

impl Degree {
    /// Nothing known.
    pub(crate) const fn new() -> Self {
        Self {
            rest: AtomicU32::new(0),
            limit: AtomicU32::new(0),
            taken: AtomicBool::new(false),
            trials: UnsafeCell::new(Trials::new()),
        }
    }

    /// Whether the region runs with the full team of `limit` threads and nothing is to be tried now.
    #[inline(always)]
    pub(crate) fn is_at_rest(&self, limit: u32) -> bool {
        if self.limit.load(Ordering::Relaxed) != limit {
            return false;
        }
        let rest = self.rest.load(Ordering::Relaxed);
        self.rest.store(rest.saturating_sub(1), Ordering::Relaxed);
        rest != 0
    }

    /// The team of the next call, when up to `limit` threads are allowed.
    pub(crate) fn choose(&self, limit: u32, sizes: Sizes) -> Choice {
        let full = Choice {
            size: limit,
            timed: false,
        };
        self.with(|trials| {
            trials.count_rest(self.rest.load(Ordering::Relaxed));
            let choice = trials.choose(limit, sizes);
            self.limit.store(limit, Ordering::Relaxed);
            self.rest.store(trials.quiet(), Ordering::Relaxed);
            choice
        })
        .unwrap_or(full)
    }

    /// A call with so many threads took so long.
    pub(crate) fn learn(&self, size: u32, ticks: u64) {
        self.with(|trials| {
            trials.learn(size, ticks);
            self.rest.store(trials.quiet(), Ordering::Relaxed);
        });
    }

    /// What the region did since this was asked last.
    pub(crate) fn activity(&self) -> Option<Activity> {
        self.with(|trials| {
            trials.count_rest(self.rest.load(Ordering::Relaxed));
            trials.quiet = self.rest.load(Ordering::Relaxed);
            trials.activity()
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Trials) -> T) -> Option<T> {
        if self.taken.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: whoever set the flag is alone until it clears it.
        let result = work(unsafe { &mut *self.trials.get() });
        self.taken.store(false, Ordering::Release);
        Some(result)
    }
}

/// What a region did during some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Activity {
    /// Ticks spent in it, partly estimated.
    pub(crate) ticks: u64,
    /// Threads that it needs; `None` for as many as there are.
    pub(crate) needs: Option<u32>,
}

/// The trials of one region: plain data, so that they can be tested without clocks and threads.
#[derive(Clone, Copy, Debug)]
struct Trials {
    /// The limit under which all this was learnt.
    limit: u32,
    /// The size in use.
    size: u32,
    phase: Phase,
    sizes: Sizes,
    full_mean: u64,
    best: Window,
    doublings: u32,
    /// Calls at rest that were granted and not seen to be used yet.
    quiet: u32,
    /// Mean time of the size in use.
    mean: u64,
    spent: u64,
    /// Calls timed since long ones were last counted from zero, and long ones among them.
    seen: u32,
    long: u32,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Resting { calls: u32 },
    Trying { size: u32, calls: u32, ticks: u64 },
}

/// The outcome of trying a size.
#[derive(Clone, Copy, Debug)]
struct Window {
    size: u32,
    mean: u64,
}

impl Trials {
    const fn new() -> Self {
        Self {
            limit: 0,
            size: 0,
            phase: Phase::Resting { calls: 0 },
            sizes: Sizes::Any,
            full_mean: 0,
            best: Window { size: 0, mean: 0 },
            doublings: 0,
            quiet: 0,
            mean: 0,
            spent: 0,
            seen: 0,
            long: 0,
        }
    }

    const fn trying(size: u32) -> Phase {
        Phase::Trying {
            size,
            calls: 0,
            ticks: 0,
        }
    }

    /// Calls for which [`Degree::is_at_rest`] may answer alone.
    fn quiet(&mut self) -> u32 {
        self.quiet = match self.phase {
            Phase::Resting { calls } if self.size == self.limit => calls,
            _ => 0,
        };
        self.quiet
    }

    /// Takes in how many of the calls at rest are left.
    fn count_rest(&mut self, left: u32) {
        let used = self.quiet.saturating_sub(left);
        self.spent = self.spent.saturating_add(u64::from(used) * self.mean);
        if let Phase::Resting { calls } = &mut self.phase
            && self.quiet > 0
        {
            *calls = left.min(*calls);
        }
    }

    fn choose(&mut self, limit: u32, sizes: Sizes) -> Choice {
        if limit != self.limit {
            *self = Self {
                limit,
                size: limit,
                phase: Self::trying(limit),
                sizes,
                ..Self::new()
            };
        }
        if limit <= 1 {
            self.phase = Phase::Resting { calls: u32::MAX };
        }
        match &mut self.phase {
            Phase::Resting { calls: 0 } => self.phase = Self::trying(limit),
            Phase::Resting { calls } => *calls -= 1,
            Phase::Trying { .. } => {}
        }
        match self.phase {
            Phase::Resting { .. } => Choice {
                size: self.size,
                timed: self.size < limit,
            },
            Phase::Trying { size, .. } => Choice { size, timed: true },
        }
    }

    fn learn(&mut self, size: u32, ticks: u64) {
        self.spent = self.spent.saturating_add(ticks);
        let patience = match size < self.limit {
            true => self.full_mean.saturating_mul(2).max(LOST_CPU),
            false => SMALL,
        };
        self.seen += 1;
        if ticks > patience {
            self.long += 1;
            if self.long >= LONG {
                self.mean = ticks;
                self.decide(self.limit);
            }
            return;
        }
        if self.seen >= SEEN {
            (self.seen, self.long) = (0, 0);
        }
        let Phase::Trying {
            size: tried,
            calls,
            ticks: sum,
        } = &mut self.phase
        else {
            return;
        };
        if *tried != size {
            return;
        }
        *calls += 1;
        if *calls > WARM_UP {
            *sum += ticks;
        }
        if *calls == WARM_UP + WINDOW {
            let mean = *sum / u64::from(WINDOW);
            self.conclude(Window { size, mean });
        }
    }

    /// A size has been tried: try another, or decide.
    fn conclude(&mut self, window: Window) {
        let Window { size, mean } = window;
        let better = size == self.limit || mean < self.best.mean;
        if size == self.limit {
            self.full_mean = mean;
        }
        if better {
            self.best = window;
        }
        let next = match (self.sizes, size) {
            (_, size) if size == self.limit => 1,
            (Sizes::AllOrOne, _) => 0,
            (Sizes::Any, 1) => self.limit / 2,
            (Sizes::Any, size) if better => size / 2,
            (Sizes::Any, _) => 0,
        };
        // One thread has been tried by then.
        if next > 1 || (next == 1 && size == self.limit) {
            self.phase = Self::trying(next);
            return;
        }
        let gains =
            self.best.mean.saturating_mul(100) <= self.full_mean.saturating_mul(100 - GAIN_PERCENT);
        let (size, mean) = match gains {
            true => (self.best.size, self.best.mean),
            false => (self.limit, self.full_mean),
        };
        self.mean = mean;
        self.decide(size);
    }

    fn decide(&mut self, size: u32) {
        self.doublings = match size == self.size {
            true => (self.doublings + 1).min(MOST_DOUBLINGS),
            // A smaller team that has proved wrong is not tried again soon.
            false if size == self.limit => (self.doublings + 3).min(MOST_DOUBLINGS),
            false => 0,
        };
        self.size = size;
        (self.seen, self.long) = (0, 0);
        self.phase = Phase::Resting {
            calls: REST << self.doublings,
        };
    }

    fn activity(&mut self) -> Activity {
        Activity {
            ticks: core::mem::take(&mut self.spent),
            needs: (self.size < self.limit).then_some(self.size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes calls of a region whose time depends on the size; returns the sizes used.
    fn run(trials: &mut Trials, calls: usize, limit: u32, time: impl Fn(u32) -> u64) -> Vec<u32> {
        (0..calls)
            .map(|_| {
                let choice = trials.choose(limit, Sizes::Any);
                if choice.timed {
                    trials.learn(choice.size, time(choice.size));
                }
                choice.size
            })
            .collect()
    }

    const TRIALS: usize = ((WINDOW + WARM_UP) * 8) as usize;

    #[test]
    fn a_region_that_is_faster_alone_gets_one_thread() {
        let mut trials = Trials::new();
        let sizes = run(&mut trials, TRIALS, 8, |size| 1000 * u64::from(size));
        assert_eq!((sizes[0], *sizes.last().unwrap()), (8, 1));
    }

    #[test]
    fn a_region_gets_the_size_in_between_that_is_fastest() {
        let mut trials = Trials::new();
        let time = |size| match size {
            8 => 5000,
            4 => 3000,
            2 => 3500,
            _ => 6000,
        };
        assert_eq!(run(&mut trials, TRIALS, 8, time).last(), Some(&4));
    }

    #[test]
    fn where_sizes_are_dear_only_all_and_one_are_tried() {
        let mut trials = Trials::new();
        for _ in 0..TRIALS {
            let choice = trials.choose(8, Sizes::AllOrOne);
            assert!([1, 8].contains(&choice.size));
            trials.learn(choice.size, 1000 + u64::from(choice.size));
        }
        assert_eq!(trials.size, 8, "less than the gain that is asked for");
    }

    #[test]
    fn a_large_region_keeps_its_team_without_a_trial() {
        let mut trials = Trials::new();
        let sizes = run(&mut trials, 500, 8, |size| 8 * SMALL / u64::from(size) + 1);
        assert!(sizes.iter().all(|size| *size == 8));
        // ... and is hardly looked at.
        assert!(trials.quiet() > 1000);
    }

    #[test]
    fn a_region_that_is_long_at_times_gets_its_team_back_soon() {
        let mut trials = Trials::new();
        run(&mut trials, TRIALS, 4, |size| 1000 * u64::from(size));
        assert_eq!(trials.size, 1);
        for ticks in [3 * SMALL, 1000, 3 * SMALL] {
            let choice = trials.choose(4, Sizes::Any);
            assert_eq!(choice.size, 1);
            trials.learn(choice.size, ticks);
        }
        assert_eq!(trials.choose(4, Sizes::Any).size, 4);
        let sizes = run(&mut trials, 5 * REST as usize, 4, |_| 1000);
        assert!(sizes.iter().all(|size| *size == 4));
    }

    #[test]
    fn another_limit_begins_anew() {
        let mut trials = Trials::new();
        run(&mut trials, TRIALS, 8, |size| 1000 * u64::from(size));
        assert_eq!(trials.choose(6, Sizes::Any).size, 6);
        assert_eq!(trials.choose(1, Sizes::Any).size, 1);
    }

    #[test]
    fn sizes_are_tried_again_later() {
        let mut trials = Trials::new();
        run(&mut trials, TRIALS, 4, |size| 1000 * u64::from(size));
        let sizes = run(&mut trials, 2 * REST as usize, 4, |_| 1000);
        assert!(sizes.contains(&4));
        assert_eq!(trials.size, 4, "it is not faster alone any more");
    }

    #[test]
    fn a_region_at_rest_under_one_limit_is_looked_at_again_under_another() {
        let degree = Degree::new();
        degree.choose(1, Sizes::Any);
        assert!(degree.is_at_rest(1));
        assert!(!degree.is_at_rest(8));
    }

    #[test]
    fn calls_at_rest_count_as_activity() {
        let degree = Degree::new();
        degree.choose(8, Sizes::Any);
        degree.learn(8, 2 * SMALL);
        degree.learn(8, 2 * SMALL);
        degree.activity();
        for _ in 0..10 {
            assert!(degree.is_at_rest(8));
        }
        let activity = degree.activity().unwrap();
        assert_eq!((activity.ticks, activity.needs), (20 * SMALL, None));
        assert_eq!(degree.activity().unwrap().ticks, 0);
    }
}
