//! An allocation of NuCore's, and why there is none.

use crate::machine::Machine;
use crate::presets::PresetError;
use mapper_model::CpuSet;
use mapper_predict::nucore::NuCoreError;
use std::fmt;

/// Why there is no allocation.
#[derive(Debug, thiserror::Error)]
pub enum AllocationError {
    /// The program has no solution.
    #[error("NuCore's integer program on {machine}: {source}")]
    Program {
        /// The machine.
        machine: String,
        /// What it says.
        source: NuCoreError,
    },
    /// What measures the machine is missing.
    #[error(transparent)]
    Preset(#[from] PresetError),
    /// It allocates cores to one program alone.
    #[error(
        "NuCore allocates cores to one program alone, and there are {count}: leave the others out"
    )]
    Programs {
        /// How many there are.
        count: usize,
    },
}

impl AllocationError {
    pub(super) fn of(machine: &Machine, source: NuCoreError) -> Self {
        Self::Program {
            machine: machine.name.clone(),
            source,
        }
    }
}

/// Cores by node, the first ones of each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CoresByNode(pub Vec<u32>);

impl CoresByNode {
    /// All cores of a machine.
    pub(super) fn all(machine: &Machine) -> Self {
        Self(vec![machine.spec.cores_per_socket; machine.nodes()])
    }

    /// The first hardware thread of each core.
    pub(super) fn cpus(&self, machine: &Machine) -> CpuSet {
        (0..)
            .zip(&self.0)
            .flat_map(|(node, &cores)| (0..cores).map(move |core| [node, core, 0]))
            .filter_map(|place| machine.context_at(place))
            .collect()
    }
}

impl fmt::Display for CoresByNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores: Vec<String> = self.0.iter().map(u32::to_string).collect();
        write!(f, "{{{}}}", cores.join(","))
    }
}
