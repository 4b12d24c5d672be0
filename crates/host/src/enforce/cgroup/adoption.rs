//! Adopting what already runs, and putting it back.
//!
//! Three ways, by what is named:
//!
//! - *A process* is moved, with all its descendants, into a group that is made for it. The group each came
//!   from is kept; at the release it goes back there, and what was started meanwhile goes where the first
//!   process goes.
//! - *A control group* that is delegated (or on a machine without systemd) stays where it is, and its
//!   `cpuset.cpus` is written in place.
//! - *A unit of systemd* stays where it is, and systemd changes its CPUs (`systemd`).
//!
//! Invariants: the groups of two applications never lie within one another; nothing is adopted that the
//! daemon itself is in; what was in force before is kept until it has been put back.

use super::files::{MOST_GROUPS, collect_tasks, group_number, groups_below};
use super::group_dir::{GroupDir, Populated};
use super::partition::Partition;
use super::systemd::UnitName;
use super::{CgroupEnforcer, Group, Memory, name_of};
use crate::HostError;
use crate::enforce::tree::descendants;
use crate::enforce::{AdoptTarget, Adoptee, Tasks};
use crate::procfs::ProcessStat;
use mapper_model::CpuSet;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Where an application comes from, and with it what is to be put back.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Origin {
    /// Launched: its group was made for it and is removed after it.
    #[default]
    Launched,
    /// Running processes that were moved into a group that was made for them.
    Moved(Homes),
    /// A group that stays where it is.
    InPlace(InPlace),
    /// A unit of systemd.
    Unit {
        /// Its name.
        unit: UnitName,
        /// Its group and the CPUs that systemd allowed it before, empty for all.
        place: InPlace,
    },
}

/// A group that is not one of ours.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct InPlace {
    /// Below the mount.
    pub(super) path: PathBuf,
    /// What was set before; empty: nothing, that is all CPUs.
    pub(super) before: CpuSet,
    /// The memory nodes that were set before, in the form of a CPU list; empty: nothing, that is all.
    #[serde(default)]
    pub(super) nodes_before: CpuSet,
}

/// The groups that processes were moved from, below the mount.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Homes {
    /// Of the process that was named.
    pub(super) first: PathBuf,
    /// Of each process that was moved.
    pub(super) each: BTreeMap<u32, Home>,
}

/// Where one process came from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Home {
    /// When it started: its number may be another's by the time it is put back.
    pub(super) started_ticks: u64,
    pub(super) path: PathBuf,
}

/// Who runs the control groups of this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Init {
    Systemd,
    Other,
}

impl Init {
    pub(super) fn of_this_machine() -> Self {
        if Path::new("/run/systemd/system").is_dir() {
            Self::Systemd
        } else {
            Self::Other
        }
    }
}

pub(super) fn refused(
    target: &AdoptTarget,
    why: impl Into<String>,
    mend: impl Into<String>,
) -> HostError {
    HostError::NotAdoptable {
        target: target.to_string(),
        why: why.into(),
        mend: mend.into(),
    }
}

/// What became of a process that was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Identity {
    Same,
    /// It has ended; its number may be another's.
    Gone,
    /// It belongs to this user.
    Anothers(u32),
}

pub(super) fn anothers(target: &AdoptTarget, process: &ProcessStat, user: u32) -> HostError {
    refused(
        target,
        format!("process {} of it belongs to user {user}", process.pid),
        "adopt one all of whose descendants are yours",
    )
}

/// What the unit of the daemon keeps from it by default, and how it is given.
const DROP_IN: &str = "the daemon's unit keeps it from writing to groups that are not its own: install the \
    drop-in adopt.conf (see \"Manage what runs already\" in operating.md), or adopt a unit";

/// Of a file that has to be written later: why it could not be.
fn not_writable(target: &AdoptTarget, error: HostError) -> HostError {
    match error.errno() {
        Some(Errno::ROFS | Errno::ACCESS | Errno::PERM) => {
            refused(target, crate::chain(&error), DROP_IN)
        }
        _ => error,
    }
}

impl CgroupEnforcer {
    pub(super) fn adopt_target(&mut self, adoptee: &Adoptee) -> Result<(), HostError> {
        let group = match &adoptee.target {
            AdoptTarget::Pid(pid) => self.adopt_process(adoptee, *pid)?,
            AdoptTarget::Cgroup(path) => self.adopt_in_place(adoptee, path)?,
            AdoptTarget::Unit(name) => self.adopt_unit(adoptee, name)?,
        };
        self.groups.insert(adoptee.app, group);
        Ok(())
    }

