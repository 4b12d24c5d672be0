//! Putting a CPU set in force for an application.
//!
//! An application is a tree of processes that began with one program under a launcher. An [`Enforcer`] admits that
//! first process before it runs the program, so that nothing it starts escapes. [`cgroup`] writes `cpuset.cpus` of a
//! group; [`affinity`] needs no privilege and sets every thread, which a program can undo until the next interval.
//!
//! Invariants: a write is read back ([`Confine::effective`]), so that the next decision starts from what is in
//! force; an application that is released while it runs gets all CPUs back.

mod adoptee;
pub mod affinity;
pub mod cgroup;
mod descendants;
mod held_up;
pub mod masks;
mod standing;
pub(crate) mod tree;

use crate::{HostError, Missing};
use mapper_model::{AppId, CpuSet, IdleTimeUse, NodeId, ThreadId, Weight};
use std::collections::BTreeSet;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::task::Waker;

pub use adoptee::{AdoptTarget, Adoptee, Departure, ForeignSet, Moved, Unfinished, Writer};
pub use affinity::AffinityEnforcer;
pub use cgroup::CgroupEnforcer;
pub use descendants::{TreeLimit, descendants};
pub use held_up::{HeldUp, Moves};
pub use standing::Standing;

/// A way to confine applications to CPU sets: what every way can do, and what only some can.
pub trait Enforcer: Confine + Membership + Handover + Isolate + BindMemory {
    /// Where and how it works, for logs and status.
    fn describe(&self) -> String;

    /// What the kernel does for it.
    fn capabilities(&self) -> Capabilities;
}

/// What the kernel does for an enforcer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// What knows the processes of an application after a daemon has ended.
    pub members: MembersKept,
    /// What becomes of the CPU masks that threads have when they come under management.
    pub masks: ThreadMasks,
    /// Whether memory can be bound to nodes.
    pub memory: MemoryBinding,
}

/// What knows the processes of an application after a daemon has ended.
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
    /// They are overwritten, so that plans have to regard them.
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

/// What became of idle time that an application is to use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdleTimeChange {
    /// It was in use already.
    None,
    /// The next [`Confine::apply`] puts it in force.
    Made,
}

/// Puts CPU sets in force, and reads which are.
pub trait Confine: fmt::Debug {
    /// The CPUs that can be given out at most, read now.
    fn limit(&self) -> Result<CpuSet, HostError>;

    /// The CPUs that limits around an application leave to it, read now; `None` if only [`Confine::limit`] applies.
    fn limit_of(&self, _app: AppId) -> Result<Option<CpuSet>, HostError> {
        Ok(None)
    }

    /// Confines an application to a set. After an error [`Confine::effective`] shows what is in force.
    fn apply(&mut self, app: AppId, cpus: &CpuSet) -> Result<(), HostError>;

    /// The CPUs in force for an application.
    fn effective(&mut self, app: AppId) -> Result<CpuSet, HostError>;

    /// Has the kernel divide CPUs that several applications have by these weights, whatever threads each has, where it can
    /// divide by application.
    fn weigh(&mut self, _app: AppId, _weight: Weight) -> Result<(), HostError> {
        Ok(())
    }

    /// Whether an application stands beside the others, so that the kernel can hold it back while they want to run.
    fn idle_time_use(&self, _app: AppId) -> IdleTimeUse {
        IdleTimeUse::Never
    }

    /// From the next [`Confine::apply`] on it has these CPUs as well, and the kernel runs it only while no other application
    /// wants to run where it is. They are no part of those that are [in force](Confine::effective). After an error it has none.
    fn use_idle_time(&mut self, _app: AppId, _cpus: &CpuSet) -> Result<IdleTimeChange, HostError> {
        Ok(IdleTimeChange::None)
    }

    /// The CPUs that another program has set for an application since the last [`Confine::apply`].
    fn set_by_others(&mut self, _app: AppId) -> Option<ForeignSet> {
        None
    }
}

/// Follows the processes of applications from their arrival to their release.
pub trait Membership: fmt::Debug {
    /// Follows the processes of an application from here on. After an error nothing is left behind, but what the kernel
    /// holds up may still come: to be repeated for the same application once it no longer does.
    fn admit(&mut self, newcomer: &Newcomer) -> Result<(), HostError>;

    /// What the kernel holds up for a newcomer or an adoption is not asked for again.
    fn give_up(&mut self, _app: AppId) {}

    /// Reads what a running program has now, and changes nothing; [`HostError::NotAdoptable`] if it cannot be adopted.
    fn adopt(&mut self, adoptee: &Adoptee) -> Result<(), HostError>;

    /// Moves what was adopted to where it can be confined, or as much of it as others can wait for; after an error all are
    /// put back and forgotten.
    fn move_in(&mut self, _adoptee: &Adoptee) -> Result<Moved, HostError> {
        Ok(Moved::All)
    }

    /// The process with the lowest number of an application, also of one that was left over.
    fn first_process(&self, app: AppId) -> Option<u32>;

    /// Once an interval: follows processes and threads that came and went. After an error the last knowledge stays.
    fn refresh(&mut self) -> Result<(), HostError>;

    /// The same when an application came or left: only what cannot wait until the next [`Membership::refresh`].
    fn follow_new(&mut self) -> Result<(), HostError> {
        self.refresh()
    }

    /// The application that a process belongs to, as far as is known.
    fn owner(&self, pid: u32) -> Option<AppId>;

    /// How many threads wait for their turn: so many belong to applications that were not wholly looked at in the last
    /// interval.
    fn waiting_threads(&self) -> usize {
        0
    }

