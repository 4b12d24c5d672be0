//! What programs cost, and the speed of one setting over another, from the runs of both.
//!
//! The speed of a program is its cost there by its cost here; several programs have the geometric mean of
//! theirs. [`SpeedBy`] says how the runs are combined. A program that was ended at the time limit costs at least
//! the limit, so a median among such runs is only a bound (it is *censored*). Runs with a wrong result are left
//! out.

use crate::data::SpeedBy;
use crate::result::{Certainty, Run, RunCost, Speed};
use mapper_report::statistics::{Estimate, estimate, geometric_mean, median, median_and_range};

/// What the program at a place of its mix cost in these runs.
pub(crate) fn costs<'a>(
    runs: impl IntoIterator<Item = &'a Run>,
    at: usize,
) -> impl Iterator<Item = RunCost> {
    let runs = runs.into_iter();
    runs.filter_map(move |run| Some(run.programs.get(at)?.cost))
}

/// The median of those costs that are valid, over the repetitions at these places.
pub(crate) fn median_cost(runs: &[Run], at: usize, places: &[usize]) -> Option<f64> {
    let drawn = places.iter().filter_map(|&place| runs.get(place));
    let valid: Vec<f64> = costs(drawn, at).filter_map(RunCost::value).collect();
    median(&valid)
}

/// The geometric mean of the median costs of the programs at these places.
pub(crate) fn mean_cost(runs: &[Run], which: &[usize]) -> Option<f64> {
    let all: Vec<usize> = (0..runs.len()).collect();
    let medians = which.iter().map(|&at| median_cost(runs, at, &all));
    geometric_mean(medians.collect::<Option<Vec<_>>>()?)
}

/// How the median of all runs stands to the true one.
pub(crate) fn certainty(runs: &[Run], at: usize) -> Certainty {
    let valid = costs(runs, at).filter_map(RunCost::value).count();
    let at_limit = costs(runs, at).filter(|cost| cost.is_limit()).count();
    match (valid, at_limit) {
        (0, _) => Certainty::Unknown,
        // No run costs more than the limit, so those at it are the last of the row.
        (_, 1..) if 2 * at_limit >= valid => Certainty::AtLeast,
        _ => Certainty::Exact,
    }
}

/// Runs of a mix under a setting and under the one that it is compared with.
#[derive(Clone, Debug)]
pub(crate) struct Compared<'a> {
    pub(crate) base: &'a [Run],
    pub(crate) own: &'a [Run],
    /// The places of the programs that count.
    pub(crate) which: Vec<usize>,
}

impl Compared<'_> {
    pub(crate) fn speed(&self, by: SpeedBy) -> Option<Speed> {
        let estimate = match by {
            SpeedBy::RatioOfMedians => estimate(self.repetitions(), |at| self.ratio_of_medians(at)),
            SpeedBy::MedianOfRatios => median_and_range(&self.ratios()),
        }?;
        Some(Speed {
            estimate,
            certainty: self.certainty(),
        })
    }

    fn repetitions(&self) -> usize {
        self.base.len().max(self.own.len())
    }

    /// The geometric mean of the programs' costs there by those here.
    fn mean(&self, ratio: impl Fn(usize) -> Option<f64>) -> Option<f64> {
        let ratios: Option<Vec<f64>> = self.which.iter().map(|&at| ratio(at)).collect();
        geometric_mean(ratios?)
    }

    /// In the repetitions at these places.
    fn ratio_of_medians(&self, places: &[usize]) -> Option<f64> {
        let median = |runs: &[Run], at| median_cost(runs, at, places);
        self.mean(|at| Some(median(self.base, at)? / median(self.own, at)?))
    }

    /// At each moment that has a run of both. Two runs that were both ended at the limit say nothing of each
    /// other.
    fn ratios(&self) -> Vec<f64> {
        let at_moment = |own: &Run| {
            let base = self.base.iter().find(|run| run.moment == own.moment)?;
            if base.is_over_limit() && own.is_over_limit() {
                return None;
            }
            let cost = |run: &Run, at: usize| run.programs.get(at)?.cost.value();
            self.mean(|at| Some(cost(base, at)? / cost(own, at)?))
        };
        self.own.iter().filter_map(at_moment).collect()
    }

    fn certainty(&self) -> Certainty {
        if std::ptr::eq(self.base, self.own) {
            // Beside itself a setting has exactly its own speed.
            return Certainty::Exact;
        }
        let ends = |&at: &usize| (certainty(self.base, at), certainty(self.own, at));
        let ends = self.which.iter().map(ends);
        all(ends.map(|(base, own)| Certainty::of_ratio(base, own)))
    }
}

