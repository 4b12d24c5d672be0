//! CPUs that are one application's alone: isolated partitions.
//!
//! A cpuset keeps an application on its CPUs and nobody else away from them. A *partition* of the kernel does:
//! its CPUs leave the set of every group that is not in it, and with `isolated` the scheduler balances nothing
//! there, either, and unbound work of the kernel stays away. Groups of applications are *remote* partitions
//! ([cgroup-v2.rst, cpuset.cpus.partition], Linux 6.7): none of the groups around them is a partition, but
//! `cpuset.cpus.exclusive` of each must hold their CPUs. To make one takes `CAP_SYS_ADMIN`.
//!
//! An application moves with its partition: the groups around claim old and new CPUs, its own
//! `cpuset.cpus.exclusive` and `cpuset.cpus` are written, and the groups around let go of what nobody has any
//! more. After each write the kernel is asked whether the partition stands. Where it does not (`isolated
//! invalid`), the application becomes a member of the machine's partition again, on the same CPUs, and its
//! standing says why. Its next change of CPUs tries anew, and so does a look now and then.
//!
//! Invariants: the CPUs of a partition are in no other set that this enforcer writes, as the kernel would
//! dissolve the partition (and, as of 6.12, keep its CPUs from everybody until the group is a member again); a
//! group that is left or removed is a member before.
//!
//! [cgroup-v2.rst, cpuset.cpus.partition]: https://docs.kernel.org/admin-guide/cgroup-v2.html

use super::files::{give_all, possible_cpus};
use super::group_dir::{GroupDir, Populated};
use super::{CgroupEnforcer, Group, collect_tasks, name_of, spreading};
use crate::enforce::{Standing, Tasks};
use crate::{HostError, Missing, chain};
use mapper_model::{AppId, CpuSet};
use std::path::Path;

/// The exclusive CPUs of a group.
pub(super) const EXCLUSIVE: &str = "cpuset.cpus.exclusive";
pub(super) const PARTITION: &str = "cpuset.cpus.partition";
pub(super) const ISOLATED: &str = "isolated";
pub(super) const MEMBER: &str = "member";

/// Looks after which a partition that does not stand is tried again.
pub(super) const TRY_AGAIN: u32 = 10;

/// The capability `CAP_SYS_ADMIN` as a bit of `CapEff`.
const SYS_ADMIN: u64 = 1 << 21;

/// Whether a group is to be a partition.
#[derive(Debug)]
pub(super) enum Partition {
    /// Nobody asked for it.
    Member,
    Asked(Isolation),
}

/// A group that is to be a partition.
#[derive(Debug, Default)]
pub(super) struct Isolation {
    /// Its exclusive CPUs; empty while it is none.
    cpus: CpuSet,
    /// Why it is none.
    why_not: Option<String>,
    /// Looks since it is none.
    looks: u32,
}

impl Partition {
    /// What is in force for a group that an earlier daemon left.
    pub(super) fn found(dir: &GroupDir) -> Self {
        match dir.read(PARTITION) {
            Ok(text) if text.starts_with(ISOLATED) => Self::Asked(Isolation {
                cpus: dir.read_cpus(EXCLUSIVE).unwrap_or_default(),
                ..Isolation::default()
            }),
            _ => Self::Member,
        }
    }

    fn exclusive(&self) -> Option<&CpuSet> {
        match self {
            Self::Asked(isolation) if !isolation.cpus.is_empty() => Some(&isolation.cpus),
            _ => None,
        }
    }

    /// It is none any more, and why.
    fn falls(&mut self, why: Option<String>) {
        if let Self::Asked(isolation) = self {
            isolation.cpus = CpuSet::new();
            isolation.why_not = why;
            isolation.looks = 0;
        }
    }

