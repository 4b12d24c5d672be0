//! Confinement by thread affinity, for machines and users without control groups.
//!
//! New threads copy the affinity of their creator, and no call changes all threads of a tree. So after a change the
//! threads without the new mask are set, until a search finds none. Each interval checks all masks again.
//!
//! *Programs that pin themselves.* A thread that narrows its mask within the CPUs of its application keeps that mask.
//! When the application's set changes it gets the part of its own mask within the new set or, if that is empty, the
//! whole set; and its own mask again once that is possible, as the kernel does for threads in a cpuset. A mask that
//! reaches beyond the application's CPUs is taken back at the next interval. A thread first seen with a narrower mask
//! has chosen it too (OpenMP runtimes pin their threads), unless it is one that this enforcer has just replaced.
//!
//! *Cost.* Process numbers ascend, and one read shows the newest: only larger numbers are new, and each account has an
//! equal part of those that are looked at ([`search`]). All others are looked at in turn, a few in each interval. Nothing that one user does takes much of an interval: of each user so many threads
//! ([`THREADS`]) are looked at, and the rest in the intervals that follow, those that have waited longest first. A user's
//! subordinate uids have no parts of their own. What is released gets its CPUs back in the same way.
//!
//! *Limit.* An ordinary user cannot set threads of set-uid programs; this is logged once for each application.

mod confined;
mod leaving;
mod search;
#[cfg(test)]
mod tests;

use confined::{Before, Confined, Leaving, Mask, ThreadBefore};
use search::{AccountOf, Search};

use super::tree::ProcessTree;
use super::{
    AdoptTarget, Adoptee, BindMemory, Capabilities, Confine, Departure, Enforcer, Extent, Former,
    Handover, Isolate, MembersKept, Membership, MemoryBinding, Newcomer, Tasks, ThreadMasks,
    Unfinished, descendants, masks,
};
use crate::procfs::{Children, ProcFs, ProcessStat};
use crate::{HostError, Missing, chain};
use mapper_model::{AppId, CpuSet, ThreadId};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};

/// Threads of one user that are looked at in an interval.
const THREADS: usize = 1024;

/// As many as these take the time of one process.
const PROCESS: usize = 8;

/// Threads of an application that are set at once whatever its user has had of the interval.
const AT_LEAST: usize = 32;

/// Known processes outside the application that are checked again in one interval, in turn.
const OTHERS: usize = 16;

/// Threads and children of a launcher that are looked at; with more it gets no orphans.
const OF_LAUNCHER: usize = 64;

/// Searches for threads with an old mask after a change. What is created faster is set at the next interval.
const LOOKS: u32 = 16;

/// Confines applications by the affinity of their threads. See the [module](self).
#[derive(Debug)]
pub struct AffinityEnforcer {
    proc: ProcFs,
    tree: ProcessTree,
    apps: BTreeMap<AppId, Confined>,
    /// Processes with higher numbers have not been looked at.
    newest_pid: u32,
    /// The newest at the last interval. A number shows before the process that gets it can be found, so those since are
    /// looked at twice.
    newest_before: u32,
    /// All processes are looked at in the next search.
    full_look: bool,
    /// How far the turn of all other processes has come.
    others_until: u32,
    intervals: u64,
    /// What is left of the interval to each account, in threads.
    left: BTreeMap<u32, usize>,
    search: Search,
    /// Applications that seem to have ended, since when all new processes are searched for their orphans.
    orphans_of: BTreeSet<AppId>,
}

const BEFORE: &str = "before";

/// How far a look at the threads of an application came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Looked {
    /// At all of them; so many had to be set.
    Whole(usize),
    /// The rest waits for its turn.
    Part,
}

impl AffinityEnforcer {
    /// For this machine; an error if `/proc` is not mounted.
    pub fn new() -> Result<Self, HostError> {
        let proc = ProcFs::system()?;
        let newest_pid = proc.newest_pid()?;
        Ok(Self {
            proc,
            tree: ProcessTree::default(),
            apps: BTreeMap::new(),
            newest_pid,
            newest_before: newest_pid,
            full_look: false,
            others_until: 0,
            intervals: 0,
            left: BTreeMap::new(),
            search: Search::new(),
            orphans_of: BTreeSet::new(),
        })
    }

