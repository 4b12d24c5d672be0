//! The whole result of an experiment: the shape of the JSON file, and what every report is made from.
//!
//! Fields are only ever added; a change of meaning gets another [`SCHEMA`]. Everything is measured: results of
//! the model never share a file or a table with these.

use std::collections::BTreeMap;

use anyhow::Context as _;
use mapper_report::statistics::{Estimate, median_and_range};
use serde::Serialize;

use super::run::Run;
use super::speed::{Certainty, Speed};
use crate::data::{BEST, Bound, Headline, Method, Unit};
use crate::machine::Machine;

pub(crate) const SCHEMA: u32 = 4;

/// More foreign CPU time than this, in CPUs, moves the figures more than noise does.
const DISTURBED_CPUS: f64 = 0.05;

/// Fewer repetitions than this say little of how sure a figure is.
const FEW_REPETITIONS: usize = 3;

/// How the daemon worked on this machine.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct DaemonFacts {
    pub(crate) version: String,
    pub(crate) allocation: String,
    pub(crate) mapping: String,
    /// How CPUs are given, and why not in a better way.
    pub(crate) enforcer: String,
    /// What performance is measured with, and why not with something better.
    pub(crate) counters: String,
}

/// What else kept the machine busy.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Load {
    /// Load average before the first run.
    pub(crate) average_before: f64,
    /// Threads that were runnable just before a run: the mean over all runs, and the most.
    pub(crate) runnable_mean: f64,
    pub(crate) runnable_most: u32,
    /// CPUs that other processes (and the daemons) kept busy during runs: the mean, and the most.
    pub(crate) others_mean: f64,
    pub(crate) others_most: f64,
    /// CPUs' worth of time that the hypervisor took, mean.
    pub(crate) stolen_mean: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct SettingEntry {
    pub(crate) key: String,
    pub(crate) title: String,
    pub(crate) meaning: String,
    pub(crate) is_managed: bool,
    #[serde(skip)]
    pub(crate) colour: usize,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct ProgramEntry {
    pub(crate) name: String,
    pub(crate) runtime: String,
    pub(crate) summary: String,
    pub(crate) steps: u64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct MemberEntry {
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) starts_after_s: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct ProgramResult {
    /// Nothing if no run was valid.
    pub(crate) cost: Option<Estimate>,
    pub(crate) certainty: Certainty,
    /// Runs whose results were right, or that were ended at the limit.
    pub(crate) valid: usize,
    /// Runs that were ended at the limit.
    pub(crate) over_limit: usize,
    /// Its speed over each setting that it is compared with.
    pub(crate) over: BTreeMap<String, Speed>,
    /// Whether its median speed is what mapper promised.
    pub(crate) keeps_promise: Option<bool>,
    /// Single runs slower than what is promised.
    pub(crate) runs_below: Option<usize>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct SettingResult {
    pub(crate) setting: String,
    pub(crate) programs: Vec<ProgramResult>,
    /// Geometric mean over the programs whose time counts, over each setting that it is compared with.
    pub(crate) over: BTreeMap<String, Speed>,
    pub(crate) wrong: Vec<String>,
    /// What the daemon noted of the programs' teams.
    pub(crate) notes: Vec<String>,
    pub(crate) runs: Vec<Run>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct MixResult {
    pub(crate) name: String,
    pub(crate) group: Option<String>,
    pub(crate) story: Option<String>,
    pub(crate) programs: Vec<MemberEntry>,
    pub(crate) settings: Vec<SettingResult>,
}

impl MixResult {
    pub(crate) fn under(&self, setting: &str) -> Option<&SettingResult> {
        self.settings.iter().find(|of| of.setting == *setting)
    }

    /// The places of the programs whose cost is in this unit.
    pub(crate) fn places(&self, unit: Unit) -> Vec<usize> {
        let is_in_it = |&at: &usize| self.programs[at].unit == unit;
        (0..self.programs.len()).filter(is_in_it).collect()
    }
}

/// A setting over several mixes, compared with another one.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OverSetting {
    /// Of programs whose time counts.
    pub(crate) mean: Option<Speed>,
    pub(crate) slowest_mix: Option<Speed>,
    pub(crate) slowest_program: Option<Speed>,
    /// Of programs whose latency counts.
    pub(crate) latency: Option<Speed>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Promises {
    /// Programs of mixes.
    pub(crate) made: usize,
    /// Those whose median speed is below what was promised.
    pub(crate) broken: Vec<String>,
    pub(crate) runs: usize,
    pub(crate) runs_below: usize,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) setting: String,
    pub(crate) over: BTreeMap<String, OverSetting>,
    pub(crate) promises: Option<Promises>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Group {
    pub(crate) title: String,
    pub(crate) mixes: usize,
    pub(crate) settings: Vec<Summary>,
}

impl Group {
    pub(crate) fn under(&self, setting: &str) -> Option<&Summary> {
        self.settings.iter().find(|of| of.setting == *setting)
    }
}

/// A figure that is no speed of programs: a cost, a time, an amount.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) unit: String,
    #[serde(flatten)]
    pub(crate) estimate: Estimate,
    pub(crate) samples: usize,
}

impl Figure {
    /// The median of the samples with their range.
    pub(crate) fn of(name: &str, unit: &str, samples: &[f64]) -> anyhow::Result<Self> {
        let estimate = median_and_range(samples);
        Ok(Self {
            name: name.to_owned(),
            unit: unit.to_owned(),
            estimate: estimate.with_context(|| format!("{name}: nothing was measured"))?,
            samples: samples.len(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Judged {
    pub(crate) name: String,
    pub(crate) wanted: Bound,
    /// After the numbers.
    pub(crate) unit: String,
    /// Nothing where it was not measured.
    pub(crate) found: Option<Estimate>,
    /// What the papers report for the same.
    pub(crate) published: Option<String>,
    pub(crate) is_met: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct NotMeasured {
    pub(crate) what: String,
    pub(crate) why: String,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct MethodEntry {
    #[serde(flatten)]
    pub(crate) method: Method,
    pub(crate) repetitions_done: usize,
    pub(crate) baselines: Vec<String>,
    pub(crate) promised_against: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Results {
    pub(crate) schema: u32,
    /// On a real machine, as opposed to results of the model.
    pub(crate) kind: &'static str,
    pub(crate) title: String,
    pub(crate) about: String,
    pub(crate) command: String,
    pub(crate) machine: Machine,
    /// Where programs ran side by side.
    pub(crate) method: Option<MethodEntry>,
    pub(crate) load: Option<Load>,
    /// How mapper worked; nothing when it was not measured.
    pub(crate) daemon: Option<DaemonFacts>,
    pub(crate) settings: Vec<SettingEntry>,
    pub(crate) programs: Vec<ProgramEntry>,
    pub(crate) headline: Option<Headline>,
    /// What the setting that stands for mapper came to, by the titles of the groups.
    pub(crate) default: BTreeMap<String, Summary>,
    pub(crate) groups: Vec<Group>,
    pub(crate) mixes: Vec<MixResult>,
    pub(crate) figures: Vec<Figure>,
    pub(crate) expectations: Vec<Judged>,
    pub(crate) not_measured: Vec<NotMeasured>,
    pub(crate) wrong_results: usize,
    pub(crate) timed_out: usize,
    /// Runs that were wanted and not made.
    pub(crate) left_out: usize,
    pub(crate) elapsed_s: f64,
}

impl Results {
    /// Results of this machine, and nothing measured yet.
    pub(crate) fn on(machine: Machine) -> Self {
        Self {
            schema: SCHEMA,
            kind: "measured",
            machine,
            ..Self::default()
        }
    }

    /// Keys of the settings that others are compared with.
    pub(crate) fn baselines(&self) -> &[String] {
        self.method.as_ref().map_or(&[], |of| &of.baselines)
    }

    /// Key of the setting that promises are measured against.
    pub(crate) fn promised_against(&self) -> Option<&String> {
        self.method.as_ref()?.promised_against.as_ref()
    }

    pub(crate) fn setting(&self, key: &str) -> Option<&SettingEntry> {
        self.settings.iter().find(|of| of.key == *key)
    }

    pub(crate) fn title_of<'a>(&'a self, key: &'a str) -> &'a str {
        let title = self.setting(key).map(|of| &*of.title);
        title.unwrap_or(if key == BEST {
            "the best of these"
        } else {
            key
        })
    }

    /// The summary of the setting that stands for mapper.
    pub(crate) fn headline_summary(&self) -> Option<&Summary> {
        let headline = self.headline.as_ref()?;
        let group = self.group(headline.group.as_deref()?)?;
        group.under(&headline.setting)
    }

    pub(crate) fn group(&self, title: &str) -> Option<&Group> {
        self.groups.iter().find(|of| of.title == *title)
    }

    pub(crate) fn missed(&self) -> usize {
        self.expectations.iter().filter(|of| !of.is_met).count()
    }

    /// Why the figures are to be taken with care, if they are.
    pub(crate) fn caution(&self) -> Option<String> {
        let mut reasons = Vec::new();
        let foreign = self.load.map_or(0.0, |of| of.others_mean + of.stolen_mean);
        if foreign > DISTURBED_CPUS {
            reasons.push(format!("other work used {foreign:.2} CPUs meanwhile"));
        }
        let (method, few) = (self.method.as_ref(), FEW_REPETITIONS);
        if method.is_some_and(|of| of.repetitions_done < few) {
            reasons.push(format!("there were fewer than {few} repetitions"));
        }
        if self.left_out > 0 {
            reasons.push(format!("{} runs were left out", self.left_out));
        }
        let caution = format!("Take these figures with care: {}.", reasons.join(", and "));
        (!reasons.is_empty()).then_some(caution)
    }
}
