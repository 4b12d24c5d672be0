//! What the machine looks like: a [`Topology`] from hwloc ([`hwloc`]), or a fake one in tests.

pub mod hwloc;

use mapper_model::Topology;
use mapper_model::topology::TopologyError;
use std::fmt;

pub use hwloc::HwlocSource;

/// Gives the topology of a machine.
pub trait TopologySource: fmt::Debug {
    /// Where it comes from, for logs and status.
    fn describe(&self) -> String;

    /// Reads it now.
    fn read(&self) -> Result<Topology, TopologyReadError>;
}

/// A topology that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TopologyReadError {
    /// hwloc refuses or fails.
    #[error("hwloc cannot {action}: {reason}")]
    Hwloc {
        /// What was tried.
        action: &'static str,
        /// What it says.
        reason: String,
    },
    /// What was read is not a machine.
    #[error("{origin} describes no machine")]
    NoMachine {
        /// Where it came from.
        origin: String,
        /// What is wrong.
        #[source]
        source: TopologyError,
    },
}
