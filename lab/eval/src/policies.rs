//! The policies that an evaluation compares, by name: `lab/eval/data/policies.toml`.

use super::data::{self, Kept};
use anyhow::{bail, ensure};
use mapper_allocate::mapper_next::rules::Parts;
use mapper_report::table::texts;
use mapper_sim::Lending;
use serde::Deserialize;
use std::collections::BTreeSet;

/// What a policy needs of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
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

/// How a policy is carried out.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Kind {
    Linux,
    /// One program after the other on the whole machine.
    Batch,
    /// The best fixed sets that a search finds.
    Oracle,
    /// The best fixed mapping of one program.
    BestStatic,
    /// Equal shares, socket by socket, cores whole.
    Packed,
    OneCore,
    /// The daemon's decision step with these policies.
    Core {
        allocation: String,
        mapping: String,
    },
    /// The same with this project's own policy, in which only these parts are in use.
    Next {
        #[serde(with = "PartsName")]
        parts: Parts,
        #[serde(default)]
        lends: Lending,
    },
    /// MAPPER as its authors' code decides.
    Shipped,
    /// SAM as published, task by task.
    SamPerTask,
    /// Hill climbing on utilisation as published, which forgets its verdicts.
    PlainScalability,
    Scaf,
    Varuna,
    /// NuCore as published: one profile on one core of each node, then fixed cores.
    NucorePredicted,
    /// The best allocation that single cores lead to from there.
    NucoreAdjacent,
    /// The daemon's NuCore, profiled on one core of each node, with memory traffic by node.
    NucoreByNode,
    Crust,
}

/// [`Parts`] as the file names them.
#[derive(Deserialize)]
#[serde(remote = "Parts", rename_all = "snake_case")]
enum PartsName {
    All,
    NoSplit,
    NoRegions,
    NoRecall,
    NoReference,
    NoMargin,
    NoHeadroom,
    Greedy,
    Universal,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) pace: Pace,
    pub(super) kind: Kind,
    /// Whether deciding has the budget of the protocol, as in the daemon; a decision at every interval, as published,
    /// has none.
    #[serde(default)]
    pub(super) budget: bool,
    /// Whether it is for one program on an otherwise idle machine.
    #[serde(default)]
    pub(super) alone: bool,
    /// Whether it needs as many CPUs as there are threads.
    #[serde(default)]
    pub(super) cpu_for_each_thread: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Policies {
    policy: Vec<Policy>,
}

static POLICIES: Kept<Policies> = Kept::new(|| read(include_str!("../data/policies.toml")));

fn read(text: &str) -> anyhow::Result<Policies> {
    let read: Policies = data::read("policies.toml", text)?;
    let mut seen = BTreeSet::new();
    for Policy { name, .. } in &read.policy {
        let once = seen.insert(name);
        ensure!(
            once,
            "lab/eval/data/policies.toml: name {name:?} stands there twice"
        );
    }
    Ok(read)
}

pub(super) fn find(name: &str) -> anyhow::Result<&'static Policy> {
    let all = &data::kept(&POLICIES)?.policy;
    match all.iter().find(|policy| policy.name == name) {
        Some(policy) => Ok(policy),
        None => {
            let known = texts(all.iter().map(|policy| &policy.name)).join(", ");
            bail!("unknown policy {name:?}: give one of {known}")
        }
    }
}

/// What a policy is called in reports.
pub(super) fn title(name: &str) -> &str {
    find(name).map_or(name, |policy| &policy.title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_daemon_runs_has_a_budget_for_deciding() {
        let all = &data::kept(&POLICIES).unwrap().policy;
        assert_eq!(all.len(), 41);
        for Policy { name, budget, .. } in all {
            let own = name == "mapper" || name.starts_with("mapper-next");
            let expected = own && name != "mapper-next-no-budget";
            assert_eq!(*budget, expected, "{name}");
        }
    }

    #[test]
    fn a_wrong_entry_is_refused_with_file_and_key() {
        let entry = "[[policy]]\nname = \"p\"\ntitle = \"t\"\npace = \"once\"\nkind = \"linux\"\n";
        for (text, part) in [
            (entry.replace("once", "twice"), "twice"),
            (entry.replace("linux", "linus"), "linus"),
            (entry.replace("title", "tilte"), "tilte"),
            (entry.repeat(2), "\"p\" stands there twice"),
        ] {
            let error = format!("{:#}", read(&text).err().unwrap());
            assert!(error.contains("policies.toml"), "{error}");
            assert!(error.contains(part), "{error}");
        }
    }
}
