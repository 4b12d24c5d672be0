//! What an allocation policy is.
//!
//! It decides how many CPUs each application may use, as a state machine without I/O: the same state and the same
//! [`Snapshot`] always give the same [`Allocation`]. Its state serialises, for restarts and replays.
//!
//! Invariants, whatever the snapshot holds, that one property test checks for every entry of
//! [`POLICIES`](crate::POLICIES): one share per application in the order of the snapshot; at least one CPU each; the
//! exclusive shares and the free CPUs add up to the usable ones; more applications than usable CPUs get slots of one
//! CPU each [readings R3.16]; with [`Trigger::Membership`](mapper_model::Trigger) nothing is explored.

use mapper_model::{Allocation, AppId, BuildKey, Snapshot};
use serde::{Deserialize, Serialize};

/// Decides how many CPUs each application may use.
pub trait AllocationPolicy: Send + std::fmt::Debug {
    /// The name it is selected by.
    fn name(&self) -> &'static str;

    /// Decides.
    fn allocate(&mut self, snapshot: &Snapshot<'_>) -> Allocation;

    /// The speeds that it expects of a program, in a unit of its own: on one CPU, on two and so on up to `cpus`, wherever
    /// these are. `None` if it does not know; most policies never do.
    fn expected(&self, _program: KnownProgram, _cpus: u32) -> Option<Vec<f64>> {
        None
    }

    /// The state as data.
    fn save(&self) -> PolicyState;

    /// Continues from a state saved by the same policy.
    ///
    /// # Errors
    /// [`RestoreError`] when the data is not such a state; the policy is then unchanged.
    fn restore(&mut self, state: &PolicyState) -> Result<(), RestoreError>;
}

/// Which program is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KnownProgram {
    /// This application, which runs.
    Running(AppId),
    /// One that has run. A name alone may be that of another user's.
    Ended(BuildKey),
}

/// The saved state of a policy.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PolicyState {
    /// The policy that saved it.
    pub policy: String,
    /// Its state, in a form only the policy knows.
    pub state: serde_json::Value,
}

/// A saved state that cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// It belongs to another policy.
    #[error("saved state is of policy {found:?}, not of {expected:?}")]
    OtherPolicy {
        /// The policy that saved it.
        found: String,
        /// The policy that was to restore it.
        expected: &'static str,
    },
    /// It cannot be read.
    #[error("saved state of policy {policy:?} cannot be read")]
    Unreadable {
        /// The policy.
        policy: &'static str,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

impl PolicyState {
    /// The state of a policy as data.
    pub fn of(policy: &'static str, state: &impl Serialize) -> Self {
        Self {
            policy: policy.to_owned(),
            // Policies keep numbers, lists and plain enums: nothing that has no JSON form.
            state: serde_json::to_value(state).unwrap_or_default(),
        }
    }

    /// Reads the state back.
    ///
    /// # Errors
    /// [`RestoreError`] when it belongs to another policy or cannot be read.
    pub fn read<T: for<'de> Deserialize<'de>>(
        &self,
        policy: &'static str,
    ) -> Result<T, RestoreError> {
        if self.policy != policy {
            return Err(RestoreError::OtherPolicy {
                found: self.policy.clone(),
                expected: policy,
            });
        }
        T::deserialize(&self.state).map_err(|source| RestoreError::Unreadable { policy, source })
    }
}
