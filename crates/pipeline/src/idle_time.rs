//! Which applications may use the time that others leave idle on their CPUs.
//!
//! An application that leaves half a CPU or more idle, interval after interval, keeps its CPUs; another that keeps its own
//! busy may run there, too, but only while no thread of the owner wants to. The kernel ensures that, so that
//! the owner loses no CPU time (it may lose cache and memory bandwidth). It goes one way: what uses the idle time of
//! others leaves none itself.
//!
//! It has to pay: the application must get more done than on its own CPUs, by the progress that it or its runtime reports,
//! else by CPU time, compared over several intervals. If not, it tries again after twice the time. Now and then it runs on its
//! own CPUs alone until it has been measured, as time on CPUs of others is no sample; and before its policy has measured
//! it, it uses no idle time.
//!
//! Invariants: idle time is no part of a share, nor of what an application holds; no CPU's idle time goes to two.

use mapper_characterise::Basis;
use mapper_model::{
    AppId, AppObservation, CpuSet, IdleTime, IdleTimeUse, Lending, Observation, PerformanceSource,
    PlannedApp, Profile, Reading, Reason, ReportedProgress, Resizing, Share, Sharing, Trigger,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The idle part of a CPU from which on it is left to others, and down to which it stays so.
const LEFT: f64 = 0.5;
const LEFT_STILL: f64 = 0.3;

/// Intervals in a row that show that CPUs are left idle, or are all used.
const SHOWN: u32 = 2;

/// The used part of its CPUs from which on an application wants more.
const ALL: f64 = 0.9;

/// What the use of idle time brings at least, once it was compared for so many intervals.
const GAIN: f64 = 1.03;
const COMPARED: u32 = 4;

/// Below this it is ended at once.
const LOSS: f64 = 0.9;

/// Measured intervals on its own CPUs alone, at first and at most.
const FEWEST: u32 = 3;
const MOST: u32 = 256;

/// After so many intervals with idle time it is measured on its own CPUs again.
const TURN: u32 = 30;

/// A use that ends earlier as nothing is left idle any more was not worth the change.
const WORTH_IT: u32 = 8;

/// How many regions or iterations tell a speed.
const ENOUGH: u64 = 20;

/// What an application with this plan runs on.
pub(crate) fn basis(planned: &PlannedApp) -> Basis {
    match planned.share.sharing == Sharing::Exclusive && planned.idle_time.is_none() {
        true => Basis::OwnCpus,
        false => Basis::CpusWithOthers,
    }
}

/// How every application uses its CPUs.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct IdleTimes(BTreeMap<AppId, Use>);

/// How an application uses its CPUs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
struct Use {
    /// What it had done when last observed.
    last: Option<Work>,
    /// The same when it began to run on its own CPUs, or with idle time: compared from then on.
    began: Option<Work>,
    /// How many CPUs it had of its own then.
    own: u32,
    /// CPUs that it left idle on average, when that last changed much.
    left: f64,
    /// Intervals in a row in which it left some.
    left_for: u32,
    /// Intervals in a row in which it used all.
    full_for: u32,
    /// Its speed on its own CPUs alone, when last measured.
    alone: Option<Speed>,
    /// Intervals in a row with idle time of others.
    used_for: u32,
    /// Measured intervals that it spends on its own CPUs before it may use others'.
    pause: u32,
    /// How many that are the next time that it does not pay.
    next_pause: u32,
}

impl Default for Use {
    fn default() -> Self {
        Self {
            last: None,
            began: None,
            own: 0,
            left: 0.0,
            left_for: 0,
            full_for: 0,
            alone: None,
            used_for: 0,
            pause: FEWEST,
            next_pause: FEWEST,
        }
    }
}

/// What was read of an application after an interval.
struct Interval<'o> {
    observed: &'o AppObservation,
    now_ns: u64,
    /// What it ran on.
    basis: Basis,
    /// Whether its policy learns its speed from it.
    is_sample: bool,
}

/// What an application has done until a reading.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
struct Work {
    now_ns: u64,
    cpu_time_ns: Option<u64>,
    regions: u64,
    iterations: u64,
    reported: Option<f64>,
    /// Intervals at whose end the report was the same as before.
    silent: u64,
}

