//! The line through a curve around one count, where its samples scatter.
//!
//! The difference of two neighbouring counts drowns in the scatter, but many counts together show how an
//! application scales. So decisions rest on a straight line through the points around the count, in
//! logarithms of both: its height is the performance, its slope the *elasticity*, 1 for perfect scaling
//! and 0 for none (MAPPER's "change in performance for a change in cores" [MAPPER §3.3]).
//!
//! Each point weighs by its samples, and less the further away it is: a curve by Amdahl's law bends by at
//! most 1/8 of the squared distance. Points beyond a factor of two, and those carried over from another
//! phase, are left out. Without scatter single points are compared.

use mapper_model::{Noise, PerformanceCurve};

/// By how much, per squared logarithm of the distance, a curve may differ from the line.
const BEND: f64 = 0.125;
/// How far away points count, as the logarithm of a factor.
const REACH: f64 = std::f64::consts::LN_2;
/// Standard errors by which a count's own samples must differ from the line to overrule it.
const MISFIT: f64 = 4.0;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct LocalFit {
    /// Performance at the count, and its relative standard error.
    pub(crate) performance: f64,
    pub(crate) relative_error: f64,
    /// Absent when only one count is known.
    pub(crate) elasticity: Option<Elasticity>,
}

/// Relative change of performance per relative change of the count: 1 for perfect scaling.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Elasticity {
    pub(crate) value: f64,
    pub(crate) standard_error: f64,
}

/// Fits the line around `cpus`; `None` where nothing within reach is known, or no scatter is.
pub(crate) fn around(curve: &PerformanceCurve, cpus: u32, noise: Noise) -> Option<LocalFit> {
    if cpus == 0 || noise.relative_sd <= 0.0 || noise.degrees_of_freedom < 1.0 {
        return None;
    }
    let sampling = noise.relative_sd * noise.relative_sd;
    // Sums of the weighted least squares.
    let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for point in curve.points() {
        let x = (f64::from(point.cpus) / f64::from(cpus)).ln();
        if x.abs() > REACH || point.mean <= 0.0 || point.carried_over {
            continue;
        }
        let bend = BEND * x * x;
        let weight = 1.0 / (sampling / point.samples.max(1.0) + bend * bend);
        let y = point.mean.ln();
        w += weight;
        wx += weight * x;
        wy += weight * y;
        wxx += weight * x * x;
        wxy += weight * x * y;
    }
    if w <= 0.0 {
        return None;
    }
    let determinant = w * wxx - wx * wx;
    // With one count alone there is no slope.
    let (level, variance, elasticity) = if determinant > 1e-9 * w * w {
        let slope = (w * wxy - wx * wy) / determinant;
        let elasticity = Elasticity {
            value: slope,
            standard_error: (w / determinant).sqrt(),
        };
        ((wy - slope * wx) / w, wxx / determinant, Some(elasticity))
    } else {
        (wy / w, 1.0 / w, None)
    };
    let (mut performance, mut relative_error) = (level.exp(), variance.sqrt());
    // Readings may hold anything: an overflow gives no line.
    let sound = performance.is_finite()
        && relative_error.is_finite()
        && elasticity.is_none_or(|e| e.value.is_finite() && e.standard_error.is_finite());
    if !sound {
        return None;
    }
    if let Some(own) = curve.at(cpus) {
        let own_error = noise.relative_sd / own.samples.max(1.0).sqrt();
        // Next to a cliff the line is wrong, and the count's own samples are right.
        if (performance - own.mean).abs() > MISFIT * own_error * own.mean {
            (performance, relative_error) = (own.mean, own_error);
        }
    }
    Some(LocalFit {
        performance,
        relative_error,
        elasticity,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOISE: Noise = Noise {
        relative_sd: 0.05,
        degrees_of_freedom: 30.0,
    };

    /// A curve with many samples at each count.
    fn curve(counts: &[u32], performance: impl Fn(f64) -> f64) -> PerformanceCurve {
        let mut curve = PerformanceCurve::new();
        for &cpus in counts {
            for _ in 0..16 {
                curve.record(cpus, performance(f64::from(cpus)), 0, 1.0 / 16.0);
            }
        }
        curve
    }

    #[test]
    fn the_slope_of_perfect_scaling_is_one_and_of_none_is_zero() {
        for (exponent, expected) in [(1.0, 1.0), (0.0, 0.0), (0.5, 0.5), (-0.5, -0.5)] {
            let curve = curve(&[34, 40, 44, 60], |cpus| 3.0 * cpus.powf(exponent));
            let fit = around(&curve, 44, NOISE).unwrap();
            let slope = fit.elasticity.unwrap();
            assert!((slope.value - expected).abs() < 1e-9, "{slope:?}");
            assert!((fit.performance - 3.0 * 44f64.powf(exponent)).abs() < 1e-9);
        }
    }

    #[test]
    fn by_amdahls_law_the_line_is_off_by_less_than_the_bend_it_allows() {
        for serial in [0.01, 0.05, 0.2] {
            let law = |cpus: f64| 1.0 / (serial + (1.0 - serial) / cpus);
            let fit = around(&curve(&[20, 24, 28, 34, 40], law), 28, NOISE).unwrap();
            assert!((fit.performance / law(28.0) - 1.0).abs() < 0.01, "{fit:?}");
            let slope = ((1.0 - serial) / 28.0) * law(28.0);
            let fitted = fit.elasticity.unwrap().value;
            assert!((fitted - slope).abs() < 0.05, "{fit:?}");
        }
    }

    #[test]
    fn more_counts_make_the_slope_surer_and_one_count_gives_none() {
        let error = |counts: &[u32]| {
            let fit = around(&curve(counts, |cpus| cpus), 40, NOISE).unwrap();
            fit.elasticity.map(|slope| slope.standard_error)
        };
        assert_eq!(error(&[40]), None);
        assert!(error(&[30, 34, 40]).unwrap() < error(&[34, 40]).unwrap());
        assert!(error(&[34, 40]).unwrap() < error(&[38, 40]).unwrap());
    }

    #[test]
    fn next_to_a_cliff_the_samples_of_the_count_itself_count() {
        let step = |cpus| if cpus < 36.0 { 10.0 } else { 30.0 };
        let cliff = curve(&[34, 36, 38, 40], step);
        let fit = around(&cliff, 36, NOISE).unwrap();
        assert!((fit.performance - 30.0).abs() < 1e-9, "{fit:?}");
    }

    #[test]
    fn without_scatter_or_without_knowing_it_nothing_is_fitted() {
        let curve = curve(&[34, 40], |cpus| cpus);
        assert!(around(&curve, 40, Noise::default()).is_none());
        let exact = Noise {
            relative_sd: 0.0,
            ..NOISE
        };
        assert!(around(&curve, 40, exact).is_none());
        let absurd = PerformanceCurve::from_points([(34, 1e308), (40, 1e-308)]);
        let fit = around(&absurd, 40, NOISE);
        assert!(fit.is_none_or(|fit| fit.performance.is_finite()));
    }
}
