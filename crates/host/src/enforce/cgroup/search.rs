//! The processes of something to be adopted: which they are, whose, and where each comes from.

use super::files::group_number;
use super::group::{Groups, Home, Homes};
use crate::HostError;
use crate::enforce::{AdoptTarget, Adoptee, descendants};
use crate::procfs::ProcessStat;
use rustix::io::Errno;
use std::path::{Component, Path, PathBuf};

pub(super) fn refused(
    target: &AdoptTarget,
    why: impl Into<String>,
    hint: impl Into<String>,
) -> HostError {
    HostError::NotAdoptable(target.to_string(), why.into(), hint.into())
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Identity {
    Same,
    Gone,
    Anothers(u32),
}

pub(super) fn anothers(target: &AdoptTarget, process: &ProcessStat, user: u32) -> HostError {
    refused(
        target,
        format!("process {} of it belongs to user {user}", process.pid),
        "adopt one all of whose descendants are yours",
    )
}

const DROP_IN: &str = "the daemon's unit keeps it from writing to groups that are not its own: install the \
    drop-in adopt.conf (see \"Manage what runs already\" in operating.md), or adopt a unit";

pub(super) fn not_writable(target: &AdoptTarget, error: HostError) -> HostError {
    match error.errno() {
        Some(Errno::ROFS | Errno::ACCESS | Errno::PERM) => {
            refused(target, crate::chain(&error), DROP_IN)
        }
        _ => error,
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Search<'a> {
    pub(super) groups: &'a Groups,
    pub(super) adoptee: &'a Adoptee,
}

impl Search<'_> {
    /// The processes of a tree that are in no group of an application, with the group that each is in.
    pub(super) fn outside(&self, first: u32) -> Result<Vec<(ProcessStat, PathBuf)>, HostError> {
        let Search { groups, adoptee } = self;
        let mut found = Vec::new();
        for process in descendants(&groups.proc, first, adoptee.limit())? {
            let Some(path) = self.place_outside(process.pid)? else {
                continue;
            };
            match self.identity(&process) {
                Identity::Same => found.push((process, path)),
                Identity::Gone => {}
                Identity::Anothers(user) => {
                    return Err(anothers(&adoptee.target, &process, user));
                }
            }
        }
        Ok(found)
    }

    /// The group that a process is in; `None` if it has ended, or is in that of an application: those that were launched or
    /// adopted keep the group they have.
    pub(super) fn place_outside(&self, pid: u32) -> Result<Option<PathBuf>, HostError> {
        let Search { groups, adoptee } = self;
        let Ok(path) = groups.proc.cgroup(pid) else {
            return Ok(None);
        };
        let root = below_mount(&groups.mount, groups.root.path(), &adoptee.target)?;
        let path = below_mount(&groups.mount, Path::new(&path), &adoptee.target)?;
        let mut places = groups.apps.values().filter_map(|app| app.origin.place());
        let is_of_one =
            is_of_an_application(&path, &root) || places.any(|place| path.starts_with(&place.path));
        Ok((!is_of_one).then_some(path))
    }

    pub(super) fn identity(&self, process: &ProcessStat) -> Identity {
        let now = self.groups.proc.stat(process.pid);
        if !now.is_ok_and(|now| now.started_ticks == process.started_ticks) {
            return Identity::Gone;
        }
        let Some(user) = self.adoptee.owner else {
            return Identity::Same;
        };
        match self.groups.proc.uids(process.pid) {
            Ok(uids) if uids.real == user => Identity::Same,
            Ok(uids) => Identity::Anothers(uids.real),
            Err(_) => Identity::Gone,
        }
    }

    /// Keeps where a process came from. Refuses if it could not be put back there.
    pub(super) fn note_home(
        &self,
        homes: &mut Homes,
        process: &ProcessStat,
        path: PathBuf,
    ) -> Result<(), HostError> {
        let known = homes.each.get(&process.pid);
        if known.is_some_and(|home| home.started_ticks == process.started_ticks) {
            return Ok(());
        }
        if !homes.each.values().any(|home| home.path == path) {
            self.groups
                .home(&path)?
                .may_write("cgroup.procs")
                .map_err(|error| not_writable(&self.adoptee.target, error))?;
        }
        if self.adoptee.target == AdoptTarget::Pid(process.pid) {
            homes.first.clone_from(&path);
        }
        let home = Home {
            started_ticks: process.started_ticks,
            path,
        };
        homes.each.insert(process.pid, home);
        Ok(())
    }
}

fn is_of_an_application(path: &Path, root: &Path) -> bool {
    path.strip_prefix(root)
        .ok()
        .and_then(|rest| rest.components().next())
        .and_then(|name| name.as_os_str().to_str())
        .is_some_and(|name| group_number(name).is_some())
}

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