/// What an application gets done in a second, by each measure that there is enough of.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
struct Speed {
    reported: Option<f64>,
    regions: Option<f64>,
    iterations: Option<f64>,
    cpus: f64,
}

impl Speed {
    /// How many times the other it is, by the best measure that both have.
    fn over(self, other: Self) -> f64 {
        let both = |one: Option<f64>, other: Option<f64>| Some(one? / other?);
        both(self.reported, other.reported)
            .or_else(|| both(self.regions, other.regions))
            .or_else(|| both(self.iterations, other.iterations))
            .unwrap_or(self.cpus / other.cpus)
    }
}

impl Work {
    fn of(reading: &Reading, now_ns: u64, before: Option<&Self>) -> Self {
        let runtime = reading.runtime.unwrap_or_default();
        let reported = match reading.reported {
            Some(ReportedProgress::Work { done, .. }) => Some(done).filter(|done| done.is_finite()),
            _ => None,
        };
        let silent = before.map_or(0, |before| {
            let same = reported == before.reported;
            before.silent.saturating_add(u64::from(same))
        });
        Self {
            now_ns,
            cpu_time_ns: reading.cpu_time_ns,
            regions: runtime.regions,
            iterations: runtime.iterations,
            reported,
            silent,
        }
    }

    /// CPUs used on average since then.
    fn cpus_since(&self, then: &Self) -> Option<f64> {
        let used_ns = self.cpu_time_ns?.checked_sub(then.cpu_time_ns?)?;
        let passed_ns = self.now_ns.checked_sub(then.now_ns)?;
        (passed_ns > 0).then(|| used_ns as f64 / passed_ns as f64)
    }

    fn speed_since(&self, then: &Self) -> Option<Speed> {
        let cpus = self.cpus_since(then).filter(|cpus| *cpus > 0.0)?;
        let passed_s = (self.now_ns - then.now_ns) as f64 / 1e9;
        let speed = |count: Option<u64>| {
            let count = count.filter(|count| *count >= ENOUGH);
            count.map(|count| count as f64 / passed_s)
        };
        let reported = self.reported.zip(then.reported);
        let reported = reported.map(|(now, then)| (now - then) / passed_s);
        // Of reports that come more rarely than readings a few intervals may have none, or one more than others.
        let often = self.silent == then.silent;
        Some(Speed {
            reported: reported.filter(|speed| often && *speed > 0.0 && speed.is_finite()),
            regions: speed(self.regions.checked_sub(then.regions)),
            iterations: speed(self.iterations.checked_sub(then.iterations)),
            cpus,
        })
    }
}

/// What an application is to have in the next interval, as far as idle time depends on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Candidate {
    /// It shares CPUs, or they are another's.
    Neither,
    /// It has these for itself and may leave them idle. Its policy has not measured it yet.
    Owner(CpuSet),
    /// It may use what others leave, besides these. It is below its promise, and leaves nothing.
    Taker(CpuSet),
    /// It may do both.
    Either(CpuSet),
}

impl Candidate {
    /// One that was placed on these CPUs. `floor` is that of the last plan, and `lent` are CPUs of others that are idle.
    pub(crate) fn of(
        share: &Share,
        cpus: &CpuSet,
        profile: &Profile,
        floor: Option<f64>,
        lent: &CpuSet,
    ) -> Self {
        let alone = share.sharing == Sharing::Exclusive && cpus.is_disjoint(lent);
        // Perhaps because others use its CPUs: caches and the other thread of a core are shared. Of CPU time it has as much
        // as it wants.
        let speed = profile.performance;
        let speed = speed.filter(|speed| speed.source != PerformanceSource::CpuTime);
        let is_below = (speed.zip(floor)).is_some_and(|(speed, floor)| speed.value < floor);
        if !alone {
            return Self::Neither;
        }
        let is_measured = |reason: &Reason| {
            !matches!(reason, Reason::Measuring { .. } | Reason::Exploring { .. })
        };
        let is_measured = share.explanation.reasons.iter().all(is_measured);
        match (is_measured, is_below) {
            (true, true) => Self::Taker(cpus.clone()),
            (true, false) => Self::Either(cpus.clone()),
            (false, true) => Self::Neither,
            (false, false) => Self::Owner(cpus.clone()),
        }
    }

