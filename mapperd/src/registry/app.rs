//! An application under management.

use crate::machine::watch::Watches;
use crate::registry::accounting::{Accounting, Held};
use crate::registry::origin::Origin;
use crate::registry::page::Page;
use crate::registry::process::Process;
use crate::registry::provenance::{Build, Provenance};
use mapper_abi::TeamsOff;
use mapper_control::schema::{MemoryPolicy, Partition};
use mapper_host::enforce::Tasks;
use mapper_model::{
    Activity, AppId, AppSpec, CpuSet, Fixed, IdleTime, IdleTimeUse, Loan, PlannedApp, Sharing,
    Spinning,
};
use serde::{Deserialize, Serialize};
use std::time::Instant;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct AppRecord {
    pub(crate) id: AppId,
    pub(crate) spec: AppSpec,
    pub(crate) command: String,
    pub(crate) provenance: Provenance,
    pub(crate) memory: MemoryPolicy,
    /// What was requested.
    pub(crate) partition: Partition,
    pub(crate) origin: Origin,
    pub(crate) uid: u32,
    /// The groups of who requested it, at that time, if that was the user for whom it counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) groups: Option<Vec<u32>>,
    pub(crate) first_process: Process,
    pub(crate) standing: Standing,
    /// The last plan for it.
    pub(crate) planned: Option<PlannedApp>,
    /// The CPUs that its owner had confined it to before it was managed, if fewer than all.
    pub(crate) own_mask: Option<CpuSet>,
    pub(crate) accounting: Accounting,
    /// Its threads were seen to spin for one another, outside OpenMP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) spinning: Option<Spinning>,
}

/// Who decides which CPUs an application has.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Standing {
    /// No decision has placed it yet.
    Pending,
    /// Decisions place it.
    Managed,
    /// The operator set these CPUs, which decisions leave unchanged.
    LeftToOperator(CpuSet),
}

impl Standing {
    pub(crate) const fn set_by_operator(&self) -> Option<&CpuSet> {
        match self {
            Self::LeftToOperator(cpus) => Some(cpus),
            Self::Pending | Self::Managed => None,
        }
    }
}

impl AppRecord {
    /// A newcomer of which nothing else is known.
    pub(crate) fn new(
        id: AppId,
        spec: AppSpec,
        origin: Origin,
        uid: u32,
        first_process: Process,
        now_ns: u64,
    ) -> Self {
        Self {
            id,
            spec,
            command: String::new(),
            provenance: Provenance::default(),
            memory: MemoryPolicy::Keep,
            partition: Partition::Member,
            origin,
            uid,
            groups: None,
            first_process,
            standing: Standing::Pending,
            planned: None,
            own_mask: None,
            accounting: Accounting::open(now_ns),
            spinning: None,
        }
    }

    /// By what another launch of the same program is known.
    pub(crate) fn build(&self) -> Option<Build> {
        let program = self.provenance.program.as_ref();
        program?.build(&self.command)
    }

    /// The user whose quota it counts against; its processes may be another user's.
    pub(crate) const fn requested_by(&self) -> u32 {
        match &self.origin {
            Origin::Adopted(adoption) => match &adoption.rule {
                Some(rule) => rule.user,
                None => adoption.by,
            },
            Origin::Launched { .. } | Origin::Recovered => self.uid,
        }
    }
}

#[derive(Debug)]
pub(crate) struct App {
    pub(crate) record: AppRecord,
    pub(crate) page: Option<Page>,
    /// The CPUs in force when last read; empty before the first placement.
    pub(crate) effective: CpuSet,
    /// Whether the priorities that it may ask for let it use others' idle time, once that was read.
    pub(crate) by_priorities: Option<IdleTimeUse>,
    /// What it has of others' idle time besides.
    pub(crate) idle_time: IdleTime,
    /// The same as its page has it.
    pub(crate) published_idle_time: IdleTime,
    /// The assignable CPUs that a limit around it (of its unit or slice) leaves it, if not all.
    pub(crate) limit: Option<CpuSet>,
    /// The most CPUs that the mask it was launched with lets it have; `None` if that is not known.
    pub(crate) most_cpus: Option<u32>,
    /// The CPUs in force instead of the planned ones, as last logged.
    pub(crate) reported_mismatch: Option<CpuSet>,
    /// As last observed.
    pub(crate) used: Option<CpuTimeSample>,
    /// How many of its threads ran or waited for a CPU when last observed, if that was read.
    pub(crate) runnable: Option<u32>,
    /// Its processes and threads as last observed.
    pub(crate) tasks: Tasks,
    /// While it lends its CPUs, the last look at it.
    pub(crate) looked: Option<Look>,
    /// Whether a look has found, since the last decision, that it has something to do.
    pub(crate) woke: Activity,
    pub(crate) lease: Lease,
    /// As its launcher has reported it.
    pub(crate) exit_status: Option<u8>,
    pub(crate) _watches: Watches,
}

