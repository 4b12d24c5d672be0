//! What a run cost a program, and how much a median of such costs says.
//!
//! A program's cost is its time, or the 99th percentile of its latencies if it answers requests; the two
//! never stand for each other. A program that was ended at the time limit costs at least the limit, so
//! a median among such runs is only a bound (it is *censored*), and so is a speed computed from it. A
//! run with a wrong result or a crash costs nothing that could be compared: it is left out.

use serde::Serialize;

use super::measure::SERVER;
use mapper_report::bootstrap::Estimate;
use mapper_report::statistics::median;

/// In what the cost of a program is counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Cost {
    Seconds,
    P99Ms,
}

impl Cost {
    /// What the figure of a program is.
    pub(super) fn of(program: &str) -> Self {
        if program == SERVER {
            Self::P99Ms
        } else {
            Self::Seconds
        }
    }
}

/// What one run cost one program.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RunCost {
    Seconds(f64),
    P99Ms(f64),
    /// It was ended after so many seconds.
    Limit(f64),
    /// The run came to a wrong result or none.
    Invalid,
}

impl RunCost {
    /// The figure in a unit, the limit standing for itself; nothing if there is none in this unit.
    pub(super) fn in_unit(self, unit: Cost) -> Option<f64> {
        match (self, unit) {
            (Self::Seconds(seconds) | Self::Limit(seconds), Cost::Seconds) => Some(seconds),
            (Self::P99Ms(ms), Cost::P99Ms) => Some(ms),
            (Self::Limit(seconds), Cost::P99Ms) => Some(1e3 * seconds),
            (Self::Seconds(_), Cost::P99Ms)
            | (Self::P99Ms(_), Cost::Seconds)
            | (Self::Invalid, _) => None,
        }
    }
}

/// How a figure stands to the true one.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Bound {
    Exact,
    AtLeast,
    AtMost,
    /// Limits on both sides: the true one may be anywhere.
    Unknown,
}

impl Bound {
    /// That of a product or a mean of two figures.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (same, Self::Exact) | (Self::Exact, same) => same,
            (one, other) if one == other => one,
            _ => Self::Unknown,
        }
    }

    /// That of a speed whose base and own cost are bounds.
    pub(super) fn of_ratio(base: Self, own: Self) -> Self {
        let inverse = match own {
            Self::AtLeast => Self::AtMost,
            Self::AtMost => Self::AtLeast,
            same => same,
        };
        base.and(inverse)
    }

    /// What stands before the figure.
    pub(super) fn mark(self) -> &'static str {
        match self {
            Self::Exact => "",
            Self::AtLeast => "≥",
            Self::AtMost => "≤",
            Self::Unknown => "~",
        }
    }
}

/// A speed over another setting.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Speed {
    #[serde(flatten)]
    pub(super) estimate: Estimate,
    /// Of the value; an interval may reach a limit before the median does.
    pub(super) bound: Bound,
}

/// A median of costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MedianCost {
    pub(super) value: f64,
    pub(super) bound: Bound,
}

/// The median of those costs that are valid, in their unit.
pub(super) fn median_cost(costs: impl Iterator<Item = RunCost>, unit: Cost) -> Option<MedianCost> {
    let mut values = Vec::new();
    let mut at_limit = 0;
    for cost in costs {
        let Some(value) = cost.in_unit(unit) else {
            continue;
        };
        values.push(value);
        at_limit += usize::from(matches!(cost, RunCost::Limit(_)));
    }
    // No run costs more than the limit, so those at it are the last of the row.
    let is_censored = at_limit > 0 && 2 * at_limit >= values.len();
    Some(MedianCost {
        value: median(&values)?,
        bound: if is_censored {
            Bound::AtLeast
        } else {
            Bound::Exact
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_latency_is_never_judged_by_its_seconds() {
        assert_eq!(RunCost::Seconds(1.5).in_unit(Cost::P99Ms), None);
        assert_eq!(RunCost::Invalid.in_unit(Cost::P99Ms), None);
        assert_eq!(RunCost::Limit(1.5).in_unit(Cost::P99Ms), Some(1500.0));
    }

    #[test]
    fn a_median_with_half_of_the_runs_at_the_limit_is_a_bound() {
        let of = |costs: &[RunCost]| median_cost(costs.iter().copied(), Cost::Seconds).unwrap();
        let (one, end, bad) = (RunCost::Seconds(1.0), RunCost::Limit(8.0), RunCost::Invalid);
        assert_eq!(of(&[one, one, end]).bound, Bound::Exact);
        assert_eq!(of(&[one, end]).bound, Bound::AtLeast);
        assert_eq!(of(&[one, bad, end, bad]).value, 4.5);
        assert_eq!(median_cost([bad].into_iter(), Cost::Seconds), None);
    }

    #[test]
    fn a_speed_is_a_bound_from_the_side_whose_cost_is() {
        use Bound::{AtLeast, AtMost, Exact, Unknown};
        assert_eq!(Bound::of_ratio(Exact, Exact), Exact);
        assert_eq!(Bound::of_ratio(AtLeast, Exact), AtLeast);
        assert_eq!(Bound::of_ratio(Exact, AtLeast), AtMost);
        assert_eq!(Bound::of_ratio(AtLeast, AtLeast), Unknown);
        assert_eq!(AtLeast.and(AtLeast), AtLeast);
        assert_eq!(AtLeast.and(AtMost), Unknown);
    }
}
