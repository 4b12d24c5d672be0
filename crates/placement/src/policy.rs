//! What a placement policy is.
//!
//! It decides which CPUs each application may use, given how many. It sees where each is now
//! ([`AppView::held`](mapper_model::AppView)) and has no memory: the same snapshot and allocation always
//! give the same [`Placement`].
//!
//! Invariants, checked by one property test for every entry of [`POLICIES`](crate::POLICIES): one placement
//! per share in the same order; as many CPUs as the share says, all usable; no CPU in two exclusive shares;
//! all applications of a slot on the same CPU; when nothing changed, none moves.

use mapper_model::{Allocation, Placement, Snapshot};

/// Decides which CPUs each application may use.
pub trait PlacementPolicy: Send + std::fmt::Debug {
    /// The name it is selected by.
    fn name(&self) -> &'static str;

    /// Decides.
    fn place(&self, snapshot: &Snapshot<'_>, allocation: &Allocation) -> Placement;
}
