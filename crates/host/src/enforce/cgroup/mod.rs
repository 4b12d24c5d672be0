//! Confinement by control groups, version 2: one group with a cpuset for each application.
//!
//! The problem: a program may have any number of threads and start any number of processes at any
//! moment; all of them, and no others, shall run on given CPUs. The kernel does just that for a
//! control group: one write of `cpuset.cpus` confines every thread in it, and whatever a member
//! forks is a member.
//!
//! Groups are made below one directory, the *root*, that this daemon alone writes to: a subtree
//! delegated by systemd, or a directory made by root. A group is named `app-<id>`. The root must
//! hold no process itself once controllers are enabled below it ([cgroup-v2.rst, "No Internal
//! Process Constraint"]), so a daemon that was started in it moves to a group `daemon` beside the
//! applications.
//!
//! Values are written through cgroups-rs. What it does not offer for version 2 is done here (`files`):
//! enabling one controller and no other, the effective sets and `cgroup.events`. Where the root is,
//! unless it is named, is found by `root`.
//!
//! Invariants: only groups that this enforcer made are written to or removed; a group is removed
//! only when the kernel says that nobody is in it.
//!
//! [cgroup-v2.rst, "No Internal Process Constraint"]: https://docs.kernel.org/admin-guide/cgroup-v2.html

mod files;
mod root;

pub use root::find_root;

use self::files::{
    Removed, collect_tasks, give_all, group_number, is_populated, make_dir, remove_if_empty, write,
    write_error,
};
use self::root::{CGROUP2_MAGIC, hand_down_cpuset, missing};
use super::{Enforcer, EnforcerKind, Former, Newcomer, Tasks};
use crate::HostError;
use crate::procfs::{read_cpu_list, read_small};
use cgroups_rs::CgroupPid;
use cgroups_rs::fs::Controller;
use cgroups_rs::fs::cpuset::CpuSetController;
use mapper_model::{AppId, CpuSet};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// What the names of groups begin with.
const PREFIX: &str = "app-";

/// The group the daemon itself moves to when it sits in the root.
const DAEMON: &str = "daemon";

/// How deep groups that a program makes within its own are looked into.
const DEPTH: u32 = 8;

/// Confines applications by cpusets. See the [module](self).
#[derive(Debug)]
pub struct CgroupEnforcer {
    root: PathBuf,
    groups: BTreeMap<AppId, Group>,
    /// Groups of an earlier daemon, or of a released application, that still have members.
    left_over: Vec<PathBuf>,
}

#[derive(Debug)]
struct Group {
    path: PathBuf,
    cpuset: CpuSetController,
    /// What stood in `cpuset.cpus` when it was last written here, or found.
    written: CpuSet,
}

impl CgroupEnforcer {
    /// Below a directory of a cgroup v2 file system, which is made when it does not exist.
    ///
    /// # Errors
    /// [`HostError::Missing`] says what the machine lacks and what would mend it.
    pub fn open(root: &Path) -> Result<Self, HostError> {
        if !root.exists() {
            std::fs::create_dir(root).map_err(|source| HostError::file("create", root, source))?;
            // The directory offers only what its parent hands down.
            if let Some(parent) = root.parent() {
                hand_down_cpuset(parent)?;
            }
        }
        match rustix::fs::statfs(root) {
            Ok(found) if found.f_type == CGROUP2_MAGIC => {}
            Ok(_) => {
                return Err(missing(
                    format!("{} is not on a cgroup v2 file system", root.display()),
                    "boot with systemd.unified_cgroup_hierarchy=1, or name another --cgroup-root",
                ));
            }
            Err(errno) => return Err(HostError::file("open", root, errno.into())),
        }
        Self::prepare(root)
    }

