//! Which applications lend their CPUs while they are idle.
//!
//! An application that was idle for two intervals lends: policies decide without it, so that the others have its CPUs, and
//! it keeps its own set in force. As soon as it has something to do, the next decision counts it again, and its CPUs are its
//! alone. The daemon looks for that every few milliseconds; until then the kernel divides the CPUs.
//!
//! One that has work again soon after it lent waits twice as long the next time, so that one that works now and then does not
//! move others' CPUs for ever.
//!
//! Invariants: an application that lends is not moved; none begins to lend unless another has work; what was borrowed is no
//! part of what an application holds once its owner is back.

use mapper_model::{
    Activity, AppId, AppObservation, CpuSet, Explanation, IdleTime, Lending, Loan, Observation,
    PlannedApp, Reading, Reason, Resizing, Sharing, Trigger,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Intervals without work after which CPUs are lent, at first and at most.
const FEWEST: u32 = 2;
const MOST: u32 = 512;

/// A loan that lasted so many times the wait before it was worth it.
const WORTH_IT: u32 = 8;

/// For how long each application has been idle.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Idleness(BTreeMap<AppId, Idle>);

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
struct Idle {
    /// The reading that began the interval.
    now_ns: u64,
    cpu_time_ns: Option<u64>,
    /// Intervals in a row.
    intervals: u32,
    /// Intervals after which it lends.
    wait: u32,
}

impl Default for Idle {
    fn default() -> Self {
        Self {
            now_ns: 0,
            cpu_time_ns: None,
            intervals: 0,
            wait: FEWEST,
        }
    }
}

impl Idleness {
    /// Ingests the readings of all applications, and forgets those that left.
    pub(crate) fn observe(&mut self, observation: &Observation) {
        let here: BTreeSet<AppId> = observation.apps.iter().map(|app| app.app).collect();
        self.0.retain(|app, _| here.contains(app));
        for observed in &observation.apps {
            let idle = self.0.entry(observed.app).or_default();
            idle.observe(&observed.reading, observation.now_ns, observation.trigger);
        }
    }

    fn get(&self, app: AppId) -> Idle {
        self.0.get(&app).copied().unwrap_or_default()
    }
}

impl Idle {
    fn observe(&mut self, reading: &Reading, now_ns: u64, trigger: Trigger) {
        let is_running = reading.runnable_threads.is_some_and(|threads| threads > 0);
        match trigger {
            // Too little time has passed to tell idle from active by CPU time.
            Trigger::Membership if is_running => self.end(),
            Trigger::Membership => {}
            Trigger::Interval => {
                let used_ns = reading.cpu_time_ns.zip(self.cpu_time_ns);
                let used_ns = used_ns.and_then(|(now, then)| now.checked_sub(then));
                let elapsed_ns = now_ns.saturating_sub(self.now_ns);
                let activity = used_ns.map_or(Activity::Active, |used_ns| {
                    Activity::of(used_ns, elapsed_ns, reading.runnable_threads)
                });
                match activity {
                    Activity::Idle => self.intervals = self.intervals.saturating_add(1),
                    Activity::Active => self.end(),
                }
                self.now_ns = now_ns;
                self.cpu_time_ns = reading.cpu_time_ns;
            }
        }
    }

    /// It has work.
    fn end(&mut self) {
        let lent = self.intervals.saturating_sub(self.wait);
        if self.lends() {
            self.wait = match lent < WORTH_IT * self.wait {
                true => (2 * self.wait).min(MOST),
                false => FEWEST,
            };
        }
        self.intervals = 0;
    }

    const fn lends(self) -> bool {
        self.intervals >= self.wait
    }
}

/// The applications that lend their CPUs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Lenders(BTreeSet<AppId>);

impl Lenders {
    /// Those of the observation that lend in the next plan, where `before` did in the last one. `is_planned` says whether an
    /// application has had CPUs yet.
    pub(crate) fn of(
        observation: &Observation,
        usable: &CpuSet,
        idleness: &Idleness,
        before: &Self,
        is_planned: impl Fn(AppId) -> bool,
    ) -> Self {
        let apps = || observation.apps.iter();
        let keeps_count = |observed: &AppObservation| {
            observed.spec.resizing == Resizing::Never && !is_planned(observed.app)
        };
        if apps().any(keeps_count) {
            // What it gets now it keeps, so that has to be its own.
            return Self::default();
        }
        let has_work = |observed: &AppObservation| idleness.get(observed.app).intervals == 0;
        let anyone_works = apps().any(has_work);
        let lends = |observed: &&AppObservation| {
            let (app, cpus) = (observed.app, &observed.effective);
            observed.spec.lending == Lending::WhenIdle
                && idleness.get(app).lends()
                && (anyone_works || before.contains(app))
                && !cpus.is_empty()
                && cpus.is_subset(usable)
                && (observed.allowed.as_ref())
                    .is_none_or(|set| cpus.is_subset(set) || set.is_disjoint(usable))
                && is_planned(app)
        };
        let lenders: BTreeSet<AppId> = apps().filter(lends).map(|observed| observed.app).collect();
        match lenders.len() == observation.apps.len() {
            // Nobody would use the CPUs.
            true => Self::default(),
            false => Self(lenders),
        }
    }

    /// Those that lend by the last plan and are still here.
    pub(crate) fn before<'p>(planned: impl Iterator<Item = &'p PlannedApp>) -> Self {
        let lent = planned.filter(|planned| planned.loan == Loan::Lends);
        Self(lent.map(|planned| planned.app).collect())
    }

    pub(crate) fn contains(&self, app: AppId) -> bool {
        self.0.contains(&app)
    }

    /// The CPUs of those of them that are not among `others`.
    pub(crate) fn cpus_of_others(&self, observation: &Observation, others: &Self) -> CpuSet {
        let mut cpus = CpuSet::new();
        for observed in &observation.apps {
            if self.contains(observed.app) && !others.contains(observed.app) {
                cpus.insert_all(&observed.effective);
            }
        }
        cpus
    }
}

