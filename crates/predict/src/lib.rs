//! Performance models: NuPoCo queueing network, Cooperative speedup, NuCore bandwidth program.
//!
//! A policy that divides cores needs to know what a division would bring before it is tried. This
//! crate answers that, for three papers' models, as pure functions:
//!
//! * [`nupoco`]: how busy cores and memory controllers get, and how fast a workload runs, from its
//!   request rate per cycle of work; Algorithms 1 and 2.
//! * [`cooperative`]: the allocation with the greatest sum of speedups, and the chunk rule of the
//!   loop schedule that follows an allocation.
//! * [`nucore`]: the cores of each node that saturate the memory of a NUMA machine and no more,
//!   with an exact solver.
//!
//! Units are in the types of [`units`]; everything refused is in [`error`] or
//! [`nucore`]. "[readings N2]" in a comment cites the project's list of how open or
//! contradictory points of the papers are read.
//!
//! **Architecture invariant:** no I/O, no clock, no randomness; the same input gives the same
//! output, bit for bit.

pub mod cooperative;
pub mod error;
pub mod nucore;
pub mod nupoco;
pub mod units;

pub use error::ModelError;
pub use units::{
    Cycles, GbPerSecond, NodeIndex, RequestsPerCycle, Speedup, Utilisation, WorkloadIndex,
};
