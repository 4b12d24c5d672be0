//! Speeds, and how they stand to the true ones where runs were ended at the limit.

use serde::Serialize;

use mapper_report::statistics::Estimate;

/// How a figure stands to the true one.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Certainty {
    Exact,
    AtLeast,
    AtMost,
    /// Limits on both sides: the true one may be anywhere.
    Unknown,
}

impl Certainty {
    /// That of a product or a mean of two figures.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (same, Self::Exact) | (Self::Exact, same) => same,
            (one, other) if one == other => one,
            _ => Self::Unknown,
        }
    }

    /// That of a speed whose base and own cost are such.
    pub(crate) fn of_ratio(base: Self, own: Self) -> Self {
        let inverse = match own {
            Self::AtLeast => Self::AtMost,
            Self::AtMost => Self::AtLeast,
            same => same,
        };
        base.and(inverse)
    }

    /// What stands before the figure.
    pub(crate) fn mark(self) -> &'static str {
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
pub(crate) struct Speed {
    #[serde(flatten)]
    pub(crate) estimate: Estimate,
    /// Of the value; an interval may reach a limit before the median does.
    pub(crate) certainty: Certainty,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_a_bound_from_the_side_whose_cost_is() {
        use Certainty::{AtLeast, AtMost, Exact, Unknown};
        assert_eq!(Certainty::of_ratio(Exact, Exact), Exact);
        assert_eq!(Certainty::of_ratio(AtLeast, Exact), AtLeast);
        assert_eq!(Certainty::of_ratio(Exact, AtLeast), AtMost);
        assert_eq!(Certainty::of_ratio(AtLeast, AtLeast), Unknown);
        assert_eq!(AtLeast.and(AtLeast), AtLeast);
        assert_eq!(AtLeast.and(AtMost), Unknown);
    }
}
