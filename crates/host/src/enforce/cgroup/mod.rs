//! Confinement by control groups, version 2: one group `app-<id>` with a cpuset for each application.
//!
//! One write of `cpuset.cpus` confines every thread in a group, and whatever a member forks is a member. Groups are
//! made below one directory, the *root*, that only this daemon writes to (`root` finds it, unless it is named). The
//! root must hold no process itself ([cgroup-v2.rst], "No Internal Process Constraint"), so a daemon that was started
//! in it moves to a group `daemon`. What runs already can be adopted (`adoption`).
//!
//! Invariants: only groups that this enforcer made, or that a permitted user adopts, are written to; only those it
//! made are removed, when the kernel says that they are empty.
//!
//! [cgroup-v2.rst]: https://docs.kernel.org/admin-guide/cgroup-v2.html

mod adoption;
#[cfg(test)]
mod adoption_tests;
mod alike;
mod apart;
mod asked;
mod changes;
mod cpuset;
mod files;
mod group;
mod group_dir;
mod isolation;
mod moving;
mod partition;
#[cfg(test)]
mod partition_tests;
mod rank;
mod restoring;
#[cfg(test)]
mod restoring_tests;
mod root;
mod running;
mod search;
mod spare;
mod spreading;
mod systemd;
#[cfg(test)]
mod tests;
mod turn;

pub(crate) use root::cgroup2_mount;
pub use root::find_root;
pub use running::{RunningGroup, RunningGroups, running_groups, users_in};

use self::adoption::Adoption;
use self::files::{
    ALL_NODES, DAEMON, MOST_GROUPS, collect_some, collect_tasks, group_number, groups_below,
    name_of,
};
use self::group::{Group, Groups, Init, Memory, Origin};
use self::group_dir::{GroupDir, Populated, Removed};
use self::isolation::{Isolation, Partition};
use self::moving::{Returned, Returning};
use self::partition::Partitions;
use self::rank::Rank;
use self::restoring::{Units, recall};
use self::root::{CGROUP2_MAGIC, hand_down, missing};
use self::systemd::Property;
use self::turn::{PROCESSES, Turn};
use super::{
    Adoptee, BindMemory, Capabilities, Confine, Departure, Enforcer, ForeignSet, Former, Handover,
    HeldUp, IdleTimeChange, Isolate, MembersKept, Membership, MemoryBinding, Moved, Newcomer,
    Standing, Tasks, ThreadMasks, Unfinished, Writer,
};
use crate::HostError;
use crate::procfs::{ProcFs, read_small};
use mapper_model::{AppId, CpuId, CpuSet, IdleTimeUse, NodeId, Weight};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

/// How often is looked, while the daemon stops, whether a move that is held up has come.
const PAUSE: Duration = Duration::from_millis(1);

/// Confines applications by cpusets. See the [module](self).
#[derive(Debug)]
pub struct CgroupEnforcer {
    groups: Groups,
    units: Units,
    partitions: Partitions,
    /// What was released and has processes that are not moved back yet.
    returning: Vec<Returning>,
}

impl CgroupEnforcer {
    /// Binds the memory of those for which that was held up.
    fn bind_what_is_due(&mut self) -> Result<(), HostError> {
        let due = self.groups.apps.values_mut().filter_map(|group| {
            let nodes = group.nodes_due.take()?;
            Some(group.set_nodes(nodes))
        });
        due.collect()
    }

    /// Continues what waits for moves, and returns whether anything is left.
    fn continue_for(&mut self, turn: &Turn) -> Unfinished {
        self.groups.root.changes().look();
        if !self.groups.root.changes().moves_wait() {
            for mut some in std::mem::take(&mut self.returning) {
                match some.go_on(&self.groups, turn) {
                    true => self.returning.push(some),
                    false => drop(self.groups.unremoved.insert(some.app)),
                }
            }
            self.groups.remove_unremoved(turn);
        }
        self.unfinished()
    }

