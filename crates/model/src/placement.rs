//! Which CPUs each application may use: the output of a placement policy.

use crate::{AppId, CpuSet};
use serde::{Deserialize, Serialize};

/// The decision of a placement policy: one entry per share of the allocation, in the same order.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Placement {
    /// One entry per application.
    pub apps: Vec<AppPlacement>,
}

/// The CPUs of one application.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AppPlacement {
    /// The application.
    pub app: AppId,
    /// Its CPUs, never empty.
    pub cpus: CpuSet,
    /// How they were chosen.
    pub strategy: Strategy,
}

/// How CPUs were chosen for an application [MAPPER §3.4].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Threads may share cores: sharing, and not bound by the cores.
    SameCore,
    /// One socket (or last-level cache), own cores first: sharing, and bound by cores.
    SameSocket,
    /// Spread over sockets for memory bandwidth.
    Spread,
    /// Cores to itself, no busy siblings.
    OwnCores,
    /// In order of CPU number.
    Linear,
    /// The counts per node that the allocation decided.
    ByNode,
    /// Within the CPUs that it may use.
    Allowed,
    /// CPUs shared with others: more applications than CPUs.
    Shared,
    /// The CPUs that it had, which decisions leave unchanged.
    Fixed,
    /// Where contention was least, as no strategy fitted.
    #[default]
    LeastContention,
}
