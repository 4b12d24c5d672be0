//! The best division of the CPUs: the greatest sum of values, within every application's limits, by
//! dynamic programming over applications and CPUs.
//!
//! Exact for any values, concave or not; curves have steps where an application comes to fit into one
//! region. CPUs are counted in grains to bound the cost on large machines; with up to [`MOST_GRAINS`] CPUs
//! a grain is a CPU. Cost: applications times grains squared at most.

/// The most grains that CPUs are divided into.
const MOST_GRAINS: u32 = 160;

/// The fewest and the most CPUs of an application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    pub(crate) least: u32,
    pub(crate) most: u32,
}

/// How the division is sought.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Dividing {
    /// The best of all.
    #[default]
    Exactly,
    /// One CPU after the other where it gains most: exact only for concave values.
    OneByOne,
}

/// The division by [`Dividing::OneByOne`]; `None` when the least counts do not fit together.
pub(crate) fn one_by_one(
    cpus: u32,
    limits: &[Limits],
    value: impl Fn(usize, u32) -> f64,
) -> Option<Vec<u32>> {
    let mut counts: Vec<u32> = limits.iter().map(|l| l.least).collect();
    let least = counts.iter().fold(0u32, |sum, c| sum.saturating_add(*c));
    for _ in 0..cpus.checked_sub(least)? {
        let gains = counts.iter().zip(limits).enumerate();
        let best = gains
            .filter(|(_, (count, limits))| **count < limits.most)
            .map(|(at, (&count, _))| (at, value(at, count + 1) - value(at, count)))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((at, _)) = best.filter(|(_, gain)| *gain > 0.0) else {
            break;
        };
        counts[at] += 1;
    }
    Some(counts)
}

/// The count of each application; `None` when the least counts do not fit together. `value` is what a
/// count is worth to the application at a place. Of equal divisions one that leaves more CPUs free.
pub(crate) fn best(
    cpus: u32,
    limits: &[Limits],
    value: impl Fn(usize, u32) -> f64,
) -> Option<Vec<u32>> {
    let least = limits
        .iter()
        .fold(0u32, |sum, l| sum.saturating_add(l.least));
    let rest = cpus.checked_sub(least)?;
    let grain = rest.div_ceil(MOST_GRAINS).max(1);
    let grains = rest / grain;
    // The best sum with up to so many grains, and what the last application took for it.
    let mut sums = vec![0.0_f64; grains as usize + 1];
    let mut taken: Vec<Vec<u32>> = Vec::with_capacity(limits.len());
    for (place, limits) in limits.iter().enumerate() {
        let most = (limits.most.saturating_sub(limits.least) / grain).min(grains);
        let values: Vec<f64> = (0..=most)
            .map(|own| value(place, limits.least + own * grain))
            .collect();
        let takes: Vec<(u32, f64)> = (0..=grains as usize)
            .map(|total| {
                let mut best = (0, f64::NEG_INFINITY);
                for (own, value) in (0..).zip(&values).take(total + 1) {
                    let sum = sums[total - own as usize] + value;
                    if sum > best.1 {
                        best = (own, sum);
                    }
                }
                best
            })
            .collect();
        sums = takes.iter().map(|(_, sum)| *sum).collect();
        taken.push(takes.iter().map(|(own, _)| *own).collect());
    }
    let mut left = grains as usize;
    let mut counts = vec![0; limits.len()];
    for (place, limits) in limits.iter().enumerate().rev() {
        let own = taken[place][left];
        counts[place] = limits.least + own * grain;
        left -= own as usize;
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: [Limits; 2] = [Limits { least: 1, most: 80 }; 2];

    #[test]
    fn one_by_one_is_exact_for_concave_curves_and_misses_steps() {
        // The geometric mean of powers of the count: in proportion to the powers.
        let powers = [0.9, 0.3];
        let concave = |place: usize, cpus: u32| powers[place] * f64::from(cpus).ln();
        assert_eq!(best(80, &LIMITS, concave), Some(vec![60, 20]));
        assert_eq!(one_by_one(80, &LIMITS, concave), Some(vec![60, 20]));
        let step = |place: usize, cpus: u32| match (place, cpus) {
            (0, 40..) => 9.0,
            (0, _) => 0.0,
            _ => 0.01 * f64::from(cpus),
        };
        assert_eq!(best(80, &LIMITS, step), Some(vec![40, 40]));
        assert_eq!(one_by_one(80, &LIMITS, step), Some(vec![1, 79]));
    }

    #[test]
    fn least_counts_that_do_not_fit_have_no_division() {
        let limits = [Limits { least: 5, most: 9 }; 2];
        assert_eq!(best(9, &limits, |_, _| 0.0), None);
    }

    proptest! {
        #[test]
        fn no_other_division_is_better(
            cpus in 3u32..12,
            bounds in prop::collection::vec((0u32..3, 0u32..12), 1..4),
            values in prop::collection::vec(-5.0..5.0_f64, 60),
        ) {
            let limits: Vec<Limits> = bounds
                .iter()
                .map(|&(least, more)| Limits { least, most: least + more })
                .collect();
            let value = |place: usize, cpus: u32| values[place * 20 + cpus as usize];
            let sum = |counts: &[u32]| -> f64 {
                counts.iter().enumerate().map(|(place, count)| value(place, *count)).sum()
            };
            let mut all = vec![vec![]];
            for l in &limits {
                all = all
                    .iter()
                    .flat_map(|head: &Vec<u32>| {
                        (l.least..=l.most).map(move |c| [head.as_slice(), &[c]].concat())
                    })
                    .collect();
            }
            let fits = |counts: &&Vec<u32>| counts.iter().sum::<u32>() <= cpus;
            let greatest = all.iter().filter(fits).map(|c| sum(c)).reduce(f64::max);
            let found = best(cpus, &limits, value);
            prop_assert_eq!(found.is_some(), greatest.is_some());
            if let (Some(found), Some(greatest)) = (found, greatest) {
                prop_assert!(found.iter().sum::<u32>() <= cpus);
                prop_assert!((sum(&found) - greatest).abs() < 1e-9);
            }
        }
    }
}
