//! The table of all allocation policies.

use crate::config::AllocationConfig;
use crate::model_driven::{ModelDriven, Planner};
use crate::policy::AllocationPolicy;
use crate::{
    equal, fair, hill_climb, mapper, mapper_next, mapper_paper, max_speedup, nucore, nupoco,
    scalability,
};

/// One policy that can be selected by name.
#[derive(Clone, Copy, Debug)]
pub struct PolicyEntry {
    /// The name.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Makes one.
    pub build: fn(&AllocationConfig) -> Box<dyn AllocationPolicy>,
}

/// The name of the default policy, the first of [`POLICIES`].
pub const DEFAULT: &str = mapper_next::NAME;

/// Every policy, the default one first.
pub static POLICIES: &[PolicyEntry] = &[
    PolicyEntry {
        name: mapper_next::NAME,
        summary: "the division with the greatest predicted geometric mean of speeds, promises kept",
        source: "this project, docs/book/src/papers/mapper-next.md",
        build: |config| Box::new(mapper_next::MapperNext::new(config.clone())),
    },
    PolicyEntry {
        name: mapper::NAME,
        summary: "the rules of MAPPER with tests against noise: small steps, each tried before it is kept",
        source: "MAPPER §3.3",
        build: |config| Box::new(mapper::Mapper::new(config.clone())),
    },
    PolicyEntry {
        name: mapper_paper::NAME,
        summary: "the rules of MAPPER as printed, for comparison with the paper",
        source: "MAPPER §3.3",
        build: |config| Box::new(mapper_paper::MapperPaper::new(config.clone())),
    },
    PolicyEntry {
        name: fair::NAME,
        summary: "a share by weight that changes only when applications come or go",
        source: "MAPPER §4.3",
        build: |config| Box::new(fair::Fair::new(config.clone())),
    },
    PolicyEntry {
        name: equal::NAME,
        summary: "the same number of CPUs for every application",
        source: "NuPoCo §7.3",
        build: |config| Box::new(equal::Equal::new(config.clone())),
    },
    PolicyEntry {
        name: hill_climb::NAME,
        summary: "each application climbs its own performance, whatever its bottleneck and the others",
        source: "MAPPER §4.3",
        build: |config| Box::new(hill_climb::HillClimb::new(config.clone())),
    },
    PolicyEntry {
        name: hill_climb::PAPER_NAME,
        summary: "hill climbing as printed, for comparison with the paper",
        source: "MAPPER §4.3",
        build: |config| Box::new(hill_climb::HillClimb::as_printed(config.clone())),
    },
    PolicyEntry {
        name: nupoco::NAME,
        summary: "whole nodes where they make cores and memory busiest, by a queueing model",
        source: "NuPoCo §5.2 Algorithm 1",
        build: |config| model_driven(nupoco::NAME, nupoco::plan, config),
    },
    PolicyEntry {
        name: max_speedup::NAME,
        summary: "the greatest sum of predicted speedups",
        source: "Cooperative §4.3 Algorithm 2",
        build: |config| model_driven(max_speedup::NAME, max_speedup::plan, config),
    },
    PolicyEntry {
        name: nucore::NAME,
        summary: "on each node as many cores as its memory can feed, by an integer program",
        source: "NuCore §5, §6",
        build: |config| model_driven(nucore::NAME, nucore::plan, config),
    },
    PolicyEntry {
        name: scalability::NAME,
        summary: "CPUs go to the applications that keep them busiest",
        source: "C3PO, as described in NuPoCo §7.3",
        build: |config| Box::new(scalability::Scalability::new(config.clone())),
    },
];

fn model_driven(
    name: &'static str,
    planner: Planner,
    config: &AllocationConfig,
) -> Box<dyn AllocationPolicy> {
    Box::new(ModelDriven::new(name, planner, config.clone()))
}

/// A name that no policy has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown allocation policy {:?}: give one of {}", .0, names())]
pub struct UnknownPolicy(String);

fn names() -> String {
    let names: Vec<&str> = POLICIES.iter().map(|p| p.name).collect();
    names.join(", ")
}

/// The policy of a name.
///
/// # Errors
/// [`UnknownPolicy`] lists the valid names.
pub fn find(name: &str) -> Result<&'static PolicyEntry, UnknownPolicy> {
    let found = POLICIES.iter().find(|p| p.name == name);
    found.ok_or_else(|| UnknownPolicy(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_answers_to_its_name_and_names_are_unique() {
        for entry in POLICIES {
            let policy = (entry.build)(&AllocationConfig::default());
            assert_eq!(policy.name(), entry.name);
            assert_eq!(find(entry.name).unwrap().name, entry.name);
            let same = POLICIES.iter().filter(|p| p.name == entry.name);
            assert_eq!(same.count(), 1);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_valid_ones() {
        let error = find("robin-hood").unwrap_err().to_string();
        assert!(
            error.contains("\"robin-hood\"")
                && error.contains("mapper-next, mapper, mapper-paper, fair, equal"),
            "{error}"
        );
    }
}