    /// Below a directory of a cgroup v2 file system, which is made if it does not exist.
    pub fn open(root: &Path) -> Result<Self, HostError> {
        if !root.exists() {
            std::fs::create_dir(root).map_err(|source| HostError::file("create", root, source))?;
            // The directory offers only what its parent hands down.
            if let Some(parent) = root.parent() {
                hand_down(&GroupDir::open(parent)?, "cpuset")?;
            }
        }
        match rustix::fs::statfs(root) {
            Ok(found) if found.f_type == CGROUP2_MAGIC => {}
            Ok(_) => {
                return Err(missing(
                    format!("{} is not on a cgroup v2 file system", root.display()),
                    "boot with systemd.unified_cgroup_hierarchy=1, or name another --cgroup-root",
                ));
            }
            Err(errno) => return Err(HostError::file("open", root, errno.into())),
        }
        let mounts = read_small(Path::new("/proc/self/mounts"))?;
        let mount = cgroup2_mount(&mounts).unwrap_or_else(|| PathBuf::from("/sys/fs/cgroup"));
        Self::prepare(root, &mount, Init::of_this_machine())
    }

    fn prepare(root: &Path, mount: &Path, init: Init) -> Result<Self, HostError> {
        let root = GroupDir::open(root)?;
        let controllers = root.read("cgroup.controllers")?;
        if !controllers.split_ascii_whitespace().any(|c| c == "cpuset") {
            return Err(missing(
                format!(
                    "the cpuset controller is not available in {} (available: {})",
                    root.path().display(),
                    controllers.trim()
                ),
                "delegate cpuset to it (Delegate=cpuset in the unit), and see that no cgroup v1 \
                 hierarchy holds the controller",
            ));
        }
        let procs = root.read("cgroup.procs")?;
        let own_pid = std::process::id();
        if procs.lines().any(|pid| pid.parse() == Ok(own_pid)) {
            let daemon = root.make_or_open(DAEMON)?;
            daemon.write("cgroup.procs", &own_pid.to_string())?;
        }
        hand_down(&root, "cpuset")?;
        // The groups of an earlier daemon keep what they have until they are taken over.
        let numbers = root.names_below();
        let mut left_over: Vec<AppId> = numbers
            .iter()
            .filter_map(|name| group_number(name).map(AppId))
            .collect();
        left_over.sort_unstable();
        let mut groups = Groups {
            root,
            mount: mount.to_owned(),
            proc: Arc::new(ProcFs::system()?),
            init,
            apps: BTreeMap::new(),
            begun: BTreeSet::new(),
            left_over,
            unremoved: BTreeSet::new(),
            left: BTreeMap::new(),
        };
        // An earlier daemon bound memory, which may still be on its way.
        let bound = |app: &AppId| {
            let group = groups.root.beneath(Path::new(&name_of(*app)));
            let nodes = group.and_then(|group| group.read_cpus("cpuset.mems"));
            nodes.is_ok_and(|nodes| !nodes.is_empty())
        };
        if groups.left_over.iter().any(bound) {
            groups.root.changes().memory_is_bound();
        }
        groups.divide_by_application(&controllers);
        groups.remove_left_over();
        groups.root.changes().decisions_begin();
        Ok(Self {
            partitions: Partitions::found(&groups),
            units: Units::default(),
            returning: Vec::new(),
            groups,
        })
    }
}

impl Enforcer for CgroupEnforcer {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            members: MembersKept::ByKernel,
            masks: ThreadMasks::Intersected,
            memory: MemoryBinding::Available,
        }
    }

    fn describe(&self) -> String {
        format!("cgroup v2 cpuset in {}", self.groups.root.path().display())
    }
}

impl Confine for CgroupEnforcer {
    fn limit(&self) -> Result<CpuSet, HostError> {
        let shared = self.groups.root.read_cpus("cpuset.cpus.effective")?;
        Ok(shared.union(&self.groups.exclusive_cpus()))
    }

    fn limit_of(&self, app: AppId) -> Result<Option<CpuSet>, HostError> {
        let Some(place) = self.groups.get(app)?.origin.place() else {
            return Ok(None);
        };
        let (_, around) = self.groups.effective_around(&place.path)?;
        // What was isolated for others comes back to all when those move.
        Ok(Some(around.union(&self.groups.exclusive_cpus())))
    }