    /// As [`CgroupEnforcer::open`], on any directory that has the files of a group.
    fn prepare(root: &Path) -> Result<Self, HostError> {
        let controllers = read_small(&root.join("cgroup.controllers"))?;
        if !controllers.split_ascii_whitespace().any(|c| c == "cpuset") {
            return Err(missing(
                format!(
                    "the cpuset controller is not available in {} (available: {})",
                    root.display(),
                    controllers.trim()
                ),
                "delegate cpuset to it (Delegate=cpuset in the unit), and see that no cgroup v1 \
                 hierarchy holds the controller",
            ));
        }
        let procs = read_small(&root.join("cgroup.procs"))?;
        let own_pid = std::process::id();
        if procs.lines().any(|pid| pid.parse() == Ok(own_pid)) {
            let daemon = root.join(DAEMON);
            make_dir(&daemon)?;
            write(&daemon.join("cgroup.procs"), &own_pid.to_string())?;
        }
        hand_down_cpuset(root)?;
        let mut enforcer = Self {
            root: root.to_owned(),
            groups: BTreeMap::new(),
            left_over: Vec::new(),
        };
        enforcer.find_left_over()?;
        Ok(enforcer)
    }

    /// The directory that groups are made in.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Finds the groups of an earlier daemon and removes those that are empty. The others keep what
    /// they have until somebody takes them over.
    fn find_left_over(&mut self) -> Result<(), HostError> {
        let entries = std::fs::read_dir(&self.root)
            .map_err(|source| HostError::file("read", &self.root, source))?;
        for entry in entries.flatten() {
            let path = entry.path();
            if group_number(&path).is_none() {
                continue;
            }
            self.left_over.push(path);
        }
        self.left_over.sort_by_key(|path| group_number(path));
        self.remove_left_over();
        Ok(())
    }

    /// Removes left-over groups that have become empty.
    fn remove_left_over(&mut self) {
        self.left_over
            .retain(|path| !matches!(remove_if_empty(path), Ok(Removed::Yes)));
    }

    fn group(&self, app: AppId) -> Result<&Group, HostError> {
        self.groups.get(&app).ok_or_else(|| {
            HostError::file(
                "find",
                self.root.join(format!("{PREFIX}{app}")),
                io::Error::from(io::ErrorKind::NotFound),
            )
        })
    }
}

impl Enforcer for CgroupEnforcer {
    fn kind(&self) -> EnforcerKind {
        EnforcerKind::Cgroup
    }

    fn describe(&self) -> String {
        format!("cgroup v2 cpuset in {}", self.root.display())
    }

    fn limit(&self) -> Result<CpuSet, HostError> {
        read_cpu_list(&self.root.join("cpuset.cpus.effective"))
    }

    fn admit(&mut self, newcomer: &Newcomer) -> Result<(), HostError> {
        let path = self.root.join(format!("{PREFIX}{}", newcomer.app));
        std::fs::create_dir(&path).map_err(|source| HostError::file("create", &path, source))?;
        let cpuset = CpuSetController::new(path.clone(), self.root.clone(), true);
        let pid = CgroupPid::from(u64::from(newcomer.first_process));
        if let Err(error) = cpuset.add_task_by_tgid(&pid) {
            let error = write_error(&error, path.join("cgroup.procs"), pid.pid.to_string());
            // Nobody is in it: the one process that should be could not be moved.
            let _ = std::fs::remove_dir(&path);
            return Err(error);
        }
        self.groups.insert(
            newcomer.app,
            Group {
                path,
                cpuset,
                written: CpuSet::new(),
            },
        );
        Ok(())
    }

    /// The group itself says who is in it.
    fn remember(&self, _app: AppId) -> serde_json::Value {
        serde_json::Value::Null
    }

    fn left_over(&self) -> Vec<AppId> {
        self.left_over
            .iter()
            .filter_map(|path| group_number(path).map(AppId))
            .collect()
    }

    fn first_process(&self, app: AppId) -> Option<u32> {
        let mut tasks = Tasks::default();
        let group = self.root.join(format!("{PREFIX}{app}"));
        collect_tasks(&group, DEPTH, &mut tasks);
        tasks.processes.into_iter().min()
    }

