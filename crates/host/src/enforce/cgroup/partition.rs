//! Isolated partitions: CPUs that only one application uses.
//!
//! The CPUs of a *partition* of the kernel leave the set of every group outside it; with `isolated` the scheduler does
//! not balance there and unbound work of the kernel stays away. Groups of applications are *remote* partitions
//! ([cgroup-v2.rst], cpuset.cpus.partition, Linux 6.7): none of the groups around them is a partition, but
//! `cpuset.cpus.exclusive` of each must hold their CPUs. To make one takes `CAP_SYS_ADMIN`.
//!
//! An application moves with its partition: the groups around claim old and new CPUs, its own files are written, and
//! the groups around release what is unused. If the partition does not stand then (`isolated invalid`), the application
//! becomes a member on the same CPUs, and its standing says why. Its next change and every tenth look try again.
//!
//! Invariants: the CPUs of a partition are in no other set that this enforcer writes, as the kernel would dissolve the
//! partition (and, as of 6.12, keep its CPUs from all until the group is a member again); a group becomes a member
//! before it is left or removed.
//!
//! [cgroup-v2.rst]: https://docs.kernel.org/admin-guide/cgroup-v2.html

use super::asked::{EXCLUSIVE, or_later};
use super::files::{collect_tasks, give_all, name_of, possible_cpus};
use super::group::{Group, Groups};
use super::isolation::{
    ISOLATED, Isolation, PARTITION, Partition, become_member, enter, write_list,
};
use super::spreading;
use crate::enforce::{Standing, Tasks};
use crate::{HostError, Missing, chain};
use mapper_model::{AppId, CpuSet};
use rustix::thread::CapabilitySet;
use std::path::Path;

pub(super) const TRY_AGAIN: u32 = 10;

#[derive(Debug)]
pub(super) struct Partitions {
    claimed: CpuSet,
    /// Whether some of that was held up, and has to be written again.
    is_late: bool,
}

impl Partitions {
    /// What any of the groups around claims: an earlier daemon may have been kept from some of them.
    pub(super) fn found(groups: &Groups) -> Self {
        let mut claimed = CpuSet::new();
        for group in groups.around().unwrap_or_default() {
            claimed.insert_all(&group.read_cpus(EXCLUSIVE).unwrap_or_default());
        }
        let is_late = false;
        Self { claimed, is_late }
    }

    pub(super) fn set(
        &mut self,
        groups: &mut Groups,
        app: AppId,
        cpus: &CpuSet,
    ) -> Result<(), HostError> {
        self.make_way(groups, app, cpus);
        let group = groups.get_mut(app)?;
        match group.partition {
            Partition::Member => group.set_member(cpus),
            Partition::Asked(_) => self.isolate_on(groups, app, cpus),
        }
    }

    fn make_way(&mut self, groups: &mut Groups, app: AppId, cpus: &CpuSet) {
        let mut others: Vec<(AppId, CpuSet)> = Vec::new();
        for (other, group) in &groups.apps {
            if *other != app
                && let Some(held) = group.partition.exclusive()
                && !held.is_disjoint(cpus)
            {
                others.push((*other, held.difference(cpus)));
            }
        }
        for (other, rest) in others {
            let moved = match rest.is_empty() {
                true => leave(groups, other, "its CPUs were given to another application"),
                false => self.isolate_on(groups, other, &rest),
            };
            if let Err(error) = moved {
                tracing::warn!(app = other.0, "CPUs not released: {}", chain(&error));
            }
        }
    }

