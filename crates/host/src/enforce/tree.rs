//! Which processes belong to which application, where no control group says so.
//!
//! The tree is followed from one list of all processes to the next. A process belongs to an application when
//! 1. it belonged to it before (same number, same start time), or
//! 2. its parent does, or
//! 3. its parent is the launcher of the application and dedicated to it: it makes itself the reaper of orphans. One
//!    that had other children when the application came, or launched two, is not; children that run the launcher's own
//!    program are its helpers; or
//! 4. the leader of its process group or session is, or was, a member: this finds orphans of the system's reaper.
//!
//! The launcher itself is never a member of what it launches; where launchers nest, rule 3 comes before rule 2. The
//! first process, the kernel's threads and this process are never members: a wrong number in one place must not confine
//! the whole machine. A process that left group and session, and whose parent ended between two lists with no launcher
//! to fall to, is lost: a limit that control groups do not have.

use crate::procfs::{ProcessStat, TaskKind};
use mapper_model::AppId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub(super) struct ProcessTree {
    families: BTreeMap<AppId, Family>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Family {
    launcher: Launcher,
    members: BTreeMap<u32, u64>,
    /// Ended members that led a process group or session, while any process is in it.
    ended_leaders: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Launcher {
    New(u32),
    /// It has no children of its own besides the program.
    Dedicated(u32),
    Busy(u32),
}

impl Launcher {
    const fn pid(self) -> u32 {
        match self {
            Self::New(pid) | Self::Dedicated(pid) | Self::Busy(pid) => pid,
        }
    }
}

impl ProcessTree {
    pub(super) fn add(&mut self, app: AppId, launcher: u32, first: &ProcessStat) {
        // All orphans fall to the first process, and no process has the number 0.
        let mut state = if launcher > 1 {
            Launcher::New(launcher)
        } else {
            Launcher::Busy(launcher)
        };
        for family in self.families.values_mut() {
            family.members.remove(&first.pid);
            if family.launcher.pid() == launcher {
                state = Launcher::Busy(launcher);
                family.launcher = state;
            }
        }
        self.families.insert(
            app,
            Family {
                launcher: state,
                members: BTreeMap::from([(first.pid, first.started_ticks)]),
                ended_leaders: Vec::new(),
            },
        );
    }

    pub(super) fn remember(&self, app: AppId) -> serde_json::Value {
        self.families
            .get(&app)
            .and_then(|family| serde_json::to_value(family).ok())
            .unwrap_or_default()
    }

    /// Continues with what an earlier daemon knew. `launcher` is that launcher if it lives.
    pub(super) fn take_over(
        &mut self,
        app: AppId,
        known: &serde_json::Value,
        launcher: Option<u32>,
    ) -> bool {
        let Ok(mut family) = Family::deserialize(known) else {
            return false;
        };
        if launcher != Some(family.launcher.pid()) {
            family.launcher = Launcher::Busy(0);
        }
        self.families.insert(app, family);
        true
    }

    pub(super) fn remove(&mut self, app: AppId) {
        self.families.remove(&app);
    }

    pub(super) fn members(&self, app: AppId) -> impl Iterator<Item = u32> + '_ {
        self.families
            .get(&app)
            .into_iter()
            .flat_map(|family| family.members.keys().copied())
    }

    pub(super) fn all_members(&self) -> impl Iterator<Item = u32> + '_ {
        self.families
            .values()
            .flat_map(|family| family.members.keys().copied())
    }

    pub(super) fn ended(&mut self, app: AppId, pid: u32) {
        if let Some(family) = self.families.get_mut(&app)
            && family.members.remove(&pid).is_some()
        {
            family.ended_leaders.push(pid);
        }
    }

    /// From a list of all processes, or (unless an application was added) of members and those started since the last.
    pub(super) fn update(
        &mut self,
        processes: &[ProcessStat],
        is_helper: &dyn Fn(&ProcessStat) -> bool,
    ) {
        let own = std::process::id();
        let live: BTreeMap<u32, &ProcessStat> = processes
            .iter()
            .filter(|process| !process.is_zombie() && may_belong(process, own))
            .map(|process| (process.pid, process))
            .collect();
        let mut owner: BTreeMap<u32, AppId> = BTreeMap::new();
        let mut leaders: BTreeMap<u32, AppId> = BTreeMap::new();
        let mut launchers: BTreeMap<u32, AppId> = BTreeMap::new();
        for (app, family) in &mut self.families {
            let Family {
                launcher,
                members,
                ended_leaders,
            } = family;
            members.retain(|pid, started| {
                let lives = live.get(pid).is_some_and(|p| p.started_ticks == *started);
                if !lives {
                    ended_leaders.push(*pid);
                }
                lives
            });
            // A number that lives again is another process's; one that nothing refers to is not needed.
            ended_leaders.retain(|leader| {
                !live.contains_key(leader)
                    && live
                        .values()
                        .any(|p| p.group == *leader || p.session == *leader)
            });
            owner.extend(members.keys().map(|pid| (*pid, *app)));
            leaders.extend(
                members
                    .keys()
                    .chain(ended_leaders.iter())
                    .map(|pid| (*pid, *app)),
            );
            if let Launcher::New(pid) = *launcher {
                let busy = live
                    .values()
                    .any(|p| p.parent == pid && !members.contains_key(&p.pid) && !is_helper(p));
                *launcher = match busy {
                    true => Launcher::Busy(pid),
                    false => Launcher::Dedicated(pid),
                };
            }
            if let Launcher::Dedicated(pid) = *launcher {
                launchers.insert(pid, *app);
            }
        }
        // Each pass finds at least one more generation, so passes are bounded by the processes.
        loop {
            let mut found = Vec::new();
            for process in live.values() {
                if owner.contains_key(&process.pid) || launchers.contains_key(&process.pid) {
                    continue;
                }
                let launcher = launchers.get(&process.parent);
                if launcher.is_some() && is_helper(process) {
                    continue;
                }
                let app = launcher
                    .or_else(|| owner.get(&process.parent))
                    .or_else(|| leaders.get(&process.group))
                    .or_else(|| leaders.get(&process.session));
                if let Some(app) = app {
                    found.push((process.pid, *app, process.started_ticks));
                }
            }
            if found.is_empty() {
                return;
            }
            for (pid, app, started) in found {
                owner.insert(pid, app);
                leaders.insert(pid, app);
                if let Some(family) = self.families.get_mut(&app) {
                    family.members.insert(pid, started);
                }
            }
        }
    }
}

