//! The policies there are, for lists and help texts.

use serde::{Deserialize, Serialize};

/// What a policy decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyKind {
    /// How many CPUs.
    Allocation,
    /// Which CPUs.
    Mapping,
}

impl PolicyKind {
    /// The name of the setting that selects such a policy.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allocation => "allocation",
            Self::Mapping => "mapping",
        }
    }
}

/// A policy that can be selected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct PolicyDescription {
    /// The name it is selected by.
    pub name: &'static str,
    /// What it decides.
    pub kind: PolicyKind,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Paper and section.
    pub source: &'static str,
}

/// All policies: those of allocation, then those of mapping, the preferred ones first.
pub fn policies() -> Vec<PolicyDescription> {
    let allocation = mapper_allocate::POLICIES.iter().map(|p| PolicyDescription {
        name: p.name,
        kind: PolicyKind::Allocation,
        summary: p.summary,
        source: p.source,
    });
    let mapping = mapper_placement::POLICIES
        .iter()
        .map(|p| PolicyDescription {
            name: p.name,
            kind: PolicyKind::Mapping,
            summary: p.summary,
            source: p.source,
        });
    allocation.chain(mapping).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PipelineConfig;

    #[test]
    fn the_default_policies_come_first_of_their_kind() {
        let config = PipelineConfig::default();
        for (kind, name) in [
            (PolicyKind::Allocation, config.allocation),
            (PolicyKind::Mapping, config.mapping),
        ] {
            let all = policies();
            assert_eq!(all.iter().find(|p| p.kind == kind).unwrap().name, name);
        }
    }
}
