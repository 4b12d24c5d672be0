//! The groups of the applications: where each comes from, what was written to it, and where all of them lie.

use super::alike::Places;
use super::asked::or_later;
use super::files::{ALL_NODES, DAEMON, WEIGHT, give_all, name_of};
use super::group_dir::{GroupDir, Populated, Removed};
use super::isolation::{Partition, become_member};
use super::rank::Rank;
use super::root::hand_down;
use super::systemd::{Outstanding, UnitName};
use super::turn::Turn;
use crate::procfs::{ProcFs, ProcessStat};
use crate::{HostError, chain};
use mapper_model::{AppId, CpuSet};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Groups {
    pub(super) root: GroupDir,
    pub(super) mount: PathBuf,
    pub(super) proc: Arc<ProcFs>,
    pub(super) init: Init,
    pub(super) apps: BTreeMap<AppId, Group>,
    /// Groups for which the kernel holds up a move: to be asked for again, or given up.
    pub(super) begun: BTreeSet<AppId>,
    pub(super) left_over: Vec<AppId>,
    /// Of these, what may be empty and is to be removed in turns.
    pub(super) unremoved: BTreeSet<AppId>,
    /// What is left of the interval to each account, in threads.
    pub(super) left: BTreeMap<u32, usize>,
}

/// Threads of one account that are listed in an interval. An application of more is counted by its group.
pub(super) const THREADS: usize = 2048;

/// Threads of an application that are listed whatever its account has had of the interval.
const AT_LEAST: usize = 64;

/// Sets that are remembered as requested: if systemd or the kernel is behind by as many, it is stuck.
const MOST_EXPECTED: usize = 64;

#[derive(Debug)]
pub(super) struct Group {
    pub(super) dir: GroupDir,
    /// What stood in `cpuset.cpus` when it was last written here, or found.
    pub(super) written: CpuSet,
    pub(super) origin: Origin,
    pub(super) change: Option<Asked>,
    /// Every set requested from systemd that the file has not shown yet, the newest last.
    pub(super) expected: Vec<CpuSet>,
    pub(super) memory: Memory,
    /// The memory nodes that it is to have once no change is held up.
    pub(super) nodes_due: Option<CpuSet>,
    pub(super) partition: Partition,
    pub(super) rank: Rank,
    /// Whose part of an interval it takes.
    pub(super) account: u32,
    pub(super) arriving: Arriving,
}

/// What an adoption has still to move.
#[derive(Debug, Default)]
pub(super) struct Arriving {
    /// Processes that were found outside.
    pub(super) left: Vec<ProcessStat>,
    /// One that the kernel may not have moved yet.
    pub(super) awaited: Option<ProcessStat>,
}

impl Group {
    pub(super) fn new(dir: GroupDir, origin: Origin, written: CpuSet) -> Self {
        Self {
            account: 0,
            dir,
            written,
            origin,
            change: None,
            expected: Vec::new(),
            memory: Memory::Unbound,
            nodes_due: None,
            partition: Partition::Member,
            rank: Rank::default(),
            arriving: Arriving::default(),
        }
    }

    /// From here on its file may show this set at any time, which is then not another program's.
    pub(super) fn expect(&mut self, cpus: &CpuSet) {
        self.expected.retain(|expected| expected != cpus);
        if self.expected.len() >= MOST_EXPECTED {
            self.expected.remove(0);
        }
        self.expected.push(cpus.clone());
    }

    pub(super) const fn is_member(&self) -> bool {
        matches!(self.partition, Partition::Member)
    }

    pub(super) fn set_member(&mut self, cpus: &CpuSet) -> Result<(), HostError> {
        let set = self.dir.set_cpus(cpus);
        match &set {
            Ok(()) => {
                self.written = cpus.clone();
                // Those before it have been in force.
                self.expected.clear();
            }
            Err(HostError::HeldUp(..)) => self.expect(cpus),
            Err(_) => {}
        }
        set
    }

