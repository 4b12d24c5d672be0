//! How an application came under management.

use crate::registry::process::Process;
use mapper_control::schema::AdoptTarget;
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    /// A launcher started it.
    Launched { launcher: Process },
    /// It ran already.
    Adopted(Adoption),
    /// It was found by its group alone, so that nothing more is known.
    Recovered,
}

impl Origin {
    pub(crate) const fn launcher(&self) -> Option<Process> {
        match self {
            Self::Launched { launcher } => Some(*launcher),
            Self::Adopted(_) | Self::Recovered => None,
        }
    }

    pub(crate) const fn adoption(&self) -> Option<&Adoption> {
        match self {
            Self::Adopted(adoption) => Some(adoption),
            Self::Launched { .. } | Self::Recovered => None,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Adoption {
    pub(crate) target: AdoptTarget,
    /// The user who requested the adoption, and may release it.
    pub(crate) by: u32,
}