    fn isolate_on(
        &mut self,
        groups: &mut Groups,
        app: AppId,
        cpus: &CpuSet,
    ) -> Result<(), HostError> {
        let claimed = groups.exclusive_cpus().union(cpus);
        keep_left_over_off(groups, &claimed);
        keep_members_off(groups, app, &claimed);
        let around = self.claim(groups, &claimed);
        let group = groups.get_mut(app)?;
        let entered = around.and_then(|()| enter(&group.dir, cpus));
        let outcome = match entered {
            Ok(()) => {
                group.written = cpus.clone();
                group.expected.clear();
                group.partition = Partition::Asked(Isolation {
                    cpus: cpus.clone(),
                    ..Isolation::default()
                });
                Ok(())
            }
            Err(error) => {
                let why = chain(&error);
                if group.partition.standing() != Standing::NotIsolated(why.clone()) {
                    tracing::warn!(app = app.0, "not isolated: {why}");
                }
                group.partition.falls(Some(why));
                become_member(&group.dir).and(group.set_member(cpus))
            }
        };
        self.let_go(groups);
        spread(groups, app);
        outcome
    }

    pub(super) fn yield_to_others(&mut self, groups: &mut Groups, app: AppId) {
        let group = groups.apps.get(&app);
        if group.is_none_or(|group| group.partition.exclusive().is_none()) {
            return;
        }
        if let Err(error) = leave(groups, app, "its CPUs were set by another program or user") {
            tracing::warn!(app = app.0, "not made a member: {}", chain(&error));
        }
        self.let_go(groups);
    }

    pub(super) fn look(&mut self, groups: &mut Groups) {
        let mut standing = Vec::new();
        for (app, group) in &mut groups.apps {
            if group.partition.exclusive().is_none() {
                continue;
            }
            let why = match group.dir.read(PARTITION) {
                Ok(text) if text.trim_end() == ISOLATED => {
                    standing.push(*app);
                    continue;
                }
                Ok(text) => format!("the kernel says {:?}", text.trim_end()),
                Err(error) if error.is_gone() => continue,
                Err(error) => chain(&error),
            };
            tracing::warn!(app = app.0, "no longer isolated: {why}");
            group.partition.falls(Some(why));
            if let Err(error) = become_member(&group.dir) {
                tracing::warn!(app = app.0, "not made a member: {}", chain(&error));
            }
        }
        self.let_go(groups);
        for app in standing {
            spread(groups, app);
        }
        self.try_again(groups);
    }

    /// Tries again to make partitions: what kept them from standing may be gone.
    fn try_again(&mut self, groups: &mut Groups) {
        let mut due = Vec::new();
        for (app, group) in &mut groups.apps {
            let Partition::Asked(isolation) = &mut group.partition else {
                continue;
            };
            if !isolation.cpus.is_empty() || isolation.why_not.is_none() {
                continue;
            }
            isolation.looks += 1;
            // Where another program set CPUs, they stay.
            let unchanged = group.dir.read_cpus("cpuset.cpus");
            if isolation.looks % TRY_AGAIN == 0
                && unchanged.is_ok_and(|cpus| cpus == group.written && !cpus.is_empty())
            {
                due.push((*app, group.written.clone()));
            }
        }
        for (app, cpus) in due {
            if let Err(error) = self.isolate_on(groups, app, &cpus) {
                tracing::warn!(app = app.0, "not isolated again: {}", chain(&error));
            }
        }
    }

    pub(super) fn dissolve(&mut self, groups: &Groups, group: &mut Group) {
        if group.partition.exclusive().is_none() {
            return;
        }
        group.partition.falls(None);
        if let Err(error) = become_member(&group.dir)
            && !error.is_gone()
        {
            tracing::warn!("partition not dissolved: {}", chain(&error));
        }
        self.let_go(groups);
    }

    pub(super) fn dissolve_all(&mut self, groups: &mut Groups) {
        for (app, group) in &mut groups.apps {
            if group.partition.exclusive().is_some() {
                group.partition.falls(None);
                if let Err(error) = become_member(&group.dir) {
                    tracing::warn!(app = app.0, "partition not dissolved: {}", chain(&error));
                }
            }
        }
        self.let_go(groups);
    }

