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
use std::collections::{BTreeMap, BTreeSet};

/// Ended leaders that are remembered of an application.
const ENDED_LEADERS: usize = 1024;

#[derive(Clone, Debug, Default)]
pub(super) struct ProcessTree {
    families: BTreeMap<AppId, Family>,
    /// The application of each member.
    owner: BTreeMap<u32, AppId>,
    /// That of each dedicated launcher.
    dedicated: BTreeMap<u32, AppId>,
    /// That of each ended leader.
    ended: BTreeMap<u32, AppId>,
    /// Ended leaders of whose group or session a process was seen in this [round](Self::end_round), or that ended in it.
    in_use: BTreeSet<u32>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Family {
    launcher: Launcher,
    members: BTreeMap<u32, u64>,
    /// Members that lead a process group or session.
    #[serde(default)]
    leaders: BTreeSet<u32>,
    /// Ended members that led a process group or session, while any process is in it.
    ended_leaders: BTreeSet<u32>,
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
            family.leaders.remove(&first.pid);
            if family.launcher.pid() == launcher {
                state = Launcher::Busy(launcher);
                family.launcher = state;
            }
        }
        if matches!(state, Launcher::Busy(_)) {
            self.dedicated.remove(&launcher);
        }
        self.lives_again(first.pid);
        self.owner.insert(first.pid, app);
        self.families.insert(
            app,
            Family {
                launcher: state,
                members: BTreeMap::from([(first.pid, first.started_ticks)]),
                leaders: BTreeSet::new(),
                ended_leaders: BTreeSet::new(),
            },
        );
        self.note_leaders(first);
    }

    /// Says whether the launcher of a newcomer has other children, where that is known without a list of all processes.
    pub(super) fn judge_launcher(&mut self, app: AppId, busy: bool) {
        if let Some(family) = self.families.get_mut(&app)
            && let Launcher::New(pid) = family.launcher
        {
            family.launcher = match busy {
                true => Launcher::Busy(pid),
                false => {
                    self.dedicated.insert(pid, app);
                    Launcher::Dedicated(pid)
                }
            };
        }
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
        if known.get("leaders").is_none() {
            // An earlier version did not know.
            family.leaders = family.members.keys().copied().collect();
        }
        if let Launcher::Dedicated(pid) = family.launcher {
            self.dedicated.insert(pid, app);
        }
        let members = family.members.keys();
        self.owner.extend(members.map(|pid| (*pid, app)));
        for pid in &family.ended_leaders {
            self.ended.insert(*pid, app);
            self.in_use.insert(*pid);
        }
        self.families.insert(app, family);
        true
    }

    pub(super) fn remove(&mut self, app: AppId) {
        let Some(family) = self.families.remove(&app) else {
            return;
        };
        let launcher = family.launcher.pid();
        for (of, pids) in [
            (&mut self.dedicated, vec![&launcher]),
            (&mut self.owner, family.members.keys().collect()),
            (&mut self.ended, family.ended_leaders.iter().collect()),
        ] {
            for pid in pids {
                if of.get(pid) == Some(&app) {
                    of.remove(pid);
                }
            }
        }
    }

    pub(super) fn members(&self, app: AppId) -> impl Iterator<Item = u32> + '_ {
        self.members_from(app, 0).map(|(pid, _)| pid)
    }

    /// Its members from this number on, with their start times.
    pub(super) fn members_from(
        &self,
        app: AppId,
        first: u32,
    ) -> impl Iterator<Item = (u32, u64)> + '_ {
        let family = self.families.get(&app).into_iter();
        let members = family.flat_map(move |family| family.members.range(first..));
        members.map(|(pid, started)| (*pid, *started))
    }

    /// The application that a process belongs to.
    pub(super) fn owner(&self, pid: u32) -> Option<AppId> {
        self.owner.get(&pid).copied()
    }

    pub(super) fn ended(&mut self, app: AppId, pid: u32) {
        if let Some(family) = self.families.get_mut(&app)
            && family.members.remove(&pid).is_some()
        {
            self.owner.remove(&pid);
            if family.leaders.remove(&pid) && family.ended_leaders.len() < ENDED_LEADERS {
                family.ended_leaders.insert(pid);
                self.ended.insert(pid, app);
                self.in_use.insert(pid);
            }
        }
    }

    /// Notes that the group and the session of a process have a leader.
    pub(super) fn note_leaders(&mut self, process: &ProcessStat) {
        for leader in [process.group, process.session] {
            if self.ended.contains_key(&leader) {
                self.in_use.insert(leader);
            } else if let Some(app) = self.owner.get(&leader)
                && let Some(family) = self.families.get_mut(app)
            {
                family.leaders.insert(leader);
            }
        }
    }

    /// A number that lives again is another process's.
    fn lives_again(&mut self, pid: u32) {
        if let Some(app) = self.ended.remove(&pid)
            && let Some(family) = self.families.get_mut(&app)
        {
            family.ended_leaders.remove(&pid);
        }
    }

    /// From a list of all processes.
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
        for process in processes {
            self.note_leaders(process);
        }
        let ended: Vec<(AppId, u32)> = self
            .families
            .iter()
            .flat_map(|(app, family)| family.members.iter().map(|(pid, at)| (*app, *pid, *at)))
            .filter(|(_, pid, at)| live.get(pid).is_none_or(|p| p.started_ticks != *at))
            .map(|(app, pid, _)| (app, pid))
            .collect();
        for (app, pid) in ended {
            self.ended(app, pid);
        }
        let mut busy: BTreeSet<AppId> = BTreeSet::new();
        let new = self.families.iter();
        let new: BTreeMap<u32, AppId> = new
            .filter_map(|(app, family)| match family.launcher {
                Launcher::New(pid) => Some((pid, *app)),
                _ => None,
            })
            .collect();
        for process in live.values() {
            if let Some(app) = new.get(&process.parent)
                && self.owner(process.pid) != Some(*app)
                && !is_helper(process)
            {
                busy.insert(*app);
            }
        }
        for app in new.into_values() {
            self.judge_launcher(app, busy.contains(&app));
        }
        self.in_use.clear();
        self.find(processes, is_helper);
        self.end_round();
    }

    /// Finds new members among some processes; the known ones stay. Returns whether there are any.
    pub(super) fn find(
        &mut self,
        processes: &[ProcessStat],
        is_helper: &dyn Fn(&ProcessStat) -> bool,
    ) -> bool {
        let own = std::process::id();
        let mut strangers: BTreeMap<u32, &ProcessStat> = BTreeMap::new();
        // Who may become a member when a number does.
        let mut waiting: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for process in processes {
            if process.is_zombie() || !may_belong(process, own) {
                continue;
            }
            if let Some(app) = self.owner(process.pid) {
                let known = self.members_from(app, process.pid).next();
                if known != Some((process.pid, process.started_ticks)) {
                    self.ended(app, process.pid);
                }
            }
            self.lives_again(process.pid);
            let known = self.owner.contains_key(&process.pid);
            if !known && !self.dedicated.contains_key(&process.pid) {
                strangers.insert(process.pid, process);
                for number in [process.parent, process.group, process.session] {
                    waiting.entry(number).or_default().push(process.pid);
                }
            }
        }
        let mut any = false;
        let mut generation: BTreeSet<u32> = strangers.keys().copied().collect();
        while !generation.is_empty() {
            let mut found = Vec::new();
            for pid in &generation {
                let Some(process) = strangers.get(pid) else {
                    continue;
                };
                let launcher = self.dedicated.get(&process.parent);
                if launcher.is_some() && is_helper(process) {
                    continue;
                }
                let leader = |pid: u32| self.owner.get(&pid).or_else(|| self.ended.get(&pid));
                let app = launcher
                    .or_else(|| self.owner.get(&process.parent))
                    .or_else(|| leader(process.group))
                    .or_else(|| leader(process.session));
                found.extend(app.map(|app| (*pid, *app, process.started_ticks)));
            }
            generation.clear();
            for (pid, app, started) in found {
                any = true;
                strangers.remove(&pid);
                self.owner.insert(pid, app);
                generation.extend(waiting.get(&pid).into_iter().flatten());
                if let Some(family) = self.families.get_mut(&app) {
                    family.members.insert(pid, started);
                }
            }
        }
        for process in processes.iter().filter(|process| !process.is_zombie()) {
            self.note_leaders(process);
        }
        any
    }

    /// To be called when all processes have been looked at since the last call: forgets ended leaders that nothing
    /// refers to.
    pub(super) fn end_round(&mut self) {
        let in_use = std::mem::take(&mut self.in_use);
        self.ended.retain(|pid, _| in_use.contains(pid));
        for family in self.families.values_mut() {
            family.ended_leaders.retain(|pid| in_use.contains(pid));
        }
    }
}

