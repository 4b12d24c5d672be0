//! How far apart two means must be before the difference is more than noise.
//!
//! Rules such as "5 % better" [MAPPER §3.3] on single readings act on chance, so the policies compare
//! means and ask for a significant difference as in Welch's test. The scatter is *relative* to the
//! mean and pooled over all counts of a curve ([`Noise`]), since a count that was just tried has only
//! one or two samples. Nothing panics: arguments outside their range are brought into it.

use crate::checked_f64;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

checked_f64! {
    /// How sure a test must be, one-sided: above 0.5 and below 1.
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "f64"))]
    Confidence, "confidence", |value| value > 0.5 && value < 1.0,
    "give a number above 0.5 and below 1, such as 0.99"
}

impl Confidence {
    /// 99 %, for a comparison that can be repeated.
    pub const USUAL: Self = Self(0.99);
    /// 99.8 %, for long rows of decisions.
    pub const HIGH: Self = Self(0.998);
    /// 99.98 %, for tests in every interval for hours.
    pub const VERY_HIGH: Self = Self(0.9998);
}

/// A mean and the number of samples behind it.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// How many samples it is worth; 0 when there is none.
    pub samples: f64,
}

impl Estimate {
    /// Adds a sample.
    pub fn add(&mut self, sample: f64) {
        self.samples += 1.0;
        self.mean += (sample - self.mean) / self.samples;
    }
}

/// The scatter of single samples relative to their mean, pooled over the counts of a curve.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Noise {
    /// Standard deviation of one sample divided by the mean; 0 when samples do not scatter.
    pub relative_sd: f64,
    /// Degrees of freedom behind it; 0 when no count has two samples.
    pub degrees_of_freedom: f64,
}

impl Noise {
    /// By how many standard errors a value computed from these samples may be off (Student, one-sided);
    /// infinite while the scatter is unknown.
    pub fn quantile(&self, confidence: Confidence) -> f64 {
        if self.degrees_of_freedom < 1.0 {
            f64::INFINITY
        } else {
            student_t_quantile(confidence, self.degrees_of_freedom)
        }
    }

    /// By how much, relative to the mean, an estimate from `samples` samples may be off (Student,
    /// one-sided). Zero without scatter, infinite while it is unknown.
    pub fn margin(&self, samples: f64, confidence: Confidence) -> f64 {
        self.margin_of_inverse(1.0 / samples, confidence)
    }

    /// The margin of the relative difference of two estimates (Welch, with the pooled scatter).
    pub fn margin_of_difference(
        &self,
        one: &Estimate,
        other: &Estimate,
        confidence: Confidence,
    ) -> f64 {
        self.margin_of_inverse(1.0 / one.samples + 1.0 / other.samples, confidence)
    }

    fn margin_of_inverse(&self, inverse_samples: f64, confidence: Confidence) -> f64 {
        if self.degrees_of_freedom < 1.0 {
            return f64::INFINITY;
        }
        if self.relative_sd <= 0.0 {
            return 0.0;
        }
        self.quantile(confidence) * self.relative_sd * inverse_samples.sqrt()
    }
}

/// The quantile of the standard normal distribution (Acklam), relative error below 1.2e-9.
pub fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
    ];
    fn polynomial(coefficients: &[f64], x: f64) -> f64 {
        coefficients.iter().fold(0.0, |sum, c| sum * x + c)
    }
    let p = if p.is_nan() {
        0.5
    } else {
        p.clamp(1e-12, 1.0 - 1e-12)
    };
    let tail = |q: f64| polynomial(&C, q) / (polynomial(&D, q) * q + 1.0);
    if p < 0.024_25 {
        tail((-2.0 * p.ln()).sqrt())
    } else if p > 1.0 - 0.024_25 {
        -tail((-2.0 * (1.0 - p).ln()).sqrt())
    } else {
        let q = p - 0.5;
        let r = q * q;
        polynomial(&A, r) * q / (polynomial(&B, r) * r + 1.0)
    }
}

/// The quantile of Student's t: Hill's algorithm (Communications of the ACM 13, 1970). Fractions of a
/// degree are dropped, which is conservative. Named confidences are looked up, as every decision makes
/// hundreds of tests.
pub fn student_t_quantile(confidence: Confidence, degrees_of_freedom: f64) -> f64 {
    let n = degrees_of_freedom.floor().clamp(1.0, 1e6);
    TABLES
        .iter()
        .find(|table| table.confidence == confidence)
        .and_then(|table| table.quantiles.get(n as usize - 1).copied())
        .unwrap_or_else(|| hill(confidence, n))
}

