//! Putting a CPU set in force for an application.
//!
//! An application is a tree of processes that began with one program under a launcher. An
//! [`Enforcer`] takes that first process in before it runs the program, so that nothing it starts
//! escapes, and from then on confines all its threads to whatever CPU set it is told.
//!
//! Two ways exist. [`cgroup`] writes `cpuset.cpus` of a group in a delegated cgroup v2 subtree: one
//! write confines every thread, now and later, and the kernel refuses every way out. [`affinity`]
//! needs no privilege: it sets the affinity of every thread of the tree, repeatedly, until no thread
//! has an old mask; a program can undo it, which is seen and put right at the next interval.
//!
//! Invariants: a write is read back ([`Enforcer::effective`]), so that the next decision starts from
//! what is in force and not from what was wished for; releasing an application that still runs gives
//! it all CPUs back.

mod adoptee;
pub mod affinity;
pub mod cgroup;
pub mod masks;
mod standing;
pub(crate) mod tree;

use crate::{HostError, Missing};
use mapper_model::{AppId, AppName, CpuSet, NodeId, ThreadId};
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

pub use adoptee::{AdoptTarget, Adoptee, Departure, ForeignSet, Unfinished, Writer};
pub use affinity::AffinityEnforcer;
pub use cgroup::CgroupEnforcer;
pub use standing::Standing;
pub use tree::descendants;

/// Confines applications to CPU sets.
pub trait Enforcer: fmt::Debug {
    /// What kind it is.
    fn kind(&self) -> EnforcerKind;

    /// Where and how it works, for logs and status.
    fn describe(&self) -> String;

    /// The CPUs that it can give out at most, read now.
    ///
    /// # Errors
    /// When the kernel does not tell.
    fn limit(&self) -> Result<CpuSet, HostError>;

    /// The CPUs that limits around an application leave to it, read now; `None` where no others stand than those
    /// that count for all ([`Enforcer::limit`]).
    ///
    /// # Errors
    /// When the kernel does not tell.
    fn limit_of(&self, _app: AppId) -> Result<Option<CpuSet>, HostError> {
        Ok(None)
    }

    /// Whether an application can be [isolated](Enforcer::isolate) here.
    ///
    /// # Errors
    /// [`HostError::Missing`] says what is missing, and what would mend it.
    fn may_isolate(&self) -> Result<(), HostError> {
        Err(HostError::Missing(Missing {
            what: "isolated CPUs",
            why: "this daemon confines by thread affinity, which keeps nobody away".to_owned(),
            mend: "start it with --enforcer cgroup".to_owned(),
        }))
    }

    /// From the next [`Enforcer::apply`] on, an application has its CPUs to itself. Where the kernel refuses
    /// that, now or later, it has the CPUs all the same, and [`Enforcer::standing`] says why.
    ///
    /// # Errors
    /// When it is not known, or this kind cannot isolate.
    fn isolate(&mut self, _app: AppId) -> Result<(), HostError> {
        self.may_isolate()
    }

    /// How its CPUs stand to the rest of the machine, as of the last [`Enforcer::refresh`] or
    /// [`Enforcer::apply`].
    fn standing(&self, _app: AppId) -> Standing {
        Standing::Member
    }

    /// The CPUs of all isolated applications together. They are part of the [limit](Enforcer::limit).
    fn exclusive(&self) -> CpuSet {
        CpuSet::new()
    }

    /// Takes an application in: from here on its processes are followed.
    ///
    /// # Errors
    /// When its group cannot be made or its first process cannot be moved; nothing is left behind.
    fn admit(&mut self, newcomer: &Newcomer) -> Result<(), HostError>;

    /// Takes something in that runs already, and looks at what it has now. Nothing is changed for it before
    /// [`Enforcer::move_in`], so that what [`Enforcer::remember`] says can be written down first.
    ///
    /// # Errors
    /// [`HostError::NotAdoptable`] when it is not of the kind that can be, or not that user's; nothing is
    /// changed then.
    fn adopt(&mut self, adoptee: &Adoptee) -> Result<(), HostError>;

    /// Moves what was adopted to where it can be confined, if it has to be moved. It is not confined before
    /// [`Enforcer::apply`].
    ///
    /// # Errors
    /// When somebody cannot be moved, or is another user's by now: all are put back, and it is forgotten.
    fn move_in(&mut self, adoptee: &Adoptee) -> Result<(), HostError>;

    /// What has to be kept of an application so that a later daemon can follow its processes
    /// further, for [`Former::processes`]. Null for kinds that find them without.
    fn remember(&self, app: AppId) -> serde_json::Value;

    /// Applications of an earlier daemon that were found running, by what the kernel keeps.
    fn left_over(&self) -> Vec<AppId>;