    /// Binds its memory, or does so later if the kernel holds up a change.
    pub(super) fn set_nodes(&mut self, nodes: CpuSet) -> Result<(), HostError> {
        if self.dir.changes().memory_waits() {
            self.nodes_due = Some(nodes);
            return Ok(());
        }
        self.nodes_due = None;
        match self.dir.set_mems(&nodes.to_string()) {
            Err(HostError::HeldUp(..)) => {
                self.nodes_due = Some(nodes);
                Ok(())
            }
            set => set,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Memory {
    Unbound,
    Bound,
}

#[derive(Debug)]
pub(super) struct Asked {
    pub(super) cpus: CpuSet,
    pub(super) answer: Option<Outstanding>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Origin {
    #[default]
    Launched,
    Moved(Homes),
    InPlace(InPlace),
    Unit {
        unit: UnitName,
        /// What was allowed before; empty: all.
        place: InPlace,
    },
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct InPlace {
    pub(super) path: PathBuf,
    /// What was set before; empty: nothing, so all CPUs.
    pub(super) before: CpuSet,
    /// The memory nodes set before, in the form of a CPU list; empty: nothing, so all.
    #[serde(default)]
    pub(super) nodes_before: CpuSet,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Homes {
    pub(super) first: PathBuf,
    pub(super) each: BTreeMap<u32, Home>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Home {
    /// When it started: its number may be another's by the time it is put back.
    pub(super) started_ticks: u64,
    pub(super) path: PathBuf,
}

impl Origin {
    pub(super) const fn place(&self) -> Option<&InPlace> {
        match self {
            Self::InPlace(place) | Self::Unit { place, .. } => Some(place),
            Self::Launched | Self::Moved(_) => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Init {
    Systemd,
    Other,
}

impl Init {
    pub(super) fn of_this_machine() -> Self {
        match Path::new("/run/systemd/system").is_dir() {
            true => Self::Systemd,
            false => Self::Other,
        }
    }
}

impl Groups {
    pub(super) fn get(&self, app: AppId) -> Result<&Group, HostError> {
        self.apps.get(&app).ok_or_else(|| self.unknown(app))
    }

    pub(super) fn get_mut(&mut self, app: AppId) -> Result<&mut Group, HostError> {
        let unknown = self.unknown(app);
        self.apps.get_mut(&app).ok_or(unknown)
    }

    pub(super) fn places(&self) -> Places {
        Places {
            mount: self.mount.clone(),
            proc: Arc::clone(&self.proc),
        }
    }

    /// How many threads of an application may be listed now.
    pub(super) fn most_threads(&self, account: u32) -> usize {
        let left = self.left.get(&account).copied().unwrap_or(THREADS);
        left.max(AT_LEAST)
    }

    pub(super) fn listed(&mut self, account: u32, threads: usize) {
        let left = self.left.entry(account).or_insert(THREADS);
        *left = left.saturating_sub(threads);
    }

    pub(super) fn unknown(&self, app: AppId) -> HostError {
        let path = self.root.file(&name_of(app));
        HostError::file("find", path, io::Error::from(io::ErrorKind::NotFound))
    }

    /// Leaves a group of ours to be removed, which newcomers do not wait for. It has all CPUs if a process is left in it.
    pub(super) fn abandon(&mut self, app: AppId, group: &Group) -> Result<(), HostError> {
        match group.dir.is_populated() {
            Err(error) if error.is_gone() => Ok(()),
            Err(error) => Err(error),
            Ok(Populated::No) => {
                self.leave_over(app);
                Ok(())
            }
            Ok(Populated::Yes) => {
                self.left_over.push(app);
                let memory = match group.memory {
                    Memory::Unbound => Ok(()),
                    Memory::Bound => self
                        .root
                        .read(ALL_NODES)
                        .and_then(|nodes| or_later(group.dir.set_mems(nodes.trim_end()))),
                };
                group.rank.give_back(&group.dir);
                or_later(give_all(&group.dir, &self.exclusive_cpus())).and(memory)
            }
        }
    }

    /// Has the kernel divide shared CPUs by application, where the place for groups has the cpu controller; by thread elsewhere.
    pub(super) fn divide_by_application(&self, controllers: &str) {
        let by_thread = "applications that share CPUs have them by thread, not by application";
        if !controllers.split_ascii_whitespace().any(|c| c == "cpu") {
            tracing::info!(
                "{by_thread}: the cpu controller is not delegated (Delegate=cpuset cpu)"
            );
        } else if let Err(error) = hand_down(&self.root, "cpu") {
            tracing::info!("{by_thread}: {}", chain(&error));
        }
        // A daemon among its applications is to run before them.
        if let Ok(daemon) = self.root.beneath(Path::new(DAEMON)) {
            let _ = daemon.write(WEIGHT, "10000");
        }
    }

    /// A group that is removed in one of the next turns.
    pub(super) fn leave_over(&mut self, app: AppId) {
        self.left_over.push(app);
        self.unremoved.insert(app);
    }

    /// Whether processes stay in its group.
    pub(super) fn is_left_behind(&self, app: AppId) -> bool {
        self.left_over.contains(&app) && !self.unremoved.contains(&app)
    }

    /// Removes what may be removed, in a turn.
    pub(super) fn remove_unremoved(&mut self, turn: &Turn) {
        while !turn.is_over()
            && let Some(app) = self.unremoved.pop_first()
        {
            match self.root.remove_if_empty(&name_of(app)) {
                Ok(Removed::Yes) => self.left_over.retain(|left| *left != app),
                Err(HostError::HeldUp(..)) => {
                    self.unremoved.insert(app);
                    return;
                }
                // It is left over.
                Ok(Removed::StillPopulated) | Err(_) => {}
            }
        }
    }

    pub(super) fn remove_left_over(&mut self) {
        if self.root.changes().moves_wait() {
            let is_empty = |app: &&AppId| {
                let group = self.root.beneath(Path::new(&name_of(**app)));
                matches!(
                    group.and_then(|group| group.is_populated()),
                    Ok(Populated::No)
                )
            };
            self.unremoved
                .extend(self.left_over.iter().filter(is_empty));
            return;
        }
        // The others have turns of their own, and may be many.
        let is_due = |app: &&AppId| !self.unremoved.contains(app);
        for app in self.left_over.iter().filter(is_due) {
            self.dissolve_left_over(*app);
        }
        let (root, unremoved) = (&self.root, &mut self.unremoved);
        self.left_over.retain(|app| {
            if unremoved.contains(app) {
                return true;
            }
            let removed = root.remove_if_empty(&name_of(*app));
            if let Err(HostError::HeldUp(..)) = removed {
                unremoved.insert(*app);
            }
            !matches!(removed, Ok(Removed::Yes))
        });
    }

    /// A group that is empty may be the partition of an earlier daemon's application.
    fn dissolve_left_over(&self, app: AppId) {
        let Ok(dir) = self.root.beneath(Path::new(&name_of(app))) else {
            return;
        };
        if matches!(dir.is_populated(), Ok(Populated::No))
            && !matches!(Partition::found(&dir), Partition::Member)
            && let Err(error) = become_member(&dir)
        {
            tracing::warn!(app = app.0, "partition not dissolved: {}", chain(&error));
        }
    }

    pub(super) fn exclusive_cpus(&self) -> CpuSet {
        let partitions = self.apps.values().filter_map(|g| g.partition.exclusive());
        partitions.fold(CpuSet::new(), |all, cpus| all.union(cpus))
    }

    /// The groups around the applications', from the top, which have to claim what those have.
    pub(super) fn around(&self) -> Result<Vec<GroupDir>, HostError> {
        let Ok(path) = self.root.path().strip_prefix(&self.mount) else {
            return Ok(Vec::new());
        };
        let groups = path.ancestors().filter(|path| !path.as_os_str().is_empty());
        let mut around: Vec<GroupDir> = groups
            .map(|path| self.home(path))
            .collect::<Result<_, _>>()?;
        around.reverse();
        Ok(around)
    }

    pub(super) fn home(&self, path: &Path) -> Result<GroupDir, HostError> {
        let mount = self.root.open_another(&self.mount)?;
        match path.as_os_str().is_empty() {
            true => Ok(mount),
            false => mount.beneath(path),
        }
    }

    /// The CPUs that the groups around one leave to it, and the nearest of them that has a cpuset.
    pub(super) fn effective_around(&self, path: &Path) -> Result<(PathBuf, CpuSet), HostError> {
        let mut last = None;
        for around in path.ancestors().skip(1) {
            match self.home(around)?.read_cpus("cpuset.cpus.effective") {
                Ok(cpus) => return Ok((around.to_owned(), cpus)),
                Err(error) if error.is_gone() => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last
            .unwrap_or_else(|| HostError::file("find a group around", path, Errno::NOENT.into())))
    }

    /// Whether systemd leaves a group to others: one that it is in is delegated, but not the delegated group itself.
    pub(super) fn is_delegated(&self, path: &Path) -> bool {
        path.ancestors()
            .skip(1)
            .filter(|group| !group.as_os_str().is_empty())
            .any(|group| self.home(group).is_ok_and(|dir| dir.is_delegated()))
    }
}
