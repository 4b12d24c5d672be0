//! What the files of a group say, and what is written to them.

use super::group_dir::{DEPTH, GroupDir};
use crate::HostError;
use crate::enforce::{Extent, Tasks};
use crate::procfs::read_cpu_list;
use mapper_model::{AppId, CpuSet, ThreadId};
use std::path::Path;

/// All CPUs of its parent but others' exclusive ones: the kernel refuses an empty list while the group has members.
pub(super) fn give_all(group: &GroupDir, exclusive: &CpuSet) -> Result<(), HostError> {
    group.set_cpus(&possible_cpus()?.difference(exclusive))
}

pub(super) fn possible_cpus() -> Result<CpuSet, HostError> {
    read_cpu_list(Path::new(POSSIBLE_CPUS))
}

pub(super) const POSSIBLE_CPUS: &str = "/sys/devices/system/cpu/possible";
const PREFIX: &str = "app-";

pub(super) const ALL_NODES: &str = "cpuset.mems.effective";

/// The group of a daemon that was started in the place for groups.
pub(super) const DAEMON: &str = "daemon";

/// Its part of CPUs that others in the group around it use, too.
pub(super) const WEIGHT: &str = "cpu.weight";

/// The kernel's own.
pub(super) const ORDINARY_WEIGHT: u32 = 100;

pub(super) fn name_of(app: AppId) -> String {
    format!("{PREFIX}{app}")
}

pub(super) fn group_number(name: &str) -> Option<u64> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// Groups below an application's that are read at most: each takes some system calls at every decision.
pub(super) const MOST_GROUPS: u64 = 256;

pub(super) fn groups_below(group: &GroupDir) -> u64 {
    counted_below(group).unwrap_or(0)
}

fn counted_below(group: &GroupDir) -> Option<u64> {
    let stat = group.read("cgroup.stat").ok()?;
    let message = |line: &str| line.strip_prefix("nr_descendants ")?.trim().parse().ok();
    stat.lines().find_map(message)
}

/// The processes and threads of a group and of those below it; of the group alone if there are too many.
pub(super) fn collect_tasks(group: &GroupDir, tasks: &mut Tasks) {
    collect_some(group, tasks, usize::MAX);
}

/// No more than so many threads, and as many processes.
pub(super) fn collect_some(group: &GroupDir, tasks: &mut Tasks, most: usize) {
    let depth = match counted_below(group) {
        None | Some(1..=MOST_GROUPS) => DEPTH,
        // Where there is none, the folder is not listed: the kernel may hold up who makes a group there, with the folder locked.
        Some(_) => 0,
    };
    collect_down_to(depth, group, tasks, most);
    if tasks.threads.len() >= most || tasks.processes.len() >= most {
        tasks.extent = Extent::Part;
    }
}

fn collect_down_to(depth: u32, group: &GroupDir, tasks: &mut Tasks, most: usize) {
    let numbers = |file: &str, had: usize| {
        let most = most.saturating_sub(had);
        group.numbers(file, most).unwrap_or_default()
    };
    let processes = numbers("cgroup.procs", tasks.processes.len());
    tasks.processes.extend(processes);
    let threads = numbers("cgroup.threads", tasks.threads.len());
    tasks.threads.extend(threads.into_iter().map(ThreadId));
    if depth > 0 {
        for below in group.groups_below() {
            collect_down_to(depth - 1, &below, tasks, most);
        }
    }
}
