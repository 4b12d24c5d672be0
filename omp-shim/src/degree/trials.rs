//! The trials of one region: which sizes of team are tried, when, and what follows from their times
//! ([`crate::degree`]).
//!
//! A series of trials times the full team, then smaller ones, and where one of these gains, the full team again:
//! threads that were being made or a CPU lost for a moment are no merit of the smaller one. [`super::loss`] ends a
//! trial early.
//!
//! *Invariants.* All that is known is about one limit. A size in use or being tried is at most that.

use super::loss::{Lag, Standing, WARM_UP, WINDOW};

/// Calls that take longer than this, some 10 ms, are worth every thread.
pub(super) const SMALL: u64 = 25_000_000;
/// Calls in succession of less than half of that after which a region is not long any more.
const SHORT: u32 = 4;
/// Among this many calls ...
const SEEN: u32 = 32;
/// ... so many long ones are more than a thread that lost its CPU for a moment.
const LONG: u32 = 2;
const GAIN_PERCENT: u64 = 10;
/// Calls until the sizes are tried again.
pub(super) const REST: u32 = 1_000;
/// How often that is doubled at most, once for each trial that brought nothing new.
pub(super) const MOST_DOUBLINGS: u32 = 12;
/// How often it is doubled when a smaller team was in use and given up, for each time before in succession.
const DOUBLINGS_FOR_GIVING_UP: u32 = 3;
/// How often it is doubled for a region whose threads had to be helped.
pub(super) const DOUBLINGS_FOR_HELP: u32 = 6;
/// Calls in succession with another limit after which all is found out anew.
const LASTING: u32 = 32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Quiet {
    pub(super) limit: u32,
    pub(super) calls: u32,
}

impl Quiet {
    pub(super) const fn pack(self) -> u64 {
        (self.limit as u64) << 32 | self.calls as u64
    }

    pub(super) const fn unpack(word: u64) -> Self {
        Self {
            limit: (word >> 32) as u32,
            calls: word as u32,
        }
    }
}

