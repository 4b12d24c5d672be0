//! What runs already and comes under management.

use mapper_model::{AppId, CpuSet};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// Something that runs and is to be managed from now on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Adoptee {
    /// The id it gets.
    pub app: AppId,
    /// What it is.
    pub target: AdoptTarget,
    /// The user whose it must be; `None`: anybody's.
    pub owner: Option<u32>,
    /// The CPUs that may be planned for it: limits around what stays in its place must leave all of them.
    pub usable: CpuSet,
}

/// What can be adopted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdoptTarget {
    /// A process with all its descendants.
    Pid(u32),
    /// A control group, by its path below the mount or with it; it stays where it is.
    Cgroup(PathBuf),
    /// A unit of systemd, whose CPUs systemd itself changes.
    Unit(String),
}

impl fmt::Display for AdoptTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pid(pid) => write!(f, "process {pid}"),
            Self::Cgroup(path) => write!(f, "control group {}", path.display()),
            Self::Unit(name) => write!(f, "unit {name}"),
        }
    }
}

/// Why an application is let go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departure {
    /// It has ended, or is not to be managed any more: what was adopted is put back to where it was.
    ForGood,
    /// The daemon stops. The next one goes on with it, so its processes stay where they are found again.
    DaemonStops,
}
