//! Moving processes between groups that have the same CPUs and memory nodes.
//!
//! Where they differ, the kernel adapts the memory policy of a process that is moved (`cpuset_attach`): it waits for the
//! lock of its address space, and holds the lock of all groups meanwhile, without which no thread of the machine begins or
//! ends. A thread that waits for a file system may keep an address space locked for ever; not even the server of that file
//! system can be ended then. Any user can write such a program.
//!
//! So before a process is moved, a group of ours gets the CPUs of the other one, and neither group's are changed from here
//! until it has been moved, but by partitions of other groups. Where the sets are the same, the kernel leaves the address
//! space alone (Linux 6.2).
//!
//! Where they cannot be the same, or a user may change them, or on an earlier kernel, a process is not moved while one of its threads is seen to wait
//! in the kernel all the time. That finds most programs that hang, and not those of a user who hides it. Memory nodes are
//! not made the same: to change those of a group with processes waits for the same lock.

use crate::procfs::{ProcFs, read_small};
use mapper_model::{CpuSet, ThreadId};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The first Linux that leaves a process alone which is moved between groups of the same sets.
const LEAVES_ALONE: (u32, u32) = (6, 2);

/// How often a process is looked at for threads that wait for the kernel, and how long between.
const LOOKS: u32 = 10;
const BETWEEN: Duration = Duration::from_millis(2);

/// Threads that are looked at.
const THREADS: usize = 4096;

/// Groups whose sets are compared for a move, and those whose sets are being changed. Clones share that.
#[derive(Clone, Debug, Default)]
pub(super) struct Sets(Arc<Mutex<InUse>>);

#[derive(Debug, Default)]
struct InUse {
    compared: Vec<PathBuf>,
    changed: Vec<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    Compared,
    Changed,
}

/// As long as this lives, the sets of these groups are in use.
#[derive(Debug)]
pub(super) struct Hold {
    sets: Sets,
    groups: Vec<PathBuf>,
    by: Use,
}

impl Sets {
    /// `None` while the sets of this group, or of one below it, are compared for a move.
    pub(super) fn change(&self, group: &Path) -> Option<Hold> {
        self.hold(vec![group.to_owned()], Use::Changed)
    }

    /// `None` while the sets of one of these groups, or of one around it, are being changed.
    fn compare(&self, groups: [&Path; 2]) -> Option<Hold> {
        self.hold(groups.map(Path::to_owned).to_vec(), Use::Compared)
    }

    fn hold(&self, groups: Vec<PathBuf>, by: Use) -> Option<Hold> {
        let mut in_use = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (own, others) = in_use.of(by);
        // A change reaches the group and those below it.
        let is_within = |group: &PathBuf, other: &PathBuf| match by {
            Use::Compared => group.starts_with(other),
            Use::Changed => other.starts_with(group),
        };
        if groups
            .iter()
            .any(|group| others.iter().any(|other| is_within(group, other)))
        {
            return None;
        }
        own.extend_from_slice(&groups);
        drop(in_use);
        let sets = self.clone();
        Some(Hold { sets, groups, by })
    }
}

impl InUse {
    /// Those in use in this way, and in the other.
    fn of(&mut self, by: Use) -> (&mut Vec<PathBuf>, &mut Vec<PathBuf>) {
        match by {
            Use::Compared => (&mut self.compared, &mut self.changed),
            Use::Changed => (&mut self.changed, &mut self.compared),
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut in_use = self.sets.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (own, _) = in_use.of(self.by);
        for group in &self.groups {
            if let Some(place) = own.iter().position(|held| held == group) {
                own.swap_remove(place);
            }
        }
    }
}

/// Where groups and processes are looked up for a move.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// Where the control groups are mounted.
    pub(super) mount: PathBuf,
    pub(super) proc: Arc<ProcFs>,
}

