//! The pure decision step, from an observation to a plan.
//!
//! ```text
//! Observation ─► characterise ─► allocate ─► place ─► actions ─► check ─► Plan
//! ```
//!
//! [`Controller`] holds the state between decisions and does nothing but this step; the daemon, the replay of a
//! recording and the tests call the same function. [`Pacing`] says when the next step is due, by what a step costs.
//!
//! Invariants: a step does no I/O and reads no clock; the same observations give the same plans, byte for
//! byte; a plan is complete; whatever an observation holds, a step does not panic.

mod actions;
mod advice;
mod allowed;
pub mod check;
mod controller;
mod division;
mod explain;
mod idle_time;
mod lending;
mod owners;
pub mod pacing;
mod policies;
pub mod record;
mod replay;
mod spinning;

pub use advice::{Together, one_more, together};
pub use check::{Finding, Severity, check};
pub use controller::{Controller, ControllerState, PipelineConfig, PipelineError, RestoreError};
pub use explain::{AppExplanation, Decision};
pub use mapper_allocate::KnownProgram;
pub use owners::{Owned, Owner, weights_by_owner};
pub use pacing::{OverheadBudget, Pacing};
pub use policies::{PolicyDescription, PolicyKind, policies};
pub use record::Header;
pub use replay::{Changes, Comparison, Decided, Difference, Replay, ReplayError};
