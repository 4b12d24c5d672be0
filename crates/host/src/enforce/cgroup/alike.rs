//! Moving processes only between groups that have the same CPUs and memory nodes.
//!
//! Where they differ, the kernel adapts the memory policy of a process that is moved (`cpuset_attach`): it waits for the
//! lock of its address space, and holds the lock of all groups meanwhile, without which no thread of the machine begins or
//! ends. A thread that waits for a file system may keep an address space locked for ever; not even the server of that file
//! system can be ended then. Any user can write such a program. So a group of ours gets the sets of the other group before
//! a process is moved, and neither group's sets change meanwhile. Where they are the same, the kernel leaves that out (Linux
//! 6.2). Where they cannot be the same, a process is moved once none of its threads is seen to wait for the kernel, which a
//! program that means harm can feign.

use super::apart::kernel;
use crate::procfs::{ProcFs, ProcessStat, read_small};
use mapper_model::CpuSet;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The first Linux that leaves a process alone which is moved between groups of the same sets.
const LEAVES_ALONE: (u32, u32) = (6, 2);

/// How often a process is looked at for threads that wait for the kernel, and how long between.
const LOOKS: u32 = 20;
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
    /// `None` while the sets of this group are compared for a move.
    pub(super) fn change(&self, group: &Path) -> Option<Hold> {
        self.hold(vec![group.to_owned()], Use::Changed)
    }

    /// `None` while the sets of one of these groups are being changed.
    fn compare(&self, groups: [&Path; 2]) -> Option<Hold> {
        self.hold(groups.map(Path::to_owned).to_vec(), Use::Compared)
    }

    fn hold(&self, groups: Vec<PathBuf>, by: Use) -> Option<Hold> {
        let mut in_use = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (own, others) = in_use.of(by);
        if groups.iter().any(|group| others.contains(group)) {
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
    /// Where the processes are: `/proc`.
    pub(super) proc: PathBuf,
}

/// A move of one process. One of the two groups is ours, and has its sets changed.
#[derive(Debug)]
pub(super) struct Move {
    pub(super) places: Places,
    pub(super) sets: Sets,
    pub(super) process: u32,
    /// The group that it goes to.
    pub(super) to: PathBuf,
    pub(super) ours: Ours,
}

/// The group whose sets are changed.
#[derive(Debug)]
pub(super) enum Ours {
    /// The one that it goes to.
    To(Arc<OwnedFd>),
    /// The one that it comes from.
    From(Arc<OwnedFd>),
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
        let proc = ProcFs::at(&self.places.proc).map_err(io::Error::other)?;
        // The kernel says of one that has ended that there is none.
        let Ok(from) = proc.cgroup(self.process) else {
            return make();
        };
        let from = self.places.mount.join(from.trim_start_matches('/'));
        if from == self.to {
            return make();
        }
        let Some(_compared) = self.sets.compare([&from, &self.to]) else {
            return Err(ErrorKind::WouldBlock.into());
        };
        let are_alike = || Some(self.in_force(&from)? == self.in_force(&self.to)?);
        if are_alike() != Some(true) {
            self.adapt(&from)?;
        }
        let leaves_alone = kernel().is_none_or(|version| version >= LEAVES_ALONE);
        if !leaves_alone || are_alike() != Some(true) {
            self.wait_for_threads(&proc)?;
        }
        make()
    }

    /// `None` without the cpuset controller.
    fn in_force(&self, group: &Path) -> Option<InForce> {
        let groups = group.ancestors();
        let below = groups.take_while(|group| group.starts_with(&self.places.mount));
        let read = |file: PathBuf| read_small(&file).ok()?.parse().ok();
        below.into_iter().find_map(|group| {
            Some(InForce {
                cpus: read(group.join("cpuset.cpus.effective"))?,
                nodes: read(group.join("cpuset.mems.effective"))?,
            })
        })
    }

    /// Gives ours the sets of the other group. What the kernel refuses shows in what is in force.
    fn adapt(&self, from: &Path) -> io::Result<()> {
        let (ours, mine, theirs) = match &self.ours {
            Ours::To(dir) => (dir, self.to.as_path(), from),
            Ours::From(dir) => (dir, from, self.to.as_path()),
        };
        let (Some(mine), Some(theirs)) = (self.in_force(mine), self.in_force(theirs)) else {
            return Ok(());
        };
        if mine.nodes != theirs.nodes {
            write(ours, "cpuset.mems", &theirs.nodes)?;
        }
        if mine.cpus != theirs.cpus {
            write(ours, "cpuset.cpus", &theirs.cpus)?;
        }
        Ok(())
    }

    fn wait_for_threads(&self, proc: &ProcFs) -> io::Result<()> {
        for _ in 0..LOOKS {
            let threads = proc
                .threads_from(self.process, 0, THREADS)
                .unwrap_or_default();
            let stats = threads.into_iter().map(|thread| proc.thread_stat(thread));
            let waits = |stat: ProcessStat| stat.state == 'D';
            if !stats.flatten().any(waits) {
                return Ok(());
            }
            std::thread::sleep(BETWEEN);
        }
        let why = format!(
            "a thread of process {} waits for the kernel (state D), and its group has other CPUs or memory nodes than the \
             one that it is to be moved to: while its address space is locked, that would stop all processes of this machine",
            self.process
        );
        Err(io::Error::new(ErrorKind::ResourceBusy, why))
    }
}