    /// How many groups are below one that was adopted in its place, if too many to be read at each decision.
    fn too_many_groups(&mut self, _app: AppId) -> Option<u64> {
        None
    }

    /// Its processes and threads at the last [`Membership::refresh`] or [`Membership::admit`]; of each account no more than
    /// its part of an interval.
    fn tasks(&mut self, app: AppId) -> Tasks;

    /// The oldest change that the kernel does not finish. Changes that waited for one that has finished are made.
    fn held_up(&self) -> Option<HeldUp> {
        None
    }

    /// Has this woken whenever the kernel finishes a change that it has held up.
    fn wake_when_finished(&mut self, _waker: Waker) {}

    /// The directory of its control group, if it has one.
    fn group(&self, _app: AppId) -> Option<PathBuf> {
        None
    }

    /// CPU time of all its processes so far, also of those that ended, where the kernel sums it up.
    fn cpu_time_ns(&mut self, _app: AppId) -> Option<u64> {
        None
    }

    /// Which of these have no process left, read now. Those of which that is not known yet stay in `apps`.
    fn emptied(&mut self, apps: &mut BTreeSet<AppId>) -> Vec<AppId>;

    /// A descriptor that becomes readable with priority when processes come or go, if there is one.
    fn watch(&self, _app: AppId) -> Option<OwnedFd> {
        None
    }

    /// Gives what still runs `all` CPUs, or what it had before it was adopted, and forgets it, also after an error. What
    /// would take long is [unfinished](Handover::unfinished) then, unless the daemon stops.
    fn release(&mut self, app: AppId, all: &CpuSet, departure: Departure) -> Result<(), HostError>;
}

/// Passes applications on from one daemon to the next.
pub trait Handover: fmt::Debug {
    /// What a later daemon needs to follow its processes, for [`Former::processes`]; null if nothing.
    fn remember(&self, app: AppId) -> serde_json::Value;

    /// Applications of an earlier daemon that were found running, by what the kernel keeps.
    fn left_over(&self) -> Vec<AppId> {
        Vec::new()
    }

    /// Follows an application of an earlier daemon; an error if none of its processes is found.
    fn take_over(&mut self, former: &Former) -> Result<(), HostError>;

    /// Whether there is still work for applications that were released.
    fn unfinished(&self) -> Unfinished {
        Unfinished::Nothing
    }

    /// Whether processes of a released application are still to be moved, or its group to be removed.
    fn is_moving(&self, _app: AppId) -> bool {
        false
    }

    /// Does as much of that work as others can wait for, where it is done in turns.
    fn continue_moving(&mut self) {}

    /// What a later daemon needs to finish that work.
    fn remember_unfinished(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    /// Finishes at once what takes nobody else's answer, when the daemon stops.
    fn finish(&mut self) {}

    /// Continues the unfinished work of an earlier daemon. To be called before any [`Handover::take_over`].
    fn take_up(&mut self, _unfinished: &serde_json::Value) {}
}

/// Keeps everything else off the CPUs of applications, where that is possible.
pub trait Isolate: fmt::Debug {
    /// Whether applications can be isolated here; [`HostError::Missing`] with what is missing if not.
    fn may_isolate(&self) -> Result<(), HostError> {
        Err(no_isolation())
    }

    /// From the next [`Confine::apply`] on, its CPUs are its alone, or [`Isolate::standing`] says why not.
    fn isolate(&mut self, _app: AppId) -> Result<(), HostError> {
        Err(no_isolation())
    }

    /// How its CPUs relate to the rest of the machine, as of the last [`Membership::refresh`] or [`Confine::apply`].
    fn standing(&self, _app: AppId) -> Standing {
        Standing::Member
    }

    /// The CPUs of all isolated applications together. They are part of the [limit](Confine::limit).
    fn exclusive(&self) -> CpuSet {
        CpuSet::new()
    }
}

fn no_isolation() -> HostError {
    HostError::Missing(Missing::new(
        "isolated CPUs",
        "this daemon confines by thread affinity, which keeps nothing else away",
        "start it with --enforcer cgroup",
    ))
}

/// Binds memory to NUMA nodes, where that is possible.
pub trait BindMemory: fmt::Debug {
    /// Makes an application take its memory from these nodes, also what it has elsewhere; after an error it stays.
    fn bind_memory(&mut self, _app: AppId, _nodes: &[NodeId]) -> Result<(), HostError> {
        Err(HostError::Missing(Missing::new(
            "binding of memory",
            "this daemon confines by thread affinity, without control groups",
            "start it with --enforcer cgroup, or the program without --mem",
        )))
    }
}

/// An application to be admitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Newcomer {
    /// Its id.
    pub app: AppId,
    /// Its first process, which waits before it runs the program.
    pub first_process: u32,
    /// The process that launched it and to which its orphans fall.
    pub launcher: u32,
    /// Whose part of an interval it takes.
    pub account: u32,
}

/// An application that an earlier daemon managed.
#[derive(Clone, PartialEq, Debug)]
pub struct Former {
    /// Its id.
    pub app: AppId,
    /// The CPUs it was last given.
    pub cpus: CpuSet,
    /// Those of a later decision that was not saved any more, if it may have been given them.
    pub unsaved: Option<CpuSet>,
    /// Its launcher, if that lives.
    pub launcher: Option<u32>,
    /// Whose part of an interval it takes.
    pub account: u32,
    /// The set that another program had written for it and that was left alone.
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
    /// Whether that is all.
    pub extent: Extent,
}

/// Whether everything was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Extent {
    /// It was.
    #[default]
    Whole,
    /// There is more than its user may have read in an interval.
    Part,
}
