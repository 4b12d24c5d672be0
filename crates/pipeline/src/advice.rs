//! What a further CPU would bring, and which programs go well together, by the speeds that a policy expects.
//!
//! Speeds are those on one CPU, on two and so on, as shares of the speed on all CPUs.

/// How two programs would divide the CPUs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Together {
    /// The CPUs of each.
    pub cpus: [u32; 2],
    /// Their speeds on these.
    pub speeds: [f64; 2],
}

impl Together {
    /// The work of both in a time, against that of one after the other, each on all CPUs.
    pub fn work(&self) -> f64 {
        self.speeds.iter().sum()
    }
}

/// The division of all CPUs in which the geometric mean of both speeds is greatest; `None` with fewer than two CPUs.
pub fn together(one: &[f64], other: &[f64]) -> Option<Together> {
    let all = one.len().min(other.len());
    let divisions = (1..all).map(|cpus| Together {
        cpus: [cpus, all - cpus].map(|cpus| u32::try_from(cpus).unwrap_or(u32::MAX)),
        speeds: [one[cpus - 1], other[all - cpus - 1]],
    });
    let mean = |division: &Together| division.speeds[0] * division.speeds[1];
    divisions.max_by(|a, b| mean(a).total_cmp(&mean(b)))
}

/// What one CPU more than this would add to a speed, as a share of it; `None` where there is none.
pub fn one_more(speeds: &[f64], cpus: u32) -> Option<f64> {
    let now = usize::try_from(cpus).ok()?.checked_sub(1)?;
    let gain = speeds.get(now + 1)? / speeds.get(now)? - 1.0;
    gain.is_finite().then_some(gain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A program with this serial share.
    fn amdahl(serial: f64, cpus: u32) -> Vec<f64> {
        let time = |cpus: u32| serial + (1.0 - serial) / f64::from(cpus);
        (1..=cpus).map(|k| time(cpus) / time(k)).collect()
    }

    #[test]
    fn who_scales_worse_needs_fewer_cpus_and_goes_better_with_another() {
        let (parallel, half) = (amdahl(0.0, 8), amdahl(0.5, 8));
        let both = together(&parallel, &half).unwrap();
        assert!(both.cpus[0] > both.cpus[1], "{both:?}");
        let alike = together(&parallel, &parallel).unwrap();
        assert_eq!(alike.cpus, [4, 4]);
        assert!((alike.work() - 1.0).abs() < 1e-9);
        assert!(both.work() > 1.3, "{both:?}");
        assert_eq!(together(&[1.0], &[1.0]), None);
    }

    #[test]
    fn a_further_cpu_brings_what_the_next_count_is_faster() {
        let speeds = amdahl(0.0, 4);
        assert!((one_more(&speeds, 2).unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(one_more(&speeds, 4), None);
        assert_eq!(one_more(&speeds, 0), None);
        assert_eq!(one_more(&[0.0, 1.0], 1), None);
    }

    proptest! {
        #[test]
        fn a_division_uses_all_cpus_and_no_other_is_better(
            one in prop::collection::vec(0.01..1.0, 2..40),
            seed in 0.0..1.0f64,
        ) {
            let all = one.len();
            let other: Vec<f64> = one.iter().map(|speed| speed * seed + 0.01).collect();
            let best = together(&one, &other).unwrap();
            prop_assert_eq!(best.cpus.iter().sum::<u32>() as usize, all);
            for cpus in 1..all {
                let mean = one[cpus - 1] * other[all - cpus - 1];
                prop_assert!(mean <= best.speeds[0] * best.speeds[1]);
            }
        }
    }
}
