//! The two averages of the report: medians of repetitions, geometric means of speedups.

/// The median, the mean of the middle two for an even count; nothing for an empty slice.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    sorted
        .get(middle.checked_sub(1)?)
        .map(|lower| (lower + upper) / 2.0)
}

/// The geometric mean of ratios; nothing for no ratios or when one is not positive.
pub fn geometric_mean(ratios: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut logarithms = 0.0;
    let mut count = 0_u32;
    for ratio in ratios {
        if !(ratio > 0.0 && ratio.is_finite()) {
            return None;
        }
        logarithms += ratio.ln();
        count += 1;
    }
    (count > 0).then(|| (logarithms / f64::from(count)).exp())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_median_of_an_odd_count_is_the_middle_one() {
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
    }

    #[test]
    fn the_median_of_an_even_count_is_between_the_middle_two() {
        assert_eq!(median(&[4.0, 1.0, 100.0, 2.0]), Some(3.0));
    }

    #[test]
    fn nothing_has_no_average() {
        assert_eq!(median(&[]), None);
        assert_eq!(geometric_mean([]), None);
    }

    #[test]
    fn doubling_and_halving_cancel_in_the_geometric_mean() {
        let mean = geometric_mean([2.0, 0.5]).unwrap();
        assert!((mean - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_ratio_that_is_no_speedup_has_no_geometric_mean() {
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
}
