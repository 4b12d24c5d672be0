//! The constants of the policy, and its parts, which can be left out one by one.

use super::division::Dividing;
use super::outlook::{Expectations, Law};

/// When a count is known and when a division is adopted.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rules {
    /// Weight that what is known of a count keeps for a second.
    pub kept_per_s: f64,
    /// Standard error of the parallel share up to which a count is known.
    pub known: f64,
    /// Relative errors up to which one interval at a count tells enough, once another count is known.
    pub alike: f64,
    /// Intervals at a count before it is known.
    pub seen: u32,
    /// The same in seconds.
    pub seen_s: f64,
    /// Seconds under the static fair share before a speed there is known.
    pub reference_s: f64,
    /// Seconds after which a mix is measured under the static fair share: a program that shares much
    /// loses half there, which is to be a small part of the run.
    pub reference_after_s: f64,
    /// Seconds after which a rate is taken as it is.
    pub patience_s: f64,
    /// Mean relative gain that a division must promise to be adopted.
    pub gain: f64,
    /// By how much more each further change has to gain, until an application comes or leaves.
    pub caution: f64,
    /// Share of that caution which is lost in a second without a change.
    pub calming_per_s: f64,
    /// Relative value of the static fair share over any division for a mix to go back to it.
    pub falls_for: f64,
    /// Relative margin above the promise for wrong predictions; half of it at the measured count.
    pub margin: f64,
    /// The same where performance is not what the program reports, or depends on caches and memory that others share.
    pub doubtful_margin: f64,
    /// What is expected where nothing was measured.
    pub(crate) expected: Expectations,
    /// The parts in use.
    pub parts: Parts,
}

impl Rules {
    /// The usual rules with these parts.
    pub fn of(parts: Parts) -> Self {
        let mut rules = Self {
            parts,
            ..Self::default()
        };
        match parts {
            Parts::NoMargin => (rules.margin, rules.doubtful_margin) = (0.0, 0.0),
            Parts::NoHeadroom => rules.expected.headroom = f64::INFINITY,
            _ => {}
        }
        rules
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            kept_per_s: 0.95,
            known: 0.1,
            alike: 0.03,
            seen: 2,
            seen_s: 1.5,
            reference_s: 5.0,
            reference_after_s: 60.0,
            patience_s: 8.0,
            gain: 0.01,
            caution: 1.25,
            calming_per_s: 0.02,
            margin: 0.02,
            doubtful_margin: 0.1,
            falls_for: 0.05,
            expected: Expectations::default(),
            parts: Parts::All,
        }
    }
}

/// The parts in use: all, or all but one, to see what that one brings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Parts {
    /// Everything.
    #[default]
    All,
    /// Intervals are taken as they are, not split into serial and parallel parts.
    NoSplit,
    /// Programs whose threads wait for each other's data are treated like others.
    NoRegions,
    /// A program that comes again is unknown.
    NoRecall,
    /// Promises are shares of what is expected at the fair count, wherever the program is.
    NoReference,
    /// Nothing is kept above the promise.
    NoMargin,
    /// CPUs that stay idle are missed.
    NoHeadroom,
    /// CPUs are handed out one by one to whom each helps most, in place of the exact division.
    Greedy,
    /// Rates follow the universal scalability law, in place of powers and the step at a region.
    Universal,
}

impl Parts {
    /// Whether intervals are split into serial and parallel parts.
    pub(crate) const fn splits(self) -> bool {
        !matches!(self, Self::NoSplit)
    }

    /// Whether threads that wait for each other's data are brought together.
    pub(crate) const fn brings_together(self) -> bool {
        !matches!(self, Self::NoRegions)
    }

    /// Whether the static fair share is measured, and gone back to.
    pub(crate) const fn refers(self) -> bool {
        !matches!(self, Self::NoReference)
    }

    pub(crate) const fn dividing(self) -> Dividing {
        match self {
            Self::Greedy => Dividing::OneByOne,
            _ => Dividing::Exactly,
        }
    }

    /// What rates are taken to follow.
    pub(crate) const fn law(self) -> Law {
        match self {
            Self::Universal => Law::Universal,
            _ => Law::Powers,
        }
    }

    /// Whether programs are recalled.
    pub(crate) const fn recalls(self) -> bool {
        !matches!(self, Self::NoRecall)
    }
}
