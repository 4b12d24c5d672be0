//! Confinement by control groups, version 2: one group with a cpuset for each application.
//!
//! The problem: a program may have any number of threads and start any number of processes at any
//! moment; all of them, and no others, shall run on given CPUs. The kernel does just that for a
//! control group: one write of `cpuset.cpus` confines every thread in it, and whatever a member
//! forks is a member.
//!
//! Groups are made below one directory, the *root*, that this daemon alone writes to: a subtree
//! delegated by systemd, or a directory made by root. A group is named `app-<id>`. The root must
//! hold no process itself once controllers are enabled below it ([cgroup-v2.rst, "No Internal
//! Process Constraint"]), so a daemon that was started in it moves to a group `daemon` beside the
//! applications. What runs already can be adopted, also in a group that is somebody else's (`adoption`).
//!
//! A group is an open directory (`group_dir`), and its files are opened beneath it. Where the root is,
//! unless it is named, is found by `root`.
//!
//! Invariants: only groups that this enforcer made, or that somebody who may has it adopt, are written to;
//! only those it made are removed, when the kernel says that nobody is in them.
//!
//! [cgroup-v2.rst, "No Internal Process Constraint"]: https://docs.kernel.org/admin-guide/cgroup-v2.html

mod adoption;
#[cfg(test)]
mod adoption_tests;
mod changes;
mod cpuset;
mod files;
mod group_dir;
mod moving;
mod partition;
#[cfg(test)]
mod partition_tests;
mod restoring;
#[cfg(test)]
mod restoring_tests;
mod root;
mod spreading;
mod systemd;
#[cfg(test)]
mod tests;

pub use root::find_root;

use self::adoption::{Init, Origin};
use self::changes::Asked;
use self::files::{MOST_GROUPS, collect_tasks, give_all, group_number, groups_below};
use self::group_dir::{GroupDir, Populated, Removed};
use self::partition::{Isolation, Partition};
use self::restoring::Restoring;
use self::root::{CGROUP2_MAGIC, cgroup2_mount, hand_down_cpuset, missing};
use self::systemd::{Property, Systemd};
use super::{
    Adoptee, Departure, Enforcer, EnforcerKind, ForeignSet, Former, Newcomer, Standing, Tasks,
    Unfinished, Writer,
};
use crate::HostError;
use crate::procfs::{ProcFs, read_small};
use mapper_model::{AppId, CpuId, CpuSet, NodeId};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What the names of groups begin with.
const PREFIX: &str = "app-";

/// The group the daemon itself moves to when it sits in the root.
const DAEMON: &str = "daemon";

/// How deep groups that a program makes within its own are looked into.
const DEPTH: u32 = 8;

/// Confines applications by cpusets. See the [module](self).
#[derive(Debug)]
pub struct CgroupEnforcer {
    root: GroupDir,
    /// Where the file system is mounted.
    mount: PathBuf,
    proc: ProcFs,
    init: Init,
    systemd: Systemd,
    groups: BTreeMap<AppId, Group>,
    /// What is left of the time that this decision may wait for systemd.
    patience: Duration,
    /// Units that were released and have not been given back what they had.
    restoring: Vec<Restoring>,
    /// Groups of an earlier daemon, or of a released application, that still have members.
    left_over: Vec<AppId>,
    /// What the groups around the applications' claim as exclusive.
    claimed: CpuSet,
}

#[derive(Debug)]
struct Group {
    dir: GroupDir,
    /// What stood in `cpuset.cpus` when it was last written here, or found.
    written: CpuSet,
    origin: Origin,
    /// The newest change that systemd was asked for, while the file does not show it.
    change: Option<Asked>,
    /// Every set that systemd was asked for and that the file has not shown yet, the newest last.
    expected: Vec<CpuSet>,
    memory: Memory,
    partition: Partition,
}

impl Group {
    /// Confines it, without a partition.
    fn set_member(&mut self, cpus: &CpuSet) -> Result<(), HostError> {
        self.dir.set_cpus(cpus)?;
        self.written = cpus.clone();
        Ok(())
    }
}

/// Whether `cpuset.mems` of a group was written here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Memory {
    Unbound,
    Bound,
}

/// The nodes that the groups here can take memory from.
const ALL_NODES: &str = "cpuset.mems.effective";

/// The name of the group that is made for an application.
fn name_of(app: AppId) -> String {
    format!("{PREFIX}{app}")
}

