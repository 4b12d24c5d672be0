//! All control groups of the machine that have processes.

use super::files::collect_some;
use super::group_dir::{GroupDir, Identity, Populated};
use super::root::cgroup2_mount;
use crate::HostError;
use crate::enforce::{Extent, Tasks};
use crate::procfs::{ProcFs, read_small};
use std::collections::{BTreeSet, VecDeque};
use std::path::Path;

/// Groups of one parent that are looked at, and in all: users may make any number of them.
const MOST_OF_ONE: usize = 1024;
const MOST: usize = 8192;

/// Processes of a group that are asked whose they are.
const PROCESSES: usize = 128;

/// A control group with processes in it or below it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RunningGroup {
    /// Its path below the mount, with a slash before it.
    pub path: String,
    /// Another one after it was removed and made again.
    pub inode: u64,
    /// The user who owns its directory.
    pub owner: u32,
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RunningGroups {
    /// Those above before those below them.
    pub groups: Vec<RunningGroup>,
    /// Whether there are more than are looked at.
    pub extent: Extent,
}

/// The groups with processes whose path `fits`, below those whose path `reaches` further and does not fit.
///
/// # Errors
/// When the mount cannot be read. A group that vanishes meanwhile is left out.
pub fn running_groups(
    fits: impl Fn(&str) -> bool,
    reaches: impl Fn(&str) -> bool,
) -> Result<RunningGroups, HostError> {
    let mounts = read_small(Path::new("/proc/self/mounts"))?;
    match cgroup2_mount(&mounts) {
        Some(mount) => groups_in(&mount, fits, reaches),
        None => Ok(RunningGroups::default()),
    }
}

fn groups_in(
    mount: &Path,
    fits: impl Fn(&str) -> bool,
    reaches: impl Fn(&str) -> bool,
) -> Result<RunningGroups, HostError> {
    let mut found = RunningGroups::default();
    let mut unread = VecDeque::from([(String::new(), GroupDir::open(mount)?)]);
    let mut looked_at = 0;
    while let Some((above, dir)) = unread.pop_front() {
        let mut of_one = 0;
        for name in dir.names_below() {
            let path = format!("{above}/{name}");
            let (fits, reaches) = (fits(&path), reaches(&path));
            if !fits && !reaches {
                continue;
            }
            (of_one, looked_at) = (of_one + 1, looked_at + 1);
            if of_one > MOST_OF_ONE || looked_at > MOST {
                found.extent = Extent::Part;
                break;
            }
            let Ok(group) = dir.beneath(Path::new(&name)) else {
                continue;
            };
            // Tells of those below it, too.
            if !matches!(group.is_populated(), Ok(Populated::Yes)) {
                continue;
            }
            if fits && let Ok(Identity { inode, owner }) = group.identity() {
                let path = path.clone();
                found.groups.push(RunningGroup { path, inode, owner });
            }
            // What is within it belongs to it.
            if reaches && !fits {
                unread.push_back((path, group));
            }
        }
    }
    Ok(found)
}

/// The users whose processes are in a group or below it, of so many processes as a look may cost.
#[must_use]
pub fn users_in(path: &str) -> BTreeSet<u32> {
    let found = || -> Result<BTreeSet<u32>, HostError> {
        let mounts = read_small(Path::new("/proc/self/mounts"))?;
        let Some(mount) = cgroup2_mount(&mounts) else {
            return Ok(BTreeSet::new());
        };
        let (root, proc) = (GroupDir::open(&mount)?, ProcFs::at("/proc")?);
        let group = root.beneath(Path::new(path.trim_start_matches('/')))?;
        let mut tasks = Tasks::default();
        collect_some(&group, &mut tasks, PROCESSES);
        let uids = tasks.processes.into_iter().map(|pid| proc.uids(pid));
        // Others have ended.
        Ok(uids.flatten().map(|uids| uids.real).collect())
    };
    found().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn make(mount: &Path, group: &str, populated: u8) {
        let group = mount.join(group);
        fs::create_dir_all(&group).unwrap();
        let text = format!("populated {populated}\nfrozen 0\n");
        fs::write(group.join("cgroup.events"), text).unwrap();
    }

    #[test]
    fn groups_without_processes_and_what_is_below_other_groups_are_left_out() {
        let mount = tempfile::tempdir().unwrap();
        for (group, populated) in [
            ("system.slice", 1),
            ("system.slice/a.service", 1),
            ("system.slice/a.service/sub.service", 1),
            ("system.slice/b.service", 0),
            ("empty.slice", 0),
            ("empty.slice/c.service", 1),
        ] {
            make(mount.path(), group, populated);
        }
        let slices = |path: &str| path.ends_with(".slice");
        let services = |path: &str| path.ends_with(".service");
        let found = groups_in(mount.path(), services, slices).unwrap().groups;
        let paths: Vec<&str> = found.iter().map(|group| group.path.as_str()).collect();
        assert_eq!(paths, ["/system.slice/a.service"]);
        assert_eq!(found[0].owner, rustix::process::geteuid().as_raw());
        // What is within one that fits belongs to it.
        let all = groups_in(mount.path(), services, |_| true).unwrap().groups;
        assert_eq!(all, found);
    }

    #[test]
    fn a_group_that_was_made_again_is_another() {
        let mount = tempfile::tempdir().unwrap();
        let inode = || {
            let found = groups_in(mount.path(), |path| path == "/a", |_| false).unwrap();
            found.groups[0].inode
        };
        make(mount.path(), "a", 1);
        let first = inode();
        // So that the file system does not give the same number again.
        fs::rename(mount.path().join("a"), mount.path().join("before")).unwrap();
        make(mount.path(), "a", 1);
        assert_ne!(inode(), first);
    }

    #[test]
    fn however_many_groups_a_user_makes_those_of_others_are_found() {
        let mount = tempfile::tempdir().unwrap();
        for number in 0..=MOST_OF_ONE {
            make(mount.path(), &format!("a/{number}"), 1);
        }
        make(mount.path(), "a", 1);
        make(mount.path(), "b", 1);
        make(mount.path(), "b/job", 1);
        let deep = |path: &str| path.matches('/').count() == 2;
        let found = groups_in(mount.path(), deep, |_| true).unwrap();
        assert_eq!(found.extent, Extent::Part);
        assert!(found.groups.iter().any(|group| group.path == "/b/job"));
        assert_eq!(found.groups.len(), MOST_OF_ONE + 1);
    }
}