/// Quantiles at one confidence, for 1, 2, ... degrees of freedom.
struct Table {
    confidence: Confidence,
    quantiles: [f64; 256],
}

static TABLES: LazyLock<[Table; 3]> = LazyLock::new(|| {
    [Confidence::USUAL, Confidence::HIGH, Confidence::VERY_HIGH].map(|confidence| Table {
        confidence,
        quantiles: std::array::from_fn(|place| hill(confidence, place as f64 + 1.0)),
    })
});

fn hill(confidence: Confidence, n: f64) -> f64 {
    use std::f64::consts::{FRAC_PI_2, PI};
    let p = 2.0 * (1.0 - confidence.get());
    if n < 2.0 {
        return 1.0 / (p * FRAC_PI_2).tan();
    }
    if n < 3.0 {
        return (2.0 / (p * (2.0 - p)) - 2.0).sqrt();
    }
    let a = 1.0 / (n - 0.5);
    let b = 48.0 / (a * a);
    let mut c = ((20_700.0 * a / b - 98.0) * a - 16.0) * a + 96.36;
    let d = ((94.5 / (b + c) - 3.0) / b + 1.0) * (a * PI / 2.0).sqrt() * n;
    let mut y = (d * p).powf(2.0 / n);
    if y > 0.05 + a {
        let x = normal_quantile(p * 0.5);
        y = x * x;
        if n < 5.0 {
            c += 0.3 * (n - 4.5) * (x + 0.6);
        }
        c += (((0.05 * d * x - 5.0) * x - 7.0) * x - 2.0) * x + b;
        y = (((((0.4 * y + 6.3) * y + 36.0) * y + 94.5) / c - y - 3.0) / b + 1.0) * x;
        y = (a * y * y).exp_m1();
    } else {
        y = ((1.0 / (((n + 6.0) / (n * y) - 0.089 * d - 0.822) * (n + 2.0) * 3.0)
            + 0.5 / (n + 4.0))
            * y
            - 1.0)
            * (n + 1.0)
            / (n + 2.0)
            + 1.0 / y;
    }
    (n * y).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_agree_with_the_printed_tables() {
        for (confidence, dof, expected) in [
            (0.95, 1.0, 6.3138),
            (0.95, 2.0, 2.9200),
            (0.95, 3.0, 2.3534),
            (0.99, 4.0, 3.7469),
            (0.99, 10.0, 2.7638),
            (0.995, 5.0, 4.0321),
            (0.9995, 15.0, 4.0728),
            (0.975, 120.0, 1.9799),
        ] {
            let got = student_t_quantile(Confidence::new(confidence).unwrap(), dof);
            assert!(
                (got - expected).abs() < 2e-3 * expected,
                "t({confidence}, {dof}) = {got}, table {expected}"
            );
        }
        assert!((normal_quantile(0.975) - 1.959_963_985).abs() < 1e-8);
        assert!((normal_quantile(0.001) + 3.090_232_306).abs() < 1e-8);
    }

    #[test]
    fn a_quantile_that_is_looked_up_is_the_computed_one() {
        for confidence in [Confidence::USUAL, Confidence::HIGH, Confidence::VERY_HIGH] {
            for n in [1.0, 2.0, 3.0, 17.0, 255.0, 256.0, 257.0, 1e5] {
                assert_eq!(student_t_quantile(confidence, n + 0.4), hill(confidence, n));
            }
        }
    }

    #[test]
    fn without_scatter_every_difference_counts_and_with_unknown_scatter_none() {
        let margin = |noise: Noise| {
            let estimate = |samples| Estimate { mean: 1.0, samples };
            noise.margin_of_difference(&estimate(1.0), &estimate(4.0), Confidence::HIGH)
        };
        let known = Noise {
            relative_sd: 0.0,
            degrees_of_freedom: 3.0,
        };
        assert_eq!(margin(known), 0.0);
        assert_eq!(margin(Noise::default()), f64::INFINITY);
    }

    #[test]
    fn more_samples_narrow_the_margin() {
        let noise = Noise {
            relative_sd: 0.05,
            degrees_of_freedom: 9.0,
        };
        let margins: Vec<f64> = [1.0, 2.0, 8.0, 32.0]
            .map(|n| noise.margin(n, Confidence::HIGH))
            .to_vec();
        assert!(margins.windows(2).all(|w| w[1] < w[0]), "{margins:?}");
    }

    #[test]
    fn a_confidence_that_is_none_is_refused_with_the_value() {
        for bad in [0.5, 1.0, 0.0, f64::NAN, -1.0] {
            let error = Confidence::new(bad).unwrap_err().to_string();
            assert!(error.contains("0.99"), "{error}");
        }
    }
}