    /// The process with the lowest number of an application, also of one that was left over.
    fn first_process(&self, app: AppId) -> Option<u32>;

    /// Takes an application of an earlier daemon over. Nothing is changed for it: what is in force
    /// stays so until [`Enforcer::apply`].
    ///
    /// # Errors
    /// When none of its processes can be found.
    fn take_over(&mut self, former: &Former) -> Result<(), HostError>;

    /// Looks for processes and threads that came and went, and puts right what escaped. To be
    /// called once an interval, before readings are taken.
    ///
    /// # Errors
    /// When the kernel does not tell; the last knowledge stays.
    fn refresh(&mut self) -> Result<(), HostError>;

    /// Confines an application to a set.
    ///
    /// # Errors
    /// When the kernel refuses; what is in force then is told by [`Enforcer::effective`].
    fn apply(&mut self, app: AppId, cpus: &CpuSet) -> Result<(), HostError>;

    /// Has an application take its memory from these NUMA nodes, and moves there what it has elsewhere.
    ///
    /// # Errors
    /// When the kernel refuses, or this kind cannot bind memory; it stays where it is.
    fn bind_memory(&mut self, app: AppId, nodes: &[NodeId]) -> Result<(), HostError>;

    /// The CPUs in force for an application.
    ///
    /// # Errors
    /// When the kernel does not tell.
    fn effective(&mut self, app: AppId) -> Result<CpuSet, HostError>;

    /// The CPUs that somebody else has set for an application since it was last told a set; `None`
    /// while what was told stands.
    fn set_by_others(&mut self, app: AppId) -> Option<ForeignSet>;

    /// How many groups there are below one that was adopted in its place, if they are more than can be looked
    /// through at each decision.
    fn too_many_groups(&mut self, app: AppId) -> Option<u64>;

    /// Whether something is still to be done for applications that were released. It is gone on with by
    /// [`Enforcer::refresh`].
    fn unfinished(&self) -> Unfinished;

    /// What has to be kept so that a later daemon can finish what is unfinished here.
    fn remember_unfinished(&self) -> serde_json::Value;

    /// Goes on with what an earlier daemon had not finished. To be called before any
    /// [`Enforcer::take_over`].
    fn take_up(&mut self, unfinished: &serde_json::Value);

    /// Its processes and threads at the last [`Enforcer::refresh`] or [`Enforcer::admit`].
    fn tasks(&mut self, app: AppId) -> Tasks;

    /// The directory of its control group, for kinds that give each application one.
    fn group(&self, app: AppId) -> Option<PathBuf>;

    /// CPU time of all its processes so far, also of those that ended, where the kernel sums it up.
    fn cpu_time_ns(&mut self, app: AppId) -> Option<u64>;

    /// Whether any of its processes still lives.
    fn is_populated(&mut self, app: AppId) -> bool;

    /// A descriptor that becomes readable with priority when processes come or go, for kinds that
    /// have one.
    fn watch(&self, app: AppId) -> Option<OwnedFd>;

    /// Lets an application go: gives `all` CPUs back to whatever of it still runs, or what it had before it
    /// was adopted, and forgets it.
    ///
    /// # Errors
    /// When the kernel refuses; it is forgotten all the same.
    fn release(&mut self, app: AppId, all: &CpuSet, departure: Departure) -> Result<(), HostError>;
}

/// The kinds of enforcers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EnforcerKind {
    /// Control groups, version 2.
    Cgroup,
    /// Affinity of threads.
    Affinity,
}

impl fmt::Display for EnforcerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cgroup => "cgroup",
            Self::Affinity => "affinity",
        })
    }
}

/// An application to be taken in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Newcomer {
    /// Its id.
    pub app: AppId,
    /// Its name.
    pub name: AppName,
    /// Its first process, which waits before it runs the program.
    pub first_process: u32,
    /// The process that launched it and to which its orphans fall.
    pub launcher: u32,
}

/// An application that an earlier daemon managed.
#[derive(Clone, PartialEq, Debug)]
pub struct Former {
    /// Its id.
    pub app: AppId,
    /// The CPUs it was last given.
    pub cpus: CpuSet,
    /// Its launcher, if that still lives.
    pub launcher: Option<u32>,
    /// The set that somebody else had written for it and that was left alone.
    pub set_by_others: Option<CpuSet>,
    /// What [`Enforcer::remember`] said.
    pub processes: serde_json::Value,
}

/// The processes and threads of an application.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tasks {
    /// Processes, in ascending order.
    pub processes: Vec<u32>,
    /// Threads of all of them, in ascending order.
    pub threads: Vec<ThreadId>,
}
