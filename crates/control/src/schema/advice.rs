//! What is known of programs: what further CPUs would bring, and which go well together.

use mapper_model::{AppId, AppName};
use serde::{Deserialize, Serialize};

/// Reply to `Advise`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AdviseReply {
    /// [`PROTOCOL`](crate::PROTOCOL).
    pub protocol: u32,
    /// The policy that knows it, or knows nothing.
    pub policy: String,
    /// The CPUs that speeds are given for: from one to all.
    pub cpus: u32,
    /// Programs that run, then those that ended, the latest first; only what the caller may see.
    pub programs: Vec<ProgramAdvice>,
    /// Two of these each, those that go best together first; at most twenty.
    pub pairs: Vec<PairAdvice>,
}

/// What is expected of one program.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProgramAdvice {
    /// The application, if it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<AppId>,
    /// Its name.
    pub name: AppName,
    /// The CPUs that it has, if it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_count: Option<u32>,
    /// What one CPU more would add to its speed, as a share of it, if it runs and there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_more: Option<f64>,
    /// The expected speed on one CPU, on two and so on up to all, as a share of that on all.
    pub speeds: Vec<f64>,
}

/// What is expected of two programs that divide all CPUs as is best for the geometric mean of their speeds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PairAdvice {
    /// Their names.
    pub names: [AppName; 2],
    /// The CPUs of each.
    pub cpus: [u32; 2],
    /// The speed of each, as a share of that on all CPUs.
    pub speeds: [f64; 2],
    /// The work of both in a time, against that of one after the other.
    pub work: f64,
}