    fn take_over(&mut self, former: &Former) -> Result<(), HostError> {
        let path = self.root.join(format!("{PREFIX}{}", former.app));
        if !is_populated(&path)? {
            return Err(HostError::file(
                "find processes in",
                path,
                Errno::SRCH.into(),
            ));
        }
        self.left_over.retain(|left| *left != path);
        let cpuset = CpuSetController::new(path.clone(), self.root.clone(), true);
        let found = read_cpu_list(&path.join("cpuset.cpus"))?;
        let written = if former.set_by_others.as_ref() == Some(&found) {
            CpuSet::new()
        } else {
            found
        };
        self.groups.insert(
            former.app,
            Group {
                path,
                cpuset,
                written,
            },
        );
        Ok(())
    }

    fn refresh(&mut self) -> Result<(), HostError> {
        self.remove_left_over();
        Ok(())
    }

    fn apply(&mut self, app: AppId, cpus: &CpuSet) -> Result<(), HostError> {
        // Unknown applications get the error of this.
        self.group(app)?;
        let Some(group) = self.groups.get_mut(&app) else {
            return Ok(());
        };
        let list = cpus.to_string();
        group
            .cpuset
            .set_cpus(&list)
            .map_err(|error| write_error(&error, group.path.join("cpuset.cpus"), list))?;
        group.written = cpus.clone();
        Ok(())
    }

    fn effective(&mut self, app: AppId) -> Result<CpuSet, HostError> {
        read_cpu_list(&self.group(app)?.path.join("cpuset.cpus.effective"))
    }

    fn set_by_others(&mut self, app: AppId) -> Option<CpuSet> {
        let group = self.group(app).ok()?;
        let found = read_cpu_list(&group.path.join("cpuset.cpus")).ok()?;
        (found != group.written).then_some(found)
    }

    fn tasks(&mut self, app: AppId) -> Tasks {
        let mut tasks = Tasks::default();
        if let Ok(group) = self.group(app) {
            collect_tasks(&group.path, DEPTH, &mut tasks);
        }
        tasks.processes.sort_unstable();
        tasks.threads.sort_unstable();
        tasks
    }

    fn cpu_time_ns(&mut self, app: AppId) -> Option<u64> {
        let stat = read_small(&self.group(app).ok()?.path.join("cpu.stat")).ok()?;
        let usage_us: u64 = stat
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec "))?
            .trim()
            .parse()
            .ok()?;
        usage_us.checked_mul(1000)
    }

    fn is_populated(&mut self, app: AppId) -> bool {
        self.group(app)
            .is_ok_and(|group| is_populated(&group.path).unwrap_or(false))
    }