    fn apply(&mut self, app: AppId, cpus: &CpuSet) -> Result<(), HostError> {
        let group = self.groups.get_mut(app)?;
        let Origin::Unit { unit, .. } = &group.origin else {
            let cpus = group.rank.with_idle_time(cpus);
            self.partitions.set(&mut self.groups, app, &cpus)?;
            let group = self.groups.get_mut(app)?;
            return group.rank.rank_by_weight(&group.dir);
        };
        let unit = unit.clone();
        let Units {
            systemd, patience, ..
        } = &mut self.units;
        changes::ask(systemd, patience, group, &unit, cpus)
    }

    fn effective(&mut self, app: AppId) -> Result<CpuSet, HostError> {
        let group = self.groups.get(app)?;
        match group.dir.read_cpus("cpuset.cpus.effective") {
            // The first unit of its slice has no such file yet: it has what those around it have.
            Err(error) if error.is_gone() && group.dir.is_populated().is_ok() => {
                match group.origin.place() {
                    Some(place) => self
                        .groups
                        .effective_around(&place.path)
                        .map(|(_, cpus)| cpus),
                    None => Err(error),
                }
            }
            effective => effective.map(|cpus| cpus.difference(&group.rank.of_others())),
        }
    }

    /// What was adopted in place keeps the weight among its neighbours.
    fn weigh(&mut self, app: AppId, weight: Weight) -> Result<(), HostError> {
        let group = self.groups.get_mut(app)?;
        match group.origin.place() {
            Some(_) => Ok(()),
            None => group.rank.weigh(&group.dir, weight),
        }
    }

    /// What was adopted in place stands among others.
    fn idle_time_use(&self, app: AppId) -> IdleTimeUse {
        match self.groups.apps.get(&app) {
            Some(group) if group.origin.place().is_none() && group.is_member() => {
                group.rank.idle_time_use()
            }
            _ => IdleTimeUse::Never,
        }
    }

    fn use_idle_time(&mut self, app: AppId, cpus: &CpuSet) -> Result<IdleTimeChange, HostError> {
        let group = self.groups.get_mut(app)?;
        group.rank.use_idle_time(&group.dir, cpus)
    }

    fn set_by_others(&mut self, app: AppId) -> Option<ForeignSet> {
        let group = self.groups.apps.get_mut(&app)?;
        let cpus = group.dir.read_cpus("cpuset.cpus").ok()?;
        changes::look(group, app, &cpus);
        if group.change.is_some() || cpus == group.written {
            return None;
        }
        self.partitions.yield_to_others(&mut self.groups, app);
        let group = self.groups.apps.get_mut(&app)?;
        group.rank.end_idle_time(&group.dir);
        // What is still to be written would take that back.
        let dir = &group.dir;
        dir.changes().forget(&dir.file("cpuset.cpus"));
        let own = rustix::process::geteuid().as_raw();
        let owner = group.dir.owner_of("cpuset.cpus").ok()?;
        Some(ForeignSet {
            cpus,
            writer: Writer::of_file(owner, own),
        })
    }
}

impl Membership for CgroupEnforcer {
    fn admit(&mut self, newcomer: &Newcomer) -> Result<(), HostError> {
        let Newcomer {
            app, first_process, ..
        } = *newcomer;
        let name = name_of(app);
        self.groups.begun.remove(&app);
        let made = self
            .groups
            .root
            .make_with(&self.groups.places(), &name, first_process);
        let dir = made.inspect_err(|error| {
            if let HostError::HeldUp(..) = error {
                self.groups.begun.insert(app);
            } else if !matches!(self.groups.root.remove_tree(&name, 0), Ok(Removed::Yes)) {
                self.groups.leave_over(app);
            }
        })?;
        let written = dir.read_cpus("cpuset.cpus").unwrap_or_default();
        self.groups.apps.insert(
            newcomer.app,
            Group {
                account: newcomer.account,
                rank: Rank::new(),
                // Those of the group that it comes from, if they had to be the same.
                ..Group::new(dir, Origin::Launched, written)
            },
        );
        Ok(())
    }