/// A move of one process. One of the two groups is ours, and has its CPUs changed.
#[derive(Debug)]
pub(super) struct Move {
    pub(super) places: Places,
    pub(super) sets: Sets,
    pub(super) process: u32,
    /// The group that it goes to.
    pub(super) to: PathBuf,
    pub(super) ours: Ours,
}

/// The group whose CPUs are changed.
#[derive(Debug)]
pub(super) enum Ours {
    /// The one that it goes to, which is new and has no other process.
    New(Arc<OwnedFd>),
    /// The one that it goes to.
    To(Arc<OwnedFd>),
    /// The one that it comes from, if it is still there.
    From(Arc<OwnedFd>, PathBuf),
}

/// The CPUs and memory nodes that the processes of a group have.
#[derive(Clone, PartialEq, Eq, Debug)]
struct InForce {
    cpus: CpuSet,
    nodes: CpuSet,
}

impl Move {
    /// Has a process moved once its groups are alike.
    ///
    /// # Errors
    /// Those of `make`; [`ErrorKind::WouldBlock`] while the sets of one of the groups are being changed;
    /// [`ErrorKind::ResourceBusy`] if the groups cannot be alike and a thread of the process waits for the kernel.
    pub(super) fn make(&self, make: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let from = match self.places.proc.cgroup(self.process) {
            Ok(from) => self.places.mount.join(from.trim_start_matches('/')),
            // The kernel says so, too.
            Err(error) if error.is_gone() => return make(),
            Err(error) => return Err(io::Error::other(error)),
        };
        if from == self.to {
            return make();
        }
        let Some(_compared) = self.sets.compare([&from, &self.to]) else {
            return Err(ErrorKind::WouldBlock.into());
        };
        let are_alike = || Some(self.in_force(&from)? == self.in_force(&self.to)?);
        let was_alike = are_alike() == Some(true);
        if !was_alike {
            self.adapt(&from);
        }
        let leaves_alone = kernel().is_some_and(|version| version >= LEAVES_ALONE)
            && !self.is_a_users(&from)
            && !self.is_a_users(&self.to);
        if !leaves_alone || !was_alike && are_alike() != Some(true) {
            self.check_threads()?;
        }
        let made = make();
        if !was_alike && let Ours::New(dir) = &self.ours {
            self.widen(dir);
        }
        made
    }

    /// `None` without the cpuset controller, or for a group outside the mount.
    fn in_force(&self, group: &Path) -> Option<InForce> {
        let group = self.with_cpuset(group)?;
        let read = |file: &str| read_small(&group.join(file)).ok()?.parse().ok();
        Some(InForce {
            cpus: read("cpuset.cpus.effective")?,
            nodes: read("cpuset.mems.effective")?,
        })
    }

    /// Whether a user may change the CPUs of a group, at any time.
    fn is_a_users(&self, group: &Path) -> bool {
        let Some(group) = self.with_cpuset(group) else {
            return false;
        };
        let own = rustix::process::geteuid().as_raw();
        let found = rustix::fs::stat(group.join("cpuset.cpus"));
        found.is_ok_and(|found| found.st_uid != 0 && found.st_uid != own)
    }