    fn cpus(&self, observed: &AppObservation) -> Option<&CpuSet> {
        let cpus = match self {
            Self::Neither => return None,
            Self::Owner(cpus) | Self::Taker(cpus) | Self::Either(cpus) => cpus,
        };
        // What has just changed is not used, and the kernel orders only those that stand beside each other.
        let is_beside = observed.spec.idle_time == IdleTimeUse::WhileLeft;
        (is_beside && *cpus == observed.effective && !cpus.is_empty()).then_some(cpus)
    }
}

impl IdleTimes {
    /// Ingests the readings of an interval, and forgets applications that left. `basis` is what each ran on in it, and
    /// `profile` what is known of it.
    pub(crate) fn observe<'p>(
        &mut self,
        observation: &Observation,
        basis: impl Fn(AppId) -> Basis,
        profile: impl Fn(AppId) -> Option<&'p Profile>,
    ) {
        let here: BTreeSet<AppId> = observation.apps.iter().map(|app| app.app).collect();
        self.0.retain(|app, _| here.contains(app));
        for observed in &observation.apps {
            let app = self.0.entry(observed.app).or_default();
            match observation.trigger {
                Trigger::Interval => {
                    app.observe(&Interval {
                        observed,
                        now_ns: observation.now_ns,
                        basis: basis(observed.app),
                        is_sample: profile(observed.app).is_some_and(|p| p.performance.is_some()),
                    });
                }
                // What follows may be on other CPUs.
                Trigger::Membership => app.interrupt(&observed.reading, observation.now_ns),
            }
        }
    }

    /// Divides the idle time of CPUs. `had` says whether an application had some in the last plan.
    pub(crate) fn divide(
        &self,
        observation: &Observation,
        candidates: &[Candidate],
        had: impl Fn(AppId) -> bool,
    ) -> Vec<IdleTime> {
        let mut divided = vec![IdleTime::default(); observation.apps.len()];
        let apps = || observation.apps.iter().zip(candidates).enumerate();
        let takers: Vec<Taker<'_>> = apps()
            .filter_map(|(nth, (observed, candidate))| {
                if !matches!(candidate, Candidate::Either(_) | Candidate::Taker(_)) {
                    return None;
                }
                let own = candidate.cpus(observed)?.len();
                let resized = observed.spec.resizing == Resizing::Allowed;
                let wants_more = self.0.get(&observed.app).is_some_and(Use::wants_more);
                (resized && wants_more).then_some(Taker { nth, observed, own })
            })
            .collect();
        for (nth, (owner, candidate)) in apps() {
            if takers.is_empty() {
                break;
            }
            if let Candidate::Taker(_) = candidate {
                continue;
            }
            let Some(cpus) = candidate.cpus(owner) else {
                continue;
            };
            let takes = takers.binary_search_by_key(&nth, |taker| taker.nth).is_ok();
            let left = self
                .0
                .get(&owner.app)
                .map_or(0, |used| used.leaves(cpus.len()));
            if takes || owner.spec.lending == Lending::Never || left == 0 {
                continue;
            }
            // Who has least, and of those who had some before.
            let taker = (takers.iter())
                .filter(|taker| taker.most(cpus, &divided[taker.nth]) > 0)
                .min_by_key(|taker| {
                    let app = taker.observed.app;
                    (divided[taker.nth].count, !had(app), app)
                });
            if let Some(taker) = taker {
                taker.take(cpus, left, &mut divided[taker.nth]);
            }
        }
        divided
    }
}

/// One that may use idle time.
struct Taker<'o> {
    nth: usize,
    observed: &'o AppObservation,
    /// CPUs of its own.
    own: u32,
}

