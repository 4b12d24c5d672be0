//! What is written to a group. cgroups-rs opens files by path; the path of a descriptor (`/proc/self/fd/N`) leads it to
//! the directory that is open, whatever has become of its name meanwhile.

use super::group_dir::GroupDir;
use crate::HostError;
use cgroups_rs::CgroupPid;
use cgroups_rs::fs::Controller;
use cgroups_rs::fs::cpuset::CpuSetController;
use cgroups_rs::fs::error::{Error, Result as Written};
use mapper_model::CpuSet;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

impl GroupDir {
    pub(super) fn set_cpus(&self, cpus: &CpuSet) -> Result<(), HostError> {
        let list = cpus.to_string();
        self.with_context("cpuset.cpus", &list, self.cpuset().set_cpus(&list))
    }

    pub(super) fn set_mems(&self, nodes: &str) -> Result<(), HostError> {
        self.with_context("cpuset.mems", nodes, self.cpuset().set_mems(nodes))
    }

    pub(super) fn add_process(&self, process: u32) -> Result<(), HostError> {
        let pid = CgroupPid::from(u64::from(process));
        let written = self.cpuset().add_task_by_tgid(&pid);
        self.with_context("cgroup.procs", &process.to_string(), written)
    }

    fn cpuset(&self) -> CpuSetController {
        let directory = PathBuf::from(format!("/proc/self/fd/{}", self.as_fd().as_raw_fd()));
        CpuSetController::new(directory.clone(), directory, true)
    }

    fn with_context(&self, name: &str, value: &str, written: Written<()>) -> Result<(), HostError> {
        written.map_err(|error| HostError::write(value, &self.file(name), reason(&error)))
    }
}

fn reason(error: &Error) -> io::Error {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    match cause {
        None => io::Error::other(error.to_string()),
        Some(cause) => io::Error::raw_os_error(cause)
            .map_or_else(|| cause.kind().into(), io::Error::from_raw_os_error),
    }
}
