//! A model of a multi-socket machine and the applications of the papers.
//!
//! Nobody needs a four-socket machine to see what a policy does: the model runs the very code that
//! the daemon runs, on the machines and applications of the papers, and what it says is held against
//! what they report. **It is a model**: it shows how policies compare under stated assumptions, and
//! is no evidence that any of them would gain the same on hardware.
//!
//! It is fluid: between two events (a phase of an application ends, a policy decides) everybody
//! runs at a constant speed. [`performance`] gives the speeds for who runs where ([`occupancy`]);
//! the parameters of [`machine`]s and [`application`]s are [`presets`] or the user's.
//!
//! Pure: no clock, no files, all randomness from one seed. The same inputs give the same results to
//! the last bit.

pub mod application;
pub mod approximations;
pub mod constants;
mod counters;
pub mod cycle;
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
pub mod queue;
pub mod run;
pub mod sam_per_task;
pub mod scenario;
pub mod service;
pub mod shipped;
mod speeds;
pub mod stream;
pub mod waiting;

pub use application::AppModel;
pub use constants::MemoryQueue;
pub use constants::{ConstantError, Constants};
pub use governor::{Controlled, Decision, Fixed, Governor, Overhead};
pub use judge::Aim;
pub use machine::{Machine, MachineSpec};
pub use occupancy::Occupancy;
pub use performance::{Solution, Speed, solve};
pub use run::run;
pub use scenario::{
    AppOutcome, GivenUp, Job, Lending, Method, Outcome, Sample, Scenario, SharingSeen, Siblings,
    Teams, Traffic,
};
