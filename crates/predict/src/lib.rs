//! Performance models: NuPoCo queueing network, Cooperative speedup, NuCore bandwidth program.
//!
//! Pure functions that say what a division of cores would bring before it is tried:
//!
//! * [`nupoco`]: utilisation of cores and memory controllers and the speed of a workload, from its
//!   request rate per cycle of work; Algorithms 1 and 2.
//! * [`cooperative`]: the allocation of the greatest sum of speedups, and the chunk rule.
//! * [`nucore`]: the fewest cores of each node that use the memory bandwidth of a NUMA machine.
//!
//! "[readings N2]" in a comment cites the project's list of how open or contradictory points of the papers are read.
//!
//! **Architecture invariant:** no I/O, no clock, no randomness; the same input gives the same output, bit for bit.

pub mod cooperative;
pub mod error;
pub mod nucore;
pub mod nupoco;
pub mod units;

pub use error::ModelError;
pub use units::{
    Cycles, GbPerSecond, NodeIndex, RequestsPerCycle, Speedup, Utilisation, WorkloadIndex,
};