    /// Looks at a process and its descendants, and makes a group for them. Nobody is moved.
    fn adopt_process(&self, adoptee: &Adoptee, first: u32) -> Result<Group, HostError> {
        let mut homes = Homes::default();
        for (process, path) in self.outside(adoptee, first)? {
            self.note_home(adoptee, &mut homes, &process, path)?;
        }
        // It has ended, or belongs to an application.
        if !homes.each.contains_key(&first) {
            return Err(HostError::Task {
                action: "find",
                kind: "process",
                id: first,
                source: Errno::SRCH.into(),
            });
        }
        self.refuse_to_end_a_scope(&adoptee.target, &homes)?;
        Ok(Group {
            dir: self.root.make(&name_of(adoptee.app))?,
            written: CpuSet::new(),
            origin: Origin::Moved(homes),
            change: None,
            expected: Vec::new(),
            memory: Memory::Unbound,
            partition: Partition::Member,
        })
    }

    /// The processes of a tree that are in no group of an application, with the group that each is in.
    pub(super) fn outside(
        &self,
        adoptee: &Adoptee,
        first: u32,
    ) -> Result<Vec<(ProcessStat, PathBuf)>, HostError> {
        let target = &adoptee.target;
        let root = below_mount(&self.mount, self.root.path(), target)?;
        let mut found = Vec::new();
        for process in descendants(&self.proc.processes()?, first) {
            let Ok(path) = self.proc.cgroup(process.pid) else {
                continue;
            };
            let path = below_mount(&self.mount, Path::new(&path), target)?;
            // Those that were launched or adopted keep the group they have.
            let places = self
                .groups
                .values()
                .filter_map(|group| group.origin.place());
            let mut places = places.map(|place| &place.path);
            if is_of_an_application(&path, &root) || places.any(|place| path.starts_with(place)) {
                continue;
            }
            match self.identity(adoptee, &process) {
                Identity::Same => found.push((process, path)),
                Identity::Gone => {}
                Identity::Anothers(user) => return Err(anothers(target, &process, user)),
            }
        }
        Ok(found)
    }

    /// Whether a process is the one that was looked at, and whose it has to be.
    pub(super) fn identity(&self, adoptee: &Adoptee, process: &ProcessStat) -> Identity {
        let same = self
            .proc
            .stat(process.pid)
            .is_ok_and(|now| now.started_ticks == process.started_ticks);
        if !same {
            return Identity::Gone;
        }
        let Some(user) = adoptee.owner else {
            return Identity::Same;
        };
        match self.proc.uids(process.pid) {
            Ok(uids) if uids.real == user => Identity::Same,
            Ok(uids) => Identity::Anothers(uids.real),
            Err(_) => Identity::Gone,
        }
    }

    /// Keeps where a process came from. Refuses if it could not be put back there.
    pub(super) fn note_home(
        &self,
        adoptee: &Adoptee,
        homes: &mut Homes,
        process: &ProcessStat,
        path: PathBuf,
    ) -> Result<(), HostError> {
        let known = homes.each.get(&process.pid);
        if known.is_some_and(|home| home.started_ticks == process.started_ticks) {
            return Ok(());
        }
        if !homes.each.values().any(|home| home.path == path) {
            self.home(&path)?
                .may_write("cgroup.procs")
                .map_err(|error| not_writable(&adoptee.target, error))?;
        }
        if adoptee.target == AdoptTarget::Pid(process.pid) {
            homes.first.clone_from(&path);
        }
        let home = Home {
            started_ticks: process.started_ticks,
            path,
        };
        homes.each.insert(process.pid, home);
        Ok(())
    }

    /// systemd removes a scope when its last process leaves it: there would be nothing to go back to.
    fn refuse_to_end_a_scope(&self, target: &AdoptTarget, homes: &Homes) -> Result<(), HostError> {
        if self.init != Init::Systemd {
            return Ok(());
        }
        for home in homes.each.values() {
            let is_scope = |path: &&Path| path.extension().is_some_and(|kind| kind == "scope");
            let Some(scope) = home.path.ancestors().find(is_scope) else {
                continue;
            };
            let mut tasks = Tasks::default();
            collect_tasks(&self.home(scope)?, &mut tasks);
            if !tasks
                .processes
                .iter()
                .all(|pid| homes.each.contains_key(pid))
            {
                continue;
            }
            let name = scope.file_name().unwrap_or_default().to_string_lossy();
            let mend = match self.is_delegated(scope) {
                true => format!("adopt its group (--cgroup /{})", scope.display()),
                false => format!("have root adopt the unit (--unit {name})"),
            };
            let why = format!("nobody would be left in {name}, which systemd would then remove");
            return Err(refused(target, why, mend));
        }
        Ok(())
    }

