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
//! *Cost.* Process numbers ascend, and one read shows the newest: only larger numbers are new. All processes are read
//! when numbers have wrapped around, when an application arrives, and every twenty intervals.
//!
//! *Limit.* An ordinary user cannot set threads of set-uid programs; this is logged once for each application.

#[cfg(test)]
mod tests;

use super::tree::ProcessTree;
use super::{
    AdoptTarget, Adoptee, BindMemory, Capabilities, Confine, Departure, Enforcer, Former, Handover,
    Isolate, MembersKept, Membership, MemoryBinding, Newcomer, Tasks, ThreadMasks, masks,
};
use crate::procfs::ProcFs;
use crate::{HostError, Missing, chain};
use mapper_model::{AppId, CpuSet, ThreadId};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

const FULL_LOOK: u32 = 20;

/// How many numbers are tried one by one before the list of all processes is cheaper.
const TRIED: u32 = 128;

/// Searches for threads with an old mask after a change. What is created faster is set at the next interval.
const LOOKS: u32 = 16;

/// Confines applications by the affinity of their threads. See the [module](self).
#[derive(Debug)]
pub struct AffinityEnforcer {
    proc: ProcFs,
    tree: ProcessTree,
    apps: BTreeMap<AppId, Confined>,
    newest_pid: u32,
    /// Intervals until all processes are read; 0: at the next search.
    full_look_in: u32,
    looks: u64,
}

