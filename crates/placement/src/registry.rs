//! The table of all placement policies.

use crate::config::PlacementConfig;
use crate::linear::Linear;
use crate::nupoco_swap::NupocoSwap;
use crate::policy::PlacementPolicy;
use crate::sam_mph::{SamMph, Variant};
use crate::spread::Spread;

/// A policy that can be selected by name.
#[derive(Clone, Copy, Debug)]
pub struct PolicyEntry {
    /// The name.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Where it comes from: paper and section.
    pub source: &'static str,
    /// Makes one.
    pub build: fn(&PlacementConfig) -> Box<dyn PlacementPolicy>,
}

/// All policies, the preferred one first.
pub static POLICIES: &[PolicyEntry] = &[
    PolicyEntry {
        name: "sam_mph",
        summary: "by sharing, latency tolerance and hyperthread contention, with history; moves only where that pays",
        source: "SAM-MPH §4, MAPPER §3.4",
        build: |config| Box::new(SamMph::new(Variant::SamMph, config)),
    },
    PolicyEntry {
        name: "sam_mp",
        summary: "as sam_mph, without the rules for hyperthreads",
        source: "SAM-MPH §5",
        build: |config| Box::new(SamMph::new(Variant::SamMp, config)),
    },
    PolicyEntry {
        name: "sam_m",
        summary: "as sam_mp, from the last interval alone",
        source: "SAM-MPH §5",
        build: |config| Box::new(SamMph::new(Variant::SamM, config)),
    },
    PolicyEntry {
        name: "sam",
        summary: "sharing applications onto few sockets, in order of arrival",
        source: "SAM-MPH §2",
        build: |config| Box::new(SamMph::new(Variant::Sam, config)),
    },
    PolicyEntry {
        name: "nupoco_swap",
        summary: "node by node; nodes with many and few cache accesses exchange cores",
        source: "NuPoCo §5.3, Algorithm 2",
        build: |config| Box::new(NupocoSwap::new(config)),
    },
    PolicyEntry {
        name: "spread",
        summary: "every application over all sockets, empty cores first",
        source: "MAPPER §4.3, the fair-share baseline",
        build: |_| Box::new(Spread),
    },
    PolicyEntry {
        name: "linear",
        summary: "in order of CPU number",
        source: "the plainest baseline",
        build: |_| Box::new(Linear),
    },
];

/// The policy with a name.
///
/// # Errors
/// [`UnknownPolicy`] lists the names there are.
pub fn find(name: &str) -> Result<&'static PolicyEntry, UnknownPolicy> {
    let found = POLICIES.iter().find(|p| p.name == name);
    found.ok_or_else(|| UnknownPolicy(name.chars().take(80).collect()))
}

/// A name that no placement policy has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown placement policy {:?}: give one of {}", .0, names())]
pub struct UnknownPolicy(String);

fn names() -> String {
    let names: Vec<&str> = POLICIES.iter().map(|p| p.name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_found_under_the_name_it_gives_itself() {
        for entry in POLICIES {
            let policy = (find(entry.name).unwrap().build)(&PlacementConfig::default());
            assert_eq!(policy.name(), entry.name);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_valid_ones() {
        let error = find("sam_mhp").unwrap_err().to_string();
        assert!(
            error.contains("sam_mhp") && error.contains("sam_mph, sam_mp"),
            "{error}"
        );
    }
}
