//! Settings of the allocation policies: one structure, of which each policy reads its part.

use crate::chance::{AtRandom, Probability};
use crate::former::Former;
use mapper_model::Confidence;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// Settings of the allocation policies.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct AllocationConfig {
    /// Intervals of measurement at the fair share before any trial [MAPPER §3.3; readings].
    pub initial_intervals: u32,
    /// CPUs by which a count changes in a trial. By default a twentieth of the usable CPUs (4 of 80, as
    /// in the paper), but no more than a quarter of a fair share and at least 1.
    pub step: Option<u32>,
    /// Relative gain that makes a tried count better [MAPPER §3.3: 5 %].
    pub threshold: f64,
    /// How a gain is distinguished from noise.
    #[serde(deserialize_with = "acceptance")]
    pub acceptance: Acceptance,
    /// CPUs that growth may move in one interval, without what an application is owed. By default a
    /// quarter of the usable ones, and at least a socket.
    pub migration_budget: Option<u32>,
    /// Intervals in the steady state after which another count is tried without a reason
    /// [MAPPER Algorithm 1 "at_random"; readings R3.12]. By default never: the comparison with the
    /// start of the phase shows drift.
    pub reexplore_every: Option<u32>,
    /// The same with a probability in every interval of the steady state, as published
    /// [readings R3.12]. By default never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reexplore_at_random: Option<AtRandom>,
    /// Intervals for which an application gives nothing after a gift broke its promise.
    pub holdoff_intervals: u32,
    /// How far below its promise an application may fall before a gift is undone
    /// [MAPPER §3.3: 5 %; readings R3.5].
    pub tolerance: f64,
    /// The fewest CPUs of an application that has CPUs of its own [readings R3.17].
    pub min_cpus: u32,
    /// The memory system, for the policies that decide by a model of it.
    pub memory: MemoryModel,
    #[serde(skip_serializing)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    #[doc(hidden)]
    pub required_gain: Former<0>,
    #[serde(skip_serializing)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    #[doc(hidden)]
    pub initiative: Former<1>,
    #[serde(skip_serializing)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    #[doc(hidden)]
    pub history_veto: Former<2>,
    #[serde(skip_serializing)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    #[doc(hidden)]
    pub spare_rule: Former<3>,
}

/// The memory system for the models of NuPoCo, Cooperative and NuCore. What is not given is derived from
/// the machine profile's limit of last-level misses, 60 % of what a node's memory can serve.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct MemoryModel {
    /// Time in which a node's memory controller serves a request, in clock cycles [NuPoCo §3.3;
    /// readings N1]. Measured with a STREAM-like program.
    pub service_cycles: Option<f64>,
    /// Time a link between nodes takes for a request, in clock cycles [NuPoCo §4.2].
    pub link_cycles: Option<f64>,
    /// Share of requests that go to the node they come from; without it they go evenly to all.
    pub local_share: Option<f64>,
    /// Bandwidth of a node's memory in GB/s, α of NuCore [NuCore §6.5].
    pub node_gb_per_s: Option<f64>,
    /// Part of a node's own demand that its memory keeps for it, β of NuCore [NuCore §6.5].
    pub local_reserve: f64,
    /// On which CPUs an application is profiled.
    #[serde(skip_serializing_if = "ProfiledOn::is_fair_share")]
    pub profiled_on: ProfiledOn,
}

/// On which CPUs an application is profiled before a model decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProfiledOn {
    /// On its fair share, which costs it nothing; a full memory then hides the demand of a core.
    #[default]
    FairShare,
    /// On one CPU of each node, as published for NuCore [NuCore §5.2]: the demand of a core when nothing
    /// is full. Slows every application at each new phase.
    OneCpuOfEachNode,
}

impl ProfiledOn {
    fn is_fair_share(&self) -> bool {
        *self == Self::FairShare
    }
}

impl Default for MemoryModel {
    fn default() -> Self {
        Self {
            service_cycles: None,
            link_cycles: None,
            local_share: None,
            node_gb_per_s: None,
            local_reserve: 0.25,
            profiled_on: ProfiledOn::FairShare,
        }
    }
}

/// How a gain is distinguished from noise.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Acceptance {
    /// A sequential test, repeated with each new sample until the answer is clear.
    Welch {
        /// How sure it must be, one-sided.
        confidence: Confidence,
        /// Samples at the tried count after which the better guess is taken.
        max_samples: u32,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum AcceptanceKey {
    #[serde(rename = "plain5_percent")]
    Plain,
    Welch {
        confidence: Confidence,
        max_samples: u32,
    },
}

fn acceptance<'de, D: Deserializer<'de>>(from: D) -> Result<Acceptance, D::Error> {
    match AcceptanceKey::deserialize(from)? {
        AcceptanceKey::Welch {
            confidence,
            max_samples,
        } => Ok(Acceptance::Welch {
            confidence,
            max_samples,
        }),
        AcceptanceKey::Plain => Err(D::Error::custom(
            "acceptance = \"plain5_percent\" is no longer a setting: the rules as printed are the \
             policies allocation = \"mapper-paper\" and \"hill_climb-paper\"",
        )),
    }
}

impl Default for AllocationConfig {
    fn default() -> Self {
        Self {
            initial_intervals: 4,
            step: None,
            threshold: 0.05,
            acceptance: Acceptance::Welch {
                confidence: Confidence::HIGH,
                max_samples: 20,
            },
            migration_budget: None,
            reexplore_every: None,
            reexplore_at_random: None,
            holdoff_intervals: 2,
            tolerance: 0.05,
            min_cpus: 1,
            memory: MemoryModel::default(),
            required_gain: Former,
            initiative: Former,
            history_veto: Former,
            spare_rule: Former,
        }
    }
}

impl AllocationConfig {
    /// The same with what MAPPER publishes where nothing is given: a step of four CPUs, and exploration
    /// with probability 0.3 in each steady interval [MAPPER §3.3, readings R3.7–R3.12].
    pub(crate) fn with_published(mut self) -> Self {
        self.step.get_or_insert(4);
        if self.reexplore_every.is_none() {
            self.reexplore_at_random.get_or_insert(AtRandom {
                probability: Probability::OF_MAPPER,
                seed: 0,
            });
        }
        self
    }

    /// The step of an application with this fair share on this many usable CPUs.
    pub fn step_for(&self, usable: u32, fair: u32) -> u32 {
        match self.step {
            Some(step) => step.max(1),
            None => (usable / 20).min(fair / 4).max(1),
        }
    }

    /// CPUs that growth may move in one interval.
    pub fn budget(&self, usable: u32, cpus_per_socket: u32) -> u32 {
        self.migration_budget
            .unwrap_or_else(|| (usable / 4).max(cpus_per_socket))
            .max(1)
    }
}
