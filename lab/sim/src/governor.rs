//! Who gives out CPUs: plain Linux is nobody; everything else is a [`Governor`].
//!
//! A governor sees what the daemon would see, an [`Observation`] with noisy counters, and answers
//! with CPU sets. [`Controlled`] is the daemon's own decision step.

use mapper_model::{AppId, CpuSet, Observation};
use mapper_pipeline::{Controller, OverheadBudget, Pacing};

/// Threads for which the cost of a decision is given.
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
    #[must_use]
    pub fn pass_s(&self, threads: u32) -> f64 {
        self.decision_s * f64::from(threads) / DECISION_THREADS
    }
}

/// CPU sets to be in force; who is not named keeps what it has.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Decision {
    /// The sets.
    pub sets: Vec<(AppId, CpuSet)>,
}

/// Gives out CPUs.
pub trait Governor {
    /// Time from now to the next decision; infinite: only when somebody comes or goes.
    fn interval_s(&self) -> f64;

    /// A decision at the end of an interval took so much CPU time, in seconds.
    fn charge(&mut self, _pass_s: f64) {}

    /// What deciding costs.
    fn overhead(&self) -> Overhead {
        Overhead::default()
    }

    /// Decides.
    fn decide(&mut self, observation: &Observation) -> Decision;
}

/// The daemon's decision step.
#[derive(Debug)]
pub struct Controlled {
    controller: Controller,
    interval_s: f64,
    overhead: Overhead,
    /// How often it decides, if its decisions have a budget.
    pacing: Option<Pacing>,
}

impl Controlled {
    /// Asks a controller at every interval.
    #[must_use]
    pub const fn new(controller: Controller, interval_s: f64, overhead: Overhead) -> Self {
        Self {
            controller,
            interval_s,
            overhead,
            pacing: None,
        }
    }

    /// The same with a budget: where a decision costs more of the interval, there are fewer.
    #[must_use]
    pub fn within(self, budget: OverheadBudget) -> Self {
        let asked_ns = nanoseconds(self.interval_s);
        Self {
            pacing: Some(Pacing::new(asked_ns, budget)),
            ..self
        }
    }
}

impl Governor for Controlled {
    fn interval_s(&self) -> f64 {
        match self.pacing.as_ref().and_then(Pacing::stretched) {
            Some(stretched) => stretched.interval_ns as f64 * 1e-9,
            None => self.interval_s,
        }
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
        let plan = self.controller.step(observation);
        Decision {
            sets: plan.apps.into_iter().map(|a| (a.app, a.cpus)).collect(),
        }
    }
}

/// Rounded; what is infinite becomes the most there is.
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// Sets that never change, by the names of the programs.
#[derive(Clone, PartialEq, Debug)]
pub struct Fixed {
    sets: Vec<(String, CpuSet)>,
}

impl Fixed {
    /// Each program on its set.
    #[must_use]
    pub const fn new(sets: Vec<(String, CpuSet)>) -> Self {
        Self { sets }
    }
}

impl Governor for Fixed {
    fn interval_s(&self) -> f64 {
        f64::INFINITY
    }

    fn decide(&mut self, observation: &Observation) -> Decision {
        let set_of = |name: &str| self.sets.iter().find(|(known, _)| known == name);
        let sets = observation.apps.iter().filter_map(|app| {
            let (_, set) = set_of(app.spec.name.as_str())?;
            Some((app.app, set.clone()))
        });
        Decision {
            sets: sets.collect(),
        }
    }
}
