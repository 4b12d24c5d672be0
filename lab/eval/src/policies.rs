//! The policies that an evaluation compares, by name: those of the decision core with the settings
//! under which they are compared, baselines, and approximations of what others published.

use anyhow::bail;
use mapper_allocate::mapper_next::rules::Parts;
use mapper_allocate::{hill_climb, mapper_paper};

/// What a policy needs of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pace {
    /// Nothing: it decides once.
    Once,
    /// The interval of core allocation.
    Allocation,
    /// The interval of placing threads.
    Placement,
    /// The interval in which parallel sections are followed.
    Sections,
}

/// Whether the model lends CPUs that their owners leave idle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lends {
    Nothing,
    /// To anybody, without cost.
    Idle,
    /// One way.
    OneWay,
    /// One way, and no core on which the owner runs.
    OneWayCores,
}

/// Whether deciding has a budget, as in the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Budget {
    /// The protocol's, if it has one.
    Protocol,
    /// None: a decision at every interval, as published.
    None,
}

/// How a policy is carried out.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Kind {
    /// Plain Linux.
    Linux,
    /// One program after the other on the whole machine.
    Batch,
    /// The best fixed sets that a search finds.
    Oracle,
    /// The best fixed mapping of one program.
    BestStatic,
    /// Equal shares, socket by socket, cores whole.
    Packed,
    /// One core for each.
    OneCore,
    /// The daemon's decision step with these policies.
    Core {
        allocation: &'static str,
        mapping: &'static str,
    },
    /// The same with this project's own policy, in which only these parts are in use.
    Next {
        parts: Parts,
        lends: Lends,
        budget: Budget,
    },
    /// MAPPER as its authors' code decides.
    Shipped,
    /// SAM as published, task by task.
    SamPerTask,
    /// Hill climbing on utilisation as published, which forgets its verdicts.
    PlainScalability,
    /// An approximation of SCAF.
    Scaf,
    /// An approximation of Varuna.
    Varuna,
    /// NuCore as published: one profile on one core of each node, then fixed cores.
    NucorePredicted,
    /// The best allocation that single cores lead to from there.
    NucoreAdjacent,
    /// The daemon's NuCore, profiled on one core of each node, with memory traffic by node.
    NucoreByNode,
    /// An approximation of CRUST.
    Crust,
}

/// A policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) pace: Pace,
    pub(super) kind: Kind,
}

const fn core(
    name: &'static str,
    title: &'static str,
    pace: Pace,
    allocation: &'static str,
    mapping: &'static str,
) -> Policy {
    Policy {
        name,
        title,
        pace,
        kind: Kind::Core {
            allocation,
            mapping,
        },
    }
}

const fn next(name: &'static str, title: &'static str, parts: Parts) -> Policy {
    Policy {
        name,
        title,
        pace: Pace::Allocation,
        kind: Kind::Next {
            parts,
            lends: Lends::Nothing,
            budget: Budget::Protocol,
        },
    }
}

const fn baseline(name: &'static str, title: &'static str, kind: Kind) -> Policy {
    Policy {
        name,
        title,
        pace: Pace::Once,
        kind,
    }
}

impl Policy {
    /// Whether deciding has a budget: where the policy is what the daemon runs, not what was published.
    pub(super) fn budget(&self) -> Budget {
        match self.kind {
            Kind::Next { budget, .. } => budget,
            Kind::Core { .. } if self.name == OWN_DEFAULTS => Budget::Protocol,
            _ => Budget::None,
        }
    }
}

/// What the daemon does by default.
const OWN_DEFAULTS: &str = "mapper";

