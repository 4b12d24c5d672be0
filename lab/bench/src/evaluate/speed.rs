//! The speed of one setting over another, from the runs of both.
//!
//! The speed of a program is its cost there by its cost here; several programs have the geometric mean of
//! theirs. [`SpeedBy`] says how the runs are combined.

use super::cost::{Of, median_cost};
use crate::data::experiment::SpeedBy;
use crate::result::run::Run;
use crate::result::speed::{Certainty, Speed};
use mapper_report::statistics::{Estimate, estimate, geometric_mean, median_and_range};

/// Runs of a mix under a setting and under the one that it is compared with.
#[derive(Clone, Debug)]
pub(crate) struct Compared<'a> {
    pub(crate) base: &'a [Run],
    pub(crate) own: &'a [Run],
    /// The programs that count.
    pub(crate) which: Vec<Of>,
}

impl Compared<'_> {
    /// The mean speed of the programs.
    pub(crate) fn speed(&self, by: SpeedBy) -> Option<Speed> {
        let estimate = match by {
            SpeedBy::RatioOfMedians => {
                estimate(self.repetitions(), |places| self.ratio_of_medians(places))
            }
            SpeedBy::MedianOfRatios => median_and_range(&self.ratios()),
        };
        Some(Speed {
            estimate: estimate?,
            certainty: self.certainty(),
        })
    }

    fn repetitions(&self) -> usize {
        self.base.len().max(self.own.len())
    }

    /// In the repetitions at these places.
    fn ratio_of_medians(&self, places: &[usize]) -> Option<f64> {
        let median =
            |runs: &[Run], of: Of| Some(median_cost(&of.costs(runs, places), of.unit)?.value);
        let ratios: Option<Vec<f64>> = self
            .which
            .iter()
            .map(|&of| Some(median(self.base, of)? / median(self.own, of)?))
            .collect();
        geometric_mean(ratios?)
    }

    /// At each moment that has a run of both. Two runs that were both ended at the limit say nothing of each
    /// other.
    fn ratios(&self) -> Vec<f64> {
        let at_moment = |own: &Run| {
            let base = self.base.iter().find(|run| run.moment == own.moment)?;
            if base.is_over_limit() && own.is_over_limit() {
                return None;
            }
            let cost = |run: &Run, of: Of| of.cost(run)?.in_unit(of.unit);
            let ratios: Option<Vec<f64>> = self
                .which
                .iter()
                .map(|&of| Some(cost(base, of)? / cost(own, of)?))
                .collect();
            geometric_mean(ratios?)
        };
        self.own.iter().filter_map(at_moment).collect()
    }

    fn certainty(&self) -> Certainty {
        if std::ptr::eq(self.base, self.own) {
            // Beside itself a setting has exactly its own speed.
            return Certainty::Exact;
        }
        let of_runs = |runs: &[Run], of: Of| {
            let places: Vec<usize> = (0..runs.len()).collect();
            median_cost(&of.costs(runs, &places), of.unit)
                .map_or(Certainty::Unknown, |of| of.certainty)
        };
        self.which.iter().fold(Certainty::Exact, |certainty, &of| {
            certainty.and(Certainty::of_ratio(
                of_runs(self.base, of),
                of_runs(self.own, of),
            ))
        })
    }
}

/// Geometric mean of the speeds of several mixes. A draw of repetitions is the same for all of them, since a
/// repetition goes through all mixes.
pub(crate) fn overall(compared: &[Compared<'_>], by: SpeedBy) -> Option<Speed> {
    let estimate = match by {
        SpeedBy::RatioOfMedians => {
            let count = compared.iter().map(Compared::repetitions).max()?;
            estimate(count, |places| {
                let means: Option<Vec<f64>> = compared
                    .iter()
                    .map(|of| of.ratio_of_medians(places))
                    .collect();
                geometric_mean(means?)
            })?
        }
        SpeedBy::MedianOfRatios => {
            let speeds: Option<Vec<Speed>> = compared.iter().map(|of| of.speed(by)).collect();
            let speeds = speeds?;
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
    let certainty = compared.iter().fold(Certainty::Exact, |certainty, of| {
        certainty.and(of.certainty())
    });
    Some(Speed {
        estimate,
        certainty,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::program::Unit;
    use crate::run::schedule::tests::run;

    fn speed(base: &[Run], own: &[Run], by: SpeedBy) -> Option<Speed> {
        let which = [0, 1].map(|at| Of {
            at,
            unit: Unit::Seconds,
        });
        Compared {
            base,
            own,
            which: which.to_vec(),
        }
        .speed(by)
    }

    fn value(base: &[Run], own: &[Run], by: SpeedBy) -> f64 {
        speed(base, own, by).unwrap().estimate.value
    }

    #[test]
    fn a_speed_is_the_other_time_by_the_own_over_the_programs() {
        for by in [SpeedBy::MedianOfRatios, SpeedBy::RatioOfMedians] {
            let found = value(&[run(0, &[4.0, 2.0])], &[run(0, &[1.0, 2.0])], by);
            assert!((found - 2.0).abs() < 1e-9, "{by:?}: {found}");
        }
    }

    #[test]
    fn ratios_are_formed_of_runs_of_the_same_moment_only() {
        let own = [run(0, &[1.0; 2]), run(1, &[3.0; 2])];
        let by = SpeedBy::MedianOfRatios;
        let found = value(&[run(1, &[6.0; 2])], &own, by);
        assert!((found - 2.0).abs() < 1e-9, "{found}");
        assert_eq!(speed(&[run(7, &[6.0; 2])], &own, by), None);
    }

    #[test]
    fn runs_that_were_both_ended_at_the_limit_are_not_compared() {
        let (over, under) = ([run(0, &[8.0; 2])], [run(0, &[2.0; 2])]);
        assert_eq!(speed(&over, &over.clone(), SpeedBy::MedianOfRatios), None);
        assert!(speed(&over, &under, SpeedBy::MedianOfRatios).is_some());
    }

    #[test]
    fn one_slow_moment_does_not_make_the_figure() {
        let runs = |seconds: [f64; 3]| -> Vec<Run> {
            let of = |(moment, s): (usize, f64)| run(moment, &[s; 2]);
            seconds.into_iter().enumerate().map(of).collect()
        };
        for by in [SpeedBy::MedianOfRatios, SpeedBy::RatioOfMedians] {
            let found = value(&runs([3.0, 3.0, 3.0]), &runs([1.0, 7.0, 1.0]), by);
            assert!((found - 3.0).abs() < 1e-9, "{by:?}: {found}");
        }
        let found = speed(
            &runs([3.0, 3.0, 3.0]),
            &runs([1.0, 6.0, 1.0]),
            SpeedBy::MedianOfRatios,
        );
        let found = found.unwrap().estimate;
        assert!((found.low - 0.5).abs() < 1e-9 && (found.high - 3.0).abs() < 1e-9);
    }
}