impl Taker<'_> {
    /// How many of these CPUs it may have besides its own and what it has of others.
    fn most(&self, cpus: &CpuSet, has: &IdleTime) -> u32 {
        let most = self.observed.spec.cpus.max().unwrap_or(u32::MAX);
        let room = most.saturating_sub(self.own).saturating_sub(has.cpus.len());
        let allowed = self.observed.allowed.as_ref();
        room.min(allowed.map_or(cpus.len(), |allowed| allowed.overlap(cpus)))
    }

    fn take(&self, cpus: &CpuSet, left: u32, has: &mut IdleTime) {
        let most = self.most(cpus, has);
        let allowed = self.observed.allowed.as_ref();
        let cpus = allowed.map_or_else(|| cpus.clone(), |allowed| cpus.intersection(allowed));
        has.cpus.extend(cpus.iter().take(most as usize));
        has.count += left.min(most);
    }
}

impl Use {
    /// What was compared so far does not go on.
    fn interrupt(&mut self, reading: &Reading, now_ns: u64) {
        self.last = Some(Work::of(reading, now_ns, self.last.as_ref()));
        self.began = None;
    }

    fn observe(&mut self, interval: &Interval<'_>) {
        let observed = interval.observed;
        let work = Work::of(&observed.reading, interval.now_ns, self.last.as_ref());
        let own = observed.effective.len();
        if self.own != own {
            // What is known is of another number of CPUs.
            *self = Self {
                own,
                next_pause: self.next_pause,
                ..Self::default()
            };
        }
        let is_used = interval.basis == Basis::CpusWithOthers;
        let has_begun = is_used != (self.used_for > 0);
        let used_for = self.used_for;
        self.used_for = in_a_row(is_used.then_some(used_for));
        if has_begun && !is_used && self.pause == 0 {
            // Nothing was left any more.
            match used_for < WORTH_IT {
                true => self.pause_longer(),
                false => self.pause = FEWEST,
            }
        }
        if self.used_for >= TURN {
            self.next_pause = FEWEST;
            self.pause = FEWEST;
        }
        let last = self.last.replace(work);
        let Some(cpus) = last.and_then(|last| work.cpus_since(&last)) else {
            (self.began, self.left_for, self.full_for) = (None, 0, 0);
            return;
        };
        let left_idle = f64::from(own) - cpus;
        let left = match self.left_for < SHOWN {
            true => left_idle >= LEFT,
            false => left_idle >= LEFT_STILL,
        };
        // A little more or less changes no team.
        if self.left_for < SHOWN || (left_idle - self.left).abs() > LEFT {
            self.left = left_idle;
        }
        self.left_for = in_a_row(left.then_some(self.left_for));
        let full = cpus >= ALL * f64::from(own);
        self.full_for = in_a_row(full.then_some(self.full_for));
        // The first interval after a change is no part of what is compared, nor is a pause.
        let began = match self.began {
            Some(began) if !has_begun && full => began,
            _ => {
                self.began = Some(work);
                return;
            }
        };
        let speed = work.speed_since(&began);
        if is_used {
            self.judge(speed);
        } else {
            self.alone = speed;
            self.pause = self.pause.saturating_sub(u32::from(interval.is_sample));
        }
    }

    /// Whether it goes on with idle time after an interval with it.
    fn judge(&mut self, speed: Option<Speed>) {
        let gain = speed.zip(self.alone).map(|(now, alone)| now.over(alone));
        let compared = self.used_for >= COMPARED;
        if gain.is_some_and(|gain| gain < LOSS || gain < GAIN && compared) {
            self.pause_longer();
        }
    }

    fn pause_longer(&mut self) {
        self.pause = self.next_pause.max(FEWEST);
        self.next_pause = self.pause.saturating_mul(2).min(MOST);
    }

    const fn wants_more(&self) -> bool {
        self.pause == 0 && self.full_for >= SHOWN && self.left_for == 0 && self.alone.is_some()
    }

    /// How many of its CPUs others may use, where it has this many.
    fn leaves(&self, own: u32) -> u32 {
        match self.left_for >= SHOWN {
            true => ((self.left + 0.5) as u32).clamp(1, own.max(1)),
            false => 0,
        }
    }
}

/// One interval more than before, if it was so once more.
fn in_a_row(before: Option<u32>) -> u32 {
    before.map_or(0, |before| before.saturating_add(1))
}