/// A process and all its living descendants, the process first. Empty if it does not live.
#[must_use]
pub fn descendants(processes: &[ProcessStat], first: u32) -> Vec<ProcessStat> {
    let own = std::process::id();
    let mut children: BTreeMap<u32, Vec<&ProcessStat>> = BTreeMap::new();
    for process in processes {
        if !process.is_zombie() && may_belong(process, own) {
            children.entry(process.parent).or_default().push(process);
        }
    }
    let mut found: Vec<ProcessStat> = processes
        .iter()
        .filter(|process| process.pid == first && !process.is_zombie())
        .copied()
        .collect();
    let mut looked_at = 0;
    while looked_at < found.len() {
        // Each is found once, whatever parents are read while processes end.
        let below = children.remove(&found[looked_at].pid);
        looked_at += 1;
        found.extend(below.into_iter().flatten().filter(|p| p.pid != first));
    }
    found
}

fn may_belong(process: &ProcessStat, own: u32) -> bool {
    // Threads belong to their process. 1 is the first process, 2 the parent of the kernel's threads, whose own parent is 0.
    process.kind == TaskKind::Process
        && process.pid > 2
        && ![0, 2].contains(&process.parent)
        && process.pid != own
}

#[cfg(test)]
mod tests {
    use super::*;

    const APP: AppId = AppId(1);
    const LAUNCHER: u32 = 10;
    const ROOT: u32 = 11;

    fn process(pid: u32, parent: u32) -> ProcessStat {
        ProcessStat {
            pid,
            parent,
            group: 5,
            session: 5,
            state: 'S',
            started_ticks: u64::from(pid),
            threads: 1,
            kind: TaskKind::Process,
            cpu: mapper_model::CpuId(0),
        }
    }

    fn tree() -> ProcessTree {
        let mut tree = ProcessTree::default();
        tree.add(APP, LAUNCHER, &process(ROOT, LAUNCHER));
        tree
    }

    fn look(tree: &mut ProcessTree, processes: &[ProcessStat]) {
        tree.update(processes, &|_| false);
    }

    fn members(tree: &ProcessTree) -> Vec<u32> {
        tree.members(APP).collect()
    }

    #[test]
    fn all_generations_belong_and_strangers_and_the_launcher_do_not() {
        let mut tree = tree();
        look(
            &mut tree,
            &[
                process(14, 13),
                process(13, 12),
                process(12, ROOT),
                process(ROOT, LAUNCHER),
                process(LAUNCHER, 5),
                process(5, 1),
                process(20, 5),
            ],
        );
        assert_eq!(members(&tree), [ROOT, 12, 13, 14]);
    }

    #[test]
    fn an_orphan_that_falls_to_the_launcher_belongs_even_if_never_seen_before() {
        let mut tree = tree();
        look(&mut tree, &[process(LAUNCHER, 5), process(ROOT, LAUNCHER)]);
        look(&mut tree, &[process(LAUNCHER, 5), process(30, LAUNCHER)]);
        assert_eq!(members(&tree), [30]);
    }

    #[test]
    fn a_helper_of_the_launcher_does_not_belong_and_does_not_keep_it_from_taking_orphans() {
        let mut tree = tree();
        let helper = process(40, LAUNCHER);
        let is_helper = |child: &ProcessStat| child.pid == 40 && child.parent == LAUNCHER;
        tree.update(&[process(ROOT, LAUNCHER), helper], &is_helper);
        tree.update(&[process(30, LAUNCHER), helper], &is_helper);
        assert_eq!(members(&tree), [30]);
    }