impl CgroupEnforcer {
    /// Below a directory of a cgroup v2 file system, which is made when it does not exist.
    ///
    /// # Errors
    /// [`HostError::Missing`] says what the machine lacks and what would mend it.
    pub fn open(root: &Path) -> Result<Self, HostError> {
        if !root.exists() {
            std::fs::create_dir(root).map_err(|source| HostError::file("create", root, source))?;
            // The directory offers only what its parent hands down.
            if let Some(parent) = root.parent() {
                hand_down_cpuset(&GroupDir::open(parent)?)?;
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

    /// As [`CgroupEnforcer::open`], on any directory that has the files of a group.
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
        hand_down_cpuset(&root)?;
        // The groups of an earlier daemon keep what they have until somebody takes them over.
        let numbers = root.names_below();
        let mut left_over: Vec<AppId> = numbers
            .iter()
            .filter_map(|name| group_number(name).map(AppId))
            .collect();
        left_over.sort_unstable();
        let mut enforcer = Self {
            claimed: CpuSet::new(),
            root,
            mount: mount.to_owned(),
            proc: ProcFs::system()?,
            init,
            systemd: Systemd::default(),
            patience: systemd::PATIENCE,
            restoring: Vec::new(),
            groups: BTreeMap::new(),
            left_over,
        };
        enforcer.claimed = enforcer.found_claimed();
        enforcer.remove_left_over();
        Ok(enforcer)
    }

    /// The directory that groups are made in.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Removes left-over groups that have become empty.
    fn remove_left_over(&mut self) {
        for app in &self.left_over {
            self.dissolve_left_over(*app);
        }
        let root = &self.root;
        self.left_over
            .retain(|app| !matches!(root.remove_if_empty(&name_of(*app)), Ok(Removed::Yes)));
    }

    fn group(&self, app: AppId) -> Result<&Group, HostError> {
        self.groups.get(&app).ok_or_else(|| self.unknown(app))
    }

    fn unknown(&self, app: AppId) -> HostError {
        let path = self.root.file(&name_of(app));
        HostError::file("find", path, io::Error::from(io::ErrorKind::NotFound))
    }

    /// Removes a group of ours, or gives it all CPUs if somebody is left in it.
    fn abandon(&mut self, app: AppId, group: &Group) -> Result<(), HostError> {
        match self.root.remove_if_empty(&name_of(app))? {
            Removed::Yes => Ok(()),
            Removed::StillPopulated => {
                self.left_over.push(app);
                let memory = match group.memory {
                    Memory::Unbound => Ok(()),
                    // The kernel refuses an empty list here as well.
                    Memory::Bound => self
                        .root
                        .read(ALL_NODES)
                        .and_then(|nodes| group.dir.set_mems(nodes.trim_end())),
                };
                give_all(&group.dir, &self.exclusive_cpus()).and(memory)
            }
        }
    }
}

impl Enforcer for CgroupEnforcer {
    fn kind(&self) -> EnforcerKind {
        EnforcerKind::Cgroup
    }

    fn describe(&self) -> String {
        format!("cgroup v2 cpuset in {}", self.root.path().display())
    }

    fn limit(&self) -> Result<CpuSet, HostError> {
        let shared = self.root.read_cpus("cpuset.cpus.effective")?;
        Ok(shared.union(&self.exclusive_cpus()))
    }

    fn limit_of(&self, app: AppId) -> Result<Option<CpuSet>, HostError> {
        let Some(place) = self.group(app)?.origin.place() else {
            return Ok(None);
        };
        let (_, around) = self.effective_around(&place.path)?;
        // What was isolated for others comes back to everybody when those move.
        Ok(Some(around.union(&self.exclusive_cpus())))
    }

    fn may_isolate(&self) -> Result<(), HostError> {
        self.check_isolation()
    }

    fn isolate(&mut self, app: AppId) -> Result<(), HostError> {
        let Some(group) = self.groups.get_mut(&app) else {
            return Err(self.unknown(app));
        };
        if let Partition::Member = group.partition {
            group.partition = Partition::Asked(Isolation::default());
        }
        Ok(())
    }

    fn standing(&self, app: AppId) -> Standing {
        self.groups
            .get(&app)
            .map_or(Standing::Member, |group| group.partition.standing())
    }

    fn exclusive(&self) -> CpuSet {
        self.exclusive_cpus()
    }

    fn admit(&mut self, newcomer: &Newcomer) -> Result<(), HostError> {
        let name = name_of(newcomer.app);
        let dir = self.root.make(&name)?;
        if let Err(error) = dir.add_process(newcomer.first_process) {
            // Nobody is in it: the one process that should be could not be moved.
            let _ = self.root.remove_tree(&name, 0);
            return Err(error);
        }
        self.groups.insert(
            newcomer.app,
            Group {
                dir,
                written: CpuSet::new(),
                origin: Origin::Launched,
                change: None,
                expected: Vec::new(),
                memory: Memory::Unbound,
                partition: Partition::Member,
            },
        );
        Ok(())
    }

    fn adopt(&mut self, adoptee: &Adoptee) -> Result<(), HostError> {
        self.adopt_target(adoptee)
    }

    fn move_in(&mut self, adoptee: &Adoptee) -> Result<(), HostError> {
        self.gather(adoptee)
    }

    /// The group itself says who is in it; of what was adopted, what it had before has to be known.
    fn remember(&self, app: AppId) -> serde_json::Value {
        match self.groups.get(&app).map(|group| &group.origin) {
            None | Some(Origin::Launched) => serde_json::Value::Null,
            Some(origin) => serde_json::to_value(origin).unwrap_or_default(),
        }
    }

    fn left_over(&self) -> Vec<AppId> {
        self.left_over.clone()
    }

    fn first_process(&self, app: AppId) -> Option<u32> {
        let mut tasks = Tasks::default();
        match self.groups.get(&app) {
            Some(group) => collect_tasks(&group.dir, &mut tasks),
            None => {
                let dir = self.root.beneath(Path::new(&name_of(app))).ok()?;
                collect_tasks(&dir, &mut tasks);
            }
        }
        tasks.processes.into_iter().min()
    }

    fn take_over(&mut self, former: &Former) -> Result<(), HostError> {
        let origin: Origin = match &former.processes {
            serde_json::Value::Null => Origin::Launched,
            // One that cannot be read was written for another enforcer: its group is looked for all the same.
            known => serde_json::from_value(known.clone()).unwrap_or_default(),
        };
        let dir = match origin.place() {
            Some(place) => GroupDir::open(&self.mount)?.beneath(&place.path),
            None => self.root.beneath(Path::new(&name_of(former.app))),
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
                    self.give_nodes_back(unit, place.nodes_before.clone());
                    // It says what it could not do, and goes on with it.
                    let _ = self.give_back(unit, before, Departure::ForGood);
                }
                return Err(match other {
                    Err(error) => error,
                    Ok(_) => HostError::file(
                        "find processes in",
                        self.root.file(&name_of(former.app)),
                        Errno::SRCH.into(),
                    ),
                });
            }
        };
        self.left_over.retain(|left| *left != former.app);
        let found = match found {
            // systemd has not set any CPUs for it yet.
            Err(error) if error.is_gone() && origin.place().is_some() => CpuSet::new(),
            found => found?,
        };
        if let Origin::Unit { unit, .. } = &origin {
            self.stop_restoring(unit);
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
        self.groups.insert(
            former.app,
            Group {
                partition,
                dir,
                written,
                origin,
                change: None,
                expected: Vec::new(),
                memory: Memory::Unbound,
            },
        );
        Ok(())
    }

    fn refresh(&mut self) -> Result<(), HostError> {
        self.patience = systemd::PATIENCE;
        self.restore_again(Instant::now());
        self.remove_left_over();
        self.look_at_partitions();
        Ok(())
    }

    fn apply(&mut self, app: AppId, cpus: &CpuSet) -> Result<(), HostError> {
        let Some(group) = self.groups.get_mut(&app) else {
            return Err(self.unknown(app));
        };
        let Origin::Unit { unit, .. } = &group.origin else {
            return self.set_group(app, cpus);
        };
        let unit = unit.clone();
        changes::ask(&mut self.systemd, &mut self.patience, group, &unit, cpus)
    }

    fn bind_memory(&mut self, app: AppId, nodes: &[NodeId]) -> Result<(), HostError> {
        // Lists of nodes are written like lists of CPUs.
        let wanted: CpuSet = nodes.iter().map(|node| CpuId(node.0)).collect();
        let there = self.root.read_cpus(ALL_NODES)?;
        let reachable = wanted.intersection(&there);
        // Nodes without memory, or that are not allowed here: better all than none.
        let bound = match reachable.is_empty() {
            true => there,
            false => reachable,
        };
        let Some(group) = self.groups.get_mut(&app) else {
            return Err(self.unknown(app));
        };
        // To be put back whatever comes of it.
        group.memory = Memory::Bound;
        let Origin::Unit { unit, .. } = &group.origin else {
            return group.dir.set_mems(&bound.to_string());
        };
        let started = Instant::now();
        let property = Property::MemoryNodes;
        // An answer that comes late changes nothing: it is asked for again when its CPUs change.
        let change = self.systemd.set(unit, property, &bound, self.patience);
        self.patience = self.patience.saturating_sub(started.elapsed());
        change.map(drop)
    }

    fn effective(&mut self, app: AppId) -> Result<CpuSet, HostError> {
        let group = self.group(app)?;
        match group.dir.read_cpus("cpuset.cpus.effective") {
            // The first unit of its slice has no such file until systemd has made it: the group has what those
            // around it have.
            Err(error) if error.is_gone() && group.dir.is_populated().is_ok() => {
                match group.origin.place() {
                    Some(place) => self.effective_around(&place.path).map(|(_, cpus)| cpus),
                    None => Err(error),
                }
            }
            effective => effective,
        }
    }

    fn set_by_others(&mut self, app: AppId) -> Option<ForeignSet> {
        let group = self.groups.get_mut(&app)?;
        let cpus = group.dir.read_cpus("cpuset.cpus").ok()?;
        changes::look(group, app, &cpus);
        if group.change.is_some() || cpus == group.written {
            return None;
        }
        // In a partition it would be written in vain.
        self.yield_to_others(app);
        let group = self.groups.get(&app)?;
        let own = rustix::process::geteuid().as_raw();
        let owner = group.dir.owner_of("cpuset.cpus").ok()?;
        Some(ForeignSet {
            cpus,
            writer: Writer::of_file(owner, own),
        })
    }

    fn too_many_groups(&mut self, app: AppId) -> Option<u64> {
        let group = self.group(app).ok()?;
        // Below a group of ours only root makes others; then the group alone is looked through.
        group.origin.place()?;
        let groups = groups_below(&group.dir);
        (groups > MOST_GROUPS).then_some(groups)
    }

    fn unfinished(&self) -> Unfinished {
        match self.restoring.is_empty() {
            true => Unfinished::Nothing,
            false => Unfinished::Restoring,
        }
    }

    fn remember_unfinished(&self) -> serde_json::Value {
        restoring::remember(&self.restoring)
    }

    fn take_up(&mut self, unfinished: &serde_json::Value) {
        self.restoring = restoring::recall(unfinished, Instant::now());
    }

    fn tasks(&mut self, app: AppId) -> Tasks {
        let mut tasks = Tasks::default();
        if let Ok(group) = self.group(app) {
            collect_tasks(&group.dir, &mut tasks);
        }
        tasks.processes.sort_unstable();
        tasks.threads.sort_unstable();
        tasks
    }

    fn group(&self, app: AppId) -> Option<PathBuf> {
        self.groups
            .get(&app)
            .map(|group| group.dir.path().to_owned())
    }

    fn cpu_time_ns(&mut self, app: AppId) -> Option<u64> {
        let stat = self.group(app).ok()?.dir.read("cpu.stat").ok()?;
        let usage_us: u64 = stat
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec "))?
            .trim()
            .parse()
            .ok()?;
        usage_us.checked_mul(1000)
    }

    fn is_populated(&mut self, app: AppId) -> bool {
        self.group(app)
            .is_ok_and(|group| matches!(group.dir.is_populated(), Ok(Populated::Yes)))
    }

    fn watch(&self, app: AppId) -> Option<OwnedFd> {
        self.group(app).ok()?.dir.open_file("cgroup.events").ok()
    }

    fn release(
        &mut self,
        app: AppId,
        _all: &CpuSet,
        departure: Departure,
    ) -> Result<(), HostError> {
        if departure == Departure::DaemonStops {
            self.dissolve_all();
        }
        let Some(mut group) = self.groups.remove(&app) else {
            return Ok(());
        };
        self.dissolve(&mut group);
        let back = match (&group.origin, departure) {
            (Origin::Moved(homes), Departure::ForGood) => self.put_back(&group.dir, homes),
            (Origin::Launched | Origin::Moved(_), _) => Ok(()),
            (Origin::InPlace(_), Departure::ToItsOwner) => return Ok(()),
            (Origin::InPlace(_) | Origin::Unit { .. }, _) => {
                return match self.restore(&group, departure) {
                    // It has ended.
                    Err(error) if error.is_gone() => Ok(()),
                    result => result,
                };
            }
        };
        self.abandon(app, &group)?;
        back.map_err(|error| match self.left_over.contains(&app) {
            true => HostError::LeftBehind {
                group: group.dir.path().to_owned(),
                source: Box::new(error),
            },
            false => error,
        })
    }
}
