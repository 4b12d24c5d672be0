//! Who gets which CPUs, and how much work is a share of the work.

/// Splits the CPUs into a fair share for each of two programs. With a single CPU both get it.
pub(crate) fn fair_shares(cpus: &[usize]) -> [Vec<usize>; 2] {
    if cpus.len() < 2 {
        return [cpus.to_vec(), cpus.to_vec()];
    }
    let (first, second) = cpus.split_at(cpus.len().div_ceil(2));
    [first.to_vec(), second.to_vec()]
}

/// `steps` times `factor`, at least one.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "steps are far below 2^53, and the cast of a float saturates"
)]
pub(crate) fn scaled(steps: u64, factor: f64) -> u64 {
    ((steps as f64 * factor).round() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fair_shares_are_disjoint_and_leave_nothing() {
        for count in 2..9 {
            let cpus: Vec<usize> = (0..count).collect();
            let [first, second] = fair_shares(&cpus);
            assert!(first.len() - second.len() <= 1);
            assert_eq!([first, second].concat(), cpus);
        }
    }

    #[test]
    fn a_single_cpu_is_shared() {
        assert_eq!(fair_shares(&[3]), [vec![3], vec![3]]);
    }
}
