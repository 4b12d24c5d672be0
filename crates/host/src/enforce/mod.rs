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
//! Invariants: a write is read back ([`Confine::effective`]), so that the next decision starts from
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

/// A way to confine applications to CPU sets: what every way can do, and what only some can.
pub trait Enforcer: Confine + Membership + Handover {
    /// Where and how it works, for logs and status.
    fn describe(&self) -> String;

    /// What the kernel does for it, so that others need not.
    fn capabilities(&self) -> Capabilities;

    /// The part that isolates applications, if it can.
    fn isolation(&self) -> Option<&dyn Isolate> {
        None
    }

    /// The same, to change something.
    fn isolation_mut(&mut self) -> Option<&mut dyn Isolate> {
        None
    }

    /// The part that binds memory, if it can.
    fn memory(&mut self) -> Option<&mut dyn BindMemory> {
        None
    }
}

/// What the kernel does for an enforcer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// Who knows which processes belong to an application when a daemon has ended.
    pub members: MembersKept,
    /// What becomes of the CPU masks that threads have when they come under management.
    pub masks: ThreadMasks,
    /// Whether memory can be bound to nodes.
    pub memory: MemoryBinding,
}

/// Who knows which processes belong to an application when a daemon has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MembersKept {
    /// The kernel, and with them the CPUs in force.
    ByKernel,
    /// The daemon's saved state alone.
    BySavedState,
}

/// What becomes of the CPU masks that threads have when they come under management.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadMasks {
    /// The kernel uses what they leave of the application's set.
    Intersected,
    /// They are overwritten, so that whoever plans has to regard them.
    Overwritten,
}

/// Whether memory can be bound to nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryBinding {
    /// It can.
    Available,
    /// It cannot.
    Unavailable,
}

/// Puts CPU sets in force, and says which are.
pub trait Confine: fmt::Debug {
    /// The CPUs that it can give out at most, read now.
    ///
    /// # Errors
    /// When the kernel does not report it.
    fn limit(&self) -> Result<CpuSet, HostError>;

    /// The CPUs that limits around an application leave to it, read now; `None` where no others stand than those
    /// that count for all ([`Confine::limit`]).
    ///
    /// # Errors
    /// When the kernel does not report it.
    fn limit_of(&self, _app: AppId) -> Result<Option<CpuSet>, HostError> {
        Ok(None)
    }

    /// Confines an application to a set.
    ///
    /// # Errors
    /// When the kernel refuses; what is in force then is told by [`Confine::effective`].
    fn apply(&mut self, app: AppId, cpus: &CpuSet) -> Result<(), HostError>;

    /// The CPUs in force for an application.
    ///
    /// # Errors
    /// When the kernel does not report it.
    fn effective(&mut self, app: AppId) -> Result<CpuSet, HostError>;

    /// The CPUs that somebody else has set for an application since it was last told a set; `None`
    /// while what was told stands.
    fn set_by_others(&mut self, app: AppId) -> Option<ForeignSet>;
}

/// Follows the processes of applications from their arrival to their release.
pub trait Membership: fmt::Debug {
    /// Takes an application in: from here on its processes are followed.
    ///
    /// # Errors
    /// When its group cannot be made or its first process cannot be moved; nothing is left behind.
    fn admit(&mut self, newcomer: &Newcomer) -> Result<(), HostError>;

    /// Takes something in that runs already, and looks at what it has now. Nothing is changed for it before
    /// [`Membership::move_in`], so that what [`Handover::remember`] says can be written down first.
    ///
    /// # Errors
    /// [`HostError::NotAdoptable`] when it is not of the kind that can be, or not that user's; nothing is
    /// changed then.
    fn adopt(&mut self, adoptee: &Adoptee) -> Result<(), HostError>;

    /// Moves what was adopted to where it can be confined, if it has to be moved. It is not confined before
    /// [`Confine::apply`].
    ///
    /// # Errors
    /// When somebody cannot be moved, or is another user's by now: all are put back, and it is forgotten.
    fn move_in(&mut self, adoptee: &Adoptee) -> Result<(), HostError>;

    /// The process with the lowest number of an application, also of one that was left over.
    fn first_process(&self, app: AppId) -> Option<u32>;

    /// Looks for processes and threads that came and went, and puts right what escaped. To be
    /// called once an interval, before readings are taken.
    ///
    /// # Errors
    /// When the kernel does not report it; the last knowledge stays.
    fn refresh(&mut self) -> Result<(), HostError>;

    /// How many groups there are below one that was adopted in its place, if they are more than can be looked
    /// through at each decision.
    fn too_many_groups(&mut self, app: AppId) -> Option<u64>;

