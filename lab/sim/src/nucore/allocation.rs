//! An allocation of NuCore's, and why there is none.

use crate::machine::Machine;
use crate::presets::PresetError;
use mapper_model::CpuSet;
use mapper_predict::nucore::NuCoreError;

/// Why there is no allocation.
#[derive(Debug, thiserror::Error)]
pub enum AllocationError {
    /// The integer program for this machine has no solution.
    #[error("NuCore's integer program on {0}: {1}")]
    Program(String, #[source] NuCoreError),
    /// The program that measures the machine is missing.
    #[error(transparent)]
    Preset(#[from] PresetError),
    /// There are several programs, so many.
    #[error("NuCore allocates cores to one program alone, and there are {0}: leave the others out")]
    Programs(usize),
}

impl AllocationError {
    pub(super) fn of(machine: &Machine, source: NuCoreError) -> Self {
        Self::Program(machine.name.clone(), source)
    }
}

/// The first hardware thread of the first so many cores of each node.
pub(super) fn cpus(machine: &Machine, cores: &[u32]) -> CpuSet {
    let nodes = (0..).zip(cores);
    let places = nodes.flat_map(|(node, &cores)| (0..cores).map(move |core| [node, core, 0]));
    let cpus = places.filter_map(|place| machine.context_at(place));
    cpus.collect()
}

/// All allocations that differ by one core, with at least one core and no more than `most` of a node.
pub(super) fn adjacent(cores: &[u32], most: u32) -> Vec<Vec<u32>> {
    let changes = cores.iter().enumerate().flat_map(|(node, &count)| {
        let more = (count < most).then_some((node, count + 1));
        let fewer = (count > 0 && cores.iter().sum::<u32>() > 1).then(|| (node, count - 1));
        more.into_iter().chain(fewer)
    });
    let changed = |(node, count)| {
        let mut changed = cores.to_vec();
        changed[node] = count;
        changed
    };
    changes.map(changed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{machine, set};

    #[test]
    fn an_allocation_is_the_first_cores_of_each_node() {
        assert_eq!(cpus(&machine("x7550"), &[2, 0, 1, 0]), set("0-1,16"));
    }

    #[test]
    fn adjacent_allocations_differ_by_one_core_of_one_node() {
        let expected = [[1, 2, 1], [0, 1, 1], [0, 2, 2], [0, 2, 0]];
        assert_eq!(adjacent(&[0, 2, 1], 2), expected);
        assert!(adjacent(&[1], 1).is_empty(), "one core stays");
    }
}
