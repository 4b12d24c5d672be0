//! All kernel I/O: [`topology`], [`observe`] (counters, progress, CPU time), [`enforce`].
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
mod file_limit;
mod memory;
pub mod observe;
pub mod peer;
pub mod procfs;
mod scheduling;
pub mod topology;

pub use error::{HostError, Missing, chain};
pub use file_limit::raise_file_limit;
pub use memory::give_back_free_memory;
pub use scheduling::weigh_session_as_process;
