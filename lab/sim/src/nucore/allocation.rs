//! An allocation of NuCore's, and why there is none.

use crate::machine::Machine;
use crate::presets::PresetError;
use mapper_model::CpuSet;
use mapper_predict::nucore::NuCoreError;

/// Why there is no allocation.
#[derive(Debug, thiserror::Error)]
pub enum AllocationError {
    /// The integer program has no solution.
    #[error("NuCore's integer program on {machine}: {source}")]
    Program {
        /// The machine.
        machine: String,
        /// The reason.
        source: NuCoreError,
    },
    /// The program that measures the machine is missing.
    #[error(transparent)]
    Preset(#[from] PresetError),
    /// There are several programs.
    #[error(
        "NuCore allocates cores to one program alone, and there are {count}: leave the others out"
    )]
    Programs {
        /// How many.
        count: usize,
    },
}

impl AllocationError {
    pub(super) fn of(machine: &Machine, source: NuCoreError) -> Self {
        let machine = machine.name.clone();
        Self::Program { machine, source }
    }
}

/// Cores by node, the first ones of each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CoresByNode(pub(super) Vec<u32>);

impl CoresByNode {
    pub(super) fn all(machine: &Machine) -> Self {
        Self(vec![machine.spec.cores_per_socket; machine.nodes()])
    }

    /// The first hardware thread of each core.
    pub(super) fn cpus(&self, machine: &Machine) -> CpuSet {
        let nodes = (0..).zip(&self.0);
        let places = nodes.flat_map(|(node, &cores)| (0..cores).map(move |core| [node, core, 0]));
        let cpus = places.filter_map(|place| machine.context_at(place));
        cpus.collect()
    }

    /// All allocations that differ by one core, with at least one core and no more than `most` of a node.
    pub(super) fn adjacent(&self, most: u32) -> Vec<Self> {
        let changed = |node: usize, count: u32| {
            let mut changed = self.clone();
            changed.0[node] = count;
            changed
        };
        let mut found = Vec::new();
        for (node, &count) in self.0.iter().enumerate() {
            if count < most {
                found.push(changed(node, count + 1));
            }
            if count > 0 && self.0.iter().sum::<u32>() > 1 {
                found.push(changed(node, count - 1));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{machine, set};

    #[test]
    fn an_allocation_is_the_first_cores_of_each_node() {
        let cores = CoresByNode(vec![2, 0, 1, 0]);
        assert_eq!(cores.cpus(&machine("x7550")), set("0-1,16"));
    }

    #[test]
    fn adjacent_allocations_differ_by_one_core_of_one_node() {
        let found = CoresByNode(vec![0, 2, 1]).adjacent(2);
        let expected = [[1, 2, 1], [0, 1, 1], [0, 2, 2], [0, 2, 0]];
        assert_eq!(found, expected.map(|cores| CoresByNode(cores.to_vec())));
        assert_eq!(CoresByNode(vec![1]).adjacent(1), [], "one core stays");
    }
}
