//! What the models need to know of an application, learned once for each phase.
//!
//! NuPoCo profiles a parallel section when it first runs, for a short time, and then decides by the
//! model [NuPoCo §5.1]. Here the profile is the mean of the first intervals of a phase: last-level
//! cache misses per unhalted cycle. That mean is kept until the phase changes, since the models
//! predict what a division would do to it and must not chase their own effect.

use crate::section::{Section, SectionWatch};
use mapper_model::{AppView, PhaseChange};
use serde::{Deserialize, Serialize};

/// Relative difference from which a new profile is another one.
const ANOTHER: f64 = 0.2;

/// What was measured.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Last-level cache misses per unhalted cycle.
    pub misses_per_cycle: f64,
    /// CPUs that shared a node's memory while it was measured.
    pub cpus_on_node: u32,
}

/// Whether a profile is at hand.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Knowledge {
    /// It is still being measured.
    Measuring,
    /// There are no counters to measure it with.
    Blind,
    /// It is.
    Known(Measured),
}

/// The profile of one application.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Profiled {
    watch: SectionWatch,
    known: Option<Measured>,
    sum: f64,
    samples: u32,
    /// Intervals without counters, in a row.
    blind: u32,
}

/// Whether an interval changed what a decision rests on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// Nothing did.
    None,
    /// A profile or a section did.
    Something,
}

impl Profiled {
    /// Takes in an interval.
    pub fn observe(&mut self, app: &AppView<'_>, nodes: u32, wanted: u32) -> News {
        let before = (self.watch.section(), self.knowledge(wanted));
        let cpus = app.held.len();
        self.watch.observe(Section::shown(app.profile, cpus));
        if app.profile.phase != PhaseChange::Same {
            self.sum = 0.0;
            self.samples = 0;
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
                    if self.samples == wanted {
                        self.conclude(cpus.div_ceil(nodes.max(1)).max(1));
                    }
                }
            }
            // An idle interval has no rates either, but then the counters are known to be there.
            None if self.samples == 0 && self.known.is_none() => {
                self.blind = self.blind.saturating_add(1);
            }
            None => {}
        }
        if before == (self.watch.section(), self.knowledge(wanted)) {
            News::None
        } else {
            News::Something
        }
    }

    fn conclude(&mut self, cpus_on_node: u32) {
        let misses_per_cycle = self.sum / f64::from(self.samples.max(1));
        let same = self.known.is_some_and(|known| {
            (misses_per_cycle - known.misses_per_cycle).abs() <= ANOTHER * known.misses_per_cycle
        });
        if !same {
            self.known = Some(Measured {
                misses_per_cycle,
                cpus_on_node,
            });
        }
    }

    /// What is known after `wanted` intervals.
    #[must_use]
    pub fn knowledge(&self, wanted: u32) -> Knowledge {
        match self.known {
            Some(known) => Knowledge::Known(known),
            None if self.blind >= wanted.max(1) => Knowledge::Blind,
            None => Knowledge::Measuring,
        }
    }

    /// Intervals measured so far.
    #[must_use]
    pub const fn samples(&self) -> u32 {
        self.samples
    }

    /// The section it is in.
    #[must_use]
    pub const fn section(&self) -> Section {
        self.watch.section()
    }
}