    fn adopt(&mut self, adoptee: &Adoptee) -> Result<(), HostError> {
        let group = Adoption {
            groups: &self.groups,
            units: &mut self.units,
            adoptee,
        }
        .group();
        match &group {
            Err(HostError::HeldUp(..)) => drop(self.groups.begun.insert(adoptee.app)),
            Err(_) => self.give_up(adoptee.app),
            Ok(_) => drop(self.groups.begun.remove(&adoptee.app)),
        }
        let group = group?;
        let account = adoptee.account;
        self.groups
            .apps
            .insert(adoptee.app, Group { account, ..group });
        Ok(())
    }

    fn give_up(&mut self, app: AppId) {
        if self.groups.begun.remove(&app) {
            self.groups.leave_over(app);
        }
    }

    fn move_in(&mut self, adoptee: &Adoptee) -> Result<Moved, HostError> {
        moving::gather(&mut self.groups, &mut self.returning, adoptee)
    }

    fn first_process(&self, app: AppId) -> Option<u32> {
        let mut tasks = Tasks::default();
        match self.groups.apps.get(&app) {
            Some(group) => collect_tasks(&group.dir, &mut tasks),
            None => {
                let dir = self.groups.root.beneath(Path::new(&name_of(app))).ok()?;
                collect_tasks(&dir, &mut tasks);
            }
        }
        tasks.processes.into_iter().min()
    }

    fn refresh(&mut self) -> Result<(), HostError> {
        self.units.begin_interval(&mut self.groups);
        self.groups.left.clear();
        self.groups.root.changes().look();
        self.groups.remove_left_over();
        self.partitions.look(&mut self.groups);
        for group in self.groups.apps.values_mut() {
            group.rank.leave_idle_time(&group.dir);
        }
        self.bind_what_is_due()
    }

    fn too_many_groups(&mut self, app: AppId) -> Option<u64> {
        let group = self.groups.get(app).ok()?;
        // Below a group of ours only root makes others; then the group alone is looked through.
        group.origin.place()?;
        let groups = groups_below(&group.dir);
        (groups > MOST_GROUPS).then_some(groups)
    }

    /// By what the kernel says now.
    fn owner(&self, pid: u32) -> Option<AppId> {
        let path = self.groups.proc.cgroup(pid).ok()?;
        let path = self.groups.mount.join(path.trim_start_matches('/'));
        let mut apps = self.groups.apps.iter();
        let found = apps.find(|(_, group)| path.starts_with(group.dir.path()));
        found.map(|(app, _)| *app)
    }

    fn tasks(&mut self, app: AppId) -> Tasks {
        let mut tasks = Tasks::default();
        if let Ok(group) = self.groups.get(app) {
            let account = group.account;
            collect_some(&group.dir, &mut tasks, self.groups.most_threads(account));
            self.groups.listed(account, tasks.threads.len());
        }
        tasks.processes.sort_unstable();
        tasks.threads.sort_unstable();
        tasks
    }

    fn held_up(&self) -> Option<HeldUp> {
        self.groups.root.changes().held_up()
    }

    fn wake_when_finished(&mut self, waker: Waker) {
        self.groups.root.changes().wake_when_finished(waker);
    }

    fn group(&self, app: AppId) -> Option<PathBuf> {
        self.groups
            .apps
            .get(&app)
            .map(|group| group.dir.path().to_owned())
    }

    fn cpu_time_ns(&mut self, app: AppId) -> Option<u64> {
        let stat = self.groups.get(app).ok()?.dir.read("cpu.stat").ok()?;
        let usage_us: u64 = stat
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec "))?
            .trim()
            .parse()
            .ok()?;
        usage_us.checked_mul(1000)
    }

    fn emptied(&mut self, apps: &mut BTreeSet<AppId>) -> Vec<AppId> {
        let populated = |app: AppId| {
            let group = self.groups.get(app);
            group.is_ok_and(|group| matches!(group.dir.is_populated(), Ok(Populated::Yes)))
        };
        let apps = std::mem::take(apps).into_iter();
        apps.filter(|app| !populated(*app)).collect()
    }

    fn watch(&self, app: AppId) -> Option<OwnedFd> {
        self.groups
            .get(app)
            .ok()?
            .dir
            .open_file("cgroup.events")
            .ok()
    }

