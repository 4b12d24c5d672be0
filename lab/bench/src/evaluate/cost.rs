//! The median cost of a program, and how much it says.
//!
//! A program that was ended at the time limit costs at least the limit, so a median among such runs is only a
//! bound (it is *censored*). Runs with a wrong result are left out.

use crate::data::program::Unit;
use crate::result::run::{Run, RunCost};
use crate::result::speed::Certainty;
use mapper_report::statistics::median;

/// A median of costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MedianCost {
    pub(crate) value: f64,
    pub(crate) certainty: Certainty,
}

/// A program of a mix whose figures are computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Of {
    /// In the order of the mix.
    pub(crate) at: usize,
    pub(crate) unit: Unit,
}

impl Of {
    /// What the program cost in the runs at these places.
    pub(crate) fn costs(self, runs: &[Run], places: &[usize]) -> Vec<RunCost> {
        places
            .iter()
            .filter_map(|&place| self.cost(runs.get(place)?))
            .collect()
    }

    /// What the program cost in a run.
    pub(crate) fn cost(self, run: &Run) -> Option<RunCost> {
        Some(run.programs.get(self.at)?.cost)
    }
}

/// The median of those costs that are valid, in their unit.
pub(crate) fn median_cost(costs: &[RunCost], unit: Unit) -> Option<MedianCost> {
    let valid: Vec<f64> = costs.iter().filter_map(|cost| cost.in_unit(unit)).collect();
    let at_limit = costs.iter().filter(|cost| cost.is_limit()).count();
    // No run costs more than the limit, so those at it are the last of the row.
    let is_censored = at_limit > 0 && 2 * at_limit >= valid.len();
    Some(MedianCost {
        value: median(&valid)?,
        certainty: match is_censored {
            true => Certainty::AtLeast,
            false => Certainty::Exact,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_with_half_of_the_runs_at_the_limit_is_a_bound() {
        let of = |costs: &[RunCost]| median_cost(costs, Unit::Seconds).unwrap();
        let (one, end, bad) = (RunCost::Seconds(1.0), RunCost::Limit(8.0), RunCost::Invalid);
        assert_eq!(of(&[one, one, end]).certainty, Certainty::Exact);
        assert_eq!(of(&[one, end]).certainty, Certainty::AtLeast);
        assert_eq!(of(&[one, bad, end, bad]).value, 4.5);
        assert_eq!(median_cost(&[bad], Unit::Seconds), None);
    }
}
