//! Who gets which CPUs, and how much work is a share of the work.

use std::path::PathBuf;

/// What a program has under a fair division among several.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Share {
    pub(crate) cpus: Vec<usize>,
    /// The threads that suit it.
    pub(crate) threads: usize,
}

/// Splits the CPUs into a fair share for each of `programs`: CPUs of its own if there are enough, the
/// first programs having one more where it does not divide. Of fewer CPUs than programs each program has
/// those that its part of the row of CPUs touches, and one thread: of two CPUs, the first of three
/// programs has the first, the second either, the third the second.
pub(crate) fn fair_division(cpus: &[usize], programs: usize) -> Vec<Share> {
    let is_crowded = cpus.len() < programs;
    let (each, more) = (cpus.len() / programs.max(1), cpus.len() % programs.max(1));
    let share = |place: usize| {
        let (begin, end) = if is_crowded {
            let begin = place * cpus.len() / programs;
            (begin, ((place + 1) * cpus.len()).div_ceil(programs))
        } else {
            let begin = place * each + place.min(more);
            (begin, begin + each + usize::from(place < more))
        };
        Share {
            cpus: cpus.get(begin..end).unwrap_or(cpus).to_vec(),
            threads: if is_crowded { 1 } else { end - begin },
        }
    };
    (0..programs).map(share).collect()
}

/// Where a CPU is: nearness in this order.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Place {
    pub(crate) node: usize,
    pub(crate) package: usize,
    pub(crate) core: usize,
}

/// The CPUs in an order in which neighbours are near each other: siblings of a core, then cores of a
/// node. Numbers alone say nothing: many machines number the second siblings after all first ones, or the
/// nodes in turn.
pub(crate) fn by_nearness(cpus: &[usize], place: impl Fn(usize) -> Option<Place>) -> Vec<usize> {
    let mut ordered = cpus.to_vec();
    ordered.sort_by_key(|&cpu| (place(cpu), cpu));
    ordered
}

/// Where the kernel says that a CPU is; nothing if it does not say.
pub(crate) fn place_of(cpu: usize) -> Option<Place> {
    let folder = PathBuf::from(format!("/sys/devices/system/cpu/cpu{cpu}"));
    let number = |name: &str| {
        let text = std::fs::read_to_string(folder.join("topology").join(name)).ok()?;
        text.trim().parse().ok()
    };
    let node = std::fs::read_dir(&folder).ok()?.find_map(|entry| {
        let name = entry.ok()?.file_name();
        name.to_str()?.strip_prefix("node")?.parse().ok()
    });
    Some(Place {
        // Kernels without nodes have one.
        node: node.unwrap_or(0),
        package: number("physical_package_id")?,
        core: number("core_id")?,
    })
}

/// `steps` times `factor`, at least one.
pub(crate) fn scaled(steps: u64, factor: f64) -> u64 {
    ((steps as f64 * factor).round() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(cpus: usize, programs: usize) -> Vec<Vec<usize>> {
        let cpus: Vec<usize> = (0..cpus).collect();
        let shares = fair_division(&cpus, programs);
        shares.into_iter().map(|share| share.cpus).collect()
    }

    #[test]
    fn programs_have_cpus_of_their_own_where_there_are_enough_and_share_evenly_else() {
        for count in 2..9 {
            let shares = divided(count, 2);
            assert!(shares[0].len() - shares[1].len() <= 1);
            assert_eq!(shares.concat(), (0..count).collect::<Vec<_>>());
        }
        assert_eq!(divided(4, 3), [vec![0, 1], vec![2], vec![3]]);
        assert_eq!(divided(8, 4)[3], [6, 7]);
        assert_eq!(divided(2, 3), [vec![0], vec![0, 1], vec![1]]);
        assert_eq!(divided(2, 4), [vec![0], vec![0], vec![1], vec![1]]);
        assert_eq!(divided(1, 2), [vec![0], vec![0]]);
        for (cpus, threads) in [(&[0, 1, 2, 3][..], [2, 1, 1]), (&[0, 1], [1, 1, 1])] {
            let shares = fair_division(cpus, 3).into_iter();
            assert_eq!(shares.map(|of| of.threads).collect::<Vec<_>>(), threads);
        }
    }

    #[test]
    fn shares_are_whole_cores_and_nodes_however_cpus_are_numbered() {
        // Two nodes of two cores of two: nodes in turn, second siblings from 4 on.
        let place = |cpu: usize| {
            Some(Place {
                node: cpu % 2,
                package: cpu % 2,
                core: cpu % 4 / 2,
            })
        };
        let cpus: Vec<usize> = (0..8).collect();
        let ordered = by_nearness(&cpus, place);
        assert_eq!(ordered, [0, 4, 2, 6, 1, 5, 3, 7]);
        assert_eq!(fair_division(&ordered, 2)[1].cpus, [1, 5, 3, 7]);
        assert_eq!(by_nearness(&[3, 1, 2], |_| None), [1, 2, 3]);
    }
}
