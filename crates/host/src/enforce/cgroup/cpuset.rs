//! What is written to a group. cgroups-rs opens files by path; the path of a descriptor (`/proc/self/fd/N`) leads it to
//! the directory that is open, whatever has become of its name meanwhile.

use super::alike::{Move, Ours, Places};
use super::group_dir::{GROUP_MODE, GroupDir};
use crate::HostError;
use cgroups_rs::CgroupPid;
use cgroups_rs::fs::Controller;
use cgroups_rs::fs::cpuset::CpuSetController;
use cgroups_rs::fs::error::{Error, Result as Written};
use mapper_model::CpuSet;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl GroupDir {
    pub(super) fn set_cpus(&self, cpus: &CpuSet) -> Result<(), HostError> {
        let list = cpus.to_string();
        self.set("cpuset.cpus", &list, CpuSetController::set_cpus)
    }

    pub(super) fn set_mems(&self, nodes: &str) -> Result<(), HostError> {
        self.set("cpuset.mems", nodes, CpuSetController::set_mems)
    }

    /// Moves a process to this group, which is ours.
    pub(super) fn take_process(&self, places: &Places, process: u32) -> Result<(), HostError> {
        self.take(places, process, Ours::To(self.shared()))
    }

    /// Moves a process from a group that is ours to this one.
    pub(super) fn take_back(
        &self,
        places: &Places,
        ours: &Self,
        process: u32,
    ) -> Result<(), HostError> {
        let ours = Ours::From(ours.shared(), ours.path().to_owned());
        self.take(places, process, ours)
    }

    fn take(&self, places: &Places, process: u32, ours: Ours) -> Result<(), HostError> {
        let dir = self.shared();
        let alike = Move {
            places: places.clone(),
            sets: self.changes().sets().clone(),
            process,
            to: self.path().to_owned(),
            ours,
        };
        self.change("write", "cgroup.procs", &process.to_string(), move || {
            alike.make(|| add(&dir, process))
        })
    }

    /// Makes a group with a process in it, or adds the process if the group is there: one change, for which others wait once.
    pub(super) fn make_with(
        &self,
        places: &Places,
        name: &str,
        process: u32,
    ) -> Result<Self, HostError> {
        let (dir, new) = (self.shared(), name.to_owned());
        let (places, sets) = (places.clone(), self.changes().sets().clone());
        let to = self.path().join(name);
        let procs = format!("{name}/cgroup.procs");
        self.change("write", &procs, &process.to_string(), move || {
            match rustix::fs::mkdirat(&dir, &new, GROUP_MODE) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let made = Arc::new(rustix::fs::openat(&dir, &new, flags, Mode::empty())?);
            let alike = Move {
                places,
                sets,
                process,
                to,
                ours: Ours::New(Arc::clone(&made)),
            };
            alike.make(|| add(&made, process))
        })?;
        self.beneath(Path::new(name))
    }

    fn set(
        &self,
        name: &str,
        value: &str,
        set: fn(&CpuSetController, &str) -> Written<()>,
    ) -> Result<(), HostError> {
        let (dir, list) = (self.shared(), value.to_owned());
        self.change("write", name, value, move || {
            set(&controller(&dir), &list).map_err(|error| reason(&error))
        })
    }
}

fn add(dir: &OwnedFd, process: u32) -> io::Result<()> {
    let added = controller(dir).add_task_by_tgid(&CgroupPid::from(u64::from(process)));
    added.map_err(|error| reason(&error))
}

fn controller(dir: &OwnedFd) -> CpuSetController {
    let directory = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
    CpuSetController::new(directory.clone(), directory, true)
}

fn reason(error: &Error) -> io::Error {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    match cause {
        None => io::Error::other(error.to_string()),
        Some(cause) => io::Error::raw_os_error(cause)
            .map_or_else(|| cause.kind().into(), io::Error::from_raw_os_error),
    }
}
