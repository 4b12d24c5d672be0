//! The input of the NUMA network: a machine, workloads, and which workload holds which cores.
//!
//! Times in cycles; rates per core and cycle of work.
//!
//! Invariants: a machine has a node and a core; local access crosses no link [readings N7]; the
//! shares of a workload's requests over the memory nodes add up to 1.

use crate::error::{ModelError, check_length, lacks};
use crate::units::{Cycles, NodeIndex, RequestsPerCycle, WorkloadIndex};
use serde::Serialize;

/// A node: cores, memory, or both.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NumaNode {
    /// Cores; zero for a node of memory only.
    pub cores: u32,
    /// Time in which its controller serves a request.
    pub memory_service: Cycles,
}

/// A NUMA machine as the model sees it.
#[derive(Clone, PartialEq, Debug)]
pub struct NumaMachine {
    pub(crate) cores: Vec<u32>,
    pub(crate) memory_service: Vec<f64>,
    /// `link[i * nodes + m]`: service time of the link from CPU node i to memory node m.
    pub(crate) link: Vec<f64>,
}

impl NumaMachine {
    /// A machine of equal nodes and equal links.
    ///
    /// # Errors
    /// For no node or no core.
    pub fn uniform(
        nodes: usize,
        cores_per_node: u32,
        memory_service: Cycles,
        link: Cycles,
    ) -> Result<Self, ModelError> {
        let node = NumaNode {
            cores: cores_per_node,
            memory_service,
        };
        Self::new(&vec![node; nodes], &vec![vec![link; nodes]; nodes])
    }

    /// A machine of any nodes; `link[i][m]` is the service time of the link from CPU node i to
    /// memory node m. The diagonal is not used [readings N7].
    ///
    /// # Errors
    /// For no node or no core, and for another size of `link`.
    pub fn new(nodes: &[NumaNode], link: &[Vec<Cycles>]) -> Result<Self, ModelError> {
        let count = nodes.len();
        if count == 0 {
            return Err(lacks("node"));
        }
        if nodes.iter().all(|n| n.cores == 0) {
            return Err(lacks("core"));
        }
        check_length("the link matrix", link.len(), count)?;
        for row in link {
            check_length("a row of the link matrix", row.len(), count)?;
        }
        let mut flat: Vec<f64> = link.iter().flatten().map(|cycles| cycles.get()).collect();
        for i in 0..count {
            flat[i * count + i] = 0.0;
        }
        Ok(Self {
            cores: nodes.iter().map(|n| n.cores).collect(),
            memory_service: nodes.iter().map(|n| n.memory_service.get()).collect(),
            link: flat,
        })
    }

    /// Nodes of the machine.
    pub fn nodes(&self) -> usize {
        self.cores.len()
    }

    /// Cores of a node.
    pub fn cores(&self, node: NodeIndex) -> u32 {
        self.cores[node.0]
    }
}

/// Where the requests of a workload go.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Locality {
    /// Evenly to all memory nodes.
    #[default]
    Interleaved,
    /// This share to the core's own node, the rest evenly to the others.
    Local(f64),
    /// These shares to the memory nodes, from wherever the core is.
    Fixed(Vec<f64>),
}

impl Locality {
    /// Checks it for so many memory nodes.
    pub(crate) fn check(&self, nodes: usize) -> Result<(), ModelError> {
        let check = |of: &str, value: f64| {
            if (0.0..=1.0).contains(&value) {
                Ok(())
            } else {
                Err(ModelError::Invalid(format!(
                    "share {value} of the requests to {of}: give a number from 0 to 1"
                )))
            }
        };
        match self {
            Self::Interleaved => Ok(()),
            Self::Local(share) => check("the own node", *share),
            Self::Fixed(shares) => {
                check_length(
                    "the list of shares over the memory nodes",
                    shares.len(),
                    nodes,
                )?;
                for share in shares {
                    check("a memory node", *share)?;
                }
                let sum: f64 = shares.iter().sum();
                if (sum - 1.0).abs() <= 1e-6 {
                    Ok(())
                } else {
                    Err(ModelError::Invalid(format!(
                        "shares over the memory nodes add up to {sum}: make them add up to 1"
                    )))
                }
            }
        }
    }

    /// Share of the requests of a core on node `from` that go to memory node `to`.
    pub(crate) fn share(&self, nodes: usize, from: usize, to: usize) -> f64 {
        match self {
            Self::Interleaved => 1.0 / nodes as f64,
            // With one node there is no other to send the rest to.
            Self::Local(_) if nodes == 1 => 1.0,
            Self::Local(share) if from == to => *share,
            Self::Local(share) => (1.0 - share) / (nodes - 1) as f64,
            Self::Fixed(shares) => shares[to],
        }
    }
}

/// A workload as profiled, per core and cycle of work (see [`crate::nupoco::profile`]).
#[derive(Clone, PartialEq, Debug)]
pub struct NumaWorkload {
    /// All requests that load the memory.
    pub requests: RequestsPerCycle,
    /// Read misses of the last-level cache, which stall the core.
    pub stalling_reads: RequestsPerCycle,
    /// Where both go.
    pub locality: Locality,
}

/// Cores of every node held by every workload.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CoreMap {
    workloads: usize,
    pub(crate) cores: Vec<u32>,
}

impl CoreMap {
    /// A map without any cores held.
    pub fn empty(nodes: usize, workloads: usize) -> Self {
        Self {
            workloads,
            cores: vec![0; nodes * workloads],
        }
    }

    /// Cores that `workload` holds on `node`.
    pub fn get(&self, node: NodeIndex, workload: WorkloadIndex) -> u32 {
        self.cores[node.0 * self.workloads + workload.0]
    }

    /// Sets the cores that `workload` holds on `node`.
    pub fn set(&mut self, node: NodeIndex, workload: WorkloadIndex, cores: u32) {
        self.cores[node.0 * self.workloads + workload.0] = cores;
    }

    /// Cores of every workload on `node`.
    pub fn node(&self, node: NodeIndex) -> &[u32] {
        &self.cores[node.0 * self.workloads..(node.0 + 1) * self.workloads]
    }

    /// Cores of `workload` on the whole machine.
    pub fn total(&self, workload: WorkloadIndex) -> u64 {
        self.cores
            .iter()
            .skip(workload.0)
            .step_by(self.workloads)
            .map(|&c| u64::from(c))
            .sum()
    }

    /// Nodes that it covers.
    pub fn nodes(&self) -> usize {
        self.cores.len().checked_div(self.workloads).unwrap_or(0)
    }

    /// Workloads that it covers.
    pub const fn workloads(&self) -> usize {
        self.workloads
    }
}
