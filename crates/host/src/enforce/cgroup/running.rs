//! The control groups of the machine that have processes, whoever made them.

use super::group_dir::{GroupDir, Populated};
use super::root::cgroup2_mount;
use crate::HostError;
use crate::procfs::read_small;
use std::collections::VecDeque;
use std::path::Path;

/// Groups that are looked at in all: users may make any number of them.
const MOST: usize = 4096;

/// A control group with processes in it or below it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RunningGroup {
    /// Its path below the mount, with a slash before it.
    pub path: String,
    /// Another one after it was removed and made again.
    pub inode: u64,
}

/// The groups with processes, those above before those below them; `below` says of a path whether what is below it is
/// looked at, too. Empty without cgroup v2.
///
/// # Errors
/// When the mount cannot be read. A group that vanishes meanwhile is left out.
pub fn running_groups(below: impl Fn(&str) -> bool) -> Result<Vec<RunningGroup>, HostError> {
    let mounts = read_small(Path::new("/proc/self/mounts"))?;
    match cgroup2_mount(&mounts) {
        Some(mount) => groups_in(&mount, below),
        None => Ok(Vec::new()),
    }
}

fn groups_in(mount: &Path, below: impl Fn(&str) -> bool) -> Result<Vec<RunningGroup>, HostError> {
    let mut found = Vec::new();
    let mut unread = VecDeque::from([(String::new(), GroupDir::open(mount)?)]);
    let mut looked_at = 0;
    while let Some((above, dir)) = unread.pop_front() {
        for name in dir.names_below() {
            looked_at += 1;
            if looked_at > MOST {
                return Ok(found);
            }
            let Ok(group) = dir.beneath(Path::new(&name)) else {
                continue;
            };
            // Tells of those below it, too.
            if !matches!(group.is_populated(), Ok(Populated::Yes)) {
                continue;
            }
            let Ok(inode) = group.inode() else {
                continue;
            };
            let path = format!("{above}/{name}");
            found.push(RunningGroup {
                path: path.clone(),
                inode,
            });
            if below(&path) {
                unread.push_back((path, group));
            }
        }
    }
    Ok(found)
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

    fn paths(mount: &Path, below: impl Fn(&str) -> bool) -> Vec<String> {
        let mut found = groups_in(mount, below).unwrap();
        found.sort();
        found.into_iter().map(|group| group.path).collect()
    }

    #[test]
    fn groups_without_processes_and_what_is_below_other_groups_are_left_out() {
        let mount = tempfile::tempdir().unwrap();
        for (group, populated) in [
            ("system.slice", 1),
            ("system.slice/a.service", 1),
            ("system.slice/a.service/sub", 1),
            ("system.slice/b.service", 0),
            ("empty.slice", 0),
            ("empty.slice/c.service", 1),
        ] {
            make(mount.path(), group, populated);
        }
        let slices = |path: &str| path.ends_with(".slice");
        let found = paths(mount.path(), slices);
        assert_eq!(found, ["/system.slice", "/system.slice/a.service"]);
        assert_eq!(paths(mount.path(), |_| true).len(), 3);
    }

    #[test]
    fn a_group_that_was_made_again_is_another() {
        let mount = tempfile::tempdir().unwrap();
        make(mount.path(), "a", 1);
        let first = groups_in(mount.path(), |_| true).unwrap();
        // So that the file system does not give the same number again.
        fs::rename(mount.path().join("a"), mount.path().join("before")).unwrap();
        make(mount.path(), "a", 1);
        let second = groups_in(mount.path(), |_| true).unwrap();
        let of_a = |found: &[RunningGroup]| found.iter().find(|g| g.path == "/a").cloned();
        assert_ne!(of_a(&first), of_a(&second));
    }

    #[test]
    fn however_many_groups_a_user_makes_not_all_are_read() {
        let mount = tempfile::tempdir().unwrap();
        make(mount.path(), "first", 1);
        for number in 0..5000 {
            fs::create_dir_all(mount.path().join(format!("first/{number}"))).unwrap();
        }
        assert_eq!(paths(mount.path(), |_| true), ["/first"]);
    }
}
