//! What the models need to know of an application, learned once for each phase.
//!
//! NuPoCo profiles a parallel section when it first runs and then decides by the model [NuPoCo §5.1]. Here
//! the profile is the mean of the first intervals of a phase: last-level cache misses per unhalted cycle.
//! It is kept until the phase changes, since the models predict what a division would do to it.

use super::locality::{Locality, TrafficSum};
use crate::section::{Section, SectionWatch};
use mapper_model::{AppView, PhaseChange};
use serde::{Deserialize, Serialize};

/// Relative difference from which a new profile is another one.
const ANOTHER: f64 = 0.2;

/// Lengths of a profile between two on CPUs that slow every application down: 5 % of the time.
const APART: u32 = 20;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) misses_per_cycle: f64,
    /// CPUs that shared a node's memory while it was measured.
    pub(crate) cpus_on_node: u32,
    /// Where its data are, where reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) locality: Option<Locality>,
}

/// Whether there is a profile; `Blind` without counters.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Knowledge {
    Measuring,
    Blind,
    Known(Measured),
}

/// Which intervals make a profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sampling {
    /// Any: profiles are taken on fair shares.
    Anywhere,
    /// Profiles are taken on CPUs of their own; it was there in this interval.
    Apart,
    /// Profiles are taken on CPUs of their own; it was elsewhere.
    NotNow,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Profiled {
    watch: SectionWatch,
    known: Option<Measured>,
    sum: f64,
    samples: u32,
    #[serde(default)]
    traffic: TrafficSum,
    /// Intervals since the last profile was complete, at most those that have to pass.
    #[serde(default)]
    age: u32,
    /// Intervals without counters, in a row.
    blind: u32,
}

/// Whether an interval changed the basis of a decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum News {
    None,
    Something,
}

impl Profiled {
    /// Ingests an interval on `nodes` nodes; a profile takes `wanted` of them.
    pub(crate) fn observe(
        &mut self,
        app: &AppView<'_>,
        nodes: u32,
        wanted: u32,
        sampling: Sampling,
    ) -> News {
        let before = (self.watch.section(), self.knowledge(wanted));
        let cpus = app.held.len();
        self.watch.observe(Section::shown(app.profile, cpus));
        let changed = app.profile.phase != PhaseChange::Same;
        if sampling == Sampling::NotNow {
            // The traffic of many cores is no profile.
            self.age = (self.age + 1).min(APART * wanted);
            if changed && self.age == APART * wanted {
                self.forget();
                self.known = None;
            }
            return self.news(&before, wanted);
        }
        if changed && sampling == Sampling::Anywhere {
            // What is known is kept until the new phase is measured.
            self.forget();
        }
        let rate = app
            .profile
            .rates
            .and_then(|r| r.llc_misses_per_cycle)
            .filter(|rate| rate.is_finite() && *rate >= 0.0);
        match rate {
            Some(rate) => {
                self.blind = 0;
                if self.samples < wanted {
                    self.sum += rate;
                    self.samples += 1;
                    self.traffic.add(&app.profile.memory_by_node);
                    if self.samples == wanted {
                        self.conclude(cpus.div_ceil(nodes.max(1)).max(1));
                    }
                }
            }
            // An idle interval has no rates either, but then the counters are known to exist.
            None if self.samples == 0 && self.known.is_none() => {
                self.blind = self.blind.saturating_add(1);
            }
            None => {}
        }
        self.news(&before, wanted)
    }

    fn forget(&mut self) {
        self.sum = 0.0;
        self.samples = 0;
        self.traffic = TrafficSum::default();
    }

    fn news(&self, before: &(Section, Knowledge), wanted: u32) -> News {
        if *before == (self.watch.section(), self.knowledge(wanted)) {
            News::None
        } else {
            News::Something
        }
    }

    fn conclude(&mut self, cpus_on_node: u32) {
        self.age = 0;
        let misses_per_cycle = self.sum / f64::from(self.samples.max(1));
        let same = self.known.as_ref().is_some_and(|known| {
            (misses_per_cycle - known.misses_per_cycle).abs() <= ANOTHER * known.misses_per_cycle
        });
        if !same {
            self.known = Some(Measured {
                misses_per_cycle,
                cpus_on_node,
                locality: self.traffic.locality(),
            });
        }
    }

    /// What is known after `wanted` intervals.
    pub(crate) fn knowledge(&self, wanted: u32) -> Knowledge {
        match &self.known {
            Some(known) => Knowledge::Known(known.clone()),
            None if self.blind >= wanted.max(1) => Knowledge::Blind,
            None => Knowledge::Measuring,
        }
    }

    pub(crate) const fn samples(&self) -> u32 {
        self.samples
    }

    /// The section it is in.
    pub(crate) const fn section(&self) -> Section {
        self.watch.section()
    }
}