impl App {
    /// The CPUs that its own mask and the limit around it leave it, if not all.
    pub(crate) fn allowed(&self) -> Option<CpuSet> {
        match (&self.record.own_mask, &self.limit) {
            (Some(mask), Some(limit)) => Some(mask.intersection(limit)),
            (mask, limit) => mask.as_ref().or(limit.as_ref()).cloned(),
        }
    }

    /// Whether it lends its CPUs by the plan in force.
    pub(crate) fn lends(&self) -> bool {
        let planned = self.record.planned.as_ref();
        planned.is_some_and(|planned| planned.loan == Loan::Lends)
    }

    /// Its CPUs, apart by whose they are.
    pub(crate) fn held(&self) -> Held {
        let planned = self.record.planned.as_ref();
        let counted = self.counted_cpus();
        let borrowed = match planned.map(|planned| &planned.loan) {
            Some(Loan::Borrows { cpus }) => self.effective.intersection(cpus).len().min(counted),
            _ => 0,
        };
        Held {
            own: counted - borrowed,
            borrowed: borrowed + self.idle_time.count,
        }
    }

    /// Whether a decision has given it CPUs that it shares with no other application.
    pub(crate) fn has_own_cpus(&self) -> bool {
        let planned = self.record.planned.as_ref();
        planned.is_some_and(|planned| planned.share.sharing == Sharing::Exclusive)
    }

    /// How many of the CPUs in force are counted for it: fewer where more applications than CPUs share them.
    pub(crate) fn counted_cpus(&self) -> u32 {
        let (planned, all) = (self.record.planned.as_ref(), self.effective.len());
        if self.fixed().is_some() {
            return all;
        }
        let shared = planned
            .map(|planned| &planned.share)
            .filter(|share| share.sharing != Sharing::Exclusive);
        shared.map_or(all, |share| share.cpus.min(all))
    }

    /// Which program it is, if its threads wait for one another by spinning.
    pub(crate) fn spins(&self) -> Option<Build> {
        let record = &self.record;
        let report = self.page.as_ref().map(|page| page.reader.report());
        let spins = report.is_some_and(|report| report.teams_off == Some(TeamsOff::Spun));
        record.build().filter(|_| spins)
    }

    /// Why decisions leave it where it is, if they do.
    pub(crate) fn fixed(&self) -> Option<Fixed> {
        if self.record.standing.set_by_operator().is_some() {
            return Some(Fixed::ByOperator);
        }
        let limit = self.limit.as_ref()?;
        limit.is_empty().then_some(Fixed::ByLimit)
    }

    pub(crate) fn new(record: AppRecord, lease: Lease, watches: Watches) -> Self {
        Self {
            record,
            page: None,
            effective: CpuSet::new(),
            by_priorities: None,
            idle_time: IdleTime::default(),
            published_idle_time: IdleTime::default(),
            limit: None,
            most_cpus: None,
            reported_mismatch: None,
            used: None,
            runnable: None,
            tasks: Tasks::default(),
            looked: None,
            woke: Activity::Idle,
            lease,
            exit_status: None,
            _watches: watches,
        }
    }
}

/// What a look at an application that lends its CPUs has found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) at: Instant,
    pub(crate) cpu_time_ns: u64,
    pub(crate) activity: Activity,
}

/// Whether the launcher is still connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lease {
    Held,
    Ended,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuTimeSample {
    pub(crate) at_ns: u64,
    pub(crate) cpu_time_ns: Option<u64>,
}

impl CpuTimeSample {
    /// Whether the application has done anything since `before`, as far as CPU time shows.
    pub(crate) fn since(self, before: Self) -> Activity {
        let used_ns = self
            .cpu_time_ns
            .zip(before.cpu_time_ns)
            .and_then(|(now, then)| now.checked_sub(then));
        used_ns.map_or(Activity::Active, |used_ns| {
            Activity::of(used_ns, self.at_ns.saturating_sub(before.at_ns), None)
        })
    }
}