    /// With the account of each uid, which is the uid itself otherwise.
    #[must_use]
    pub fn with_accounts(mut self, account_of: impl Fn(u32) -> u32 + 'static) -> Self {
        self.search.account_of = AccountOf(Box::new(account_of));
        self
    }

    /// Looks at the processes that were started since the last search, and at those since this number; at its part of
    /// those of each account.
    fn look_at_new(&mut self, since: u32) -> Result<(), HostError> {
        // Read first: whatever is started from here on is newer, and found by the next search.
        let newest = self.proc.newest_pid()?;
        if std::mem::take(&mut self.full_look) {
            let processes = self.proc.processes()?;
            let proc = &self.proc;
            self.tree.update(&processes, &|child| {
                proc.same_program(child.pid, child.parent)
            });
            self.newest_pid = newest;
            self.newest_before = newest;
            self.others_until = 0;
            self.search.clear();
            return Ok(());
        }
        let wrapped = newest < self.newest_pid;
        let since = match wrapped {
            true => self.newest_pid,
            false => since.min(self.newest_pid),
        };
        if since == newest && self.search.is_complete() {
            return Ok(());
        }
        let room = self.search.room();
        let mut pids = Vec::new();
        if since != newest {
            pids = self.proc.pids_above(since, room)?;
        }
        if wrapped && pids.len() < room {
            pids.extend(self.proc.pids_above(0, room - pids.len())?);
        }
        // The rest is listed by the next search.
        let cut = pids.last().filter(|_| pids.len() == room).copied();
        let cut = cut.filter(|last| wrapped || *last < newest);
        // Larger numbers are older, from before they began anew.
        pids.retain(|pid| *pid <= newest || wrapped && *pid > since);
        self.newest_pid = cut.unwrap_or(newest);
        self.search.unlisted = cut.is_some();
        let pids = self.search.take(&self.proc, pids);
        self.find_among(&pids);
        Ok(())
    }

    fn find_among(&mut self, pids: &[u32]) {
        let (proc, stats) = (&self.proc, self.proc.stats(pids));
        let is_helper = |child: &ProcessStat| proc.same_program(child.pid, child.parent);
        self.tree.find(&stats, &is_helper);
    }

    /// Looks at a few of all processes again: one may belong to an application only since it was looked at.
    fn look_at_others(&mut self) -> Result<(), HostError> {
        let pids = self.proc.pids_above(self.others_until, OTHERS)?;
        self.find_among(&pids);
        if pids.len() < OTHERS {
            self.tree.end_round();
        }
        let last = pids.last().filter(|_| pids.len() == OTHERS);
        self.others_until = last.copied().unwrap_or_default();
        Ok(())
    }

    /// Whether the process with this number is the one that started then.
    fn lives(&mut self, pid: u32, started_ticks: u64) -> bool {
        let stat = self.proc.stat(pid);
        let Some(stat) = stat.ok().filter(|stat| stat.started_ticks == started_ticks) else {
            return false;
        };
        // It may lead a group since it was found.
        self.tree.note_leaders(&stat);
        !stat.is_zombie()
    }

    /// Forgets members that have ended, up to the first that lives. Returns whether there is one.
    fn drop_ended(&mut self, app: AppId) -> bool {
        loop {
            let Some((pid, started)) = self.tree.members_from(app, 0).next() else {
                return false;
            };
            if self.lives(pid, started) {
                return true;
            }
            self.tree.ended(app, pid);
        }
    }

    /// Continues to look at the threads of an application, and gives those another mask that have a wrong one, until
    /// `left` is used up.
    fn look_at_threads(&mut self, app: AppId, left: &mut usize) -> Result<Looked, HostError> {
        let mut set = 0;
        let mut refused = None;
        loop {
            let Some(confined) = self.apps.get_mut(&app) else {
                return Ok(Looked::Whole(set));
            };
            if *left == 0 {
                return Ok(Looked::Part);
            }
            if confined.at.is_none() {
                confined.round += 1;
                confined.pass = confined.round;
            }
            let (first, place) = confined.at.unwrap_or_default();
            let Some((pid, started)) = self.tree.members_from(app, first).next() else {
                let (round, pass) = (confined.round, confined.pass);
                confined.threads.retain(|_, mask| mask.round >= pass);
                confined.at = None;
                confined.whole_at = self.intervals;
                if round != pass {
                    // The first threads have not been looked at since the change.
                    continue;
                }
                return confined.noted(app, refused).map(|()| Looked::Whole(set));
            };
            let place = if pid == first { place } else { 0 };
            if place == 0 {
                *left = left.saturating_sub(PROCESS).max(1);
                if !self.lives(pid, started) {
                    self.tree.ended(app, pid);
                    continue;
                }
            }
            let threads = self
                .proc
                .threads_from(pid, place, *left)
                .unwrap_or_default();
            let Some(confined) = self.apps.get_mut(&app) else {
                continue;
            };
            for thread in &threads {
                match confined.settle(*thread) {
                    Ok(changed) => set += usize::from(changed),
                    Err(error) => refused = refused.or(Some(error)),
                }
            }
            confined.at = Some(match threads.len() < *left {
                true => (pid + 1, 0),
                false => (pid, place + threads.len()),
            });
            *left -= threads.len();
        }
    }

