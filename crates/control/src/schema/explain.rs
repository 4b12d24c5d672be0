//! Why an application has the CPUs it has, at length.

use crate::schema::{
    GivenReason, PartitionStatus, PerformanceStatus, RuntimeStatus, StretchedInterval,
};
use mapper_model::{AppId, AppName, CpuSet, RegionPhase, TeamMode};
use serde::{Deserialize, Serialize};

/// `Explain`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ExplainRequest {
    /// The application's name, or its id as a number.
    pub name: String,
}

/// Reply to `Explain`. Performances are in the unit of `performance`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ExplainReply {
    /// [`PROTOCOL`](crate::PROTOCOL).
    pub protocol: u32,
    /// The application.
    pub id: AppId,
    /// Its name.
    pub name: AppName,
    /// The CPUs it holds.
    pub cpus: CpuSet,
    /// How many these are.
    pub cpu_count: u32,
    /// The fair share it is measured against.
    pub fair_cpus: u32,
    /// Its performance in the last interval, if it could be measured.
    #[serde(default)]
    pub performance: Option<PerformanceStatus>,
    /// The performance it is promised, once known.
    #[serde(default)]
    pub floor: Option<f64>,
    /// Performance above the floor; below 0 the promise is broken.
    #[serde(default)]
    pub slack: Option<f64>,
    /// CPUs it could give up without falling below the floor.
    pub spare_cpus: u32,
    /// Normalized efficiency at its present count, where known.
    #[serde(default)]
    pub norm_eff: Option<f64>,
    /// The phase it is in, by its parallel regions, where these are known.
    #[serde(default)]
    pub phase: Option<RegionPhase>,
    /// Share of its CPU time that it spun at barriers in the last interval, where known; a performance by
    /// instructions excludes it.
    #[serde(default)]
    pub spun: Option<f64>,
    /// What the shim may do with its teams.
    #[serde(default)]
    pub teams: TeamMode,
    /// Who decided that.
    #[serde(default)]
    pub teams_by: String,
    /// The runtime interface.
    #[serde(default)]
    pub runtime: RuntimeStatus,
    /// The present time between two decisions, where it is longer than set.
    #[serde(default)]
    pub stretched: Option<StretchedInterval>,
    /// What has become of its isolation, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<PartitionStatus>,
    /// What is known of its performance, by ascending CPU count.
    pub curve: Vec<CurveEntry>,
    /// The last decisions, oldest first: up to ten.
    pub decisions: Vec<DecisionEntry>,
}

/// Performance at one CPU count.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct CurveEntry {
    /// The CPU count.
    pub cpus: u32,
    /// Mean of the last two samples: what the policy decides by.
    pub performance: f64,
    /// Standard deviation of single samples, 0 while there is but one.
    pub deviation: f64,
    /// How many samples it is worth; old ones fade.
    pub samples: f64,
}

/// One decision about the application.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DecisionEntry {
    /// Counts the decisions of the daemon.
    pub tick: u64,
    /// How long ago.
    pub age_ns: u64,
    /// CPUs before; 0 for a newcomer.
    pub before: u32,
    /// CPUs after.
    pub after: u32,
    /// Which CPUs.
    pub cpus: CpuSet,
    /// Why, the decisive reason last.
    #[serde(default)]
    pub reasons: Vec<GivenReason>,
    /// The same in one plain sentence.
    pub sentence: String,
}