    #[test]
    fn other_children_of_a_launcher_that_has_some_do_not_belong() {
        let mut first = tree();
        for other in [20, 21] {
            let all = [process(ROOT, LAUNCHER), process(other, LAUNCHER)];
            look(&mut first, &all);
        }
        assert_eq!(members(&first), [ROOT]);

        let mut second = tree();
        look(&mut second, &[process(ROOT, LAUNCHER)]);
        second.add(AppId(2), LAUNCHER, &process(12, LAUNCHER));
        let all = [ROOT, 12, 21].map(|pid| process(pid, LAUNCHER));
        look(&mut second, &all);
        assert_eq!(members(&second), [ROOT]);
        assert_eq!(second.members(AppId(2)).collect::<Vec<_>>(), [12]);
    }

    #[test]
    fn an_orphan_that_falls_to_init_is_found_by_its_group_or_session() {
        let mut tree = tree();
        let orphan = |pid, group, session| ProcessStat {
            group,
            session,
            ..process(pid, 1)
        };
        let strange = orphan(32, 32, 32);
        look(
            &mut tree,
            &[orphan(30, ROOT, 5), orphan(31, 31, ROOT), strange],
        );
        assert_eq!(members(&tree), [30, 31]);
        // The leader stays known as long as any process is in the group.
        look(&mut tree, &[orphan(33, ROOT, 5)]);
        assert_eq!(members(&tree), [33]);
    }

    #[test]
    fn a_number_used_again_by_a_stranger_does_not_belong() {
        let mut tree = tree();
        let stranger = ProcessStat {
            started_ticks: 999,
            ..process(ROOT, 1)
        };
        let in_group_of_stranger = ProcessStat {
            group: ROOT,
            ..process(41, 1)
        };
        let child_of_stranger = process(40, ROOT);
        look(
            &mut tree,
            &[stranger, child_of_stranger, in_group_of_stranger],
        );
        assert_eq!(members(&tree), [] as [u32; 0]);
    }

    #[test]
    fn a_zombie_does_not_count_but_leaves_its_group_behind() {
        let mut tree = tree();
        let zombie = ProcessStat {
            state: 'Z',
            ..process(ROOT, LAUNCHER)
        };
        look(&mut tree, &[process(LAUNCHER, 5), zombie]);
        assert_eq!(members(&tree), [] as [u32; 0]);
    }

    #[test]
    fn no_launcher_makes_the_whole_machine_a_member() {
        for launcher in [0, 1, 2] {
            let mut tree = ProcessTree::default();
            tree.add(APP, launcher, &process(ROOT, launcher));
            let all = [(1, 0), (2, 0), (3, 2), (4, 1), (std::process::id(), ROOT)];
            let own = [(ROOT, 1), (12, ROOT)];
            let all: Vec<ProcessStat> = all
                .into_iter()
                .chain(own)
                .map(|(pid, parent)| process(pid, parent))
                .collect();
            look(&mut tree, &all);
            assert_eq!(members(&tree), [ROOT, 12], "launcher {launcher}");
        }
    }

    #[test]
    fn descendants_are_all_generations_and_no_others() {
        let zombie = ProcessStat {
            state: 'Z',
            ..process(15, ROOT)
        };
        let all = [
            process(14, 13),
            process(13, ROOT),
            process(ROOT, LAUNCHER),
            process(20, LAUNCHER),
            zombie,
        ];
        let found = descendants(&all, ROOT);
        let pids: Vec<u32> = found.iter().map(|process| process.pid).collect();
        assert_eq!(pids, [ROOT, 13, 14]);
        assert!(descendants(&all, 15).is_empty());
    }

    #[test]
    fn a_nested_launcher_belongs_to_the_outer_application_and_its_program_to_the_inner() {
        let mut tree = tree();
        let inner = AppId(2);
        tree.add(inner, 50, &process(51, 50));
        let all = [
            process(LAUNCHER, 5),
            process(ROOT, LAUNCHER),
            process(50, ROOT),
            process(51, 50),
            process(52, 51),
        ];
        look(&mut tree, &all);
        assert_eq!(tree.members(inner).collect::<Vec<_>>(), [51, 52]);
        assert_eq!(members(&tree), [ROOT]);
    }

    #[test]
    fn a_hundred_thousand_descendants_are_found_without_comparing_each_with_each() {
        // Beyond the numbers that the kernel gives: this process is none of them.
        const FIRST: u32 = 5_000_000;
        let all: Vec<ProcessStat> = (FIRST..FIRST + 100_000)
            .map(|pid| process(pid, pid - 1))
            .collect();
        let started = std::time::Instant::now();
        assert_eq!(descendants(&all, FIRST).len(), all.len());
        assert!(started.elapsed() < std::time::Duration::from_secs(20));
    }
}