    fn adopt_in_place(&self, adoptee: &Adoptee, path: &Path) -> Result<Group, HostError> {
        let target = &adoptee.target;
        let (path, dir) = self.foreign_group(target, path)?;
        if self.init == Init::Systemd && !self.is_delegated(&path) {
            let unit = path.components().rev().find_map(|part| {
                let name = part.as_os_str().to_str()?;
                UnitName::new(name).ok().map(|_| name.to_owned())
            });
            return Err(refused(
                target,
                "it belongs to systemd, which would undo what is written there",
                format!(
                    "adopt the unit instead (--unit {})",
                    unit.as_deref().unwrap_or("NAME")
                ),
            ));
        }
        let before = match dir.read_cpus("cpuset.cpus") {
            Ok(before) => before,
            Err(error) if error.is_gone() => {
                return Err(refused(
                    target,
                    "the cpuset controller is not enabled for it",
                    format!(
                        "write +cpuset to {}",
                        dir.path()
                            .parent()
                            .unwrap_or(dir.path())
                            .join("cgroup.subtree_control")
                            .display()
                    ),
                ));
            }
            Err(error) => return Err(error),
        };
        // The directory says nothing: it belongs to whom the group was delegated to, while the limit that
        // root set in `cpuset.cpus` is not his to lift.
        if let Some(user) = adoptee.owner {
            let owner = dir.owner_of("cpuset.cpus")?;
            if owner != user {
                return Err(refused(
                    target,
                    format!(
                        "its cpuset.cpus belongs to user {owner}, not to the caller, user {user}"
                    ),
                    "adopt a group below it that you made yourself, or ask root to adopt it",
                ));
            }
        }
        dir.may_write("cpuset.cpus")
            .map_err(|error| not_writable(target, error))?;
        self.refuse_narrow(target, &path, &before, &adoptee.usable)?;
        let nodes_before = dir.read_cpus("cpuset.mems").unwrap_or_default();
        Ok(Group {
            dir,
            written: before.clone(),
            origin: Origin::InPlace(InPlace {
                path,
                before,
                nodes_before,
            }),
            change: None,
            expected: Vec::new(),
            memory: Memory::Unbound,
            partition: Partition::Member,
        })
    }

    /// Any CPU that is given out may be planned for an application: one that stays within limits of others would
    /// run, and be counted, where it was not planned.
    fn refuse_narrow(
        &self,
        target: &AdoptTarget,
        path: &Path,
        before: &CpuSet,
        usable: &CpuSet,
    ) -> Result<(), HostError> {
        let (around, allowed) = self.effective_around(path)?;
        let why = if !before.is_empty() && !usable.is_subset(before) {
            format!("it is limited to CPUs {before}")
        } else if !usable.is_subset(&allowed) {
            let place = Path::new("/").join(around);
            format!("{} around it is limited to CPUs {allowed}", place.display())
        } else {
            return Ok(());
        };
        let why = format!("{why}, and mapper gives out {usable}");
        let mend = "lift that limit, or have mapper give out no others (reserve in mapper.toml)";
        Err(refused(target, why, mend))
    }

    /// The CPUs that the groups around one leave to it, and the nearest that tells.
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

    fn adopt_unit(&mut self, adoptee: &Adoptee, name: &str) -> Result<Group, HostError> {
        let target = &adoptee.target;
        let unit = UnitName::new(name)?;
        if let Some(user) = adoptee.owner {
            return Err(refused(
                target,
                format!("units are the system's, not user {user}'s"),
                "ask root to adopt it",
            ));
        }
        if self.init == Init::Other {
            return Err(refused(
                target,
                "systemd does not run on this machine",
                "adopt a process or a control group",
            ));
        }
        let state = self.systemd.look(&unit)?;
        if state.group.is_empty() {
            return Err(refused(
                target,
                "it has no process",
                format!("start it (systemctl start {})", unit.as_str()),
            ));
        }
        let (path, dir) = self.foreign_group(target, Path::new(&state.group))?;
        // Without the controller there is no such file until systemd sets CPUs.
        let written = dir.read_cpus("cpuset.cpus").unwrap_or_default();
        // One that was released and has not got back what it had: that is what it had.
        let owed = self.restoring_of(&unit);
        let before = owed.unwrap_or(state.allowed);
        self.refuse_narrow(target, &path, &before, &adoptee.usable)?;
        self.stop_restoring(&unit);
        Ok(Group {
            dir,
            written,
            origin: Origin::Unit {
                unit,
                place: InPlace {
                    path,
                    before,
                    nodes_before: state.nodes,
                },
            },
            change: None,
            expected: Vec::new(),
            memory: Memory::Unbound,
            partition: Partition::Member,
        })
    }

