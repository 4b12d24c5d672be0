//! The policies of a daemon.

use serde::{Deserialize, Serialize};

/// Reply to `Policies`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PoliciesReply {
    /// [`PROTOCOL`](crate::PROTOCOL).
    pub protocol: u32,
    /// Every policy, allocation before mapping.
    pub policies: Vec<PolicyEntry>,
}

/// One policy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PolicyEntry {
    /// The name it is chosen by.
    pub name: String,
    /// What it decides.
    pub kind: PolicyKind,
    /// What it does, in one line.
    pub summary: String,
    /// Where it comes from (paper, section).
    pub source: String,
    /// Whether the daemon uses it now.
    pub in_use: bool,
}

/// What a policy decides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyKind {
    /// How many CPUs each application gets.
    Allocation,
    /// Which CPUs.
    Mapping,
}
