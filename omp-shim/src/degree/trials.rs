//! The trials of one region: which sizes of team are tried, when, and what follows from their times.
//!
//! Plain data and decisions, so that they can be tested without clocks and threads; what they are for is
//! said in [`crate::degree`].
//!
//! *Invariants.* All that is known is about one limit. A size is in use or being tried only if it is at
//! most that.

use super::Quiet;

/// Calls that take longer than this, some 10 ms, are worth every thread.
pub(super) const SMALL: u64 = 25_000_000;
/// Calls that take less than this, some 100 µs, are no reason to give a trial up.
const LOST_CPU: u64 = 250_000;
/// Among this many calls ...
const SEEN: u32 = 32;
/// ... so many long ones are more than a thread that lost its CPU for a moment.
const LONG: u32 = 2;
/// Calls with each size that are counted.
pub(super) const WINDOW: u32 = 16;
/// Calls before them, which may have to make or end threads.
pub(super) const WARM_UP: u32 = 4;
/// What a smaller team has to gain.
const GAIN_PERCENT: u64 = 10;
/// Calls until the sizes are tried again.
pub(super) const REST: u32 = 1_000;
/// How often that is doubled at most, once for each trial that brought nothing new.
pub(super) const MOST_DOUBLINGS: u32 = 12;
/// How often it is doubled for a region whose threads had to be helped.
pub(super) const DOUBLINGS_FOR_HELP: u32 = 6;
/// Calls in succession with another limit after which all is found out anew.
const LASTING: u32 = 32;

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
pub(super) struct Trials {
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
    /// Another limit, and how often it came in succession.
    coming: u32,
    came: u32,
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
    pub(super) const fn new() -> Self {
        Self {
            limit: 0,
            size: 0,
            phase: Phase::Resting { calls: 0 },
            sizes: Sizes::Any,
            full_mean: 0,
            best: Window { size: 0, mean: 0 },
            doublings: 0,
            quiet: 0,
            coming: 0,
            came: 0,
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
    pub(super) fn quiet(&mut self) -> Quiet {
        self.quiet = match self.phase {
            Phase::Resting { calls } if self.size == self.limit => calls,
            _ => 0,
        };
        Quiet {
            limit: self.limit,
            calls: self.quiet,
        }
    }

    /// Takes in how many of the calls at rest are left.
    pub(super) fn count_quiet(&mut self, left: Quiet) {
        if left.limit != self.limit {
            return;
        }
        let used = self.quiet.saturating_sub(left.calls);
        self.spent = self.spent.saturating_add(u64::from(used) * self.mean);
        if used > 0 {
            self.came = 0;
        }
        if let Phase::Resting { calls } = &mut self.phase
            && self.quiet > 0
        {
            *calls = left.calls.min(*calls);
        }
    }

    /// Whether what is known is, or becomes, what is known of that limit.
    fn is_about(&mut self, limit: u32, sizes: Sizes) -> bool {
        if limit == self.limit {
            self.came = 0;
            return true;
        }
        if limit != self.coming {
            (self.coming, self.came) = (limit, 0);
        }
        self.came += 1;
        let lasts = self.limit == 0 || self.came >= LASTING;
        if lasts {
            *self = Self {
                limit,
                size: limit,
                phase: Self::trying(limit),
                sizes,
                ..Self::new()
            };
        }
        lasts
    }

    pub(super) fn choose(&mut self, limit: u32, sizes: Sizes) -> Choice {
        if !self.is_about(limit, sizes) {
            return Choice {
                size: limit,
                timed: false,
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

    pub(super) fn learn(&mut self, size: u32, ticks: u64) {
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

    /// The full team, for long.
    pub(super) fn settle(&mut self) {
        self.decide(self.limit);
        self.doublings = (self.doublings + DOUBLINGS_FOR_HELP).min(MOST_DOUBLINGS);
        self.phase = Phase::Resting {
            calls: REST << self.doublings,
        };
    }

    pub(super) fn activity(&mut self) -> Activity {
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
        assert!(trials.quiet().calls > 1000);
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
    fn another_limit_begins_anew_once_it_lasts() {
        let mut trials = Trials::new();
        run(&mut trials, TRIALS, 8, |size| 1000 * u64::from(size));
        for _ in 1..LASTING {
            let choice = trials.choose(6, Sizes::Any);
            assert_eq!((choice.size, choice.timed), (6, false));
        }
        assert_eq!(trials.choose(8, Sizes::Any).size, 1, "nothing is forgotten");
        let sizes = run(&mut trials, TRIALS, 6, |size| 1000 * u64::from(size));
        assert_eq!((sizes[0], *sizes.last().unwrap()), (6, 1));
    }

    #[test]
    fn sizes_are_tried_again_later() {
        let mut trials = Trials::new();
        run(&mut trials, TRIALS, 4, |size| 1000 * u64::from(size));
        let sizes = run(&mut trials, 2 * REST as usize, 4, |_| 1000);
        assert!(sizes.contains(&4));
        assert_eq!(trials.size, 4, "it is not faster alone any more");
    }
}