    fn claim(&mut self, groups: &Groups, cpus: &CpuSet) -> Result<(), HostError> {
        if self.claimed == *cpus && !self.is_late {
            return Ok(());
        }
        let mut around = groups.around()?;
        // A group can claim only what those around it claim.
        if cpus.is_subset(&self.claimed) {
            around.reverse();
        }
        // If one of the writes fails or is held up, all are repeated.
        self.claimed = self.claimed.union(cpus);
        self.is_late = false;
        for group in around {
            match write_list(&group, cpus) {
                Err(HostError::HeldUp(..)) => self.is_late = true,
                written => written?,
            }
        }
        if !self.is_late {
            self.claimed = cpus.clone();
        }
        Ok(())
    }

    fn let_go(&mut self, groups: &Groups) {
        let used = groups.exclusive_cpus();
        if used == self.claimed && !self.is_late {
            return;
        }
        if let Err(error) = self.claim(groups, &used) {
            tracing::warn!("exclusive CPUs not returned: {}", chain(&error));
            // Logged once; the next claim writes everything again.
            self.claimed.clone_from(&used);
        }
        keep_left_over_off(groups, &used);
    }
}

/// Whether groups here can be isolated at all, and if not what is missing.
pub(super) fn check(groups: &Groups) -> Result<(), HostError> {
    let missing = |why: String, hint: &str| {
        let missing = Missing::new("isolated CPUs", why, hint);
        Err(HostError::Missing(missing))
    };
    const DROP_IN: &str =
        "install the drop-in partitions.conf (see \"CPUs of its own\" in operating.md)";
    if let Err(error) = groups.root.read(EXCLUSIVE) {
        return missing(
            format!("this kernel knows no remote partitions ({})", chain(&error)),
            "use Linux 6.7 or later, with --cgroup-root below the root of all groups",
        );
    }
    for group in groups.around()? {
        if let Err(error) = group.may_write(EXCLUSIVE) {
            return missing(chain(&error), DROP_IN);
        }
    }
    match rustix::thread::capabilities(None) {
        Ok(held) if !held.effective.contains(CapabilitySet::SYS_ADMIN) => missing(
            "the daemon lacks CAP_SYS_ADMIN, which the kernel asks for".to_owned(),
            DROP_IN,
        ),
        _ => Ok(()),
    }
}

/// Groups that are not managed any more have all CPUs but the exclusive ones.
fn keep_left_over_off(groups: &Groups, exclusive: &CpuSet) {
    for app in &groups.left_over {
        let group = groups.root.beneath(Path::new(&name_of(*app)));
        if let Err(error) = group.and_then(|group| or_later(give_all(&group, exclusive)))
            && !error.is_gone()
        {
            tracing::warn!(app = app.0, "left over: {}", chain(&error));
        }
    }
}

/// One that has just come may have more CPUs than it is planned to have.
fn keep_members_off(groups: &mut Groups, app: AppId, exclusive: &CpuSet) {
    for (other, group) in &mut groups.apps {
        let rest = group.written.difference(exclusive);
        let is_ours = group.origin.place().is_none() && group.partition.exclusive().is_none();
        if *other == app || !is_ours || rest == group.written || rest.is_empty() {
            continue;
        }
        if let Err(error) = or_later(group.set_member(&rest))
            && !error.is_gone()
        {
            tracing::warn!(app = other.0, "CPUs not released: {}", chain(&error));
        }
    }
}

fn spread(groups: &Groups, app: AppId) {
    let Some(group) = groups.apps.get(&app) else {
        return;
    };
    if let Some(cpus) = group.partition.exclusive()
        && let Ok(all) = possible_cpus()
    {
        let mut tasks = Tasks::default();
        collect_tasks(&group.dir, &mut tasks);
        spreading::spread(&groups.proc, &tasks.threads, cpus, &all);
    }
}

fn leave(groups: &mut Groups, app: AppId, why: &str) -> Result<(), HostError> {
    let Some(group) = groups.apps.get_mut(&app) else {
        return Ok(());
    };
    group.partition.falls(Some(why.to_owned()));
    become_member(&group.dir)
}