#[derive(Debug, Default)]
struct Confined {
    /// The last set applied; empty before the first.
    cpus: CpuSet,
    threads: BTreeMap<ThreadId, Mask>,
    processes: Vec<u32>,
    /// The search since which the threads have not been listed again.
    listed_at: Option<u64>,
    /// Masks that threads may still have from before the last change. Emptied when every thread is set.
    stale: Vec<CpuSet>,
    refusal_logged: bool,
    before: Option<Before>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Before {
    /// Of the process that was named: threads started since get it.
    first: CpuSet,
    threads: BTreeMap<u32, ThreadBefore>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct ThreadBefore {
    /// When it started: its number may be another's by the time it is put back.
    started_ticks: u64,
    mask: CpuSet,
}

const BEFORE: &str = "before";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Listed {
    AsBefore,
    Anew,
}

#[derive(Debug, Default)]
struct Mask {
    in_force: CpuSet,
    own: Option<CpuSet>,
}

impl AffinityEnforcer {
    /// For this machine; an error if `/proc` is not mounted.
    pub fn new() -> Result<Self, HostError> {
        Ok(Self {
            proc: ProcFs::system()?,
            tree: ProcessTree::default(),
            apps: BTreeMap::new(),
            newest_pid: 0,
            full_look_in: 0,
            looks: 0,
        })
    }

    fn look_at_processes(&mut self) -> Result<(), HostError> {
        // Read first: whatever is started from here on is newer, and found by the next search.
        let newest = self.proc.newest_pid()?;
        let processes = if self.full_look_in == 0 || newest < self.newest_pid {
            self.full_look_in = FULL_LOOK;
            self.proc.processes()?
        } else if newest == self.newest_pid {
            return Ok(());
        } else {
            self.proc.stats(&self.new_and_known(newest)?)
        };
        let proc = &self.proc;
        self.tree.update(&processes, &|child| {
            proc.same_program(child.pid, child.parent)
        });
        self.newest_pid = newest;
        self.looks += 1;
        Ok(())
    }

    /// The numbers of all members and of those that may have been started since the last search.
    fn new_and_known(&self, newest: u32) -> Result<Vec<u32>, HostError> {
        let new = self.newest_pid + 1..=newest;
        let mut pids: Vec<u32> = if newest - self.newest_pid <= TRIED {
            new.collect()
        } else {
            let mut pids = self.proc.pids()?;
            pids.retain(|pid| new.contains(pid));
            pids
        };
        pids.extend(self.tree.all_members());
        pids.sort_unstable();
        pids.dedup();
        Ok(pids)
    }

    /// Lists the threads of an application, if that was not done since the last search.
    fn list_threads(&mut self, app: AppId) -> Listed {
        let Some(confined) = self.apps.get_mut(&app) else {
            return Listed::AsBefore;
        };
        if confined.listed_at == Some(self.looks) {
            return Listed::AsBefore;
        }
        confined.listed_at = Some(self.looks);
        let mut seen = Vec::new();
        confined.processes.clear();
        let members: Vec<u32> = self.tree.members(app).collect();
        for pid in members {
            match self.proc.threads(pid) {
                Ok(threads) if !threads.is_empty() => {
                    confined.processes.push(pid);
                    seen.extend(threads);
                }
                _ => self.tree.ended(app, pid),
            }
        }
        seen.sort_unstable();
        confined
            .threads
            .retain(|tid, _| seen.binary_search(tid).is_ok());
        for tid in seen {
            confined.threads.entry(tid).or_default();
        }
        Listed::Anew
    }

    fn settle(confined: &mut Confined, app: AppId) -> Result<u32, HostError> {
        let target = confined.cpus.clone();
        let mut set = 0;
        let mut first_refusal = None;
        if target.is_empty() {
            return Ok(0);
        }
        confined.threads.retain(|tid, mask| {
            let Ok(now) = masks::get(*tid) else {
                return false;
            };
            let chose_itself = if mask.in_force.is_empty() {
                !confined.stale.contains(&now)
            } else {
                now != mask.in_force
            };
            if chose_itself {
                mask.own = (now.is_subset(&target) && now != target).then(|| now.clone());
            }
            let wanted = match &mask.own {
                Some(own) if !own.is_disjoint(&target) => own.intersection(&target),
                _ => target.clone(),
            };
            if now == wanted {
                mask.in_force = now;
                return true;
            }
            set += 1;
            match masks::set(*tid, &wanted) {
                Ok(()) => {}
                Err(error) if error.is_gone() => return false,
                Err(error) => first_refusal = first_refusal.take().or(Some(error)),
            }
            // The kernel leaves out CPUs that it does not allow. Without an answer the thread has just ended.
            let Ok(in_force) = masks::get(*tid) else {
                return false;
            };
            mask.in_force = in_force;
            true
        });
        match first_refusal {
            None => Ok(set),
            // Set-uid programs: the rest of the application is confined all the same.
            Some(error) if error.errno() == Some(Errno::PERM) => {
                if !std::mem::replace(&mut confined.refusal_logged, true) {
                    tracing::warn!(
                        app = app.0,
                        "a thread cannot be confined, it may run on all CPUs: {}",
                        chain(&error)
                    );
                }
                Ok(0)
            }
            Some(error) => Err(error),
        }
    }

    /// If the kernel refuses the previous set (all of its CPUs are offline), the new one is put in force all the same.
    fn settle_under_old(confined: &mut Confined, app: AppId) {
        if let Err(error) = Self::settle(confined, app) {
            tracing::info!(
                app = app.0,
                "masks not applied for the previous CPUs: {}",
                chain(&error)
            );
        }
    }

    /// Gives the threads of an adopted application the masks that they had before, except those that chose one.
    fn put_back(&self, confined: &Confined) {
        let Some(before) = &confined.before else {
            return;
        };
        for (tid, mask) in &confined.threads {
            let same = |thread: &&ThreadBefore| {
                let now = self.proc.stat(tid.0);
                now.is_ok_and(|now| now.started_ticks == thread.started_ticks)
            };
            let had = before
                .threads
                .get(&tid.0)
                .filter(same)
                .map_or(&before.first, |thread| &thread.mask);
            if mask.own.is_none()
                && !had.is_empty()
                && let Err(error) = masks::set(*tid, had)
                && !error.is_gone()
            {
                tracing::warn!(thread = tid.0, "mask not restored: {}", chain(&error));
            }
        }
    }

    fn settle_all(&mut self, app: AppId) -> Result<(), HostError> {
        for _ in 0..LOOKS {
            let Some(confined) = self.apps.get_mut(&app) else {
                return Ok(());
            };
            let had_to_set = Self::settle(confined, app)?;
            if had_to_set > 0 {
                self.look_at_processes()?;
            }
            if self.list_threads(app) == Listed::AsBefore {
                if let Some(confined) = self.apps.get_mut(&app) {
                    confined.stale.clear();
                }
                return Ok(());
            }
        }
        Ok(())
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
        // Masks that threads gave themselves have to be noticed under the old set, or they would be taken for old.
        Self::settle_under_old(confined, app);
        if confined.cpus != *cpus {
            let before = std::mem::replace(&mut confined.cpus, cpus.clone());
            confined.stale.push(before);
        }
        self.look_at_processes()?;
        self.list_threads(app);
        self.settle_all(app)
    }

    fn effective(&mut self, app: AppId) -> Result<CpuSet, HostError> {
        let Some(confined) = self.apps.get(&app) else {
            return Ok(CpuSet::new());
        };
        let mut in_force = CpuSet::new();
        for mask in confined.threads.values() {
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
        // Launched from within another application, it brings that one's mask along.
        let inherited = self
            .apps
            .iter()
            .find(|(_, confined)| confined.processes.contains(&newcomer.launcher))
            .map(|(_, confined)| confined.cpus.clone());
        self.tree.add(newcomer.app, newcomer.launcher, &first);
        self.apps.insert(
            newcomer.app,
            Confined {
                stale: inherited.into_iter().collect(),
                ..Confined::default()
            },
        );
        self.full_look_in = 0;
        self.list_threads(newcomer.app);
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
        // Orphans of its parent are not its: that did not start it for mapper.
        self.tree.add(app, 0, &first);
        self.apps.insert(app, Confined::default());
        self.full_look_in = 0;
        if let Err(error) = self.look_at_processes() {
            self.apps.remove(&app);
            self.tree.remove(app);
            return Err(error);
        }
        self.list_threads(app);
        let thread = |tid: &ThreadId| {
            let mask = masks::get(*tid).ok()?;
            let started_ticks = self.proc.stat(tid.0).ok()?.started_ticks;
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
        self.full_look_in = self.full_look_in.saturating_sub(1);
        self.look_at_processes()?;
        let apps: Vec<AppId> = self.apps.keys().copied().collect();
        let mut first_error = None;
        for app in apps {
            self.list_threads(app);
            if let Err(error) = self.settle_all(app) {
                first_error.get_or_insert(error);
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    fn tasks(&mut self, app: AppId) -> Tasks {
        self.apps
            .get(&app)
            .map_or_else(Tasks::default, |confined| Tasks {
                processes: confined.processes.clone(),
                threads: confined.threads.keys().copied().collect(),
            })
    }

    fn emptied(&mut self, apps: &BTreeSet<AppId>) -> Vec<AppId> {
        // Reads all: the last processes may just have ended, or left orphans behind.
        self.full_look_in = 0;
        if let Err(error) = self.look_at_processes() {
            tracing::warn!("processes not checked: {}", chain(&error));
        }
        let empty = |app: &AppId| self.tree.members(*app).next().is_none();
        apps.iter().copied().filter(empty).collect()
    }

    fn release(
        &mut self,
        app: AppId,
        all: &CpuSet,
        _departure: Departure,
    ) -> Result<(), HostError> {
        if let Some(confined) = self.apps.get_mut(&app) {
            if confined.before.is_some() {
                Self::settle_under_old(confined, app);
            }
            let before = std::mem::replace(&mut confined.cpus, all.clone());
            confined.stale.push(before);
        }
        let result = self.look_at_processes().and_then(|()| {
            self.list_threads(app);
            self.settle_all(app)
        });
        if let Some(confined) = self.apps.remove(&app) {
            self.put_back(&confined);
        }
        self.tree.remove(app);
        result
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
        self.apps.insert(
            app,
            Confined {
                cpus: former.cpus.clone(),
                before: before.and_then(|before| serde_json::from_value(before).ok()),
                ..Confined::default()
            },
        );
        self.full_look_in = 0;
        self.look_at_processes()?;
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