    /// Sets the masks of an application until a search finds no thread with an old one, or its user has had enough of
    /// the interval.
    fn settle_all(&mut self, app: AppId, at_least: usize) -> Result<(), HostError> {
        let account = self.apps.get(&app).map_or(0, |confined| confined.account);
        let of_account = self.left.get(&account).copied().unwrap_or(THREADS);
        let mut left = of_account.max(at_least);
        let had = left;
        let leaves = self.apps.get(&app).is_some_and(|app| app.leaving.is_some());
        let result = match leaves {
            true => self.leave(app, &mut left),
            false => self.settle_within(app, &mut left),
        };
        let used = had.saturating_sub(left);
        self.left.insert(account, of_account.saturating_sub(used));
        result
    }

    fn settle_within(&mut self, app: AppId, left: &mut usize) -> Result<(), HostError> {
        for _ in 0..LOOKS {
            let newest = self.newest_pid;
            let Looked::Whole(set) = self.look_at_threads(app, left)? else {
                return Ok(());
            };
            if set > 0 {
                self.look_at_new(newest)?;
            }
            if self.newest_pid == newest {
                if let Some(confined) = self.apps.get_mut(&app) {
                    confined.stale.clear();
                }
                return Ok(());
            }
        }
        Ok(())
    }

    /// Starts to follow an application.
    fn follow(&mut self, app: AppId, account: u32, first: u32, stale: Option<CpuSet>) {
        let confined = Confined {
            account,
            owner: self.search.account(&self.proc, first).unwrap_or(account),
            stale: stale.into_iter().collect(),
            ..Confined::default()
        };
        self.apps.insert(app, confined);
    }

    /// Reads which threads an application has, and changes nothing.
    fn list_threads(&mut self, app: AppId) {
        if let Some(confined) = self.apps.get_mut(&app) {
            let cpus = std::mem::take(&mut confined.cpus);
            // Without a set nothing is refused.
            let _ = self.look_at_threads(app, &mut { usize::MAX });
            if let Some(confined) = self.apps.get_mut(&app) {
                confined.cpus = cpus;
            }
        }
    }
}

impl Enforcer for AffinityEnforcer {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            members: MembersKept::BySavedState,
            masks: ThreadMasks::Overwritten,
            memory: MemoryBinding::Unavailable,
        }
    }

    fn describe(&self) -> String {
        "thread affinity".to_owned()
    }
}

impl Isolate for AffinityEnforcer {}

impl BindMemory for AffinityEnforcer {}

impl Confine for AffinityEnforcer {
    fn limit(&self) -> Result<CpuSet, HostError> {
        crate::cpus::own_affinity()
    }

    fn apply(&mut self, app: AppId, cpus: &CpuSet) -> Result<(), HostError> {
        let Some(confined) = self.apps.get_mut(&app) else {
            return Ok(());
        };
        if confined.cpus != *cpus {
            confined.change_to(cpus);
        }
        self.look_at_new(u32::MAX)?;
        self.settle_all(app, AT_LEAST)
    }

    fn effective(&mut self, app: AppId) -> Result<CpuSet, HostError> {
        let Some(confined) = self.apps.get(&app) else {
            return Ok(CpuSet::new());
        };
        let mut in_force = CpuSet::new();
        let looked_at = |mask: &&Mask| mask.round == confined.round;
        for mask in confined.threads.values().filter(looked_at) {
            match &mask.own {
                // Its own choice within what it was given takes nothing from the application.
                Some(_) if mask.in_force.is_subset(&confined.cpus) => {
                    in_force.insert_all(&confined.cpus);
                }
                _ => in_force.insert_all(&mask.in_force),
            }
        }
        if in_force.is_empty() {
            return Ok(confined.cpus.clone());
        }
        Ok(in_force)
    }
}

