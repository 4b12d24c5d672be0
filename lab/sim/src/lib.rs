//! A model of a multi-socket machine and the applications of the papers.
//!
//! It runs the daemon's own decision code on the machines and applications of the papers. **It is a model**:
//! it compares policies under stated assumptions and is no evidence of the same gain on hardware.
//!
//! It is fluid: between two events (a phase ends, a policy decides) every program runs at a constant speed.
//! [`performance`] gives the speeds for an [`occupancy`]; the parameters of [`machine`]s and [`application`]s
//! are [`presets`] or the user's.
//!
//! Pure: no clock, no files, all randomness from one seed. The same inputs give the same bits.

pub mod application;
pub mod approximations;
pub mod constants;
mod counters;
mod cycle;
#[cfg(test)]
mod fixtures;
pub mod governor;
pub mod judge;
pub mod layouts;
mod lending;
mod local_search;
pub mod machine;
pub mod noise;
pub mod nucore;
pub mod occupancy;
pub mod oracle;
pub mod performance;
pub mod presets;
mod queue;
pub mod run;
pub mod sam_per_task;
pub mod scenario;
pub mod service;
pub mod shipped;
mod speeds;
pub mod stream;
mod waiting;

pub use application::AppModel;
pub use constants::{Constants, MemoryQueue};
pub use governor::{Controlled, Decision, Fixed, Governor, Overhead};
pub use judge::Aim;
pub use machine::{Machine, MachineSpec};
pub use occupancy::Occupancy;
pub use performance::{Events, Solution, solve};
pub use run::{on_sets, run};
pub use scenario::{AppOutcome, GivenUp, Job, Lending, Method, Outcome, Sample, Scenario, Teams};
