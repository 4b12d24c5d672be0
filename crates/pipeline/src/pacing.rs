//! How often a decision is taken, when deciding itself costs CPU time.
//!
//! A pass reads counters of every thread, decides and rewrites CPU sets, on CPUs that belong to the
//! applications. When its CPU time exceeds a budget, a share of the interval, the interval is stretched.
//! The cost is the median of the last five passes, also of fewer at the start. The interval grows as soon
//! as the budget asks for it, rounded up to two digits, and shrinks only when a quarter less would do.
//!
//! Invariants: never shorter than requested, and exactly that without a budget; at most 10 s by
//! stretching. The daemon and the simulator call the same code.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Passes whose median counts.
const PASSES: usize = 5;
/// The interval shrinks when less than this share of it would do.
const SHRINK_BELOW: f64 = 0.75;
/// The longest stretched interval: as long as the longest that can be requested.
const LONGEST_NS: u64 = 10_000_000_000;
/// Parts of a whole.
const PARTS: u64 = 1_000_000;

/// The share of the interval that a pass may cost.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct OverheadBudget {
    /// In millionths, so that arithmetic is exact; 0: there is none.
    millionths: u32,
}

/// A number that is no budget.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "overhead budget {0}: give a share of the interval from 0.001 to 0.5, such as 0.02, or 0 for none"
)]
pub struct BadBudget(pub f64);

impl OverheadBudget {
    /// The interval is as asked for, whatever a pass costs.
    pub const OFF: Self = Self { millionths: 0 };

    /// The budget of this share: 0 for none, else from 0.001 to 0.5.
    ///
    /// # Errors
    /// When it is another number.
    pub fn new(share: f64) -> Result<Self, BadBudget> {
        if share != 0.0 && !(0.001..=0.5).contains(&share) {
            return Err(BadBudget(share));
        }
        Ok(Self {
            // At most half of the parts.
            millionths: (share * PARTS as f64).round() as u32,
        })
    }

    /// As a share of the interval; 0 for none.
    pub fn share(self) -> f64 {
        f64::from(self.millionths) / PARTS as f64
    }

    /// The shortest interval in which a pass of this cost is within the budget.
    fn needed_ns(self, cost_ns: u64) -> u64 {
        match self.millionths {
            0 => 0,
            millionths => cost_ns.saturating_mul(PARTS).div_ceil(millionths.into()),
        }
    }
}

impl Default for OverheadBudget {
    /// 2 % of the interval.
    fn default() -> Self {
        Self { millionths: 20_000 }
    }
}

impl TryFrom<f64> for OverheadBudget {
    type Error = BadBudget;

    fn try_from(share: f64) -> Result<Self, BadBudget> {
        Self::new(share)
    }
}

impl From<OverheadBudget> for f64 {
    fn from(budget: OverheadBudget) -> Self {
        budget.share()
    }
}

impl fmt::Debug for OverheadBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.share())
    }
}

impl std::str::FromStr for OverheadBudget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.trim().parse::<f64>();
        let share = number.map_err(|_| {
            let shown: String = text.chars().take(40).collect();
            format!(
                "overhead budget {shown:?} is no number: give a share of the interval, such as 0.02"
            )
        })?;
        Self::new(share).map_err(|bad| bad.to_string())
    }
}

/// An interval that is longer than asked for, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretched {
    /// The interval, in nanoseconds.
    pub interval_ns: u64,
    /// What was asked for, in nanoseconds.
    pub asked_ns: u64,
    /// CPU time of a pass, in nanoseconds.
    pub pass_ns: u64,
}

impl fmt::Display for Stretched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "every {:?} instead of {:?}: a pass takes {:?}",
            Duration::from_nanos(self.interval_ns),
            Duration::from_nanos(self.asked_ns),
            Duration::from_nanos(rounded_up(self.pass_ns)),
        )
    }
}

/// What a pass has done to the interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Nothing.
    None,
    /// It is now longer than asked for, by another length than before.
    Stretched(Stretched),
    /// It is what was asked for again.
    AsAsked,
}

