//! Medians, ranges, geometric means, and how sure a figure is.
//!
//! Intervals are percentile intervals of the bootstrap: the repetitions of an experiment are drawn again with
//! replacement, as many as there were, and the figure is computed anew from each such draw; 95 % of what comes
//! out lies in the interval (Efron and Tibshirani, *An Introduction to the Bootstrap*, chapter 13). A draw is a
//! list of repetitions, so a figure that compares settings takes each of them from the same moments. The draws
//! come from a fixed seed: the same runs give the same interval.

use mapper_model::random::SplitMix64;
use serde::Serialize;

/// Draws behind an interval.
const DRAWS: usize = 2000;

/// Share of the draws that lies beyond each end of an interval.
const TAIL: f64 = 0.025;

/// A figure with an interval: of 95 %, or the range of its samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// The figure that `statistic` computes from repetitions, which it is given by their places among
/// `count`; nothing if it cannot be computed from all of them.
pub fn estimate(count: usize, statistic: impl Fn(&[usize]) -> Option<f64>) -> Option<Estimate> {
    let all: Vec<usize> = (0..count).collect();
    let value = statistic(&all)?;
    let mut random = SplitMix64::new(0x6d61_7070_6572);
    let mut draw = all;
    let again = (0..DRAWS).filter_map(|_| {
        draw.fill_with(|| below(&mut random, count));
        statistic(&draw)
    });
    let mut drawn: Vec<f64> = again.collect();
    drawn.sort_by(f64::total_cmp);
    Some(Estimate {
        value,
        low: quantile(&drawn, TAIL).unwrap_or(value),
        high: quantile(&drawn, 1.0 - TAIL).unwrap_or(value),
    })
}

/// The value below which this share of the sorted values lies.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((share * last as f64).round() as usize).copied()
}

/// A number below `end`, which is far below 2^32, so that no number is favoured noticeably.
fn below(random: &mut SplitMix64, end: usize) -> usize {
    let product = u128::from(random.next_u64()) * end as u128;
    usize::try_from(product >> 64).unwrap_or(0)
}

/// The median, the mean of the middle two for an even count; nothing for an empty slice.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    match sorted.len() % 2 {
        1 => Some(upper),
        _ => Some((sorted.get(middle.checked_sub(1)?)? + upper) / 2.0),
    }
}

/// The geometric mean of ratios; nothing for no ratios or when one is not positive.
pub fn geometric_mean(ratios: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut logarithms, mut count) = (0.0, 0_u32);
    for ratio in ratios {
        if !(ratio > 0.0 && ratio.is_finite()) {
            return None;
        }
        logarithms += ratio.ln();
        count += 1;
    }
    (count > 0).then(|| (logarithms / f64::from(count)).exp())
}

/// The median of values with their range; nothing for no values.
pub fn median_and_range(values: &[f64]) -> Option<Estimate> {
    Some(Estimate {
        value: median(values)?,
        low: values.iter().copied().min_by(f64::total_cmp)?,
        high: values.iter().copied().max_by(f64::total_cmp)?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_average_is_the_middle_value_or_the_root_of_the_product() {
        for (values, middle) in [
            (&[9.0, 1.0, 2.0][..], Some(2.0)),
            (&[4.0, 1.0, 100.0, 2.0], Some(3.0)),
            (&[], None),
        ] {
            assert_eq!(median(values), middle);
        }
        // Doubling and halving cancel.
        let mean = geometric_mean([2.0, 0.5]).unwrap();
        assert!((mean - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean([]), None);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(geometric_mean([1.0, bad]), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn averages_lie_between_the_smallest_and_the_largest(
            values in prop::collection::vec(1e-3..1e3_f64, 1..40)
        ) {
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(0.0, f64::max);
            for average in [median(&values).unwrap(), geometric_mean(values.clone()).unwrap()] {
                prop_assert!(average >= least * (1.0 - 1e-9));
                prop_assert!(average <= most * (1.0 + 1e-9));
            }
        }
    }

    /// The figure with its interval, of the median of values.
    fn of_median(values: &[f64]) -> [f64; 3] {
        let drawn = |places: &[usize]| {
            let drawn = places.iter().map(|&place| values[place]);
            drawn.collect::<Vec<_>>()
        };
        let found = estimate(values.len(), |places| median(&drawn(places))).unwrap();
        [found.value, found.low, found.high]
    }

    #[test]
    fn the_interval_of_a_median_follows_from_how_likely_its_draws_are() {
        // Of three values, two or three of the draws are the least one in 7 of 27 cases, so both ends
        // of the interval are ends of the values.
        assert_eq!(of_median(&[30.0, 10.0, 20.0]), [20.0, 10.0, 30.0]);
        // For the numbers 1 to 9 the median of a draw is at most k with the probability that 5 or more of
        // 9 draws are: binomial(9, k/9), 0.0014 for k = 1 and 0.0304 for k = 2. So 2.5 % is reached at
        // 2, and by symmetry 97.5 % at 8.
        let nine = [9.0, 2.0, 7.0, 4.0, 5.0, 6.0, 3.0, 8.0, 1.0];
        assert_eq!(of_median(&nine), [5.0, 2.0, 8.0]);
        // The same runs give the same interval, and none gives nothing.
        assert_eq!(of_median(&nine), of_median(&nine));
        assert_eq!(estimate(0, |_| None), None);
    }

    /// Both settings slow down together in the second half; the ratio never changes.
    #[test]
    fn a_ratio_is_taken_within_the_same_moments() {
        let base = [2.0, 2.0, 2.0, 8.0, 8.0, 8.0];
        let own = [1.0, 1.0, 1.0, 4.0, 4.0, 4.0];
        let ratio = |places: &[usize]| {
            let of =
                |values: &[f64]| median(&places.iter().map(|&p| values[p]).collect::<Vec<_>>());
            Some(of(&base)? / of(&own)?)
        };
        let found = estimate(6, ratio).unwrap();
        assert_eq!((found.value, found.low, found.high), (2.0, 2.0, 2.0));
    }

    /// The first outputs of the reference implementation for the seed 1234567.
    #[test]
    fn the_generator_is_the_published_one() {
        let mut random = SplitMix64::new(1_234_567);
        for published in [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ] {
            assert_eq!(random.next_u64(), published);
        }
    }
}