pub(super) fn may_belong(process: &ProcessStat, own: u32) -> bool {
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
        ProcessStat::sleeping(pid, parent)
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
    fn of_ended_members_only_leaders_are_remembered_and_not_more_than_so_many() {
        const FIRST: u32 = 5_000_000;
        let leads = |pid| ProcessStat {
            group: pid,
            ..process(pid, ROOT)
        };
        let follows = |pid| process(pid, ROOT);
        for (member, remembered) in [
            (&follows as &dyn Fn(u32) -> ProcessStat, 0),
            (&leads, ENDED_LEADERS),
        ] {
            let mut tree = tree();
            for pid in FIRST..FIRST + 2000 {
                tree.find(&[member(pid)], &|_| false);
                tree.ended(APP, pid);
            }
            let family = &tree.families[&APP];
            assert_eq!([family.members.len(), family.leaders.len()], [1, 0]);
            let remembered_in = [
                family.ended_leaders.len(),
                tree.ended.len(),
                tree.in_use.len(),
            ];
            assert_eq!(remembered_in, [remembered; 3]);
        }
    }

    #[test]
    fn a_leader_is_remembered_by_what_an_earlier_daemon_saved_of_any_version() {
        let leader = ProcessStat {
            group: ROOT,
            ..process(ROOT, LAUNCHER)
        };
        for version_knows_leaders in [true, false] {
            let mut before = ProcessTree::default();
            before.add(APP, LAUNCHER, &leader);
            let mut known = before.remember(APP);
            if !version_knows_leaders {
                known.as_object_mut().unwrap().remove("leaders").unwrap();
            }
            let mut tree = ProcessTree::default();
            assert!(tree.take_over(APP, &known, None));
            tree.ended(APP, ROOT);
            let orphan = ProcessStat {
                group: ROOT,
                ..process(30, 1)
            };
            tree.find(&[orphan], &|_| false);
            assert_eq!(members(&tree), [30]);
        }
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
}