/// Which sizes a runtime changes to cheaply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sizes {
    Any,
    /// The full team and a single thread.
    AllOrOne,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    pub(crate) size: u32,
    pub(crate) timed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Activity {
    pub(crate) ticks: u64,
    /// Threads that it needs; `None` for as many as there are.
    pub(crate) needs: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Trials {
    limit: u32,
    size: u32,
    phase: Phase,
    sizes: Sizes,
    /// Mean time of the full team: the least of the windows of one series of trials.
    full_mean: u64,
    /// The shortest call of its last window.
    full_least: u64,
    best: Window,
    /// A smaller team that gained; the full one is timed once more before it is chosen.
    candidate: Option<Window>,
    /// How far the smaller team that is tried or in use is behind the full one.
    lag: Lag,
    doublings: u32,
    /// Smaller teams that were given up while they were in use, in succession.
    given_up: u32,
    /// Calls at rest that were granted and not seen to be used yet.
    quiet: u32,
    /// Another limit, and how often it came in succession.
    coming: u32,
    came: u32,
    mean: u64,
    spent: u64,
    /// Calls timed since long ones were last counted from zero, and long ones among them.
    seen: u32,
    long: u32,
    /// Whether calls are long, whatever the limit, and short ones in succession since.
    is_long: bool,
    short: u32,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Resting {
        calls: u32,
    },
    Trying {
        size: u32,
        calls: u32,
        ticks: u64,
        least: u64,
    },
}

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
            full_least: 0,
            best: Window { size: 0, mean: 0 },
            candidate: None,
            lag: Lag::none(),
            doublings: 0,
            given_up: 0,
            quiet: 0,
            coming: 0,
            came: 0,
            mean: 0,
            spent: 0,
            seen: 0,
            long: 0,
            is_long: false,
            short: 0,
        }
    }

    pub(super) const fn is_long(&self) -> bool {
        self.is_long
    }

    /// A call with an OS thread for each member took so long.
    pub(super) fn learn_of_all(&mut self, ticks: u64) {
        self.spent = self.spent.saturating_add(ticks);
        self.short = if ticks < SMALL / 2 { self.short + 1 } else { 0 };
        if self.short >= SHORT {
            (self.is_long, self.short) = (false, 0);
            self.try_size(self.limit);
        }
    }

    fn try_size(&mut self, size: u32) {
        self.lag = Lag::none();
        self.phase = Self::trying(size);
    }

    const fn trying(size: u32) -> Phase {
        Phase::Trying {
            size,
            calls: 0,
            ticks: 0,
            least: u64::MAX,
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
                is_long: self.is_long,
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
            Phase::Resting { calls: 0 } => {
                if self.size < limit {
                    self.given_up = 0;
                }
                self.try_size(limit);
            }
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

    /// A call took so long; a trial may lose `affordable` ticks. Returns how many were lost.
    pub(super) fn learn(&mut self, size: u32, ticks: u64, affordable: u64) -> u64 {
        self.spent = self.spent.saturating_add(ticks);
        let lost = match self.phase {
            Phase::Trying { .. } if size < self.limit => ticks.saturating_sub(self.full_mean),
            _ => 0,
        };
        let goes_on = match size < self.limit {
            true => self.lag.count(ticks, self.full_mean) == Standing::Holds,
            false => !self.is_too_long(ticks),
        };
        match self.phase {
            _ if goes_on => self.count_call(size, ticks, affordable),
            Phase::Trying { .. } if size == self.limit => self.decide(self.limit),
            Phase::Trying { size: tried, .. } if tried == size => {
                let mean = u64::MAX;
                self.conclude(Window { size, mean }, affordable);
            }
            Phase::Resting { .. } if size == self.size => self.give_up(),
            _ => {}
        }
        lost
    }

    /// Whether there were more long calls than a thread makes that lost its CPU for a moment.
    fn is_too_long(&mut self, ticks: u64) -> bool {
        self.seen += 1;
        if ticks > SMALL {
            self.long += 1;
            self.mean = ticks;
        }
        let is_too_long = self.long >= LONG;
        self.is_long |= is_too_long;
        if self.seen >= SEEN {
            (self.seen, self.long) = (0, 0);
        }
        is_too_long
    }

    fn count_call(&mut self, size: u32, ticks: u64, affordable: u64) {
        let Phase::Trying {
            size: tried,
            calls,
            ticks: sum,
            least,
        } = &mut self.phase
        else {
            return;
        };
        if *tried != size || (size == self.limit && ticks > SMALL) {
            return;
        }
        *calls += 1;
        if *calls > WARM_UP {
            *sum += ticks;
            *least = ticks.min(*least);
        }
        if *calls == WARM_UP + WINDOW {
            let mean = *sum / u64::from(WINDOW);
            if size == self.limit {
                self.full_least = *least;
            }
            self.conclude(Window { size, mean }, affordable);
        }
    }

    fn conclude(&mut self, window: Window, affordable: u64) {
        let Window { size, mean } = window;
        if size == self.limit {
            if let Some(smaller) = self.candidate.take() {
                self.full_mean = self.full_mean.min(mean);
                self.decide_between(smaller);
                return;
            }
            self.full_mean = mean;
        }
        let better = size == self.limit || mean < self.best.mean;
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
        let is_new = next > 1 || (next == 1 && size == self.limit);
        // With a smaller team in use already there is little to lose.
        let is_affordable = self.size < self.limit
            || Lag::at_most(self.full_mean, self.full_least, self.limit) <= affordable;
        if is_new && is_affordable {
            self.try_size(next);
        } else if self.gains(self.best) {
            self.candidate = Some(self.best);
            self.try_size(self.limit);
        } else if size == self.limit && is_new {
            // Later, perhaps; nothing is known yet that would put it off for longer.
            self.mean = mean;
            self.phase = Phase::Resting { calls: REST };
        } else {
            self.mean = self.full_mean;
            self.decide(self.limit);
        }
    }

    fn gains(&self, smaller: Window) -> bool {
        smaller.size < self.limit
            && smaller.mean.saturating_mul(100) <= self.full_mean.saturating_mul(100 - GAIN_PERCENT)
    }

    fn decide_between(&mut self, smaller: Window) {
        let (size, mean) = match self.gains(smaller) {
            true => (smaller.size, smaller.mean),
            false => (self.limit, self.full_mean),
        };
        self.mean = mean;
        self.decide(size);
    }

    fn give_up(&mut self) {
        self.mean = self.full_mean;
        self.decide(self.limit);
        self.doublings = (DOUBLINGS_FOR_GIVING_UP * self.given_up).min(MOST_DOUBLINGS);
        self.given_up = (self.given_up + 1).min(MOST_DOUBLINGS);
        self.rest();
    }

    fn decide(&mut self, size: u32) {
        self.doublings = match size == self.size {
            true => (self.doublings + 1).min(MOST_DOUBLINGS),
            // A smaller team that has proved wrong is not tried again soon.
            false if size == self.limit => (self.doublings + 3).min(MOST_DOUBLINGS),
            false => 0,
        };
        self.size = size;
        self.rest();
    }

    fn rest(&mut self) {
        (self.seen, self.long) = (0, 0);
        self.candidate = None;
        self.lag = Lag::none();
        self.phase = Phase::Resting {
            calls: REST << self.doublings,
        };
    }

    pub(super) fn settle(&mut self) {
        // Nobody is helped before the first patience has passed, which is as long.
        self.is_long = true;
        self.decide(self.limit);
        self.doublings = (self.doublings + DOUBLINGS_FOR_HELP).min(MOST_DOUBLINGS);
        self.rest();
    }

    pub(super) fn activity(&mut self) -> Activity {
        Activity {
            ticks: core::mem::take(&mut self.spent),
            needs: (self.size < self.limit).then_some(self.size),
        }
    }
}

#[cfg(test)]
mod tests;
