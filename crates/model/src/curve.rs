//! The measured performance of an application at each CPU count it has been given.
//!
//! Each point keeps the paper's mean over the last two samples [MAPPER §3.3, readings R3.11], and a running mean and
//! variance in which old samples fade, for statistical tests. Values are in the unit of one performance source.

use crate::statistics::{Estimate, Noise};
use serde::{Deserialize, Serialize};

/// What is known at one CPU count.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CurvePoint {
    /// The CPU count.
    pub cpus: u32,
    /// Mean of the last (at most) two samples: the paper's `Perf[k]`.
    pub perf: f64,
    /// The last sample.
    pub last: f64,
    /// Running mean in which old samples fade.
    pub mean: f64,
    /// Running variance of single samples around that mean.
    pub variance: f64,
    /// Weight of the samples in the mean: how many it is worth, at most `1 / fading`.
    pub samples: f64,
    /// Decision at which the last sample was taken.
    pub tick: u64,
    /// Not measured in this phase: carried over from another.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub carried_over: bool,
}

impl CurvePoint {
    /// The running mean with the number of samples it is worth.
    pub const fn estimate(&self) -> Estimate {
        Estimate {
            mean: self.mean,
            samples: self.samples,
        }
    }
}

/// Performance by CPU count, in ascending order of the count.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PerformanceCurve {
    points: Vec<CurvePoint>,
}

/// Plausible performances besides 0; within these bounds squares and quotients stay finite.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 1e-60..=1e60;
fn is_plausible(perf: f64) -> bool {
    perf == 0.0 || PLAUSIBLE.contains(&perf)
}

impl PerformanceCurve {
    /// No point known.
    pub const fn new() -> Self {
        Self { points: Vec::new() }
    }

    /// A curve with one sample at each count; implausible values and counts of 0 are left out.
    pub fn from_points(points: impl IntoIterator<Item = (u32, f64)>) -> Self {
        let mut curve = Self::new();
        for (cpus, perf) in points {
            curve.record(cpus, perf, 0, 0.25);
        }
        curve
    }

    /// Adds a sample. `fading` in (0, 1] is the weight of the newest sample once many are known. An
    /// implausible sample, or a count of 0, changes nothing.
    pub fn record(&mut self, cpus: u32, perf: f64, tick: u64, fading: f64) {
        if cpus == 0 || !is_plausible(perf) {
            return;
        }
        match self.points.binary_search_by_key(&cpus, |p| p.cpus) {
            Err(place) => self.points.insert(
                place,
                CurvePoint {
                    cpus,
                    perf,
                    last: perf,
                    mean: perf,
                    samples: 1.0,
                    tick,
                    ..CurvePoint::default()
                },
            ),
            Ok(place) => {
                let p = &mut self.points[place];
                p.perf = f64::midpoint(p.last, perf);
                p.last = perf;
                p.samples = (p.samples + 1.0).min(1.0 / fading.clamp(1e-6, 1.0));
                // Welford's update with a weight that never falls below `fading`.
                let weight = 1.0 / p.samples;
                let delta = perf - p.mean;
                p.mean += weight * delta;
                p.variance = (1.0 - weight) * (p.variance + weight * delta * delta);
                p.tick = tick;
                p.carried_over = false;
            }
        }
    }

    /// The point of a count.
    pub fn at(&self, cpus: u32) -> Option<&CurvePoint> {
        self.points
            .binary_search_by_key(&cpus, |p| p.cpus)
            .ok()
            .map(|i| &self.points[i])
    }