    /// The nearest of a group and those around it that has CPUs of its own.
    fn with_cpuset<'a>(&self, group: &'a Path) -> Option<&'a Path> {
        if group.components().any(|part| part == Component::ParentDir) {
            return None;
        }
        let groups = group.ancestors();
        let mut below = groups.take_while(|group| group.starts_with(&self.places.mount));
        below.find(|group| group.join("cpuset.cpus.effective").exists())
    }

    /// Gives ours the CPUs of the other group. What the kernel refuses shows in what is in force.
    fn adapt(&self, from: &Path) {
        let (ours, other) = match &self.ours {
            Ours::New(dir) | Ours::To(dir) => (dir, from),
            Ours::From(dir, path) if path == from => (dir, self.to.as_path()),
            Ours::From(..) => return,
        };
        // CPUs that are another's alone are written to no other group: that would end its partition.
        let partition = read_small(&other.join("cpuset.cpus.partition"));
        if partition.is_ok_and(|partition| partition.trim() != "member") {
            return;
        }
        if let Some(other) = self.in_force(other) {
            let _shows = write(ours, "cpuset.cpus", &other.cpus);
        }
    }

    /// Gives ours the CPUs of the group around it again: the first decision about it is still to come.
    fn widen(&self, ours: &OwnedFd) {
        let around = self.to.parent().and_then(|around| self.in_force(around));
        if let Some(around) = around
            && let Err(error) = write(ours, "cpuset.cpus", &around.cpus)
        {
            let group = self.to.display();
            tracing::warn!(
                "{group} keeps the CPUs of the group that its process came from: {error}"
            );
        }
    }

    fn check_threads(&self) -> io::Result<()> {
        let proc = &self.places.proc;
        let mut waiting: Option<BTreeSet<ThreadId>> = None;
        for _ in 0..LOOKS {
            let threads = match &waiting {
                None => proc.threads_from(self.process, 0, THREADS),
                Some(waiting) => Ok(waiting.iter().copied().collect()),
            };
            let threads = threads.map_err(io::Error::other)?.into_iter();
            let waits = |thread: &ThreadId| {
                let stat = proc.thread_stat(*thread);
                stat.is_ok_and(|stat| stat.state == 'D')
            };
            let still: BTreeSet<ThreadId> = threads.filter(waits).collect();
            if still.is_empty() {
                return Ok(());
            }
            waiting = Some(still);
            std::thread::sleep(BETWEEN);
        }
        let why = format!(
            "a thread of process {} waits in the kernel (state D), and may keep its address space locked: to move the \
             process between groups of other CPUs or memory nodes, or before Linux 6.2, could stop all processes; try again \
             once it no longer waits",
            self.process
        );
        Err(io::Error::new(ErrorKind::ResourceBusy, why))
    }
}

