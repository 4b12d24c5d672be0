//! What a figure has to reach.

use anyhow::bail;
use serde::{Deserialize, Serialize};

/// A bound, as written in a file: one of the two.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
pub(crate) struct WrittenBound {
    pub(crate) at_least: Option<f64>,
    pub(crate) below: Option<f64>,
}

/// A comparison with a bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    /// The bound itself will do.
    AtLeast(f64),
    /// The bound itself is too much.
    Below(f64),
}

impl Bound {
    /// Whether a value is as wanted.
    pub(crate) fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::Below(bound) => value < bound,
        }
    }

    /// For people, with `unit` after the number.
    pub(crate) fn text(self, unit: &str) -> String {
        let shown = |bound: f64| (1e3 * bound).round() / 1e3;
        match self {
            Self::AtLeast(bound) => format!("at least {}{unit}", shown(bound)),
            Self::Below(bound) => format!("below {}{unit}", shown(bound)),
        }
    }
}

impl WrittenBound {
    /// The bound, or nothing where none is written.
    ///
    /// # Errors
    /// Both comparisons at once.
    pub(crate) fn checked(self) -> anyhow::Result<Option<Bound>> {
        Ok(match (self.at_least, self.below) {
            (None, None) => None,
            (Some(bound), None) => Some(Bound::AtLeast(bound)),
            (None, Some(bound)) => Some(Bound::Below(bound)),
            (Some(_), Some(_)) => bail!("give at_least or below, not both"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_at_its_bound_is_at_least_it_and_not_below_it() {
        assert!(Bound::AtLeast(2.0).is_met(2.0) && !Bound::AtLeast(2.0).is_met(1.9));
        assert!(!Bound::Below(2.0).is_met(2.0) && Bound::Below(2.0).is_met(1.9));
        assert!(!Bound::AtLeast(2.0).is_met(f64::NAN) && !Bound::Below(2.0).is_met(f64::NAN));
    }

    #[test]
    fn a_bound_is_shown_with_three_places() {
        assert_eq!(Bound::AtLeast(0.952381).text("×"), "at least 0.952×");
        assert_eq!(Bound::Below(15.0).text(" ms"), "below 15 ms");
    }

    #[test]
    fn a_figure_has_one_bound_at_most() {
        let both = WrittenBound {
            at_least: Some(1.0),
            below: Some(2.0),
        };
        assert!(both.checked().is_err());
        assert_eq!(WrittenBound::default().checked().unwrap(), None);
    }
}