    /// Its processes and threads at the last [`Membership::refresh`] or [`Membership::admit`].
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

/// Passes applications on from one daemon to the next.
pub trait Handover: fmt::Debug {
    /// What has to be kept of an application so that a later daemon can follow its processes
    /// further, for [`Former::processes`]. Null for kinds that find them without.
    fn remember(&self, app: AppId) -> serde_json::Value;

    /// Applications of an earlier daemon that were found running, by what the kernel keeps.
    fn left_over(&self) -> Vec<AppId>;

    /// Takes an application of an earlier daemon over. Nothing is changed for it: what is in force
    /// stays so until [`Confine::apply`].
    ///
    /// # Errors
    /// When none of its processes can be found.
    fn take_over(&mut self, former: &Former) -> Result<(), HostError>;

    /// Whether something is still to be done for applications that were released. It is gone on with by
    /// [`Membership::refresh`].
    fn unfinished(&self) -> Unfinished;

    /// What has to be kept so that a later daemon can finish what is unfinished here.
    fn remember_unfinished(&self) -> serde_json::Value;

    /// Goes on with what an earlier daemon had not finished. To be called before any
    /// [`Handover::take_over`].
    fn take_up(&mut self, unfinished: &serde_json::Value);
}

/// Keeps everything else off the CPUs of applications.
pub trait Isolate: fmt::Debug {
    /// Whether an application can be [isolated](Isolate::isolate) here.
    ///
    /// # Errors
    /// [`HostError::Missing`] says what is missing, and how to provide it.
    fn available(&self) -> Result<(), HostError>;

    /// From the next [`Confine::apply`] on, an application has its CPUs to itself. Where the kernel refuses
    /// that, now or later, it has the CPUs all the same, and [`Isolate::standing`] says why.
    ///
    /// # Errors
    /// When the application is not known.
    fn isolate(&mut self, app: AppId) -> Result<(), HostError>;

    /// How its CPUs relate to the rest of the machine, as of the last [`Membership::refresh`] or
    /// [`Confine::apply`].
    fn standing(&self, app: AppId) -> Standing;

    /// The CPUs of all isolated applications together. They are part of the [limit](Confine::limit).
    fn exclusive(&self) -> CpuSet;
}

/// Binds memory to NUMA nodes.
pub trait BindMemory: fmt::Debug {
    /// Has an application take its memory from these NUMA nodes, and moves there what it has elsewhere.
    ///
    /// # Errors
    /// When the kernel refuses; the memory stays where it is.
    fn bind(&mut self, app: AppId, nodes: &[NodeId]) -> Result<(), HostError>;
}

impl dyn Enforcer + '_ {
    /// Whether applications can be isolated.
    ///
    /// # Errors
    /// [`HostError::Missing`] says what is missing, and how to provide it.
    pub fn may_isolate(&self) -> Result<(), HostError> {
        self.isolation().ok_or_else(no_isolation)?.available()
    }

    /// Isolates an application; see [`Isolate::isolate`].
    ///
    /// # Errors
    /// When it is not known, or applications cannot be isolated here.
    pub fn isolate(&mut self, app: AppId) -> Result<(), HostError> {
        self.isolation_mut().ok_or_else(no_isolation)?.isolate(app)
    }

    /// How the CPUs of an application relate to the rest of the machine.
    #[must_use]
    pub fn standing(&self, app: AppId) -> Standing {
        self.isolation()
            .map_or(Standing::Member, |isolation| isolation.standing(app))
    }

    /// Has an application take its memory from these NUMA nodes; see [`BindMemory::bind`].
    ///
    /// # Errors
    /// When the kernel refuses, or memory cannot be bound here.
    pub fn bind_memory(&mut self, app: AppId, nodes: &[NodeId]) -> Result<(), HostError> {
        let unavailable = || {
            HostError::Missing(Missing {
                what: "binding of memory",
                why: "this daemon confines by thread affinity, without control groups".to_owned(),
                hint: "start it with --enforcer cgroup, or the program without --mem".to_owned(),
            })
        };
        self.memory().ok_or_else(unavailable)?.bind(app, nodes)
    }

    /// The CPUs of all isolated applications together.
    #[must_use]
    pub fn exclusive(&self) -> CpuSet {
        self.isolation().map(Isolate::exclusive).unwrap_or_default()
    }
}

fn no_isolation() -> HostError {
    HostError::Missing(Missing {
        what: "isolated CPUs",
        why: "this daemon confines by thread affinity, which keeps nothing else away".to_owned(),
        hint: "start it with --enforcer cgroup".to_owned(),
    })
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
    /// What [`Handover::remember`] said.
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
