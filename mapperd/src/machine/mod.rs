//! The machine: what is measured, enforced and watched there.

pub(crate) mod departure;
pub(crate) mod enforce;
pub(crate) mod observe;
pub(crate) mod process;
pub(crate) mod profile;
pub(crate) mod selection;
pub(crate) mod sleep;
pub(crate) mod spinning;
pub(crate) mod surroundings;
pub(crate) mod wake;
pub(crate) mod watch;

use crate::config::accounts::Accounts;
use crate::registry::process::Process;
use crate::socket::message::Sender;
use mapper_control::schema::Selection;
use mapper_host::chain;
use mapper_host::clock::Clock;
use mapper_host::cpus::{Usable, UsableCpus};
use mapper_host::enforce::{Enforcer, HeldUp, Moves, ThreadMasks, masks};
use mapper_host::observe::CounterSource;
use mapper_host::procfs::ProcFs;
use mapper_host::topology::TopologySource;
use mapper_model::{AppId, CpuSet, ThreadId, Topology};
use sleep::Sleep;
use spinning::SpinningLookout;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Wake;
use tokio::sync::Notify;
use watch::Watches;

/// The interfaces to the machine, and what was last found there.
pub(crate) struct Machine {
    pub(crate) enforcer: Box<dyn Enforcer>,
    pub(crate) enforcer_selection: Selection,
    /// How it isolates CPUs, as of the daemon's start.
    pub(crate) isolation: Selection,
    pub(crate) counters: Vec<Box<dyn CounterSource>>,
    pub(crate) counters_selection: Selection,
    pub(crate) topology_source: Box<dyn TopologySource>,
    pub(crate) usable_cpus: UsableCpus,
    pub(crate) clock: Box<dyn Clock>,
    pub(crate) proc: ProcFs,
    /// Whose quotas each uid counts against.
    pub(crate) accounts: Accounts,
    /// Where watches report that processes have ended.
    pub(crate) sender: Sender,
    /// CPUs that may be assigned, as of the last decision.
    pub(crate) usable: CpuSet,
    /// As of the last decision.
    pub(crate) online: CpuSet,
    pub(crate) sleep: Sleep,
    pub(crate) finished: Arc<Finished>,
    pub(crate) spinning: SpinningLookout,
}

/// Notified whenever the kernel has finished a change that it had held up.
#[derive(Debug, Default)]
pub(crate) struct Finished(Notify);

impl Finished {
    pub(crate) async fn any(&self) {
        self.0.notified().await;
    }
}

impl Wake for Finished {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

impl Machine {
    pub(crate) fn read_usable(&self) -> anyhow::Result<Usable> {
        let limit = self.enforcer.limit()?;
        Ok(self.usable_cpus.read(&limit, &self.enforcer.exclusive())?)
    }

    /// Reads for the first time which CPUs may be assigned; an error if there are none.
    pub(crate) fn find_usable(&mut self) -> anyhow::Result<()> {
        let usable = self.read_usable()?;
        if let Some(why) = usable.why_none() {
            anyhow::bail!(why);
        }
        let excluded = [
            ("isolated", &usable.isolated),
            ("reserved", &usable.reserved),
            ("not allowed to this daemon", &usable.forbidden),
        ];
        let excluded = excluded.iter().filter(|(_, cpus)| !cpus.is_empty());
        let excluded: Vec<String> = excluded
            .map(|(why, cpus)| format!("; {why}: {cpus}"))
            .collect();
        tracing::info!("assignable CPUs: {}{}", usable.cpus, excluded.concat());
        self.usable = usable.cpus;
        self.online = usable.online;
        Ok(())
    }

    /// All CPUs that an application may use when it is not managed.
    pub(crate) fn unmanaged_cpus(&self, topology: &Topology) -> CpuSet {
        self.enforcer.limit().unwrap_or_else(|error| {
            tracing::warn!("{}", chain(&error));
            topology.cpus().clone()
        })
    }

    pub(crate) fn watch(&self, app: AppId, first_process: Option<OwnedFd>) -> Watches {
        let mut watches = Watches::default();
        if let Some(process) = first_process {
            watches.process(app, process, self.sender.clone());
        }
        if let Some(events) = self.enforcer.watch(app) {
            watches.group(app, events, self.sender.clone());
        }
        watches
    }

    /// What the kernel holds up, if no process can join a group meanwhile.
    pub(crate) fn moves_held_up(&self) -> Option<HeldUp> {
        let held = self.enforcer.held_up()?;
        (held.moves == Moves::Wait).then_some(held)
    }

    pub(crate) fn process(&self, pid: u32) -> Process {
        Process {
            pid,
            started_ticks: self.started_ticks(pid).unwrap_or_default(),
        }
    }

    pub(crate) fn is_alive(&self, process: Process) -> bool {
        self.started_ticks(process.pid) == Some(process.started_ticks)
    }

    fn started_ticks(&self, pid: u32) -> Option<u64> {
        let stat = self.proc.stat(pid).ok()?;
        (pid != 0 && !stat.is_zombie()).then_some(stat.started_ticks)
    }

    /// The CPUs that these threads may use, if their masks leave out assignable CPUs.
    pub(crate) fn own_mask(&self, threads: &[ThreadId]) -> Option<CpuSet> {
        // Groups have sets of their own, which the kernel intersects with masks.
        if self.enforcer.capabilities().masks == ThreadMasks::Intersected {
            return None;
        }
        let mut mask = CpuSet::new();
        // A thread that has ended has no mask.
        for of_thread in threads.iter().filter_map(|thread| masks::get(*thread).ok()) {
            mask.insert_all(&of_thread);
        }
        let usable = self.read_usable().ok()?.cpus;
        (!usable.is_subset(&mask) && !mask.is_disjoint(&usable)).then_some(mask)
    }
}