    /// All points in ascending order of the count.
    pub fn points(&self) -> &[CurvePoint] {
        &self.points
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Forgets everything (the source or the phase has changed).
    pub fn clear(&mut self) {
        self.points.clear();
    }

    /// Carries the curve over into a new phase, in which performance at the present count is `ratio`
    /// times what it was: every point is scaled and counts as one old sample, so that the shape and the
    /// promised floor survive until new samples outweigh them. A ratio that is not positive, or makes
    /// a performance implausible, clears the curve.
    pub fn rescale(&mut self, ratio: f64) {
        let fits = |point: &CurvePoint| {
            is_plausible(point.perf * ratio) && is_plausible(point.mean * ratio)
        };
        if !(ratio > 0.0 && is_plausible(ratio) && self.points.iter().all(fits)) {
            self.clear();
            return;
        }
        for point in &mut self.points {
            point.perf *= ratio;
            point.last = point.perf;
            point.mean *= ratio;
            point.variance *= ratio * ratio;
            point.samples = 1.0;
            point.carried_over = true;
        }
    }

    /// Limits the weight of the samples at a count, so that new ones soon outweigh them.
    pub fn limit_samples(&mut self, cpus: u32, samples: f64) {
        if let Ok(place) = self.points.binary_search_by_key(&cpus, |p| p.cpus) {
            let point = &mut self.points[place];
            point.samples = point.samples.min(samples.max(1.0));
        }
    }

    /// The scatter of single samples relative to the mean, pooled over all counts with several.
    pub fn noise(&self) -> Noise {
        let (mut squares, mut degrees_of_freedom) = (0.0, 0.0);
        for point in &self.points {
            if point.samples > 1.0 && point.mean > 0.0 {
                // `variance` is the mean square; times n/(n-1) it is unbiased, and it weighs n-1.
                squares += point.samples * point.variance / (point.mean * point.mean);
                degrees_of_freedom += point.samples - 1.0;
            }
        }
        let relative_sd = if degrees_of_freedom > 0.0 {
            (squares / degrees_of_freedom).sqrt()
        } else {
            0.0
        };
        Noise {
            // Below this it is the rounding of the arithmetic, not scatter.
            relative_sd: if relative_sd < 1e-9 { 0.0 } else { relative_sd },
            degrees_of_freedom,
        }
    }

    /// Keeps only the points for which `keep` holds.
    pub fn retain(&mut self, keep: impl FnMut(&CurvePoint) -> bool) {
        self.points.retain(keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_the_mean_of_its_last_two_samples() {
        let mut curve = PerformanceCurve::new();
        let means: Vec<f64> = [10.0, 12.0, 20.0, 8.0]
            .into_iter()
            .map(|sample| {
                curve.record(4, sample, 0, 0.25);
                curve.at(4).unwrap().perf
            })
            .collect();
        assert_eq!(means, [10.0, 11.0, 16.0, 14.0]);
    }

    #[test]
    fn old_samples_fade_from_the_running_mean() {
        let mut curve = PerformanceCurve::new();
        for _ in 0..50 {
            curve.record(2, 100.0, 0, 0.25);
        }
        for _ in 0..20 {
            curve.record(2, 10.0, 0, 0.25);
        }
        assert!((curve.at(2).unwrap().mean - 10.0).abs() < 0.5);
    }

    #[test]
    fn the_noise_is_pooled_over_counts_and_relative_to_their_means() {
        let mut curve = PerformanceCurve::new();
        assert_eq!(curve.noise().degrees_of_freedom, 0.0);
        for (cpus, scale) in [(2, 1.0), (4, 50.0)] {
            // Unbiased variance of 0.9, 1.0, 1.1 is 0.01.
            for sample in [0.9, 1.0, 1.1] {
                curve.record(cpus, sample * scale, 0, 0.1);
            }
        }
        let noise = curve.noise();
        assert!((noise.relative_sd - 0.1).abs() < 1e-12, "{noise:?}");
        assert_eq!(noise.degrees_of_freedom, 4.0);
    }

    #[test]
    fn a_new_phase_keeps_the_shape_of_the_curve() {
        let mut curve = PerformanceCurve::from_points([(2, 10.0), (4, 16.0)]);
        curve.rescale(0.5);
        let known: Vec<(u32, f64)> = curve.points().iter().map(|p| (p.cpus, p.mean)).collect();
        assert_eq!(known, [(2, 5.0), (4, 8.0)]);
        curve.record(2, 5.0, 1, 0.25);
        assert!(!curve.at(2).unwrap().carried_over && curve.at(4).unwrap().carried_over);
        curve.rescale(f64::NAN);
        assert!(curve.is_empty());
    }

    #[test]
    fn implausible_samples_are_ignored_and_every_number_stays_finite() {
        let mut curve = PerformanceCurve::new();
        for (cpus, sample) in [(0, 1.0), (1, f64::NAN), (1, f64::INFINITY), (1, -1.0)] {
            curve.record(cpus, sample, 0, 0.25);
        }
        assert!(curve.is_empty());
        for sample in [
            1e300,
            1.0,
            1e60,
            1e-300,
            1e-60,
            0.0,
            f64::MAX,
            f64::NAN,
            -1.0,
        ] {
            curve.record(2, sample, 0, 0.25);
            let point = curve.at(2);
            assert!(point.is_none_or(|p| p.variance.is_finite() && p.mean.is_finite()));
            assert!(curve.noise().relative_sd.is_finite());
        }
        curve.rescale(1e30);
        assert!(curve.is_empty());
    }
}