/// The interval of the loop. See the [module](self).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pacing {
    asked_ns: u64,
    budget: OverheadBudget,
    /// Costs of the last passes, in a ring of which `seen` were written so far.
    costs_ns: [u64; PASSES],
    seen: usize,
    /// The interval while it is longer than asked for.
    stretched_ns: Option<u64>,
}

impl Pacing {
    /// One that has seen no pass yet.
    pub const fn new(asked_ns: u64, budget: OverheadBudget) -> Self {
        Self {
            asked_ns,
            budget,
            costs_ns: [0; PASSES],
            seen: 0,
            stretched_ns: None,
        }
    }

    /// Other settings; what passes cost is still known.
    pub fn set(&mut self, asked_ns: u64, budget: OverheadBudget) {
        (self.asked_ns, self.budget) = (asked_ns, budget);
        self.stretched_ns = None;
        self.adapt();
    }

    /// The time from one pass to the next.
    pub fn interval_ns(&self) -> u64 {
        self.stretched_ns.unwrap_or(self.asked_ns)
    }

    /// Whether the interval is longer than asked for, and why.
    pub fn stretched(&self) -> Option<Stretched> {
        Some(Stretched {
            interval_ns: self.stretched_ns?,
            asked_ns: self.asked_ns,
            pass_ns: self.usual_ns(),
        })
    }

    /// A pass at the end of an interval took so much CPU time.
    pub fn passed(&mut self, cost_ns: u64) -> Change {
        self.costs_ns[self.seen % PASSES] = cost_ns;
        // It goes on in the second round of the ring for ever.
        self.seen = if self.seen + 1 == 2 * PASSES {
            PASSES
        } else {
            self.seen + 1
        };
        let before = self.stretched_ns;
        self.adapt();
        match self.stretched() {
            _ if before == self.stretched_ns => Change::None,
            Some(stretched) => Change::Stretched(stretched),
            None => Change::AsAsked,
        }
    }

    fn adapt(&mut self) {
        let needed_ns = self.budget.needed_ns(self.usual_ns()).min(LONGEST_NS);
        let present_ns = self.interval_ns();
        let shrinks = (needed_ns as f64) < SHRINK_BELOW * present_ns as f64;
        if needed_ns > present_ns || shrinks {
            self.stretched_ns = (needed_ns > self.asked_ns).then(|| rounded_up(needed_ns));
        }
    }

    /// The median of the passes that are known, the upper one of two; 0 without any.
    fn usual_ns(&self) -> u64 {
        let mut known = self.costs_ns;
        let known = &mut known[..self.seen.min(PASSES)];
        known.sort_unstable();
        known.get(known.len() / 2).copied().unwrap_or_default()
    }
}