impl Membership for AffinityEnforcer {
    fn admit(&mut self, newcomer: &Newcomer) -> Result<(), HostError> {
        let first = self.proc.stat(newcomer.first_process)?;
        let (app, launcher) = (newcomer.app, newcomer.launcher);
        let children = self.proc.children(launcher, OF_LAUNCHER)?;
        // It has ended, or the kernel lists no children.
        let unlisted = children == Children::Unknown
            && self.proc.children(std::process::id(), usize::MAX)? == Children::Unknown;
        // Launched from within another application, it brings that one's mask along.
        let around = self.tree.owner(launcher);
        let inherited = around.and_then(|app| Some(self.apps.get(&app)?.cpus.clone()));
        self.tree.add(app, launcher, &first);
        self.follow(app, newcomer.account, first.pid, inherited);
        match children {
            Children::Known(children) => {
                let mut others = self.proc.stats(&children).into_iter();
                let busy = others.any(|child| {
                    let other = child.pid != first.pid && !child.is_zombie();
                    other && !self.proc.same_program(child.pid, launcher)
                });
                self.tree.judge_launcher(app, busy);
            }
            Children::Unknown if unlisted => self.full_look = true,
            Children::TooMany | Children::Unknown => self.tree.judge_launcher(app, true),
        }
        self.list_threads(app);
        Ok(())
    }

    fn adopt(&mut self, adoptee: &Adoptee) -> Result<(), HostError> {
        let AdoptTarget::Pid(pid) = adoptee.target else {
            return Err(HostError::NotAdoptable(
                adoptee.target.to_string(),
                "this daemon confines by thread affinity, without control groups".to_owned(),
                "adopt its process (--pid), or start the daemon with --enforcer cgroup".to_owned(),
            ));
        };
        let app = adoptee.app;
        let first = self.proc.stat(pid)?;
        let tree = descendants(&self.proc, pid, adoptee.limit())?;
        // Orphans of its parent are not its: that did not start it for mapper.
        self.tree.add(app, 0, &first);
        self.follow(app, adoptee.account, pid, None);
        let proc = &self.proc;
        let is_helper = |child: &ProcessStat| proc.same_program(child.pid, child.parent);
        // Orphans in its groups and sessions are found as others are checked again.
        self.tree.find(&tree, &is_helper);
        self.list_threads(app);
        let thread = |tid: &ThreadId| {
            let mask = masks::get(*tid).ok()?;
            let started_ticks = self.proc.thread_stat(*tid).ok()?.started_ticks;
            Some((
                tid.0,
                ThreadBefore {
                    started_ticks,
                    mask,
                },
            ))
        };
        if let Some(confined) = self.apps.get_mut(&app) {
            confined.before = Some(Before {
                first: masks::get(ThreadId(pid)).unwrap_or_default(),
                threads: confined.threads.keys().filter_map(thread).collect(),
            });
        }
        Ok(())
    }

    fn first_process(&self, app: AppId) -> Option<u32> {
        self.tree.members(app).min()
    }

