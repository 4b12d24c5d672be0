//! Policies that assign CPUs; plain Linux has none.
//!
//! A [`Governor`] sees an [`Observation`] with noisy counters, as the daemon would, and answers with CPU sets.
//! The daemon's own decision step, a [`Controller`], is one; [`Controlled`] asks a policy at intervals.

use mapper_model::{AppId, CpuSet, IdleTime, Observation};
use mapper_pipeline::{Controller, OverheadBudget, Pacing};

const DECISION_THREADS: f64 = 80.0;

/// What deciding costs the applications.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Overhead {
    /// CPU time of a decision for 80 threads, on one context.
    pub decision_s: f64,
    /// Share of the time of every context.
    pub everywhere: f64,
}

impl Overhead {
    /// CPU time of a decision for so many threads, in seconds.
    pub(crate) fn pass_s(&self, threads: u32) -> f64 {
        self.decision_s * f64::from(threads) / DECISION_THREADS
    }
}

/// What programs get.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Decision {
    /// CPUs of their own; programs that are not named keep theirs.
    pub cpus: Vec<(AppId, CpuSet)>,
    /// What they may use besides; programs that are not named get nothing.
    pub idle_times: Vec<(AppId, IdleTime)>,
}

impl FromIterator<(AppId, CpuSet)> for Decision {
    fn from_iter<I: IntoIterator<Item = (AppId, CpuSet)>>(cpus: I) -> Self {
        Self {
            cpus: cpus.into_iter().collect(),
            idle_times: Vec::new(),
        }
    }
}

/// Assigns CPUs.
pub trait Governor {
    /// Time from now to the next decision; infinite: only when a program starts or ends.
    fn interval_s(&self) -> f64 {
        f64::INFINITY
    }

    /// A decision at the end of an interval took so much CPU time, in seconds.
    fn charge(&mut self, _pass_s: f64) {}

    /// What deciding costs.
    fn overhead(&self) -> Overhead {
        Overhead::default()
    }

    /// Decides.
    fn decide(&mut self, observation: &Observation) -> Decision;
}

impl Governor for Controller {
    fn decide(&mut self, observation: &Observation) -> Decision {
        let mut decision = Decision::default();
        for planned in self.step(observation).apps {
            decision.cpus.push((planned.app, planned.cpus));
            decision.idle_times.push((planned.app, planned.idle_time));
        }
        decision
    }
}

/// A policy that decides at every interval.
pub struct Controlled {
    policy: Box<dyn Governor>,
    interval_s: f64,
    overhead: Overhead,
    /// Set when decisions have a budget.
    pacing: Option<Pacing>,
}

impl Controlled {
    /// Asks a policy at every interval.
    pub fn new(policy: Box<dyn Governor>, interval_s: f64, overhead: Overhead) -> Self {
        Self {
            policy,
            interval_s,
            overhead,
            pacing: None,
        }
    }

    /// The same with a budget: decisions that cost more of the interval become rarer.
    pub fn within(self, budget: OverheadBudget) -> Self {
        let pacing = Some(Pacing::new(nanoseconds(self.interval_s), budget));
        Self { pacing, ..self }
    }
}

impl Governor for Controlled {
    fn interval_s(&self) -> f64 {
        let stretched = self.pacing.as_ref().and_then(Pacing::stretched);
        stretched.map_or(self.interval_s, |stretched| {
            stretched.interval_ns as f64 * 1e-9
        })
    }

    fn charge(&mut self, pass_s: f64) {
        if let Some(pacing) = &mut self.pacing {
            pacing.passed(nanoseconds(pass_s));
        }
    }

    fn overhead(&self) -> Overhead {
        self.overhead
    }

    fn decide(&mut self, observation: &Observation) -> Decision {
        self.policy.decide(observation)
    }
}

/// Rounded; infinity becomes the largest number.
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// Sets that never change, by the names of the programs.
#[derive(Clone, PartialEq, Debug)]
pub struct Fixed(pub Vec<(String, CpuSet)>);

impl Governor for Fixed {
    fn decide(&mut self, observation: &Observation) -> Decision {
        let sets = observation.apps.iter().filter_map(|app| {
            let mut known = self.0.iter();
            let (_, set) = known.find(|(name, _)| name == app.spec.name.as_str())?;
            Some((app.app, set.clone()))
        });
        sets.collect()
    }
}
