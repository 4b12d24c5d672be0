//! What the files of a group say, and what is written to them.

use super::group_dir::{DEPTH, GroupDir};
use crate::HostError;
use crate::enforce::Tasks;
use crate::procfs::read_cpu_list;
use mapper_model::{AppId, CpuSet, ThreadId};
use std::path::Path;

/// Gives a group all CPUs of its parent except the exclusive ones of others. The kernel refuses an empty list while
/// the group has members (ENOSPC), so every possible CPU is listed, of which the parent lets through its own.
pub(super) fn give_all(group: &GroupDir, exclusive: &CpuSet) -> Result<(), HostError> {
    group.set_cpus(&possible_cpus()?.difference(exclusive))
}

pub(super) fn possible_cpus() -> Result<CpuSet, HostError> {
    read_cpu_list(Path::new(POSSIBLE_CPUS))
}

/// Lists the CPUs that can ever be online.
pub(super) const POSSIBLE_CPUS: &str = "/sys/devices/system/cpu/possible";

const PREFIX: &str = "app-";

/// The nodes that the groups here can take memory from.
pub(super) const ALL_NODES: &str = "cpuset.mems.effective";

pub(super) fn name_of(app: AppId) -> String {
    format!("{PREFIX}{app}")
}

pub(super) fn group_number(name: &str) -> Option<u64> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// The most groups below that of an application that are read: each takes some system calls at every decision, and
/// the owner of a group can make any number.
pub(super) const MOST_GROUPS: u64 = 256;

/// How many groups there are below one, in all generations, by one read.
pub(super) fn groups_below(group: &GroupDir) -> u64 {
    let stat = group.read("cgroup.stat").unwrap_or_default();
    let message = |line: &str| line.strip_prefix("nr_descendants ")?.trim().parse().ok();
    stat.lines().find_map(message).unwrap_or(0)
}

/// The processes and threads of a group and of those below it; of the group alone if there are too many.
pub(super) fn collect_tasks(group: &GroupDir, tasks: &mut Tasks) {
    let depth = match groups_below(group) > MOST_GROUPS {
        true => 0,
        false => DEPTH,
    };
    collect_down_to(depth, group, tasks);
}

fn collect_down_to(depth: u32, group: &GroupDir, tasks: &mut Tasks) {
    let numbers = |file: &str| {
        group
            .read(file)
            .unwrap_or_default()
            .lines()
            .filter_map(|line| line.parse::<u32>().ok())
            .collect::<Vec<_>>()
    };
    tasks.processes.extend(numbers("cgroup.procs"));
    tasks
        .threads
        .extend(numbers("cgroup.threads").into_iter().map(ThreadId));
    if depth > 0 {
        for below in group.groups_below() {
            collect_down_to(depth - 1, &below, tasks);
        }
    }
}
