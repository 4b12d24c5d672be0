//! Moving the processes that were adopted, there and back.
//!
//! A look at the processes is old by the time one of them is moved: it may have ended, its number may be
//! another's, and it may have started more. So each is looked at again before it is moved and afterwards, and
//! all of them until a look finds nobody left.

use super::CgroupEnforcer;
use super::adoption::{Homes, Identity, Origin, anothers, below_mount, refused};
use super::files::collect_tasks;
use super::group_dir::GroupDir;
use crate::HostError;
use crate::enforce::{AdoptTarget, Adoptee, Tasks};
use crate::procfs::{ProcFs, ProcessStat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::path::Path;

/// Looks at the processes of a tree until none is left behind, or of a group until it is empty. A program
/// that forks faster than this is told as such.
const LOOKS: u32 = 32;

impl CgroupEnforcer {
    /// Moves what was adopted by a process, until a look finds nobody outside. If that fails everybody is
    /// put back and the application forgotten.
    pub(super) fn gather(&mut self, adoptee: &Adoptee) -> Result<(), HostError> {
        let AdoptTarget::Pid(first) = adoptee.target else {
            return Ok(());
        };
        let Some(mut group) = self.groups.remove(&adoptee.app) else {
            return Err(self.unknown(adoptee.app));
        };
        let Origin::Moved(homes) = &mut group.origin else {
            self.groups.insert(adoptee.app, group);
            return Ok(());
        };
        let moved = self.move_all(adoptee, first, &group.dir, homes);
        if moved.is_ok() {
            self.groups.insert(adoptee.app, group);
            return Ok(());
        }
        if let Err(error) = self.put_back(&group.dir, homes) {
            tracing::warn!("not put back: {}", crate::chain(&error));
        }
        if let Err(error) = self.abandon(adoptee.app, &group) {
            tracing::warn!("group not removed: {}", crate::chain(&error));
        }
        moved
    }

    fn move_all(
        &self,
        adoptee: &Adoptee,
        first: u32,
        dir: &GroupDir,
        homes: &mut Homes,
    ) -> Result<(), HostError> {
        for _ in 0..LOOKS {
            let outside = self.outside(adoptee, first)?;
            if outside.is_empty() {
                return Ok(());
            }
            for (process, path) in outside {
                self.note_home(adoptee, homes, &process, path)?;
                self.move_one(adoptee, dir, &process)?;
            }
        }
        Err(refused(
            &adoptee.target,
            "it starts processes faster than they can be moved",
            "stop it (SIGSTOP) while it is adopted, or adopt its control group or unit",
        ))
    }

    /// Moves a process, if it is still the one that was looked at. The kernel takes a number: whether another
    /// process had come to it by then is looked at afterwards, and that one goes to where its parent is.
    fn move_one(
        &self,
        adoptee: &Adoptee,
        dir: &GroupDir,
        process: &ProcessStat,
    ) -> Result<(), HostError> {
        let target = &adoptee.target;
        match self.identity(adoptee, process) {
            Identity::Same => {}
            Identity::Gone => return Ok(()),
            Identity::Anothers(user) => return Err(anothers(target, process, user)),
        }
        match dir.add_process(process.pid) {
            Err(error) if error.is_gone() => return Ok(()),
            written => written?,
        }
        match self.identity(adoptee, process) {
            Identity::Same => Ok(()),
            // What was moved is put back.
            Identity::Anothers(user) => Err(anothers(target, process, user)),
            Identity::Gone => {
                let Ok(stranger) = self.proc.stat(process.pid) else {
                    return Ok(());
                };
                let path = self.proc.cgroup(stranger.parent)?;
                let path = below_mount(&self.mount, Path::new(&path), target)?;
                self.home(&path)?
                    .write("cgroup.procs", &process.pid.to_string())
            }
        }
    }

    /// A group below the mount, or the mount itself.
    pub(super) fn home(&self, path: &Path) -> Result<GroupDir, HostError> {
        let mount = GroupDir::open(&self.mount)?;
        match path.as_os_str().is_empty() {
            true => Ok(mount),
            false => mount.beneath(path),
        }
    }

    /// Moves the processes of an adopted application back to where they were. They stay, with all CPUs, where
    /// that cannot be.
    pub(super) fn put_back(&self, dir: &GroupDir, homes: &Homes) -> Result<(), HostError> {
        put_processes_back(&GroupDir::open(&self.mount)?, dir, homes, &self.proc)
    }
}

/// Goes on where one cannot be put back: the others are. Returns the first error; all are logged.
fn put_processes_back(
    mount: &GroupDir,
    dir: &GroupDir,
    homes: &Homes,
    proc: &ProcFs,
) -> Result<(), HostError> {
    let mut stay = BTreeSet::new();
    let mut first_error = None;
    for _ in 0..LOOKS {
        let mut tasks = Tasks::default();
        collect_tasks(dir, &mut tasks);
        tasks.processes.retain(|pid| !stay.contains(pid));
        if tasks.processes.is_empty() {
            return first_error.map_or(Ok(()), Err);
        }
        for pid in tasks.processes {
            let home = homes
                .each
                .get(&pid)
                .filter(|home| {
                    proc.stat(pid)
                        .is_ok_and(|stat| stat.started_ticks == home.started_ticks)
                })
                .map_or(homes.first.as_path(), |home| home.path.as_path());
            let group = match home.as_os_str().is_empty() {
                true => GroupDir::open(mount.path()),
                false => mount.beneath(home),
            };
            match group.and_then(|group| group.write("cgroup.procs", &pid.to_string())) {
                Ok(()) => {}
                Err(error) if error.errno() == Some(Errno::SRCH) => {}
                Err(error) => {
                    tracing::warn!(pid, "not put back: {}", crate::chain(&error));
                    stay.insert(pid);
                    first_error.get_or_insert(error);
                }
            }
        }
    }
    Err(HostError::file(
        "empty",
        dir.path(),
        std::io::Error::other("processes are started faster than they can be moved"),
    ))
}
