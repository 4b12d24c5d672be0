//! What a figure has to reach.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    /// The bound itself will do.
    AtLeast(f64),
    /// The bound itself is too much.
    Below(f64),
}

impl Bound {
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
}
