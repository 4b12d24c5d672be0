//! What targets ask of the results.

use super::super::tables::{Cell, SuiteTable, geometric};
use mapper_model::CpuSet;
use mapper_sim::{Constants, Occupancy, presets, solve};

/// All results by suite.
pub(crate) struct Book<'a> {
    pub(crate) tables: &'a [SuiteTable],
    pub(crate) constants: Constants,
}

/// MAPPER's rules as they are printed are what the papers' numbers are compared with.
pub(super) const MAPPER: &str = "mapper-paper";

impl Book<'_> {
    /// A suite that is complete.
    pub(super) fn suite(&self, name: &str) -> Option<&SuiteTable> {
        self.tables
            .iter()
            .find(|t| t.suite.name == name && t.incomplete == 0)
    }

    /// Geometric mean over the mixes of a suite.
    pub(super) fn overall(&self, suite: &str, policy: &str) -> Option<f64> {
        self.suite(suite)?.overall.get(policy).copied()
    }

    /// How much faster one policy is than another over a suite.
    pub(super) fn gain(&self, suite: &str, policy: &str, over: &str) -> Option<f64> {
        Some(self.overall(suite, policy)? / self.overall(suite, over)? - 1.0)
    }

    /// The cells of a policy over suites.
    pub(super) fn cells<'s>(
        &'s self,
        suites: &[&str],
        policy: &str,
    ) -> Option<Vec<(&'s str, &'s Cell)>> {
        let mut cells = Vec::new();
        for suite in suites {
            for row in &self.suite(suite)?.mixes {
                cells.push((row.mix.as_str(), row.policies.get(policy)?));
            }
        }
        Some(cells)
    }

    /// A mix under a policy.
    pub(super) fn cell(&self, suite: &str, mix: &str, policy: &str) -> Option<&Cell> {
        let row = self.suite(suite)?.mixes.iter().find(|row| row.mix == mix)?;
        row.policies.get(policy)
    }

    /// A program in a mix.
    pub(super) fn app(&self, suite: &str, mix: &str, policy: &str, app: &str) -> Option<f64> {
        let cell = self.cell(suite, mix, policy)?;
        Some(cell.apps.iter().find(|a| a.name == app)?.speed)
    }

    /// How much faster a mix is under one policy than under another.
    pub(super) fn mix_gain(&self, suite: &str, mix: &str, policy: &str, over: &str) -> Option<f64> {
        Some(self.cell(suite, mix, policy)?.value / self.cell(suite, mix, over)?.value - 1.0)
    }

    /// Geometric mean of the gains of the mixes that hold a program.
    pub(super) fn gain_with(
        &self,
        suite: &str,
        app: &str,
        policy: &str,
        over: &str,
    ) -> Option<f64> {
        let table = self.suite(suite)?;
        let ratios = table.mixes.iter().filter_map(|row| {
            let (own, other) = (row.policies.get(policy)?, row.policies.get(over)?);
            own.apps
                .iter()
                .any(|a| a.name == app)
                .then(|| own.value / other.value)
        });
        Some(geometric(ratios)? - 1.0)
    }

    /// Geometric mean of a program's own gains over all mixes that hold it.
    pub(super) fn app_ratio(
        &self,
        suite: &str,
        app: &str,
        policy: &str,
        over: &str,
    ) -> Option<f64> {
        let table = self.suite(suite)?;
        geometric(table.mixes.iter().filter_map(|row| {
            let speed = |policy: &str| {
                let cell = row.policies.get(policy)?;
                Some(cell.apps.iter().find(|a| a.name == app)?.speed)
            };
            Some(speed(policy)? / speed(over)?)
        }))
    }

    /// Geometric mean of the slowest program of each mix.
    pub(super) fn least(&self, suites: &[&str], policy: &str) -> Option<f64> {
        geometric(
            self.cells(suites, policy)?
                .iter()
                .map(|(_, cell)| cell.least()),
        )
    }

    /// Geometric mean of the fastest program of each mix.
    pub(super) fn most(&self, suites: &[&str], policy: &str) -> Option<f64> {
        geometric(
            self.cells(suites, policy)?
                .iter()
                .map(|(_, cell)| cell.most()),
        )
    }

    /// The worst mix.
    pub(super) fn worst(&self, suite: &str, policy: &str) -> Option<f64> {
        let cells = self.cells(&[suite], policy)?;
        cells.iter().map(|(_, cell)| cell.value).reduce(f64::min)
    }

    /// The worst program of all mixes.
    pub(super) fn worst_app(&self, suite: &str, policy: &str) -> Option<f64> {
        let cells = self.cells(&[suite], policy)?;
        cells.iter().map(|(_, cell)| cell.least()).reduce(f64::min)
    }

    /// Programs below this share of their fair-share speed.
    pub(super) fn below_fair(&self, suites: &[&str], policy: &str, share: f64) -> Option<Vec<f64>> {
        let mut below = Vec::new();
        for (_, cell) in self.cells(suites, policy)? {
            for app in &cell.apps {
                let of_fair = app.of_fair?;
                if of_fair < share {
                    below.push(of_fair);
                }
            }
        }
        Some(below)
    }

    /// How many programs there are.
    pub(super) fn programs(&self, suites: &[&str], policy: &str) -> Option<usize> {
        Some(
            self.cells(suites, policy)?
                .iter()
                .map(|(_, cell)| cell.apps.len())
                .sum(),
        )
    }

    /// Whether a suite of the paper whose suites begin so is part of the evaluation.
    pub(super) fn runs(&self, begins: &str) -> bool {
        self.tables
            .iter()
            .any(|table| table.suite.name.starts_with(begins))
    }

    /// What the model says without any run belongs to the evaluation of this paper, whose suites
    /// begin so.
    pub(super) fn of_paper(&self, begins: &str, value: f64) -> Option<f64> {
        self.runs(begins).then_some(value)
    }

    /// Gain of a pair that shares data, from two sockets to one, with this many stall cycles per
    /// event and 1.2e-3 events per cycle [SAM-MPH Fig. 1].
    pub(super) fn pair_gain(&self, stalls_per_event: f64) -> f64 {
        let stalled = 1.2e-3 * stalls_per_event;
        1.0 / (1.0 - stalled + self.constants.intra_socket * stalled)
    }

    /// Stall cycles per event from which a pair does better on one core than on two, with 1.2e-3
    /// events per cycle and the SMT loss of most programs.
    pub(super) fn same_core_from(&self) -> f64 {
        const SMT_SLOWDOWN: f64 = 0.6;
        let better = |stalls: f64| {
            let stalled = 1.2e-3 * stalls;
            let sharing = stalled / (1.0 - stalled);
            let mut cycles = 1.0;
            for _ in 0..200 {
                cycles = 1.0 + SMT_SLOWDOWN / cycles + self.constants.within_core * sharing;
            }
            cycles < 1.0 + self.constants.intra_socket * sharing
        };
        let (mut low, mut high) = (1.0, 830.0);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if better(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }

    /// Streamcluster with all data on node 0: six cores there against one on each of six nodes.
    pub(super) fn near_against_far(&self) -> Option<f64> {
        let machine = presets::machine("opt48").ok()?;
        let mut app = presets::app("streamcluster").ok()?.behaviour();
        app.home_node = Some(0);
        let speed = |cores: [u32; 6]| {
            let set: CpuSet = cores.into_iter().map(mapper_model::CpuId).collect();
            let mut occupancy = Occupancy::idle(&machine, 1);
            occupancy.spread(0, 6.0, &set);
            let solution = solve(&machine, &self.constants, &[app], &occupancy);
            Some(solution.apps.first()?.instructions_per_s)
        };
        Some(speed([0, 1, 2, 3, 4, 5])? / speed([0, 6, 12, 18, 24, 30])?)
    }
}

/// 1 for yes, 0 for no.
pub(super) fn yes(held: bool) -> Option<f64> {
    Some(if held { 1.0 } else { 0.0 })
}

/// Whether each is greater than the next.
pub(super) fn descending(values: &[Option<f64>]) -> Option<f64> {
    let values: Option<Vec<f64>> = values.iter().copied().collect();
    yes(values?.windows(2).all(|pair| pair[0] > pair[1]))
}
