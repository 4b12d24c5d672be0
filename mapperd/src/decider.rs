//! What decides, and how often.

use crate::config::interval::Interval;
use crate::config::settings::Settings;
use mapper_model::Topology;
use mapper_pipeline::pacing::Change;
use mapper_pipeline::{Controller, OverheadBudget, Pacing};

/// The controller with the rhythm of its decisions.
pub(crate) struct Decider {
    pub(crate) controller: Controller,
    /// How many decisions were taken.
    pub(crate) decisions: u64,
    pub(crate) pacing: Pacing,
    /// The stretched interval that was last logged; `None` while it is as set.
    logged_interval_ns: Option<u64>,
}

impl Decider {
    pub(crate) const fn new(controller: Controller, pacing: Pacing) -> Self {
        Self {
            controller,
            decisions: 0,
            pacing,
            logged_interval_ns: None,
        }
    }

    pub(crate) fn topology(&self) -> &Topology {
        self.controller.topology()
    }

    /// Sets how often decisions are to be taken.
    pub(crate) fn set_pace(&mut self, interval: Interval, budget: OverheadBudget) {
        self.pacing.set(interval.nanoseconds(), budget);
        self.logged_interval_ns = None;
    }

    /// Stretches the interval when a pass costs more than the budget, and ends that when it does not.
    pub(crate) fn adapt_interval(&mut self, cost_ns: u64, settings: &Settings) {
        match self.pacing.passed(cost_ns) {
            Change::None => {}
            Change::Stretched(stretched) => {
                // Costs vary, and with them the interval: only a change by half is logged.
                let changed = self.logged_interval_ns.is_none_or(|logged| {
                    let less = logged.min(stretched.interval_ns);
                    logged.max(stretched.interval_ns) > less + less / 2
                });
                if changed {
                    self.logged_interval_ns = Some(stretched.interval_ns);
                    tracing::info!(
                        interval_ns = stretched.interval_ns,
                        pass_ns = stretched.pass_ns,
                        budget = ?settings.overhead_budget,
                        "decisions {stretched}"
                    );
                }
            }
            Change::AsAsked => {
                self.logged_interval_ns = None;
                tracing::info!(
                    interval_ns = self.pacing.interval_ns(),
                    "decisions every {} as configured: a pass is within the budget again",
                    settings.interval
                );
            }
        }
    }
}
