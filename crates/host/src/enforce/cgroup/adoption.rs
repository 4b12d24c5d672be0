//! Adopting what already runs.
//!
//! - *A process* is moved, with all its descendants, into a group made for it; at the release each goes back to the
//!   group it came from, and what was started meanwhile goes where the first process goes.
//! - *A control group* that is delegated (or on a machine without systemd) stays, and its `cpuset.cpus` is written.
//! - *A unit of systemd* stays, and systemd changes its CPUs (`systemd`).
//!
//! Invariants: the groups of two applications never lie within one another; nothing is adopted that the daemon itself
//! is in; what was in force before is kept until it has been put back.

use super::files::{MOST_GROUPS, collect_tasks, groups_below, name_of};
use super::group::{Group, Groups, Homes, InPlace, Init, Origin};
use super::group_dir::{GroupDir, Populated};
use super::restoring::Units;
use super::search::{Search, below_mount, not_writable, refused};
use super::systemd::UnitName;
use crate::HostError;
use crate::enforce::{AdoptTarget, Adoptee, Tasks};
use mapper_model::CpuSet;
use rustix::io::Errno;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct Adoption<'a> {
    pub(super) groups: &'a Groups,
    pub(super) units: &'a mut Units,
    pub(super) adoptee: &'a Adoptee,
}