    fn release(
        &mut self,
        app: AppId,
        _all: &CpuSet,
        departure: Departure,
    ) -> Result<(), HostError> {
        if departure == Departure::DaemonStops {
            self.partitions.dissolve_all(&mut self.groups);
        }
        let Some(mut group) = self.groups.apps.remove(&app) else {
            return Ok(());
        };
        self.partitions.dissolve(&self.groups, &mut group);
        let mut stay = BTreeSet::new();
        let back = match (&group.origin, departure) {
            (Origin::Moved(homes), Departure::ForGood) => {
                let turn = Turn::short(PROCESSES);
                moving::put_back(&self.groups, &group.dir, homes, &mut stay, &turn)
            }
            (Origin::Launched | Origin::Moved(_), _) => Ok(Moved::All),
            (Origin::InPlace(_), Departure::ToItsOwner) => {
                for file in ["cpuset.cpus", "cpuset.mems"] {
                    group.dir.changes().forget(&group.dir.file(file));
                }
                return Ok(());
            }
            (Origin::InPlace(_) | Origin::Unit { .. }, _) => {
                return match self.units.restore(&self.groups, &group, departure) {
                    Err(error) if error.is_gone() => Ok(()),
                    result => result,
                };
            }
        };
        let abandoned = self.groups.abandon(app, &group);
        if let (Ok(Moved::Part), Origin::Moved(homes)) = (&back, &group.origin) {
            let returning = Returning::new(app, group.dir, homes.clone(), stay);
            self.returning.push(returning);
            return abandoned;
        }
        abandoned?;
        back.map(drop)
            .map_err(|error| match self.groups.is_left_behind(app) {
                true => HostError::LeftBehind(group.dir.path().to_owned(), Box::new(error)),
                false => error,
            })
    }
}

impl Handover for CgroupEnforcer {
    /// The group itself shows its members; of what was adopted, what it had before has to be known.
    fn remember(&self, app: AppId) -> serde_json::Value {
        match self.groups.apps.get(&app).map(|group| &group.origin) {
            None | Some(Origin::Launched) => serde_json::Value::Null,
            Some(origin) => serde_json::to_value(origin).unwrap_or_default(),
        }
    }

    fn left_over(&self) -> Vec<AppId> {
        self.groups.left_over.clone()
    }

    fn take_over(&mut self, former: &Former) -> Result<(), HostError> {
        let origin: Origin = match &former.processes {
            serde_json::Value::Null => Origin::Launched,
            // One that cannot be read was written for another enforcer: its group is looked for all the same.
            known => serde_json::from_value(known.clone()).unwrap_or_default(),
        };
        let dir = match origin.place() {
            Some(place) => self.groups.home(&place.path),
            None => self.groups.root.beneath(Path::new(&name_of(former.app))),
        };
        let populated = dir.and_then(|dir| Ok((dir.is_populated()?, dir)));
        let (dir, found) = match populated {
            Ok((Populated::Yes, dir)) => {
                let found = dir.read_cpus("cpuset.cpus");
                (dir, found)
            }
            other => {
                // A unit that has ended would have the CPUs that were meant for then when it starts again.
                if let Origin::Unit { unit, place } = &origin {
                    let before = place.before.clone();
                    self.units
                        .give_nodes_back(&self.groups, unit, place.nodes_before.clone());
                    // It logs what it could not do, and repeats it.
                    let _ = self.units.give_back(unit, before, Departure::ForGood);
                }
                return Err(match other {
                    Err(error) => error,
                    Ok(_) => HostError::file(
                        "find processes in",
                        self.groups.root.file(&name_of(former.app)),
                        Errno::SRCH.into(),
                    ),
                });
            }
        };
        self.groups.left_over.retain(|left| *left != former.app);
        self.groups.unremoved.remove(&former.app);
        let found = match found {
            // systemd has not set any CPUs for it yet.
            Err(error) if error.is_gone() && origin.place().is_some() => CpuSet::new(),
            found => found?,
        };
        if let Origin::Unit { unit, .. } = &origin {
            self.units.stop_restoring(unit);
        }
        let written = if former.set_by_others.as_ref() == Some(&found) {
            CpuSet::new()
        } else {
            found
        };
        let partition = match origin.place() {
            None => Partition::found(&dir),
            Some(_) => Partition::Member,
        };
        let rank = match origin.place() {
            None => Rank::found(&dir, &written, former),
            Some(_) => Rank::default(),
        };
        self.groups.apps.insert(
            former.app,
            Group {
                partition,
                rank,
                account: former.account,
                ..Group::new(dir, origin, written)
            },
        );
        Ok(())
    }