    pub(super) fn standing(&self) -> Standing {
        match self {
            Self::Member => Standing::Member,
            Self::Asked(isolation) if !isolation.cpus.is_empty() => Standing::Isolated,
            Self::Asked(isolation) => Standing::NotIsolated(
                isolation
                    .why_not
                    .clone()
                    .unwrap_or_else(|| "it has no CPUs yet".to_owned()),
            ),
        }
    }
}

impl CgroupEnforcer {
    /// Whether groups here can be isolated at all, and if not what is missing.
    pub(super) fn check_isolation(&self) -> Result<(), HostError> {
        let missing = |why: String, mend: &str| {
            Err(HostError::Missing(Missing {
                what: "isolated CPUs",
                why,
                mend: mend.to_owned(),
            }))
        };
        const DROP_IN: &str =
            "install the drop-in partitions.conf (see \"CPUs of its own\" in operating.md)";
        if let Err(error) = self.root.read(EXCLUSIVE) {
            return missing(
                format!("this kernel knows no remote partitions ({})", chain(&error)),
                "use Linux 6.7 or later, with --cgroup-root below the root of all groups",
            );
        }
        for group in self.around()? {
            if let Err(error) = group.may_write(EXCLUSIVE) {
                return missing(chain(&error), DROP_IN);
            }
        }
        match effective_capabilities() {
            Some(held) if held & SYS_ADMIN == 0 => missing(
                "the daemon lacks CAP_SYS_ADMIN, which the kernel asks for".to_owned(),
                DROP_IN,
            ),
            _ => Ok(()),
        }
    }

    /// The CPUs of all partitions.
    pub(super) fn exclusive_cpus(&self) -> CpuSet {
        let mut all = CpuSet::new();
        for cpus in self.groups.values().filter_map(|g| g.partition.exclusive()) {
            all.insert_all(cpus);
        }
        all
    }

    /// Gives an application CPUs, with or without a partition around them.
    pub(super) fn set_group(&mut self, app: AppId, cpus: &CpuSet) -> Result<(), HostError> {
        self.make_way(app, cpus);
        let Some(group) = self.groups.get_mut(&app) else {
            return Err(self.unknown(app));
        };
        match group.partition {
            Partition::Member => group.set_member(cpus),
            Partition::Asked(_) => self.isolate_on(app, cpus),
        }
    }

    /// Somebody is about to be given CPUs that are still another one's: who has to leave them does so first.
    fn make_way(&mut self, app: AppId, cpus: &CpuSet) {
        let mut others: Vec<(AppId, CpuSet)> = Vec::new();
        for (other, group) in &self.groups {
            if *other != app
                && let Some(held) = group.partition.exclusive()
                && !held.is_disjoint(cpus)
            {
                others.push((*other, held.difference(cpus)));
            }
        }
        for (other, rest) in others {
            let moved = match rest.is_empty() {
                true => self.leave(other, "its CPUs were given to another application"),
                false => self.isolate_on(other, &rest),
            };
            if let Err(error) = moved {
                tracing::warn!(app = other.0, "does not make way: {}", chain(&error));
            }
        }
    }

