//! The universal scalability law [Gunther 1993], to be compared with the powers of the `outlook`: the
//! parallel rate at `k` CPUs is
//!
//! ```text
//! R(k) = k / (c₀ + c₁·(k − 1) + c₂·k·(k − 1))
//! ```
//!
//! where `c₁` is contention and `c₂` the cost of agreement. `k / R(k)` is linear in the three, which follow
//! from least squares, every count weighted by its error. As a few counts do not give three numbers, half
//! and twice the known counts are added with the expected power and a wide error.

use super::tally::{RatePoint, Split};

/// The least relative error of a rate; and that of an expectation.
const LEAST: f64 = 0.005;
const EXPECTED: f64 = 0.15;

/// The law of one application.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Universal([f64; 3]);

impl Universal {
    /// The law that fits best, if any; `power` is the power of the count by which a rate should grow.
    pub(crate) fn fit(split: &Split, power: f64) -> Option<Self> {
        let (first, last) = (split.points.first()?, split.points.last()?);
        let guess = |from: &RatePoint, times: f64| {
            let cpus = f64::from(from.cpus) * times;
            (cpus, from.rate * times.powf(power), EXPECTED)
        };
        let known = split.points.iter().map(|p| {
            let error = p.error.max(LEAST);
            (f64::from(p.cpus), p.rate, error)
        });
        let seen = known.chain([guess(first, 0.5), guess(last, 2.0)]);
        let mut sums = [[0.0; 4]; 3];
        for (cpus, rate, error) in seen {
            let value = cpus / rate;
            let terms = [1.0, cpus - 1.0, cpus * (cpus - 1.0), value];
            let weight = (error * value).powi(-2);
            for (row, term) in sums.iter_mut().zip(terms) {
                for (sum, other) in row.iter_mut().zip(terms) {
                    *sum += weight * term * other;
                }
            }
        }
        solve(sums).map(Self).filter(|law| {
            let counts = split.points.iter().map(|p| f64::from(p.cpus));
            counts.clone().all(|cpus| law.per_rate(cpus) > 0.0)
        })
    }

    /// CPUs for each unit of rate.
    fn per_rate(self, cpus: f64) -> f64 {
        let Self([own, contention, agreement]) = self;
        own + contention * (cpus - 1.0) + agreement * cpus * (cpus - 1.0)
    }

    /// The logarithm of the parallel rate at a count; the least number where the law gives none.
    pub(crate) fn ln_rate(self, cpus: u32) -> f64 {
        let cpus = f64::from(cpus.max(1));
        let per_rate = self.per_rate(cpus);
        if per_rate > 0.0 {
            (cpus / per_rate).ln()
        } else {
            f64::MIN_POSITIVE.ln()
        }
    }
}

/// Three linear equations, by elimination with the greatest pivot.
fn solve(mut rows: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for column in 0..3 {
        let pivot = (column..3).max_by(|&a, &b| {
            let size = |row: usize| rows[row][column].abs();
            size(a).total_cmp(&size(b))
        })?;
        rows.swap(column, pivot);
        let top = rows[column];
        if top[column].abs() < f64::MIN_POSITIVE {
            return None;
        }
        for (_, row) in rows.iter_mut().enumerate().filter(|(at, _)| *at != column) {
            let factor = row[column] / top[column];
            for (value, above) in row.iter_mut().zip(top) {
                *value -= factor * above;
            }
        }
    }
    let found = [0, 1, 2].map(|at: usize| rows[at][3] / rows[at][at]);
    found.iter().all(|c| c.is_finite()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_law_behind_many_counts_is_found() {
        let rate = |k: f64| k / (1.0 + 0.05 * (k - 1.0) + 0.001 * k * (k - 1.0));
        let points = [4, 8, 16, 24, 32, 40, 60].map(|cpus| (cpus, rate(f64::from(cpus))));
        let law = Universal::fit(&Split::of(&points, 0.0, 0.0), 0.8).unwrap();
        for cpus in [4, 20, 50] {
            let off = law.ln_rate(cpus) - rate(f64::from(cpus)).ln();
            assert!(off.abs() < 0.02, "{cpus}: {off}");
        }
    }

    #[test]
    fn of_a_single_count_it_expects_what_is_expected_of_any_program() {
        let law = Universal::fit(&Split::of(&[(20, 10.0)], 0.01, 0.0), 0.8).unwrap();
        let power = (law.ln_rate(40) - law.ln_rate(20)) / 2.0_f64.ln();
        assert!((power - 0.8).abs() < 0.05, "{power}");
        assert_eq!(Universal::fit(&Split::default(), 0.8), None);
    }
}