fn write(dir: &OwnedFd, file: &str, set: &CpuSet) -> io::Result<()> {
    let flags = match cfg!(test) {
        false => OFlags::WRONLY,
        true => OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC,
    };
    let file = rustix::fs::openat(dir, file, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?;
    File::from(file).write_all(set.to_string().as_bytes())
}

/// The first two numbers of its version.
fn kernel() -> Option<(u32, u32)> {
    let release = read_small(Path::new("/proc/sys/kernel/osrelease")).ok()?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const PROCESS: u32 = 77;

    /// A mount with two groups, the second of which is ours, and a process with one thread in the first.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new(state: char, sets: [(&str, &str); 2]) -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            for (group, (cpus, nodes)) in ["theirs", "ours"].into_iter().zip(sets) {
                tree.write(&format!("{group}/cpuset.cpus.effective"), cpus);
                tree.write(&format!("{group}/cpuset.mems.effective"), nodes);
            }
            tree.write("proc/77/cgroup", "0::/theirs\n");
            let stat = format!("77 (x) {state} 1 {}", "0 ".repeat(48));
            tree.write("proc/77/task/77/stat", &stat);
            tree
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
            fs::write(self.path(name), text).unwrap();
        }

        fn written(&self, name: &str) -> Option<String> {
            fs::read_to_string(self.path(name)).ok()
        }

        fn a_move(&self, sets: &Sets) -> Move {
            let ours = File::open(self.path("ours")).unwrap();
            Move {
                places: Places {
                    mount: self.0.path().to_owned(),
                    proc: Arc::new(ProcFs::at(self.path("proc")).unwrap()),
                },
                sets: sets.clone(),
                process: PROCESS,
                to: self.path("ours"),
                ours: Ours::New(Arc::new(ours.into())),
            }
        }

        /// Whether it is moved.
        fn moves(&self) -> io::Result<bool> {
            let mut moved = false;
            let made = self.a_move(&Sets::default()).make(|| {
                moved = true;
                Ok(())
            });
            made.map(|()| moved)
        }
    }

    #[test]
    fn a_process_is_moved_between_groups_of_the_same_sets_whatever_it_does() {
        let tree = Tree::new('D', [("0-3\n", "0-1\n"), ("0-3\n", "0-1\n")]);
        // Before Linux 6.2 the kernel adapts its memory policy all the same.
        let leaves_alone = kernel().unwrap() >= LEAVES_ALONE;
        assert_eq!(tree.moves().is_ok_and(|moved| moved), leaves_alone);
        assert_eq!(tree.written("ours/cpuset.cpus"), None);
    }

    #[test]
    fn a_group_of_ours_has_the_cpus_of_the_other_one_while_a_process_is_moved() {
        let tree = Tree::new('S', [("4-7\n", "0\n"), ("0-7\n", "0\n")]);
        let written = || tree.written("ours/cpuset.cpus").unwrap();
        let made = tree.a_move(&Sets::default()).make(|| {
            assert_eq!(written(), "4-7");
            Ok(())
        });
        made.unwrap();
        // Of the group around it, which has none here: its own stay.
        assert_eq!(written(), "4-7");
        tree.write("cpuset.cpus.effective", "0-7\n");
        tree.write("cpuset.mems.effective", "0\n");
        assert!(tree.moves().unwrap());
        assert_eq!(written(), "0-7");
    }

    #[test]
    fn the_cpus_of_a_partition_are_written_to_no_other_group() {
        let tree = Tree::new('S', [("4-7\n", "0\n"), ("0-3\n", "0\n")]);
        tree.write("theirs/cpuset.cpus.partition", "isolated\n");
        assert!(tree.moves().unwrap());
        assert_eq!(tree.written("ours/cpuset.cpus"), None);
    }

    #[test]
    fn a_process_that_waits_in_the_kernel_is_not_moved_between_groups_that_cannot_be_alike() {
        // What is in force does not follow what is written here.
        let tree = Tree::new('D', [("4-7\n", "0\n"), ("0-3\n", "0\n")]);
        let is_refused = || {
            let refused = tree.moves().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ResourceBusy);
            let says = refused.to_string();
            assert!(says.contains("process 77 waits in the kernel"), "{says}");
        };
        is_refused();
        // Nor if it is not known which CPUs a group has.
        fs::remove_dir_all(tree.path("theirs")).unwrap();
        is_refused();
    }

    #[test]
    fn where_a_user_may_change_the_cpus_a_process_that_waits_in_the_kernel_is_not_moved() {
        let tree = Tree::new('D', [("0-3\n", "0\n"), ("0-3\n", "0\n")]);
        tree.write("theirs/cpuset.cpus", "");
        let user = Some(rustix::process::Uid::from_raw(61_001));
        match rustix::fs::chown(tree.path("theirs/cpuset.cpus"), user, None) {
            Ok(()) => assert!(tree.moves().is_err()),
            Err(_) => eprintln!("skipped: files of other users take root"),
        }
    }

    #[test]
    fn sets_do_not_change_while_a_process_is_moved_by_them() {
        let tree = Tree::new('S', [("0-3\n", "0\n"), ("0-3\n", "0\n")]);
        let sets = Sets::default();
        let (theirs, ours) = (tree.path("theirs"), tree.path("ours"));
        let can_change = |group: &Path| sets.change(group).is_some();
        let made = tree.a_move(&sets).make(|| {
            assert!(!can_change(&theirs) && !can_change(&ours));
            assert!(!can_change(tree.0.path()));
            assert!(can_change(&ours.join("below")) && can_change(&tree.path("another")));
            Ok(())
        });
        made.unwrap();
        let changes = sets.change(&theirs).unwrap();
        let refused = tree.a_move(&sets).make(|| panic!("it is moved"));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(changes);
        tree.a_move(&sets).make(|| Ok(())).unwrap();
        assert!(can_change(&theirs) && can_change(&ours));
    }
}