fn all(certainties: impl Iterator<Item = Certainty>) -> Certainty {
    certainties.fold(Certainty::Exact, Certainty::and)
}

/// Geometric mean of the speeds of several mixes. A draw of repetitions is the same for all of them, since a
/// repetition goes through all mixes.
pub(crate) fn overall(compared: &[Compared<'_>], by: SpeedBy) -> Option<Speed> {
    let estimate = match by {
        SpeedBy::RatioOfMedians => {
            let count = compared.iter().map(Compared::repetitions).max()?;
            let mean = |places: &[usize]| {
                let means = compared.iter().map(|of| of.ratio_of_medians(places));
                geometric_mean(means.collect::<Option<Vec<f64>>>()?)
            };
            estimate(count, mean)?
        }
        SpeedBy::MedianOfRatios => {
            let speeds = compared.iter().map(|of| of.speed(by));
            let speeds = speeds.collect::<Option<Vec<Speed>>>()?;
            let mean = |of: fn(&Estimate) -> f64| {
                geometric_mean(speeds.iter().map(|speed| of(&speed.estimate)))
            };
            Estimate {
                value: mean(|of| of.value)?,
                low: mean(|of| of.low)?,
                high: mean(|of| of.high)?,
            }
        }
    };
    Some(Speed {
        estimate,
        certainty: all(compared.iter().map(Compared::certainty)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::schedule::tests::run;

    const BOTH: [SpeedBy; 2] = [SpeedBy::MedianOfRatios, SpeedBy::RatioOfMedians];

    fn speed(base: &[Run], own: &[Run], by: SpeedBy) -> Option<Estimate> {
        let which = vec![0, 1];
        let speed = Compared { base, own, which }.speed(by);
        speed.map(|speed| speed.estimate)
    }

    fn is_close(found: f64, wanted: f64) -> bool {
        (found - wanted).abs() < 1e-9
    }

    #[test]
    fn a_median_with_half_of_the_runs_at_the_limit_is_a_bound() {
        // 8 is the limit.
        let runs = |costs: &[f64]| -> Vec<Run> { costs.iter().map(|&c| run(0, &[c])).collect() };
        assert_eq!(certainty(&runs(&[1.0, 1.0, 8.0]), 0), Certainty::Exact);
        assert_eq!(certainty(&runs(&[1.0, 8.0]), 0), Certainty::AtLeast);
        let mut wrong = runs(&[1.0, 2.0, 8.0]);
        wrong[1].reject("wrong".to_owned());
        assert_eq!(median_cost(&wrong, 0, &[0, 1, 2]), Some(4.5));
        assert_eq!(median_cost(&wrong, 0, &[1]), None);
        assert_eq!(certainty(&wrong[1..2], 0), Certainty::Unknown);
    }

    #[test]
    fn a_speed_is_the_other_time_by_the_own_over_the_programs() {
        for by in BOTH {
            let found = speed(&[run(0, &[4.0, 2.0])], &[run(0, &[1.0, 2.0])], by);
            assert!(is_close(found.unwrap().value, 2.0), "{by:?}: {found:?}");
        }
    }

    #[test]
    fn ratios_are_formed_of_runs_of_the_same_moment_that_were_not_both_ended_at_the_limit() {
        let by = SpeedBy::MedianOfRatios;
        let own = [run(0, &[1.0; 2]), run(1, &[3.0; 2])];
        let found = speed(&[run(1, &[6.0; 2])], &own, by);
        assert!(is_close(found.unwrap().value, 2.0), "{found:?}");
        assert_eq!(speed(&[run(7, &[6.0; 2])], &own, by), None);
        let (over, under) = ([run(0, &[8.0; 2])], [run(0, &[2.0; 2])]);
        assert_eq!(speed(&over, &over.clone(), by), None);
        assert!(speed(&over, &under, by).is_some());
    }

    #[test]
    fn one_slow_moment_does_not_make_the_figure() {
        let runs = |seconds: [f64; 3]| -> Vec<Run> {
            let of = |(moment, s): (usize, f64)| run(moment, &[s; 2]);
            seconds.into_iter().enumerate().map(of).collect()
        };
        for by in BOTH {
            let found = speed(&runs([3.0, 3.0, 3.0]), &runs([1.0, 6.0, 1.0]), by).unwrap();
            assert!(is_close(found.value, 3.0), "{by:?}: {found:?}");
            let is_range = is_close(found.low, 0.5) && is_close(found.high, 3.0);
            assert!(is_range || by == SpeedBy::RatioOfMedians, "{found:?}");
        }
    }
}
