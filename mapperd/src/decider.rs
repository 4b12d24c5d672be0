//! What decides, and how often.

use crate::config::interval::Interval;
use crate::config::settings::Settings;
use mapper_model::Topology;
use mapper_pipeline::pacing::Change;
use mapper_pipeline::{Controller, OverheadBudget, Pacing};

pub(crate) struct Decider {
    pub(crate) controller: Controller,
    pub(crate) decisions: u64,
    pub(crate) pacing: Pacing,
    /// The stretched interval that was last logged; `None` while the interval is as configured.
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

    pub(crate) fn set_pace(&mut self, interval: Interval, budget: OverheadBudget) {
        self.pacing.set(interval.nanoseconds(), budget);
        self.logged_interval_ns = None;
    }

    /// Stretches the interval while a pass costs more than the budget.
    pub(crate) fn adapt_interval(&mut self, cost_ns: u64, settings: &Settings) {
        match self.pacing.passed(cost_ns) {
            Change::None => {}
            Change::Stretched(stretched) => {
                // Costs vary, and the interval with them: only a change by half is logged.
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
