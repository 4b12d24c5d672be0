//! All kernel I/O: topology, counters, progress pages, enforcers.
//!
//! The decision core is pure; whatever it knows of the machine and does to it passes through here. Three traits let
//! the daemon run on machines that differ in what they offer:
//! - [`topology::TopologySource`]: what the machine looks like (hwloc, or a fake in tests);
//! - [`observe::CounterSource`]: what applications do (hardware counters, the page shared with the OpenMP shim, CPU
//!   time);
//! - [`enforce::Enforcer`]: how a CPU set is put in force (cgroup v2 cpuset, or thread affinity).
//!
//! Everything is synchronous and bounded: files are read up to a limit, lists have a longest length, and what an
//! application can influence is distrusted. Errors carry the path and the value ([`HostError`]).
//!
//! **Architecture invariant:** nothing here decides. An enforcer applies a CPU set and reports what is in force; a
//! counter source reports raw cumulative numbers.

pub mod calibrate;
pub mod clock;
pub mod cpus;
pub mod doctor;
pub mod enforce;
pub mod error;
pub mod observe;
pub mod peer;
pub mod procfs;
pub mod topology;

pub use error::{HostError, Missing, chain};