/// Rounded up to two digits.
fn rounded_up(ns: u64) -> u64 {
    let mut unit = 1;
    while ns / unit >= 100 {
        unit *= 10;
    }
    ns.div_ceil(unit).saturating_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn pacing(asked_ms: u64) -> Pacing {
        Pacing::new(asked_ms * MS, OverheadBudget::default())
    }

    fn pass(pacing: &mut Pacing, cost_ms: u64) -> Vec<Change> {
        (0..PASSES).map(|_| pacing.passed(cost_ms * MS)).collect()
    }

    #[test]
    fn a_pass_beyond_the_budget_stretches_the_interval_at_once_and_says_so() {
        let mut pacing = pacing(20);
        let Change::Stretched(stretched) = pacing.passed(25 * MS + 125_000) else {
            panic!("not stretched");
        };
        assert_eq!(
            stretched.to_string(),
            "every 1.3s instead of 20ms: a pass takes 26ms"
        );
        assert_eq!(pacing.interval_ns(), 1300 * MS);
    }

    #[test]
    fn a_pass_that_just_fits_changes_nothing() {
        // 10 ms are 2 % of 500 ms.
        let mut pacing = pacing(500);
        assert_eq!(pacing.passed(10 * MS), Change::None);
        assert_eq!(pacing.passed(10 * MS), Change::None);
        assert_eq!(pacing.interval_ns(), 500 * MS);
    }

    #[test]
    fn one_slow_pass_among_cheap_ones_changes_nothing() {
        let mut pacing = pacing(20);
        pacing.passed(MS / 10);
        pacing.passed(MS / 10);
        for _ in 0..4 {
            assert_eq!(pacing.passed(40 * MS), Change::None);
            assert_eq!(pacing.passed(MS / 10), Change::None);
            assert_eq!(pacing.passed(MS / 10), Change::None);
        }
    }

    #[test]
    fn costs_that_swing_by_a_fifth_settle_on_one_interval() {
        let mut pacing = pacing(20);
        let swing = [8, 9, 10, 9, 8, 10, 9, 8, 8, 10].map(|ms| ms * MS);
        let changes = swing
            .iter()
            .cycle()
            .take(200)
            .filter(|&&cost| pacing.passed(cost) != Change::None)
            .count();
        assert!(changes <= 3, "{changes} changes");
        assert_eq!(pacing.interval_ns(), 450 * MS);
    }

    #[test]
    fn the_interval_is_as_asked_again_when_passes_are_cheap() {
        let mut pacing = pacing(100);
        pass(&mut pacing, 10);
        assert_eq!(pacing.interval_ns(), 500 * MS);
        assert_eq!(pass(&mut pacing, 1)[2], Change::AsAsked);
        assert_eq!(pacing.interval_ns(), 100 * MS);
        assert_eq!(pacing.stretched(), None);
    }

    #[test]
    fn a_stretch_that_is_needed_less_shrinks_without_ending() {
        let mut pacing = pacing(100);
        pass(&mut pacing, 20);
        assert_eq!(pacing.interval_ns(), 1000 * MS);
        pass(&mut pacing, 5);
        assert_eq!(pacing.interval_ns(), 250 * MS);
    }

    #[test]
    fn without_a_budget_the_interval_is_what_was_asked_for() {
        let mut pacing = Pacing::new(20 * MS, OverheadBudget::OFF);
        assert_eq!(pacing.passed(10_000 * MS), Change::None);
        assert_eq!(pacing.interval_ns(), 20 * MS);
    }

    #[test]
    fn other_settings_go_by_what_is_known_already() {
        let mut pacing = pacing(1000);
        pacing.passed(10 * MS);
        pacing.set(20 * MS, OverheadBudget::default());
        assert_eq!(pacing.interval_ns(), 500 * MS);
        pacing.set(20 * MS, OverheadBudget::new(0.5).unwrap());
        assert_eq!(pacing.interval_ns(), 20 * MS);
    }

    #[test]
    fn a_number_that_is_no_share_is_refused_with_the_range() {
        for share in [-0.1, 0.0005, 0.51, 2.0, f64::NAN, f64::INFINITY] {
            let message = OverheadBudget::new(share).unwrap_err().to_string();
            assert!(message.contains("0.001 to 0.5"), "{message}");
        }
        for text in ["", "2%", "much"] {
            let message = text.parse::<OverheadBudget>().unwrap_err();
            assert!(message.contains("such as 0.02"), "{message}");
        }
        assert_eq!("0".parse(), Ok(OverheadBudget::OFF));
        assert_eq!("0.02".parse(), Ok(OverheadBudget::default()));
    }

    proptest! {
        #[test]
        fn the_usual_cost_is_within_the_budget_and_the_interval_never_below_what_was_asked(
            asked_ms in 20_u64..10_000,
            millionths in 1_000_u32..500_000,
            costs in prop::collection::vec(0_u64..20_000_000_000, 1..40),
        ) {
            let budget = OverheadBudget { millionths };
            let mut pacing = Pacing::new(asked_ms * MS, budget);
            for cost_ns in costs {
                pacing.passed(cost_ns);
                let interval_ns = pacing.interval_ns();
                prop_assert!(interval_ns >= asked_ms * MS);
                prop_assert!(interval_ns <= LONGEST_NS);
                let share = pacing.usual_ns() as f64 / interval_ns as f64;
                prop_assert!(share <= budget.share() || interval_ns == LONGEST_NS);
            }
        }

        #[test]
        fn any_cost_is_taken(costs in prop::collection::vec(any::<u64>(), 1..20)) {
            let mut pacing = Pacing::new(20 * MS, OverheadBudget::default());
            for cost_ns in costs {
                pacing.passed(cost_ns);
                prop_assert!(pacing.interval_ns() <= LONGEST_NS);
            }
        }
    }
}