    fn refresh(&mut self) -> Result<(), HostError> {
        let since = self.newest_before;
        self.look_at_new(since)?;
        self.newest_before = self.newest_pid;
        self.look_at_others()?;
        self.intervals += 1;
        self.left.clear();
        // Those first that have waited longest.
        let mut apps: Vec<(u64, AppId)> = self.apps.iter().map(|(a, c)| (c.whole_at, *a)).collect();
        apps.sort_unstable();
        let mut first_error = None;
        for (_, app) in apps {
            if let Err(error) = self.settle_all(app, 0) {
                first_error.get_or_insert(error);
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    fn follow_new(&mut self) -> Result<(), HostError> {
        self.look_at_new(u32::MAX)
    }

    fn owner(&self, pid: u32) -> Option<AppId> {
        self.tree.owner(pid)
    }

    fn waiting_threads(&self) -> usize {
        let part = self
            .apps
            .values()
            .filter(|app| app.whole_at < self.intervals);
        part.map(|app| app.threads.len()).sum()
    }

    fn tasks(&mut self, app: AppId) -> Tasks {
        let threads = self.apps.get(&app).map(|confined| confined.threads.keys());
        Tasks {
            processes: self.tree.members(app).collect(),
            threads: threads.into_iter().flatten().copied().collect(),
            extent: Extent::Whole,
        }
    }

    fn emptied(&mut self, apps: &mut BTreeSet<AppId>) -> Vec<AppId> {
        apps.retain(|app| !self.drop_ended(*app));
        if apps.is_empty() {
            return Vec::new();
        }
        let begun = apps.is_subset(&self.orphans_of);
        let since = if begun { u32::MAX } else { self.newest_before };
        self.orphans_of.clear();
        if let Err(error) = self.look_at_new(since) {
            tracing::warn!("processes not checked: {}", chain(&error));
            return Vec::new();
        }
        // The last processes may have left orphans behind, perhaps more than one search finds.
        apps.retain(|app| self.tree.members(*app).next().is_none());
        let (ended, others): (BTreeSet<AppId>, _) = apps.iter().partition(|app| {
            let confined = self.apps.get(app);
            // What runs with more rights than its user's seems to be root's.
            confined.is_none_or(|c| self.search.is_complete_for(&[0, c.account, c.owner]))
        });
        *apps = others;
        self.orphans_of.clone_from(apps);
        ended.into_iter().collect()
    }

    fn release(&mut self, app: AppId, all: &CpuSet, departure: Departure) -> Result<(), HostError> {
        let Some(confined) = self.apps.get_mut(&app) else {
            return Ok(());
        };
        confined.change_to(all);
        confined.leaving = Some(Leaving::Freeing);
        let searched = self.look_at_new(u32::MAX);
        let left = match departure {
            // It is the last time: nothing is left for another turn.
            Departure::DaemonStops => self.leave(app, &mut { usize::MAX }),
            _ => self.settle_all(app, THREADS),
        };
        searched.and(left)
    }
}

impl Handover for AffinityEnforcer {
    fn remember(&self, app: AppId) -> serde_json::Value {
        let mut known = self.tree.remember(app);
        let before = self.apps.get(&app).and_then(|app| app.before.as_ref());
        if let Some(before) = before
            && let Some(fields) = known.as_object_mut()
            && let Ok(before) = serde_json::to_value(before)
        {
            fields.insert(BEFORE.to_owned(), before);
        }
        known
    }

    fn unfinished(&self) -> Unfinished {
        match self.apps.values().any(|app| app.leaving.is_some()) {
            true => Unfinished::Restoring,
            false => Unfinished::Nothing,
        }
    }

    fn remember_unfinished(&self) -> serde_json::Value {
        self.remember_leaving()
    }

    fn finish(&mut self) {
        self.finish_leaving();
    }

    fn take_up(&mut self, unfinished: &serde_json::Value) {
        self.take_up_leaving(unfinished);
    }

    fn take_over(&mut self, former: &Former) -> Result<(), HostError> {
        let app = former.app;
        if !self.tree.take_over(app, &former.processes, former.launcher) {
            return Err(HostError::Missing(Missing::new(
                "list of processes",
                "it was not saved, or by another enforcer",
                "start the daemon with the enforcer it had before",
            )));
        }
        let before = former.processes.get(BEFORE).cloned();
        let mut members = self.tree.members(app);
        let owner = members.find_map(|pid| self.search.account(&self.proc, pid));
        drop(members);
        self.apps.insert(
            app,
            Confined {
                account: former.account,
                owner: owner.unwrap_or(former.account),
                cpus: former.cpus.clone(),
                stale: former.unsaved.iter().cloned().collect(),
                before: before.and_then(|before| serde_json::from_value(before).ok()),
                ..Confined::default()
            },
        );
        // What they started without a daemon is found with the first decision, or at once if nothing else lives.
        self.full_look = true;
        if !self.drop_ended(app) {
            self.look_at_new(0)?;
        }
        self.list_threads(app);
        if self.tree.members(app).next().is_none() {
            self.apps.remove(&app);
            self.tree.remove(app);
            let what = format!("application {app}");
            return Err(HostError::file("find", what, Errno::SRCH.into()));
        }
        Ok(())
    }
}