impl Adoption<'_> {
    pub(super) fn group(&mut self) -> Result<Group, HostError> {
        match &self.adoptee.target {
            AdoptTarget::Pid(pid) => self.process(*pid),
            AdoptTarget::Cgroup(path) => self.in_place(path),
            AdoptTarget::Unit(name) => self.unit(name),
        }
    }

    fn refused(&self, why: impl Into<String>, hint: impl Into<String>) -> HostError {
        refused(&self.adoptee.target, why, hint)
    }

    /// Reads a process and its descendants, and makes a group for them. None is moved yet.
    fn process(&self, first: u32) -> Result<Group, HostError> {
        let mut homes = Homes::default();
        let search = Search {
            groups: self.groups,
            adoptee: self.adoptee,
        };
        for (process, path) in search.outside(first)? {
            search.note_home(&mut homes, &process, path)?;
        }
        // It has ended, or belongs to an application.
        if !homes.each.contains_key(&first) {
            let what = format!("process {first}");
            return Err(HostError::file("find", what, Errno::SRCH.into()));
        }
        self.refuse_to_end_a_scope(&homes)?;
        let dir = self.groups.root.make_or_open(&name_of(self.adoptee.app))?;
        Ok(Group::new(dir, Origin::Moved(homes), CpuSet::new()))
    }

    /// systemd removes a scope when its last process leaves it: there would be nothing to go back to.
    fn refuse_to_end_a_scope(&self, homes: &Homes) -> Result<(), HostError> {
        if self.groups.init != Init::Systemd {
            return Ok(());
        }
        for home in homes.each.values() {
            let is_scope = |path: &&Path| path.extension().is_some_and(|kind| kind == "scope");
            let Some(scope) = home.path.ancestors().find(is_scope) else {
                continue;
            };
            let mut tasks = Tasks::default();
            collect_tasks(&self.groups.home(scope)?, &mut tasks);
            let leaves = |pid| homes.each.contains_key(pid);
            if !tasks.processes.iter().all(leaves) {
                continue;
            }
            let name = scope.file_name().unwrap_or_default().to_string_lossy();
            let hint = match self.groups.is_delegated(scope) {
                true => format!("adopt its group (--cgroup /{})", scope.display()),
                false => format!("have root adopt the unit (--unit {name})"),
            };
            let why = format!("nobody would be left in {name}, which systemd would then remove");
            return Err(self.refused(why, hint));
        }
        Ok(())
    }

    fn in_place(&self, path: &Path) -> Result<Group, HostError> {
        let (path, dir) = self.foreign_group(path)?;
        if self.groups.init == Init::Systemd && !self.groups.is_delegated(&path) {
            let unit = path.components().rev().find_map(|part| {
                let name = part.as_os_str().to_str()?;
                UnitName::new(name).ok().map(|_| name)
            });
            let unit = unit.unwrap_or("NAME");
            return Err(self.refused(
                "it belongs to systemd, which would undo what is written there",
                format!("adopt the unit instead (--unit {unit})"),
            ));
        }
        let before = dir.read_cpus("cpuset.cpus").map_err(|error| {
            if !error.is_gone() {
                return error;
            }
            let parent = dir.path().parent().unwrap_or(dir.path());
            self.refused(
                "the cpuset controller is not enabled for it",
                format!(
                    "write +cpuset to {}/cgroup.subtree_control",
                    parent.display()
                ),
            )
        })?;
        // The owner of a delegated directory may not lift the limit that root set in `cpuset.cpus`.
        if let Some(user) = self.adoptee.owner {
            let owner = dir.owner_of("cpuset.cpus")?;
            if owner != user {
                return Err(self.refused(
                    format!(
                        "its cpuset.cpus belongs to user {owner}, not to the caller, user {user}"
                    ),
                    "adopt a group below it that you made yourself, or ask root to adopt it",
                ));
            }
        }
        dir.may_write("cpuset.cpus")
            .map_err(|error| not_writable(&self.adoptee.target, error))?;
        self.refuse_narrow(&path, &before)?;
        let nodes_before = dir.read_cpus("cpuset.mems").unwrap_or_default();
        let written = before.clone();
        let origin = Origin::InPlace(InPlace {
            path,
            before,
            nodes_before,
        });
        Ok(Group::new(dir, origin, written))
    }

    /// Any CPU that is given out may be planned for an application: limits of others would run it elsewhere.
    fn refuse_narrow(&self, path: &Path, before: &CpuSet) -> Result<(), HostError> {
        let usable = &self.adoptee.usable;
        let (around, allowed) = self.groups.effective_around(path)?;
        let why = if !before.is_empty() && !usable.is_subset(before) {
            format!("it is limited to CPUs {before}")
        } else if !usable.is_subset(&allowed) {
            let place = Path::new("/").join(around);
            format!("{} around it is limited to CPUs {allowed}", place.display())
        } else {
            return Ok(());
        };
        Err(self.refused(
            format!("{why}, and mapper gives out {usable}"),
            "lift that limit, or have mapper give out no others (reserve in mapper.toml)",
        ))
    }

    fn unit(&mut self, name: &str) -> Result<Group, HostError> {
        let unit = UnitName::new(name)?;
        if let Some(user) = self.adoptee.owner {
            let why = format!("units are the system's, not user {user}'s");
            return Err(self.refused(why, "ask root to adopt it"));
        }
        if self.groups.init == Init::Other {
            return Err(self.refused(
                "systemd does not run on this machine",
                "adopt a process or a control group",
            ));
        }
        let state = self.units.look(&unit)?;
        if state.group.is_empty() {
            let hint = format!("start it (systemctl start {})", unit.as_str());
            return Err(self.refused("it has no process", hint));
        }
        let (path, dir) = self.foreign_group(Path::new(&state.group))?;
        // Without the controller there is no such file until systemd sets CPUs.
        let written = dir.read_cpus("cpuset.cpus").unwrap_or_default();
        // One that was released and has not got back what it had: that is what it had.
        let owed = self.units.restoring_of(&unit);
        let before = owed.unwrap_or(state.allowed);
        self.refuse_narrow(&path, &before)?;
        self.units.stop_restoring(&unit);
        let origin = Origin::Unit {
            unit,
            place: InPlace {
                path,
                before,
                nodes_before: state.nodes,
            },
        };
        Ok(Group::new(dir, origin, written))
    }

    fn foreign_group(&self, named: &Path) -> Result<(PathBuf, GroupDir), HostError> {
        let (groups, target) = (self.groups, &self.adoptee.target);
        let path = below_mount(&groups.mount, named, target)?;
        if path.as_os_str().is_empty() {
            return Err(self.refused("it is the root of all groups", "name one below it"));
        }
        let root = below_mount(&groups.mount, groups.root.path(), target)?;
        let own = groups.proc.cgroup(std::process::id()).unwrap_or_default();
        let own = below_mount(&groups.mount, Path::new(&own), target).unwrap_or_default();
        let within_one_another = |other: &Path| path.starts_with(other) || other.starts_with(&path);
        if within_one_another(&root) || own.starts_with(&path) {
            return Err(self.refused(
                "it holds the daemon or its applications, or is one of them",
                "name another one",
            ));
        }
        let adopted = groups.apps.iter().find_map(|(app, group)| {
            let place = group.origin.place()?;
            within_one_another(&place.path).then_some((app, place.path.display()))
        });
        if let Some((app, place)) = adopted {
            return Err(self.refused(
                format!("it and the group {place} of application {app} lie within one another"),
                "release that one first",
            ));
        }
        let dir = groups.home(&path).map_err(|error| match error.is_gone() {
            true => self.refused(
                "there is no such group",
                format!("name one below {}", groups.mount.display()),
            ),
            false => error,
        })?;
        if dir.is_populated()? == Populated::No {
            return Err(self.refused("no process is in it", "start one in it"));
        }
        let below = groups_below(&dir);
        if below > MOST_GROUPS {
            return Err(self.refused(
                format!(
                    "it has {below} groups below it, and at most {MOST_GROUPS} are looked through at each decision"
                ),
                "adopt one of those below it, or have fewer",
            ));
        }
        Ok((path, dir))
    }
}
