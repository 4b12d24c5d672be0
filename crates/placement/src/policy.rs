//! What a placement policy is.
//!
//! A policy decides which CPUs each application may use, given how many. It sees where everybody
//! is now ([`AppView::held`](mapper_model::AppView)) and is otherwise without memory: the same
//! snapshot and allocation always give the same [`Placement`].
//!
//! Invariants that every policy keeps and that one property test checks for every entry of
//! [`POLICIES`](crate::POLICIES): one placement per share in the same order; as many CPUs as the
//! share says, all usable; no CPU in two exclusive shares; all applications of a slot on the same
//! CPU; when nothing changed, nobody moves.

use mapper_model::{Allocation, Placement, Snapshot};

/// Decides which CPUs each application may use.
pub trait PlacementPolicy: Send + std::fmt::Debug {
    /// The name it is selected by.
    fn name(&self) -> &'static str;

    /// Decides.
    fn place(&self, snapshot: &Snapshot<'_>, allocation: &Allocation) -> Placement;
}