/// What the kernel refuses is left as it was.
fn write(dir: &OwnedFd, file: &str, set: &CpuSet) -> io::Result<()> {
    let flags = match cfg!(test) {
        false => OFlags::WRONLY,
        true => OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC,
    };
    let file = rustix::fs::openat(dir, file, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?;
    match File::from(file).write_all(set.to_string().as_bytes()) {
        Err(error) if error.kind() != ErrorKind::InvalidInput => Err(error),
        _ => Ok(()),
    }
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
                    proc: self.path("proc"),
                },
                sets: sets.clone(),
                process: PROCESS,
                to: self.path("ours"),
                ours: Ours::To(Arc::new(ours.into())),
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
        if kernel().unwrap() >= LEAVES_ALONE {
            assert!(tree.moves().unwrap());
        }
        assert_eq!(tree.written("ours/cpuset.cpus"), None);
        assert_eq!(tree.written("ours/cpuset.mems"), None);
    }

    #[test]
    fn a_group_of_ours_gets_the_sets_of_the_one_that_a_process_comes_from() {
        let tree = Tree::new('S', [("4-7\n", "1\n"), ("0-7\n", "0-1\n")]);
        assert!(tree.moves().unwrap());
        assert_eq!(tree.written("ours/cpuset.cpus").unwrap(), "4-7");
        assert_eq!(tree.written("ours/cpuset.mems").unwrap(), "1");
    }

    #[test]
    fn a_process_that_waits_for_the_kernel_is_not_moved_between_groups_that_cannot_be_alike() {
        // What is in force does not follow what is written here.
        let tree = Tree::new('D', [("4-7\n", "0\n"), ("0-3\n", "0\n")]);
        let refused = tree.moves().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ResourceBusy);
        let says = refused.to_string();
        assert!(says.contains("process 77 waits for the kernel"), "{says}");
        // Nor if it is not known which sets a group has.
        fs::remove_dir_all(tree.path("theirs")).unwrap();
        assert!(tree.moves().is_err());
    }

    #[test]
    fn sets_do_not_change_while_a_process_is_moved_by_them() {
        let tree = Tree::new('S', [("0-3\n", "0\n"), ("0-3\n", "0\n")]);
        let sets = Sets::default();
        let (theirs, ours) = (tree.path("theirs"), tree.path("ours"));
        let can_change = |group: &Path| sets.change(group).is_some();
        let made = tree.a_move(&sets).make(|| {
            assert!(!can_change(&theirs) && !can_change(&ours));
            assert!(can_change(&tree.path("another")));
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
