//! Whether an application has its CPUs to itself, as far as the kernel supports that.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How an application's CPUs stand to the rest of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Partition {
    /// No other application gets them; the rest of the system may run there.
    #[default]
    Member,
    /// Nothing else runs there (`cpuset.cpus.partition` is `isolated`).
    Isolated,
    /// One that only a newer version knows.
    #[serde(other)]
    Unknown,
}

impl Partition {
    /// Whether it is the default.
    pub const fn is_member(&self) -> bool {
        matches!(self, Self::Member)
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Member => "member",
            Self::Isolated => "isolated",
            Self::Unknown => "unknown",
        })
    }
}

/// What has become of an isolation that was asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartitionStatus {
    /// What is in force.
    pub in_force: Partition,
    /// Why it is not isolated, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

impl fmt::Display for PartitionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why_not {
            None => self.in_force.fmt(f),
            Some(why) => write!(f, "not isolated: {why}"),
        }
    }
}
