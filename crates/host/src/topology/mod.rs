//! What the machine looks like.
//!
//! A [`TopologySource`] gives a [`Topology`]: from hwloc on a real machine ([`hwloc`]), or from a
//! file with a description of one ([`mod@file`]), so that a daemon can be tried out on a machine nobody
//! has at hand.

pub mod file;
pub mod hwloc;

use crate::HostError;
use mapper_model::Topology;
use mapper_model::topology::TopologyError;
use std::fmt;

pub use file::DescriptionFile;
pub use hwloc::HwlocSource;

/// Gives the topology of a machine.
pub trait TopologySource: fmt::Debug {
    /// Where it comes from, for logs and status.
    fn describe(&self) -> String;

    /// Reads it now.
    ///
    /// # Errors
    /// [`TopologyReadError`] says what could not be read or is no machine.
    fn read(&self) -> Result<Topology, TopologyReadError>;
}

/// A topology that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TopologyReadError {
    /// A file cannot be read.
    #[error(transparent)]
    Host(#[from] HostError),
    /// hwloc refuses or fails.
    #[error("hwloc cannot {action}: {reason}")]
    Hwloc {
        /// What it was to do.
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
    /// A description that is not in the right format.
    #[error("{origin} is not a topology description")]
    Format {
        /// Where it came from.
        origin: String,
        /// What is wrong, and where.
        #[source]
        source: serde_json::Error,
    },
}
