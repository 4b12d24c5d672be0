//! Equations 2 to 6 of MAPPER, from an application's performance curve, in the unit of its source:
//!
//! * `MaxFairPerf` = the best performance known at any count up to the fair share (eq. 2; inclusive,
//!   over measured counts, [readings R3.1]),
//! * `MinGuaranteed` = QoS × `MaxFairPerf` (eq. 3),
//! * `Extra` = performance now − `MinGuaranteed` (eq. 4),
//! * `Spare` = ⌊`Extra` × CPUs ÷ performance⌋ within 0 and CPUs − 1 (eq. 5, [readings R3.3]),
//! * `Eff[k]` = performance at k ÷ k; `NormEff[k]` = `Eff[k]` over the best `Eff` known at any count
//!   (eq. 6, [readings R3.4]).
//!
//! Invariants: only CPUs known to be spare are spared (no measurement up to the fair share, or none at
//! the present count: 0, [readings R3.2]); a promise that cannot be kept spares nothing [readings R3.18];
//! under the veto, nothing is spared up to or beyond a count known to break the promise
//! [readings R3.20].

use super::fit;
use mapper_model::{CurvePoint, Noise, PerformanceCurve};

/// What rounding may take from a product that is a whole number on paper.
const ROUNDING: f64 = 1e-9;

/// Which value of a curve point counts as the performance at that count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PointValue {
    /// The mean of the last two samples, as the paper keeps it [readings R3.11].
    LastTwo,
    /// The running mean over all samples of the phase, which scatters less.
    Running,
}

impl PointValue {
    /// The performance at a point.
    pub const fn of(self, point: &CurvePoint) -> f64 {
        match self {
            Self::LastTwo => point.perf,
            Self::Running => point.mean,
        }
    }
}

/// Whether known violations limit what is spared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HistoryVeto {
    /// Nothing is spared up to or beyond a count known to break the promise [readings R3.20].
    Obeyed,
    /// Only equation 5 counts.
    Ignored,
}

/// The rules of the metrics.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MetricsRules {
    /// The fair share (eq. 1).
    pub fair: u32,
    /// The promise (eq. 3).
    pub qos: f64,
    /// Whether known violations limit what is spared.
    pub veto: HistoryVeto,
    /// What counts as performance. With the running mean, a fair share that was never held is judged by
    /// the line between the measured counts around it; otherwise an application seen at 24 and 28 CPUs
    /// would be promised no more than 24 bring, though 26 are its fair share.
    pub value: PointValue,
    /// Scatter of single samples; none for the printed equations. Where samples scatter, performance is
    /// read off the line through the counts around ([`fit`]), and possible errors are not spared.
    pub noise: Noise,
}

/// A credible mean where it is the highest of many: one standard error below the measured one.
fn credible(point: &CurvePoint, rules: &MetricsRules) -> f64 {
    let mean = rules.value.of(point);
    mean * (1.0 - rules.noise.relative_sd.min(1.0) / point.samples.max(1.0).sqrt())
}

/// The line around a point, else its own mean.
fn smoothed(curve: &PerformanceCurve, point: &CurvePoint, rules: &MetricsRules) -> Known {
    fit::around(curve, point.cpus, rules.noise).map_or_else(
        || Known {
            performance: credible(point, rules),
            relative_error: 0.0,
        },
        |fit| Known {
            performance: fit.performance,
            relative_error: fit.relative_error,
        },
    )
}

/// The performance at a count and its relative standard error, 0 where samples do not scatter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Known {
    pub(crate) performance: f64,
    pub(crate) relative_error: f64,
}

/// The best performance known at any count.
pub(crate) fn best(curve: &PerformanceCurve, rules: &MetricsRules) -> Option<Known> {
    highest(curve.points(), rules).map(|point| smoothed(curve, point, rules))
}

fn highest<'p>(points: &'p [CurvePoint], rules: &MetricsRules) -> Option<&'p CurvePoint> {
    points
        .iter()
        .max_by(|a, b| credible(a, rules).total_cmp(&credible(b, rules)))
}

