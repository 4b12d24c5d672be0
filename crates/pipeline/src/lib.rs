//! The pure decision step, from an observation to a plan.
//!
//! ```text
//! Observation ─► characterise ─► allocate ─► place ─► actions ─► check ─► Plan
//! ```
//!
//! [`Controller`] holds the state that has to survive from one decision to the next (what the
//! monitor knows, what the policies remember, who holds what, why) and does nothing but this step.
//! The daemon, the replay of a recording and the tests call the very same function.
//!
//! [`Pacing`] says when the next step is due, by what a step costs.
//!
//! Invariants: a step does no I/O and reads no clock; the same observations give the same plans,
//! byte for byte; a plan is complete, so that enforcing it takes no further choice; whatever an
//! observation holds, a step does not panic.

pub mod actions;
mod allowed;
pub mod check;
pub mod controller;
pub mod explain;
pub mod pacing;
pub mod policies;
pub mod record;
pub mod replay;

pub use check::{Finding, Severity, check};
pub use controller::{Controller, ControllerState, PipelineConfig, PipelineError, RestoreError};
pub use explain::{AppExplanation, Decision};
pub use pacing::{OverheadBudget, Pacing};
pub use policies::{PolicyDescription, PolicyKind, policies};
pub use record::Header;
pub use replay::{Changes, Comparison, Decided, Replay, ReplayError};