    fn isolate_on(&mut self, app: AppId, cpus: &CpuSet) -> Result<(), HostError> {
        let claimed = self.exclusive_cpus().union(cpus);
        self.keep_left_over_off(&claimed);
        let around = self.claim(&claimed);
        let Some(group) = self.groups.get_mut(&app) else {
            return Err(self.unknown(app));
        };
        let entered = around.and_then(|()| enter(&group.dir, cpus));
        let outcome = match entered {
            Ok(()) => {
                group.written = cpus.clone();
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
        self.let_go();
        self.spread(app);
        outcome
    }

    /// An application is a member again, on the CPUs that it has.
    fn leave(&mut self, app: AppId, why: &str) -> Result<(), HostError> {
        let Some(group) = self.groups.get_mut(&app) else {
            return Ok(());
        };
        group.partition.falls(Some(why.to_owned()));
        become_member(&group.dir)
    }

    /// Somebody else has set CPUs for an application: a partition would keep them from it.
    pub(super) fn yield_to_others(&mut self, app: AppId) {
        let group = self.groups.get(&app);
        if group.is_none_or(|group| group.partition.exclusive().is_none()) {
            return;
        }
        if let Err(error) = self.leave(app, "somebody else set its CPUs") {
            tracing::warn!(app = app.0, "not made a member: {}", chain(&error));
        }
        self.let_go();
    }

    /// Looks whether partitions still stand, and spreads the threads in those that do.
    pub(super) fn look_at_partitions(&mut self) {
        let mut standing = Vec::new();
        for (app, group) in &mut self.groups {
            if group.partition.exclusive().is_none() {
                continue;
            }
            let why = match group.dir.read(PARTITION) {
                Ok(text) if text.trim_end() == ISOLATED => {
                    standing.push(*app);
                    continue;
                }
                Ok(text) => format!("the kernel says {:?}", text.trim_end()),
                // It has just ended.
                Err(error) if error.is_gone() => continue,
                Err(error) => chain(&error),
            };
            tracing::warn!(app = app.0, "isolated no more: {why}");
            group.partition.falls(Some(why));
            if let Err(error) = become_member(&group.dir) {
                tracing::warn!(app = app.0, "not made a member: {}", chain(&error));
            }
        }
        self.let_go();
        for app in standing {
            self.spread(app);
        }
        self.try_again();
    }

    /// What kept a partition from standing may be gone.
    fn try_again(&mut self) {
        let mut due = Vec::new();
        for (app, group) in &mut self.groups {
            let Partition::Asked(isolation) = &mut group.partition else {
                continue;
            };
            if !isolation.cpus.is_empty() || isolation.why_not.is_none() {
                continue;
            }
            isolation.looks += 1;
            // Where somebody else set CPUs, they stay.
            let unchanged = group.dir.read_cpus("cpuset.cpus");
            if isolation.looks % TRY_AGAIN == 0
                && unchanged.is_ok_and(|cpus| cpus == group.written && !cpus.is_empty())
            {
                due.push((*app, group.written.clone()));
            }
        }
        for (app, cpus) in due {
            if let Err(error) = self.isolate_on(app, &cpus) {
                tracing::warn!(app = app.0, "not isolated again: {}", chain(&error));
            }
        }
    }

    /// Dissolves the partition of a group that is let go.
    pub(super) fn dissolve(&mut self, group: &mut Group) {
        if group.partition.exclusive().is_none() {
            return;
        }
        group.partition.falls(None);
        match become_member(&group.dir) {
            Err(error) if !error.is_gone() => {
                tracing::warn!("partition not dissolved: {}", chain(&error));
            }
            _ => {}
        }
        self.let_go();
    }

    /// Dissolves all, as nobody will look after them.
    pub(super) fn dissolve_all(&mut self) {
        for (app, group) in &mut self.groups {
            if group.partition.exclusive().is_some() {
                group.partition.falls(None);
                if let Err(error) = become_member(&group.dir) {
                    tracing::warn!(app = app.0, "partition not dissolved: {}", chain(&error));
                }
            }
        }
        self.let_go();
    }

    /// A group that is empty may be the partition of an earlier daemon's application.
    pub(super) fn dissolve_left_over(&self, app: AppId) {
        let Ok(dir) = self.root.beneath(Path::new(&name_of(app))) else {
            return;
        };
        if matches!(dir.is_populated(), Ok(Populated::No))
            && !matches!(Partition::found(&dir), Partition::Member)
            && let Err(error) = become_member(&dir)
        {
            tracing::warn!(app = app.0, "partition not dissolved: {}", chain(&error));
        }
    }

    /// The groups around the applications', from the top, which have to claim what those have.
    fn around(&self) -> Result<Vec<GroupDir>, HostError> {
        let Ok(path) = self.root.path().strip_prefix(&self.mount) else {
            return Ok(Vec::new());
        };
        let mount = GroupDir::open(&self.mount)?;
        let mut around = Vec::new();
        for group in path
            .ancestors()
            .filter(|group| !group.as_os_str().is_empty())
        {
            around.push(mount.beneath(group)?);
        }
        around.reverse();
        Ok(around)
    }

    /// What any of the groups around claims: an earlier daemon may have been kept from some of them.
    pub(super) fn found_claimed(&self) -> CpuSet {
        let mut found = CpuSet::new();
        for group in self.around().unwrap_or_default() {
            found.insert_all(&group.read_cpus(EXCLUSIVE).unwrap_or_default());
        }
        found
    }

    /// Has the groups around claim exclusive CPUs: these and no others.
    fn claim(&mut self, cpus: &CpuSet) -> Result<(), HostError> {
        if self.claimed == *cpus {
            return Ok(());
        }
        let mut around = self.around()?;
        // Nobody may claim what those around do not.
        if cpus.is_subset(&self.claimed) {
            around.reverse();
        }
        // Whatever was written when one of them fails, it is written again.
        self.claimed = self.claimed.union(cpus);
        for group in around {
            write_list(&group, cpus)?;
        }
        self.claimed = cpus.clone();
        Ok(())
    }

    /// Has the groups around claim no more than is in use.
    fn let_go(&mut self) {
        let used = self.exclusive_cpus();
        if used == self.claimed {
            return;
        }
        if let Err(error) = self.claim(&used) {
            tracing::warn!("exclusive CPUs not let go: {}", chain(&error));
            // Told once; the next claim writes everything anew.
            self.claimed.clone_from(&used);
        }
        self.keep_left_over_off(&used);
    }

    /// Groups that are not managed any more have all CPUs but the exclusive ones.
    fn keep_left_over_off(&self, exclusive: &CpuSet) {
        for app in &self.left_over {
            let group = self.root.beneath(Path::new(&name_of(*app)));
            match group.and_then(|group| give_all(&group, exclusive)) {
                Err(error) if !error.is_gone() => {
                    tracing::warn!(app = app.0, "left over: {}", chain(&error));
                }
                _ => {}
            }
        }
    }

    fn spread(&self, app: AppId) {
        let Some(group) = self.groups.get(&app) else {
            return;
        };
        let all = possible_cpus().map(|list| list.trim().parse());
        if let Some(cpus) = group.partition.exclusive()
            && let Ok(Ok(all)) = all
        {
            let mut tasks = Tasks::default();
            collect_tasks(&group.dir, &mut tasks);
            spreading::spread(&self.proc, &tasks.threads, cpus, &all);
        }
    }
}

/// Makes a group the partition of these CPUs.
fn enter(dir: &GroupDir, cpus: &CpuSet) -> Result<(), HostError> {
    write_list(dir, cpus)?;
    dir.set_cpus(cpus)?;
    if dir.read(PARTITION)?.trim_end() != ISOLATED {
        dir.write(PARTITION, ISOLATED)?;
    }
    let text = dir.read(PARTITION)?;
    match text.trim_end() {
        ISOLATED => Ok(()),
        told => Err(HostError::Partition {
            path: dir.file(PARTITION),
            cpus: cpus.clone(),
            told: told.chars().take(120).collect(),
        }),
    }
}

/// Makes a group a member of its parent's partition, whatever it was.
fn become_member(dir: &GroupDir) -> Result<(), HostError> {
    dir.write(PARTITION, MEMBER)?;
    write_list(dir, &CpuSet::new())
}

fn write_list(dir: &GroupDir, cpus: &CpuSet) -> Result<(), HostError> {
    // Writing nothing is no write at all.
    dir.write(EXCLUSIVE, &format!("{cpus}\n"))
}

/// The capabilities of this process that are in force; `None` if the kernel does not tell.
fn effective_capabilities() -> Option<u64> {
    let status = crate::procfs::read_small(Path::new("/proc/self/status")).ok()?;
    let held = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(held.trim(), 16).ok()
}