    /// A group that is nobody's here yet and has processes.
    fn foreign_group(
        &self,
        target: &AdoptTarget,
        named: &Path,
    ) -> Result<(PathBuf, GroupDir), HostError> {
        let path = below_mount(&self.mount, named, target)?;
        if path.as_os_str().is_empty() {
            return Err(refused(
                target,
                "it is the root of all groups",
                "name one below it",
            ));
        }
        let root = below_mount(&self.mount, self.root.path(), target)?;
        let own = self.proc.cgroup(std::process::id()).unwrap_or_default();
        let own = below_mount(&self.mount, Path::new(&own), target).unwrap_or_default();
        let within_one_another = |other: &Path| path.starts_with(other) || other.starts_with(&path);
        if within_one_another(&root) || own.starts_with(&path) {
            return Err(refused(
                target,
                "it holds the daemon or its applications, or is one of them",
                "name another one",
            ));
        }
        let adopted = self.groups.iter().find_map(|(app, group)| {
            let place = group.origin.place()?;
            within_one_another(&place.path).then_some((app, place))
        });
        if let Some((app, place)) = adopted {
            return Err(refused(
                target,
                format!(
                    "it and the group {} of application {app} lie within one another",
                    place.path.display()
                ),
                "release that one first",
            ));
        }
        let dir = GroupDir::open(&self.mount)?
            .beneath(&path)
            .map_err(|error| match error.is_gone() {
                true => refused(
                    target,
                    "there is no such group",
                    format!("name one below {}", self.mount.display()),
                ),
                false => error,
            })?;
        if dir.is_populated()? == Populated::No {
            return Err(refused(target, "no process is in it", "start one in it"));
        }
        let groups = groups_below(&dir);
        if groups > MOST_GROUPS {
            return Err(refused(
                target,
                format!(
                    "it has {groups} groups below it, and at most {MOST_GROUPS} are looked through at each decision"
                ),
                "adopt one of those below it, or have fewer",
            ));
        }
        Ok((path, dir))
    }

    /// Whether systemd leaves a group to somebody else: one that it is in is delegated. The delegated group
    /// itself is a unit of systemd's, which writes the limits there.
    fn is_delegated(&self, path: &Path) -> bool {
        let Ok(mount) = GroupDir::open(&self.mount) else {
            return false;
        };
        path.ancestors()
            .skip(1)
            .filter(|group| !group.as_os_str().is_empty())
            .any(|group| mount.beneath(group).is_ok_and(|dir| dir.is_delegated()))
    }
}

impl Origin {
    /// Its group, if that is not one of ours.
    pub(super) const fn place(&self) -> Option<&InPlace> {
        match self {
            Self::InPlace(place) | Self::Unit { place, .. } => Some(place),
            Self::Launched | Self::Moved(_) => None,
        }
    }
}

/// Whether a group belongs to an application that is managed in a group of ours.
fn is_of_an_application(path: &Path, root: &Path) -> bool {
    path.strip_prefix(root)
        .ok()
        .and_then(|rest| rest.components().next())
        .and_then(|name| name.as_os_str().to_str())
        .is_some_and(|name| group_number(name).is_some())
}

/// A path relative to the mount, whether it was given with the mount or below it.
pub(super) fn below_mount(
    mount: &Path,
    path: &Path,
    target: &AdoptTarget,
) -> Result<PathBuf, HostError> {
    let path = path.strip_prefix(mount).unwrap_or(path);
    let path = path.strip_prefix("/").unwrap_or(path);
    if path
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
    {
        return Ok(path.components().collect());
    }
    Err(refused(
        target,
        format!("{} leads out of the tree of groups", path.display()),
        format!("give the path below {} without dots", mount.display()),
    ))
}