/// All policies.
pub(super) const POLICIES: &[Policy] = &[
    baseline("linux", "Linux", Kind::Linux),
    core("fair", "fair share", Pace::Once, "fair", "spread"),
    baseline("fair-packed", "fair share, socket by socket", Kind::Packed),
    core(
        OWN_DEFAULTS,
        "mapper (this project's defaults)",
        Pace::Allocation,
        "mapper",
        "sam_mph",
    ),
    core(
        mapper_paper::NAME,
        "MAPPER (rules as printed)",
        Pace::Allocation,
        mapper_paper::NAME,
        "sam_mph",
    ),
    next(
        "mapper-next",
        "mapper-next (this project's own)",
        Parts::All,
    ),
    next(
        "mapper-next-no-split",
        "mapper-next, no split",
        Parts::NoSplit,
    ),
    next(
        "mapper-next-no-region",
        "mapper-next, no region",
        Parts::NoRegions,
    ),
    next(
        "mapper-next-no-recall",
        "mapper-next, no recall",
        Parts::NoRecall,
    ),
    next(
        "mapper-next-no-reference",
        "mapper-next, no reference",
        Parts::NoReference,
    ),
    next(
        "mapper-next-no-margin",
        "mapper-next, no margin",
        Parts::NoMargin,
    ),
    next(
        "mapper-next-no-headroom",
        "mapper-next, idle CPUs are missed",
        Parts::NoHeadroom,
    ),
    next(
        "mapper-next-greedy",
        "mapper-next, divided one by one",
        Parts::Greedy,
    ),
    next(
        "mapper-next-universal",
        "mapper-next, universal scalability law",
        Parts::Universal,
    ),
    Policy {
        name: "mapper-next-lending",
        title: "mapper-next, idle cores lent without cost",
        pace: Pace::Allocation,
        kind: Kind::Next {
            parts: Parts::All,
            lends: Lends::Idle,
            budget: Budget::Protocol,
        },
    },
    Policy {
        name: "mapper-next-lending-one-way",
        title: "mapper-next, idle CPUs lent one way",
        pace: Pace::Allocation,
        kind: Kind::Next {
            parts: Parts::All,
            lends: Lends::OneWay,
            budget: Budget::Protocol,
        },
    },
    Policy {
        name: "mapper-next-lending-one-way-cores",
        title: "mapper-next, idle cores lent one way",
        pace: Pace::Allocation,
        kind: Kind::Next {
            parts: Parts::All,
            lends: Lends::OneWayCores,
            budget: Budget::Protocol,
        },
    },
    Policy {
        name: "mapper-next-no-budget",
        title: "mapper-next, a decision at every interval",
        pace: Pace::Allocation,
        kind: Kind::Next {
            parts: Parts::All,
            lends: Lends::Nothing,
            budget: Budget::None,
        },
    },
    core(
        "hill_climb",
        "hill climbing",
        Pace::Allocation,
        hill_climb::PAPER_NAME,
        "spread",
    ),
    Policy {
        name: "sam-per-task",
        title: "SAM (task by task, approximation)",
        pace: Pace::Placement,
        kind: Kind::SamPerTask,
    },
    core("sam", "SAM by programs", Pace::Placement, "fair", "sam"),
    core("sam_m", "SAM-M", Pace::Placement, "fair", "sam_m"),
    core("sam_mp", "SAM-MP", Pace::Placement, "fair", "sam_mp"),
    core("sam_mph", "SAM-MPH", Pace::Placement, "fair", "sam_mph"),
    core("nupoco", "NuPoCo", Pace::Sections, "nupoco", "nupoco_swap"),
    core(
        "nupoco_greedy",
        "NuPoCo Greedy",
        Pace::Sections,
        "nupoco",
        "linear",
    ),
    core(
        "scalability",
        "Scalability",
        Pace::Sections,
        "scalability",
        "linear",
    ),
    Policy {
        name: "scalability-plain",
        title: "Scalability (without memory, as C3PO)",
        pace: Pace::Sections,
        kind: Kind::PlainScalability,
    },
    core("equal", "Equal", Pace::Sections, "equal", "linear"),
    core(
        "max_speedup",
        "max speedup",
        Pace::Sections,
        "max_speedup",
        "linear",
    ),
    baseline(
        "nucore-static",
        "NuCore (static, from profile at 1 core/node)",
        Kind::NucorePredicted,
    ),
    baseline(
        "nucore-adjacent",
        "best by single cores from NuCore's",
        Kind::NucoreAdjacent,
    ),
    core(
        "nucore",
        "NuCore by misses, as the daemon without traffic by node",
        Pace::Sections,
        "nucore",
        "linear",
    ),
    Policy {
        name: "nucore-by-node",
        title: "NuCore by traffic of nodes, as the daemon",
        pace: Pace::Sections,
        kind: Kind::NucoreByNode,
    },
    Policy {
        name: "mapper-shipped",
        title: "MAPPER (as shipped, approximation)",
        pace: Pace::Allocation,
        kind: Kind::Shipped,
    },
    baseline("scaf", "SCAF (approximation)", Kind::Scaf),
    baseline("varuna", "Varuna (approximation)", Kind::Varuna),
    baseline("crust", "CRUST (approximation)", Kind::Crust),
    baseline("batch", "Batch", Kind::Batch),
    baseline("oracle", "best fixed sets", Kind::Oracle),
    baseline("best-static", "best mapping alone", Kind::BestStatic),
    baseline("one-core", "one core alone", Kind::OneCore),
];

/// The policy of a name.
pub(super) fn find(name: &str) -> anyhow::Result<&'static Policy> {
    match POLICIES.iter().find(|p| p.name == name) {
        Some(policy) => Ok(policy),
        None => {
            let known: Vec<&str> = POLICIES.iter().map(|p| p.name).collect();
            bail!("unknown policy {name:?}: give one of {}", known.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_daemon_runs_has_a_budget_for_deciding() {
        let with: Vec<&str> = POLICIES
            .iter()
            .filter(|policy| policy.budget() == Budget::Protocol)
            .map(|policy| policy.name)
            .collect();
        assert_eq!(
            with,
            [
                "mapper",
                "mapper-next",
                "mapper-next-no-split",
                "mapper-next-no-region",
                "mapper-next-no-recall",
                "mapper-next-no-reference",
                "mapper-next-no-margin",
                "mapper-next-no-headroom",
                "mapper-next-greedy",
                "mapper-next-universal",
                "mapper-next-lending",
                "mapper-next-lending-one-way",
                "mapper-next-lending-one-way-cores"
            ]
        );
    }
}
