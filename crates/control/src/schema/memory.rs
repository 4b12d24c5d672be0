//! Where the memory of an application comes from, on machines with several NUMA nodes.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What is to be done with an application's memory when its CPUs move.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MemoryPolicy {
    /// Nothing: the kernel takes memory where it was first touched, and leaves it there.
    #[default]
    Keep,
    /// It is taken from the nodes of its CPUs, and moved there with them (`cpuset.mems`).
    Local,
    /// The same, spread evenly over these nodes.
    Interleave,
    /// A policy that only a newer version knows.
    #[serde(other)]
    Unknown,
}

/// Not one of the policies.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("mem {0:?}: give local, interleave or keep")]
pub struct NotAMemoryPolicy(String);

impl MemoryPolicy {
    /// Whether memory is bound to the nodes of the CPUs.
    pub const fn follows_cpus(self) -> bool {
        matches!(self, Self::Local | Self::Interleave)
    }
}

impl FromStr for MemoryPolicy {
    type Err = NotAMemoryPolicy;

    fn from_str(text: &str) -> Result<Self, NotAMemoryPolicy> {
        [Self::Keep, Self::Local, Self::Interleave]
            .into_iter()
            .find(|policy| policy.to_string() == text)
            .ok_or_else(|| NotAMemoryPolicy(text.chars().take(40).collect()))
    }
}

impl fmt::Display for MemoryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Keep => "keep",
            Self::Local => "local",
            Self::Interleave => "interleave",
            Self::Unknown => "unknown",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_as_it_is_written_and_others_are_refused() {
        use MemoryPolicy::{Interleave, Keep, Local};
        for policy in [Keep, Local, Interleave] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        let error = "near".parse::<MemoryPolicy>().unwrap_err().to_string();
        assert_eq!(error, "mem \"near\": give local, interleave or keep");
    }
}
