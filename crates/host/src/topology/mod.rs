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
    /// hwloc refuses or fails: what was tried, and what it says.
    #[error("hwloc cannot {0}: {1}")]
    Hwloc(&'static str, String),
    /// What was read, from where, is not a machine.
    #[error("{0} describes no machine")]
    NoMachine(String, #[source] TopologyError),
}