    fn unfinished(&self) -> Unfinished {
        if !self.returning.is_empty() || !self.groups.unremoved.is_empty() {
            return Unfinished::Moving;
        }
        match self.units.restoring.is_empty() {
            true => Unfinished::Nothing,
            false => Unfinished::Restoring,
        }
    }

    fn is_moving(&self, app: AppId) -> bool {
        self.groups.unremoved.contains(&app) || self.returning.iter().any(|some| some.app == app)
    }

    fn continue_moving(&mut self) {
        self.continue_for(&Turn::short(PROCESSES));
    }

    fn remember_unfinished(&self) -> serde_json::Value {
        let moved: Vec<Returned> = self.returning.iter().map(Returning::remember).collect();
        serde_json::json!({ "units": self.units.remember(), "moved": moved })
    }

    fn finish(&mut self) {
        let last = Turn::last();
        let is_left = |enforcer: &mut Self| {
            let moves = enforcer.continue_for(&last) == Unfinished::Moving;
            moves || enforcer.groups.root.changes().would_be_lost()
        };
        while is_left(self) && !last.is_over() {
            std::thread::sleep(PAUSE);
        }
        for change in self.groups.root.changes().due() {
            tracing::error!("not done, as the kernel holds up what comes before it: {change}");
        }
    }

    fn take_up(&mut self, unfinished: &serde_json::Value) {
        // Daemons before this one remembered units alone.
        let units = unfinished.get("units").unwrap_or(unfinished);
        self.units.restoring = recall(units, Instant::now());
        let moved = unfinished.get("moved").cloned().unwrap_or_default();
        let moved: Vec<Returned> = serde_json::from_value(moved).unwrap_or_default();
        let groups = &self.groups;
        let moved = moved.into_iter();
        self.returning
            .extend(moved.filter_map(|known| Returning::recall(groups, known)));
    }
}

impl Isolate for CgroupEnforcer {
    fn may_isolate(&self) -> Result<(), HostError> {
        partition::check(&self.groups)
    }

    fn isolate(&mut self, app: AppId) -> Result<(), HostError> {
        let group = self.groups.get_mut(app)?;
        if let Partition::Member = group.partition {
            group.partition = Partition::Asked(Isolation::default());
        }
        Ok(())
    }

    fn standing(&self, app: AppId) -> Standing {
        self.groups
            .apps
            .get(&app)
            .map_or(Standing::Member, |group| group.partition.standing())
    }

    fn exclusive(&self) -> CpuSet {
        self.groups.exclusive_cpus()
    }
}

impl BindMemory for CgroupEnforcer {
    fn bind_memory(&mut self, app: AppId, nodes: &[NodeId]) -> Result<(), HostError> {
        let wanted: CpuSet = nodes.iter().map(|node| CpuId(node.0)).collect();
        let there = self.groups.root.read_cpus(ALL_NODES)?;
        let reachable = wanted.intersection(&there);
        // Nodes without memory, or that are not allowed here: better all than none.
        let bound = match reachable.is_empty() {
            true => there,
            false => reachable,
        };
        let group = self.groups.get_mut(app)?;
        group.memory = Memory::Bound;
        group.dir.changes().memory_is_bound();
        let Origin::Unit { unit, .. } = &group.origin else {
            return group.set_nodes(bound);
        };
        let started = Instant::now();
        let property = Property::MemoryNodes;
        // An answer that comes late changes nothing: it is requested again when its CPUs change.
        let units = &mut self.units;
        let change = units.systemd.set(unit, property, &bound, units.patience);
        units.patience = units.patience.saturating_sub(started.elapsed());
        change.map(drop)
    }
}