/// The entry of an application that lends. `planned` was the last for it.
pub(crate) fn lent(observed: &AppObservation, planned: &PlannedApp) -> PlannedApp {
    let cpus = observed.effective.clone();
    let mut lent = planned.clone();
    lent.loan = Loan::Lends;
    lent.idle_time = IdleTime::default();
    if lent.share.sharing == Sharing::Exclusive {
        lent.share.cpus = cpus.len();
    }
    lent.share.by_node = None;
    lent.share.state = "lends".to_owned();
    lent.share.explanation = Explanation {
        before: lent.share.cpus,
        after: lent.share.cpus,
        reasons: vec![Reason::Lends],
    };
    lent.sentence = lent.share.explanation.sentence(&|_| None);
    lent.cpus = cpus;
    lent
}

/// What of these CPUs is borrowed, where `lent` are those of others that lend.
pub(crate) fn borrowed(cpus: &CpuSet, lent: &CpuSet, own: &CpuSet) -> Loan {
    let cpus = cpus.intersection(lent).difference(own);
    match cpus.is_empty() {
        true => Loan::None,
        false => Loan::Borrows { cpus },
    }
}

/// What is to be said of CPUs that an application has to leave, as their owner is back.
pub(crate) fn ended(planned: Option<&PlannedApp>, returned: &CpuSet) -> Option<Reason> {
    let Loan::Borrows { cpus } = &planned?.loan else {
        return None;
    };
    let cpus = cpus.intersection(returned);
    (!cpus.is_empty()).then_some(Reason::LoanEnded { cpus })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn reading(used_ms: u64, runnable: Option<u32>) -> Reading {
        Reading {
            cpu_time_ns: Some(used_ms * 1_000_000),
            runnable_threads: runnable,
            ..Reading::default()
        }
    }

    #[test]
    fn cpus_are_lent_after_two_intervals_without_work_until_a_thread_runs() {
        let mut idle = Idle::default();
        let mut after = |second: u64, reading, trigger| {
            idle.observe(&reading, second * SECOND_NS, trigger);
            idle.intervals
        };
        let interval = Trigger::Interval;
        assert_eq!(after(1, reading(500, Some(0)), interval), 0);
        assert_eq!(after(2, reading(505, Some(0)), interval), 1);
        assert_eq!(after(3, reading(510, Some(0)), interval), 2);
        // Arrivals of others change nothing, nor do timers.
        assert_eq!(after(3, reading(510, Some(0)), Trigger::Membership), 2);
        assert_eq!(after(4, reading(515, None), interval), 3);
        assert_eq!(after(4, reading(515, Some(1)), Trigger::Membership), 0);
        assert_eq!(after(5, reading(900, Some(1)), interval), 0);
        // Without CPU time nothing is known.
        assert_eq!(after(6, Reading::default(), interval), 0);
        assert_eq!(after(7, Reading::default(), interval), 0);
    }

    #[test]
    fn one_that_works_now_and_then_lends_ever_more_rarely_until_it_is_idle_for_long() {
        let mut idle = Idle::default();
        let (mut now_ns, mut loans) = (0, 0);
        let mut pass = |idle: &mut Idle, intervals: u32| {
            for _ in 0..intervals {
                now_ns += SECOND_NS;
                idle.observe(&reading(7, Some(0)), now_ns, Trigger::Interval);
            }
            let lent = idle.lends();
            idle.observe(&reading(7, Some(1)), now_ns, Trigger::Membership);
            lent
        };
        for _ in 0..200 {
            loans += u32::from(pass(&mut idle, 5));
        }
        assert!(loans <= 3, "{loans}");
        assert!(pass(&mut idle, 1000));
        assert!(pass(&mut idle, 3), "it is asked for again");
    }
}
