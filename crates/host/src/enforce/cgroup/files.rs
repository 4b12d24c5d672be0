//! Reading, writing and removing the files and directories of a group.

use super::PREFIX;
use crate::HostError;
use crate::enforce::Tasks;
use crate::procfs::read_small;
use mapper_model::ThreadId;
use rustix::io::Errno;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub(super) fn make_dir(path: &Path) -> Result<(), HostError> {
    match std::fs::create_dir(path) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            Err(HostError::file("create", path, source))
        }
        _ => Ok(()),
    }
}

/// Writes a value with one system call, as the kernel's files want it.
pub(super) fn write(path: &Path, value: &str) -> Result<(), HostError> {
    std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(value.as_bytes()))
        .map_err(|source| HostError::Write {
            value: value.to_owned(),
            path: path.to_owned(),
            source,
        })
}

/// Gives a group all CPUs of its parent. An empty list would mean just that, but the kernel refuses
/// it while the group has members (ENOSPC); so every CPU there can be is listed, of which the parent
/// lets through its own.
pub(super) fn give_all(group: &Path) -> Result<(), HostError> {
    let possible = read_small(Path::new(POSSIBLE_CPUS))?;
    write(&group.join("cpuset.cpus"), possible.trim_end())
}

/// Lists the CPUs that can ever be online.
pub(super) const POSSIBLE_CPUS: &str = "/sys/devices/system/cpu/possible";

/// What cgroups-rs could not write, with the full path and the error of the kernel.
pub(super) fn write_error(
    error: &cgroups_rs::fs::error::Error,
    path: PathBuf,
    value: String,
) -> HostError {
    let cause = std::error::Error::source(error)
        .and_then(|cause| cause.downcast_ref::<io::Error>())
        .map_or_else(
            || io::Error::other(error.to_string()),
            |cause| {
                cause.raw_os_error().map_or_else(
                    || io::Error::from(cause.kind()),
                    io::Error::from_raw_os_error,
                )
            },
        );
    HostError::Write {
        value,
        path,
        source: cause,
    }
}

pub(super) fn group_number(path: &Path) -> Option<u64> {
    path.file_name()?
        .to_str()?
        .strip_prefix(PREFIX)?
        .parse()
        .ok()
}

pub(super) fn is_populated(group: &Path) -> Result<bool, HostError> {
    let path = group.join("cgroup.events");
    let text = read_small(&path)?;
    match text
        .lines()
        .find_map(|line| line.strip_prefix("populated "))
    {
        Some("0") => Ok(false),
        Some("1") => Ok(true),
        _ => Err(HostError::malformed(
            &path,
            "expected populated 0 or 1",
            text.as_bytes(),
        )),
    }
}

pub(super) enum Removed {
    Yes,
    StillPopulated,
}

/// Removes a group if nobody is in it.
pub(super) fn remove_if_empty(group: &Path) -> Result<Removed, HostError> {
    match is_populated(group) {
        Ok(true) => return Ok(Removed::StillPopulated),
        Ok(false) => {}
        Err(error) if error.is_gone() => return Ok(Removed::Yes),
        Err(error) => return Err(error),
    }
    remove_tree(group, super::DEPTH)
}

/// Removes a group and the empty ones that a program made below it.
pub(super) fn remove_tree(group: &Path, depth: u32) -> Result<Removed, HostError> {
    if depth > 0 {
        for below in groups_below(group) {
            remove_tree(&below, depth - 1)?;
        }
    }
    match std::fs::remove_dir(group) {
        Ok(()) => Ok(Removed::Yes),
        Err(source) => match Errno::from_io_error(&source) {
            Some(Errno::NOENT) => Ok(Removed::Yes),
            // Somebody came in between.
            Some(Errno::BUSY) => Ok(Removed::StillPopulated),
            _ => Err(HostError::file("remove", group, source)),
        },
    }
}

fn groups_below(group: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(group)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

pub(super) fn collect_tasks(group: &Path, depth: u32, tasks: &mut Tasks) {
    let numbers = |file: &str| {
        read_small(&group.join(file))
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
        for below in groups_below(group) {
            collect_tasks(&below, depth - 1, tasks);
        }
    }
}