    fn watch(&self, app: AppId) -> Option<OwnedFd> {
        let events = self.group(app).ok()?.path.join("cgroup.events");
        rustix::fs::open(events, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
    }

    fn release(&mut self, app: AppId, _all: &CpuSet) -> Result<(), HostError> {
        let Some(group) = self.groups.remove(&app) else {
            return Ok(());
        };
        match remove_if_empty(&group.path)? {
            Removed::Yes => Ok(()),
            Removed::StillPopulated => {
                let result = give_all(&group.path);
                self.left_over.push(group.path);
                result
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::files::{POSSIBLE_CPUS, remove_tree};
    use super::root::cgroup2_mount;
    use super::*;
    use mapper_model::{AppName, ThreadId};
    use std::fs;

    /// A directory with the files that the kernel would show in a group. Plain files keep what is
    /// written to them, which is what these tests look at; what the kernel makes of it is tested in
    /// the guest.
    fn fake_group(path: &Path, populated: bool) {
        fs::create_dir_all(path).unwrap();
        for (name, text) in [
            ("cgroup.controllers", "cpuset cpu memory\n"),
            ("cgroup.subtree_control", ""),
            ("cgroup.procs", ""),
            ("cgroup.threads", ""),
            ("cpuset.cpus", ""),
            ("cpuset.cpus.effective", "0-7\n"),
            ("cpu.stat", "usage_usec 1500\nuser_usec 1000\n"),
        ] {
            fs::write(path.join(name), text).unwrap();
        }
        let events = format!("populated {}\nfrozen 0\n", u8::from(populated));
        fs::write(path.join("cgroup.events"), events).unwrap();
    }

    fn newcomer(app: u64) -> Newcomer {
        Newcomer {
            app: AppId(app),
            name: AppName::new("test").unwrap(),
            first_process: 4711,
            launcher: 4710,
        }
    }

    fn text(path: PathBuf) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_newcomer_gets_a_group_with_its_process_and_its_cpus() {
        let root = tempfile::tempdir().unwrap();
        fake_group(root.path(), true);
        let mut enforcer = CgroupEnforcer::prepare(root.path()).unwrap();
        assert_eq!(text(root.path().join("cgroup.subtree_control")), "+cpuset");
        assert_eq!(enforcer.limit().unwrap().to_string(), "0-7");
        enforcer.admit(&newcomer(1)).unwrap();
        let group = root.path().join("app-1");
        assert_eq!(text(group.join("cgroup.procs")), "4711");
        enforcer.apply(AppId(1), &"2-3,6".parse().unwrap()).unwrap();
        assert_eq!(text(group.join("cpuset.cpus")), "2-3,6");
        fs::write(group.join("cpuset.cpus.effective"), "2-3\n").unwrap();
        assert_eq!(enforcer.effective(AppId(1)).unwrap().to_string(), "2-3");
    }

    #[test]
    fn tasks_and_cpu_time_are_read_from_the_group_and_those_below() {
        let root = tempfile::tempdir().unwrap();
        fake_group(root.path(), true);
        let mut enforcer = CgroupEnforcer::prepare(root.path()).unwrap();
        enforcer.admit(&newcomer(1)).unwrap();
        let group = root.path().join("app-1");
        fake_group(&group, true);
        fake_group(&group.join("inner"), true);
        fs::write(group.join("cgroup.procs"), "20\n10\n").unwrap();
        fs::write(group.join("inner/cgroup.threads"), "31\n30\n").unwrap();
        let tasks = enforcer.tasks(AppId(1));
        assert_eq!(tasks.processes, [10, 20]);
        assert_eq!(tasks.threads, [ThreadId(30), ThreadId(31)]);
        assert_eq!(enforcer.cpu_time_ns(AppId(1)), Some(1_500_000));
    }

    #[test]
    fn a_set_written_by_somebody_else_is_noticed() {
        let root = tempfile::tempdir().unwrap();
        fake_group(root.path(), true);
        let mut enforcer = CgroupEnforcer::prepare(root.path()).unwrap();
        enforcer.admit(&newcomer(1)).unwrap();
        let file = root.path().join("app-1/cpuset.cpus");
        fs::write(&file, "\n").unwrap();
        assert_eq!(enforcer.set_by_others(AppId(1)), None);
        enforcer.apply(AppId(1), &"2-3".parse().unwrap()).unwrap();
        assert_eq!(enforcer.set_by_others(AppId(1)), None);
        fs::write(&file, "1\n").unwrap();
        assert_eq!(enforcer.set_by_others(AppId(1)), "1".parse().ok());
        enforcer.apply(AppId(1), &"2".parse().unwrap()).unwrap();
        assert_eq!(enforcer.set_by_others(AppId(1)), None);
        // The next daemon still knows it from the earlier one's.
        fs::write(&file, "5\n").unwrap();
        fs::write(root.path().join("app-1/cgroup.events"), "populated 1\n").unwrap();
        let mut next = CgroupEnforcer::prepare(root.path()).unwrap();
        next.take_over(&Former {
            app: AppId(1),
            cpus: CpuSet::new(),
            launcher: None,
            set_by_others: "5".parse().ok(),
            processes: serde_json::Value::Null,
        })
        .unwrap();
        assert_eq!(next.set_by_others(AppId(1)), "5".parse().ok());
    }

    #[test]
    fn a_group_that_still_has_members_gets_all_cpus_when_it_is_released() {
        let root = tempfile::tempdir().unwrap();
        fake_group(root.path(), true);
        let mut enforcer = CgroupEnforcer::prepare(root.path()).unwrap();
        enforcer.admit(&newcomer(1)).unwrap();
        let group = root.path().join("app-1");
        fake_group(&group, true);
        fs::write(group.join("cpuset.cpus"), "3").unwrap();
        assert!(enforcer.is_populated(AppId(1)));
        enforcer.release(AppId(1), &CpuSet::first(8)).unwrap();
        let possible = text(PathBuf::from(POSSIBLE_CPUS));
        assert_eq!(text(group.join("cpuset.cpus")).trim(), possible.trim());
        assert_eq!(enforcer.left_over(), [AppId(1)]);
    }

    #[test]
    fn groups_of_an_earlier_daemon_are_taken_over_as_they_are() {
        let root = tempfile::tempdir().unwrap();
        fake_group(root.path(), true);
        let group = root.path().join("app-41");
        fake_group(&group, true);
        fs::write(group.join("cpuset.cpus"), "3\n").unwrap();
        fs::write(group.join("cpuset.cpus.effective"), "3\n").unwrap();
        fake_group(&root.path().join("somebody-elses"), true);
        let mut enforcer = CgroupEnforcer::prepare(root.path()).unwrap();
        assert_eq!(enforcer.left_over(), [AppId(41)]);
        let former = |app| Former {
            app: AppId(app),
            cpus: "3".parse().unwrap(),
            launcher: None,
            set_by_others: None,
            processes: serde_json::Value::Null,
        };
        enforcer.take_over(&former(41)).unwrap();
        assert!(enforcer.left_over().is_empty());
        assert_eq!(enforcer.effective(AppId(41)).unwrap().to_string(), "3");
        assert_eq!(text(group.join("cpuset.cpus")), "3\n");
        enforcer.apply(AppId(41), &"5".parse().unwrap()).unwrap();
        assert_eq!(text(group.join("cpuset.cpus")), "5\n".trim());
        assert!(enforcer.take_over(&former(42)).unwrap_err().is_gone());
        assert_eq!(text(root.path().join("somebody-elses/cpuset.cpus")), "");
    }

    #[test]
    fn an_empty_group_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("app-1");
        fs::create_dir(&group).unwrap();
        assert!(matches!(remove_tree(&group, DEPTH), Ok(Removed::Yes)));
        assert!(!group.exists());
        assert!(matches!(remove_if_empty(&group), Ok(Removed::Yes)));
    }

    #[test]
    fn a_daemon_that_sits_in_the_root_moves_beside_the_applications() {
        let root = tempfile::tempdir().unwrap();
        fake_group(root.path(), true);
        fake_group(&root.path().join(DAEMON), true);
        let own_pid = std::process::id().to_string();
        fs::write(root.path().join("cgroup.procs"), format!("{own_pid}\n")).unwrap();
        CgroupEnforcer::prepare(root.path()).unwrap();
        assert_eq!(text(root.path().join("daemon/cgroup.procs")), own_pid);
    }

    #[test]
    fn a_root_without_the_controller_says_what_is_there_and_what_would_mend_it() {
        let root = tempfile::tempdir().unwrap();
        fake_group(root.path(), true);
        fs::write(root.path().join("cgroup.controllers"), "cpu memory\n").unwrap();
        let error = CgroupEnforcer::prepare(root.path())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("cpu memory") && error.contains("Delegate=cpuset"),
            "{error}"
        );
    }

    #[test]
    fn a_directory_elsewhere_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let error = CgroupEnforcer::open(root.path()).unwrap_err().to_string();
        assert!(error.contains("not on a cgroup v2 file system"), "{error}");
    }

    #[test]
    fn the_mount_of_version_2_is_told_from_those_of_version_1() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(
            cgroup2_mount(mounts),
            Some(PathBuf::from("/sys/fs/cgroup/unified"))
        );
        assert_eq!(cgroup2_mount("tmpfs / tmpfs rw 0 0\n"), None);
    }
}
