//! What an application got, in sum.

use super::status::PerformanceStatus;
use mapper_model::{AppId, AppName, Qos};
use serde::{Deserialize, Serialize};

/// `Report`: asks what an application got so far, or got until it ended a short while ago.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReportRequest {
    /// The application.
    pub app: AppId,
}

/// Reply to `Report`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReportReply {
    /// [`PROTOCOL`](crate::PROTOCOL).
    pub protocol: u32,
    /// The application.
    pub app: AppId,
    /// Its name.
    pub name: AppName,
    /// The promise: a share of its performance on its fair share of the CPUs.
    pub qos: Qos,
    /// What it got.
    #[serde(flatten)]
    pub account: Account,
}

/// What an application got since it was launched.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Account {
    /// How long it has been managed.
    pub managed_ns: u64,
    /// Time on CPUs that it was given, summed over them: what it could have used.
    pub given_cpu_ns: u64,
    /// CPU time that it used, where that is measured.
    pub used_cpu_ns: Option<u64>,
    /// Intervals in which its performance was measured while its promise was known.
    pub judged_intervals: u64,
    /// Those of them in which performance was below the promise.
    pub violations: u64,
    /// Mean share of its fair-share performance over the judged intervals, comparable with the promise.
    pub achieved: Option<f64>,
    /// The promise in the unit of its performance, as last known.
    pub floor: Option<f64>,
    /// Its performance when it was last measured.
    pub performance: Option<PerformanceStatus>,
    /// How often its CPUs were changed.
    pub moves: u64,
    /// The fewest CPUs it had.
    pub fewest_cpus: u32,
    /// The most CPUs it had.
    pub most_cpus: u32,
}