/// The metrics of one application at its present count.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Metrics {
    /// Performance at the present count.
    pub performance: Option<f64>,
    /// Eq. 2.
    pub max_fair_perf: Option<f64>,
    /// Eq. 3.
    pub min_guaranteed: Option<f64>,
    /// Eq. 4.
    pub extra_perf: Option<f64>,
    /// Eq. 5 before rounding and limits.
    pub spare_exact: Option<f64>,
    /// Eq. 5.
    pub spare: u32,
    /// The best efficiency known (eq. 6b).
    pub max_eff: Option<f64>,
    /// The normalized efficiency at the present count (eq. 6c).
    pub norm_eff: Option<f64>,
    /// The standard error of that, relative to it.
    pub norm_eff_error: f64,
}

impl Metrics {
    /// The metrics of an application with this curve that holds `cpus` CPUs.
    pub fn of(curve: &PerformanceCurve, cpus: u32, rules: &MetricsRules) -> Self {
        let points = curve.points();
        let up_to_fair = &points[..points.partition_point(|p| p.cpus <= rules.fair)];
        let mut max_fair_perf =
            highest(up_to_fair, rules).map(|point| smoothed(curve, point, rules).performance);
        let per_cpu = |point: &CurvePoint| credible(point, rules) / f64::from(point.cpus);
        let most_efficient = points
            .iter()
            .max_by(|a, b| per_cpu(a).total_cmp(&per_cpu(b)))
            .map(|point| (point.cpus, smoothed(curve, point, rules)));
        let max_eff = most_efficient.map(|(cpus, known)| known.performance / f64::from(cpus));
        if rules.value == PointValue::Running
            && let (Some(best), Some(there)) =
                (max_fair_perf, interpolated(curve, rules.fair, rules.value))
            && curve.at(rules.fair).is_none()
        {
            max_fair_perf = Some(best.max(there));
        }
        let fit = fit::around(curve, cpus, rules.noise).filter(|_| curve.at(cpus).is_some());
        let performance = match fit {
            Some(fit) => Some(fit.performance),
            None => curve.at(cpus).map(|p| rules.value.of(p)),
        };
        let relative_error = fit.map_or(0.0, |fit| fit.relative_error);
        let min_guaranteed = max_fair_perf.map(|best| rules.qos * best);
        let extra_perf = performance.zip(min_guaranteed).map(|(p, min)| p - min);
        let spare_exact = performance
            .zip(extra_perf)
            .filter(|(p, _)| *p > 0.0)
            .map(|(p, extra)| (extra - relative_error * p) * f64::from(cpus) / p);
        let mut spare = spare_exact.map_or(0, |exact| {
            // Casting clamps a negative number to 0.
            ((exact + ROUNDING).floor() as u32).min(cpus.saturating_sub(1))
        });
        if rules.veto == HistoryVeto::Obeyed
            && let Some(promised) = min_guaranteed.filter(|_| spare_exact.is_some())
        {
            let mut below = curve.points().iter().filter(|p| p.cpus < cpus);
            if let Some(broken) = below.rfind(|p| rules.value.of(p) < promised) {
                spare = spare.min(cpus - broken.cpus - 1);
            }
        }
        Self {
            performance,
            max_fair_perf,
            min_guaranteed,
            extra_perf,
            spare_exact,
            spare,
            max_eff,
            norm_eff: performance
                .zip(max_eff)
                .filter(|(_, max)| *max > 0.0)
                .map(|(p, max)| (p / f64::from(cpus) / max).min(1.0)),
            norm_eff_error: match most_efficient {
                Some((best, known)) if best != cpus => relative_error.hypot(known.relative_error),
                // At its most efficient count it is 1, but another may yet prove more efficient.
                _ => relative_error,
            },
        }
    }
}

/// Efficiency at one count.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Efficiency {
    /// The CPU count.
    pub cpus: u32,
    /// Performance per CPU (eq. 6a).
    pub eff: f64,
    /// Over the best known (eq. 6c).
    pub norm_eff: f64,
}

