//! Settings of the allocation policies.
//!
//! One structure for all policies: each reads what concerns it. [`AllocationConfig::paper`] gives
//! MAPPER's rules as they are printed, for reproducing the paper and its worked numbers; the
//! defaults are those rules made fit for readings that scatter and machines of any size.

use crate::chance::{AtRandom, Probability};
use mapper_model::Confidence;
use serde::{Deserialize, Serialize};

/// Settings of the allocation policies.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct AllocationConfig {
    /// Intervals an application is measured at its fair share before anything is tried
    /// [MAPPER §3.3; readings: the four initial intervals].
    pub initial_intervals: u32,
    /// CPUs by which a count is changed when another is tried. By default a twentieth of the usable
    /// CPUs (4 of 80, as in the paper), but no more than a quarter of a fair share and at least 1.
    pub step: Option<u32>,
    /// Relative gain that makes a tried count better [MAPPER §3.3: 5 %].
    pub threshold: f64,
    /// How a gain is told from noise.
    pub acceptance: Acceptance,
    /// Whether growth is asked to bring the full threshold, or half of what perfect scaling would
    /// bring where that is less. With the full 5 %, an application that scales well stops at 60 of
    /// 80 CPUs because four more can bring no more than that [readings R3.8].
    pub required_gain: RequiredGain,
    /// Whether applications try other counts right after they were measured, and shrink on trial
    /// when others ask for CPUs; or only as the paper says, when their behaviour changes or a period
    /// has passed.
    pub initiative: Initiative,
    /// CPUs that may change hands for growth in one interval. By default a quarter of the usable
    /// ones, and at least a socket. What an application is owed is not counted.
    pub migration_budget: Option<u32>,
    /// Intervals in the steady state after which another count is tried although nothing changed
    /// [MAPPER Algorithm 1 "at_random"; readings R3.12]. By default never: drift is noticed by
    /// comparing with the begin of the phase, so that a steady system stays as it is.
    pub reexplore_every: Option<u32>,
    /// The same at random, with a probability in every interval of the steady state, as published
    /// [readings R3.12]. By default never. Beside `reexplore_every` whichever comes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reexplore_at_random: Option<AtRandom>,
    /// Intervals for which an application gives nothing after a gift broke its promise.
    pub holdoff_intervals: u32,
    /// How far below its promise an application may fall before a gift is undone
    /// [MAPPER §3.3: 5 %; readings R3.5].
    pub tolerance: f64,
    /// The fewest CPUs of an application that has CPUs of its own [readings R3.17].
    pub min_cpus: u32,
    /// Whether an application gives CPUs up to or beyond a count at which its promise is known to
    /// break [readings R3.20].
    pub history_veto: HistoryVeto,
    /// How many CPUs an application can spare [readings R3.19].
    pub spare_rule: SpareRule,
    /// The memory system, for the policies that decide by a model of it.
    pub memory: MemoryModel,
}

/// The memory system as the models of NuPoCo, Cooperative and NuCore take it. What is not given is
/// derived from the machine profile's limit of last-level misses, which is 60 % of what a node's
/// memory can serve.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct MemoryModel {
    /// Time in which a node's memory controller serves a request, in clock cycles [NuPoCo §3.3;
    /// readings N1]. Measured with a STREAM-like program.
    pub service_cycles: Option<f64>,
    /// Time a link between nodes takes for a request, in clock cycles [NuPoCo §4.2].
    pub link_cycles: Option<f64>,
    /// Share of an application's requests that go to the node they come from; without it they go
    /// evenly to all nodes.
    pub local_share: Option<f64>,
    /// Bandwidth of a node's memory in GB/s, α of NuCore [NuCore §6.5].
    pub node_gb_per_s: Option<f64>,
    /// Part of a node's own demand that its memory keeps for it, β of NuCore [NuCore §6.5].
    pub local_reserve: f64,
    /// On which CPUs an application is profiled.
    #[serde(skip_serializing_if = "ProfiledOn::is_fair_share")]
    pub profiled_on: ProfiledOn,
}

/// On which CPUs an application is before a model decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProfiledOn {
    /// On its fair share, which costs it nothing. A memory that is full then already hides how much
    /// a core would ask for.
    #[default]
    FairShare,
    /// On one CPU of each node, as published for NuCore [NuCore §5.2]: what a core asks for when
    /// nothing is full. Everybody is slow for that long, at each new phase.
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

/// How a gain is told from noise.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Acceptance {
    /// The mean of the last two samples is compared, as printed [MAPPER §3.3].
    Plain5Percent,
    /// A sequential test, repeated with each new sample until the answer is clear.
    Welch {
        /// How sure it must be, one-sided.
        confidence: Confidence,
        /// Samples at the tried count after which the better guess is taken.
        max_samples: u32,
    },
}

/// What growth must bring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RequiredGain {
    /// The threshold, whatever the step.
    Threshold,
    /// The threshold, or half of what perfect scaling would bring if that is less.
    HalfOfLinear,
}

/// When other counts are tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Initiative {
    /// When performance per CPU or the bottleneck changed, and periodically [MAPPER Algorithm 1].
    Paper,
    /// Also after the first measurement, and downwards when others ask for CPUs.
    Demand,
}

/// Whether known violations limit gifts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HistoryVeto {
    /// Never give up to or beyond a count known to break the promise.
    Obeyed,
    /// Only equation 5 counts.
    Ignored,
}

/// How many CPUs can be spared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SpareRule {
    /// Equation 5, which takes performance as linear in the count.
    Linear,
    /// Also down to the smallest count known to keep the promise, where that is more.
    FromCurve,
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
            required_gain: RequiredGain::HalfOfLinear,
            initiative: Initiative::Demand,
            migration_budget: None,
            reexplore_every: None,
            reexplore_at_random: None,
            holdoff_intervals: 2,
            tolerance: 0.05,
            min_cpus: 1,
            history_veto: HistoryVeto::Obeyed,
            spare_rule: SpareRule::Linear,
            memory: MemoryModel::default(),
        }
    }
}

impl AllocationConfig {
    /// MAPPER's rules as printed, with its step of four CPUs, and exploration with probability 0.3 in each
    /// steady interval as in its code [MAPPER §3.3, readings R3.7–R3.12]. Its draws are those of seed 0;
    /// whoever repeats an evaluation gives other seeds.
    #[must_use]
    pub fn paper() -> Self {
        Self {
            step: Some(4),
            acceptance: Acceptance::Plain5Percent,
            required_gain: RequiredGain::Threshold,
            initiative: Initiative::Paper,
            reexplore_at_random: Some(AtRandom {
                probability: Probability::OF_MAPPER,
                seed: 0,
            }),
            ..Self::default()
        }
    }

    /// The step of an application with this fair share on this many usable CPUs.
    #[must_use]
    pub fn step_for(&self, usable: u32, fair: u32) -> u32 {
        match self.step {
            Some(step) => step.max(1),
            None => (usable / 20).min(fair / 4).max(1),
        }
    }

    /// CPUs that growth may move in one interval.
    #[must_use]
    pub fn budget(&self, usable: u32, cpus_per_socket: u32) -> u32 {
        self.migration_budget
            .unwrap_or_else(|| (usable / 4).max(cpus_per_socket))
            .max(1)
    }
}
