//! What runs already and comes under management, what others do to it meanwhile, and how it is released.

use super::descendants::TreeLimit;
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
    /// The user whose it must be; `None`: any user's.
    pub owner: Option<u32>,
    /// Whose part of an interval it takes.
    pub account: u32,
    /// The CPUs that may be planned for it: limits around what stays in its place must leave all of them.
    pub usable: CpuSet,
}

impl Adoptee {
    /// Only a user's has to be small.
    pub(crate) fn limit(&self) -> TreeLimit {
        match self.owner {
            Some(_) => TreeLimit::OfAUser,
            None => TreeLimit::None,
        }
    }
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

/// How many of the processes that are to be moved have been.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// All.
    All,
    /// Others are left, for another turn.
    Part,
}

/// Why an application is released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departure {
    /// It has ended, or is not to be managed any more: what was adopted is put back to where it was.
    ForGood,
    /// Its owner, an ordinary user, has set its CPUs: what was set stays.
    ToItsOwner,
    /// The daemon stops. The next one takes it over, so its processes stay where that finds them.
    DaemonStops,
}

/// A set that another program has written for an application.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignSet {
    /// What is set.
    pub cpus: CpuSet,
    /// Who can have written it.
    pub writer: Writer,
}

/// Which users can write the CPUs of an application besides the daemon: the owner of the file that holds them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writer {
    /// Only root or the daemon's user.
    Operator,
    /// This user, too.
    User(u32),
}

impl Writer {
    pub(super) const fn of_file(owner: u32, own: u32) -> Self {
        if owner == 0 || owner == own {
            Self::Operator
        } else {
            Self::User(owner)
        }
    }
}

/// Whether work is left for applications that were released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfinished {
    /// None.
    Nothing,
    /// Something has not got back what it had, for which others have to answer.
    Restoring,
    /// Processes or groups are still to be moved or removed, in [turns](super::Handover::continue_moving).
    Moving,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_and_the_daemons_user_are_operators() {
        assert_eq!(Writer::of_file(0, 7), Writer::Operator);
        assert_eq!(Writer::of_file(7, 7), Writer::Operator);
        assert_eq!(Writer::of_file(1000, 0), Writer::User(1000));
        assert_eq!(Writer::of_file(1000, 7), Writer::User(1000));
    }
}