/// The efficiency at every known count.
pub fn efficiencies(curve: &PerformanceCurve, value: PointValue) -> Vec<Efficiency> {
    let eff = |point: &CurvePoint| value.of(point) / f64::from(point.cpus);
    let max = curve.points().iter().map(eff).fold(0.0, f64::max);
    curve
        .points()
        .iter()
        .map(|point| Efficiency {
            cpus: point.cpus,
            eff: eff(point),
            norm_eff: if max > 0.0 { eff(point) / max } else { 0.0 },
        })
        .collect()
}

/// Performance at a count on the line between two known ones; `None` outside what is known.
pub fn interpolated(curve: &PerformanceCurve, cpus: u32, value: PointValue) -> Option<f64> {
    let points = curve.points();
    let above = points.partition_point(|p| p.cpus < cpus);
    let upper = points.get(above)?;
    if upper.cpus == cpus {
        return Some(value.of(upper));
    }
    let lower = points.get(above.checked_sub(1)?)?;
    let part = f64::from(cpus - lower.cpus) / f64::from(upper.cpus - lower.cpus);
    Some(value.of(lower) + part * (value.of(upper) - value.of(lower)))
}

/// Whether performance is below the promise by more than the tolerance [MAPPER §3.3, readings R3.5].
pub fn promise_broken(performance: f64, min_guaranteed: f64, tolerance: f64) -> bool {
    performance < (1.0 - tolerance) * min_guaranteed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(veto: HistoryVeto) -> MetricsRules {
        MetricsRules {
            fair: 40,
            qos: 0.85,
            veto,
            value: PointValue::LastTwo,
            noise: Noise::default(),
        }
    }

    #[test]
    fn only_known_spare_cpus_are_spared() {
        use HistoryVeto::{Ignored, Obeyed};
        for (points, cpus, veto, spare) in [
            (&[][..], 40, Ignored, 0),
            // Nothing known up to the fair share; nothing known here; no performance.
            (&[(48, 41.0)], 48, Ignored, 0),
            (&[(40, 36.0)], 48, Ignored, 0),
            (&[(40, 0.0)], 40, Ignored, 0),
            // Linear gives 6 of 40 away; at 34 the promise of 25.5 is known to break.
            (&[(34, 20.0), (40, 30.0)], 40, Ignored, 6),
            (&[(34, 20.0), (40, 30.0)], 40, Obeyed, 5),
            // A promise that cannot be kept.
            (&[(20, 40.0), (40, 30.0)], 40, Obeyed, 0),
        ] {
            let curve = PerformanceCurve::from_points(points.iter().copied());
            let metrics = Metrics::of(&curve, cpus, &rules(veto));
            assert_eq!(metrics.spare, spare, "{points:?}");
            let broken = metrics.extra_perf.is_some_and(|extra| extra < 0.0);
            assert_eq!(broken, points.first() == Some(&(20, 40.0)));
        }
    }

    #[test]
    fn a_fair_share_that_was_never_held_is_judged_by_the_counts_around_it() {
        let curve = PerformanceCurve::from_points([(36, 36.0), (44, 44.0)]);
        let promised = |value| {
            let rules = MetricsRules {
                value,
                ..rules(HistoryVeto::Obeyed)
            };
            Metrics::of(&curve, 44, &rules).max_fair_perf
        };
        assert_eq!(promised(PointValue::LastTwo), Some(36.0));
        assert_eq!(promised(PointValue::Running), Some(40.0));
    }

    #[test]
    fn between_known_counts_performance_lies_on_the_line() {
        let curve = PerformanceCurve::from_points([(10, 10.0), (20, 15.0)]);
        let at = |cpus| interpolated(&curve, cpus, PointValue::LastTwo);
        assert_eq!([at(10), at(16), at(20)], [10.0, 13.0, 15.0].map(Some));
        assert_eq!([at(9), at(21)], [None, None]);
    }
}
