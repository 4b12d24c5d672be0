//! What targets ask of the results.

use super::super::tables::{Cell, SuiteTable, geometric};
use super::situation::Model;

/// All results by suite.
pub(crate) struct Book<'a> {
    pub(crate) tables: &'a [SuiteTable],
    /// For numbers that need no run.
    pub(crate) model: Model<'a>,
}

impl Book<'_> {
    /// A suite that is complete.
    pub(super) fn suite(&self, name: &str) -> Option<&SuiteTable> {
        self.tables
            .iter()
            .find(|t| t.suite.name == name && t.is_whole())
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
        suites: &[impl AsRef<str>],
        policy: &str,
    ) -> Option<Vec<(&'s str, &'s Cell)>> {
        let mut cells = Vec::new();
        for suite in suites {
            for row in &self.suite(suite.as_ref())?.mixes {
                cells.push((row.mix.as_str(), row.policies.get(policy)?));
            }
        }
        Some(cells)
    }

    /// The values of all mixes of several suites, relative to those under another policy.
    pub(super) fn ratios(
        &self,
        suites: &[impl AsRef<str>],
        policy: &str,
        over: &str,
    ) -> Option<Vec<f64>> {
        let (own, other) = (self.cells(suites, policy)?, self.cells(suites, over)?);
        let pairs = own.iter().zip(&other);
        Some(
            pairs
                .map(|(own, other)| own.1.value / other.1.value)
                .collect(),
        )
    }

    /// Total time of a mix relative to another policy.
    pub(super) fn time_ratio(
        &self,
        suite: &str,
        mix: &str,
        policy: &str,
        over: &str,
    ) -> Option<f64> {
        Some(self.cell(suite, mix, policy)?.elapsed_s / self.cell(suite, mix, over)?.elapsed_s)
    }

    /// The same for these mixes of each suite; for all, where none are named.
    pub(super) fn time_ratios(
        &self,
        suites: &[String],
        mixes: &[String],
        policy: &str,
        over: &str,
    ) -> Option<Vec<f64>> {
        let mut ratios = Vec::new();
        for suite in suites {
            for (mix, _) in self.cells(&[suite], policy)? {
                if mixes.is_empty() {
                    ratios.push(self.time_ratio(suite, mix, policy, over)?);
                }
            }
            for mix in mixes {
                ratios.push(self.time_ratio(suite, mix, policy, over)?);
            }
        }
        Some(ratios)
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
    pub(super) fn least(&self, suites: &[impl AsRef<str>], policy: &str) -> Option<f64> {
        geometric(
            self.cells(suites, policy)?
                .iter()
                .map(|(_, cell)| cell.least()),
        )
    }

    /// Geometric mean of the fastest program of each mix.
    pub(super) fn most(&self, suites: &[impl AsRef<str>], policy: &str) -> Option<f64> {
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
    pub(super) fn below_fair(
        &self,
        suites: &[impl AsRef<str>],
        policy: &str,
        share: f64,
    ) -> Option<Vec<f64>> {
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
    pub(super) fn programs(&self, suites: &[impl AsRef<str>], policy: &str) -> Option<usize> {
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

#[cfg(test)]
pub(super) mod tests {
    use super::super::super::examples::{at_speed, model, planned, ran, suite, table, table_of};
    use super::super::super::tables;
    use super::*;

    pub(in super::super) fn book(tables: &[SuiteTable]) -> Book<'_> {
        Book {
            tables,
            model: model(),
        }
    }

    pub(in super::super) fn near(value: Option<f64>, expected: f64) {
        let value = value.expect("a value");
        assert!((value - expected).abs() < 1e-9, "{value}, not {expected}");
    }

    /// SGD and ALS at 0.9 and 0.4 under `own`, both at 0.5 under `other`; SVD at 0.8 and 1.
    fn two_mixes() -> SuiteTable {
        let suite = suite("s", &["20 SGD, 20 ALS", "SVD"], &["own", "other"]);
        table(&suite, &|mix, policy| match (mix, policy) {
            ("SVD", "own") => at_speed(mix, 0.8),
            ("SVD", _) => at_speed(mix, 1.0),
            (_, "own") => ran(&[("SGD", 0.9), ("ALS", 0.4)]),
            _ => at_speed(mix, 0.5),
        })
    }

    #[test]
    fn a_gain_is_over_the_other_policy_and_none_without_both() {
        let tables = [two_mixes()];
        let b = book(&tables);
        // 0.6 and 0.8 against 0.5 and 1.
        near(b.gain("s", "own", "other"), (0.48_f64 / 0.5).sqrt() - 1.0);
        near(b.mix_gain("s", "20 SGD, 20 ALS", "own", "other"), 0.2);
        assert_eq!(b.gain("s", "own", "none"), None);
        assert_eq!(b.gain("another", "own", "other"), None);
        assert_eq!(b.mix_gain("s", "ALS", "own", "other"), None);
    }

    #[test]
    fn a_gain_with_a_program_is_that_of_its_mixes_and_its_own_that_of_itself() {
        let tables = [two_mixes()];
        let b = book(&tables);
        near(b.gain_with("s", "SVD", "own", "other"), -0.2);
        near(b.gain_with("s", "ALS", "own", "other"), 0.2);
        near(b.app_ratio("s", "ALS", "own", "other"), 0.8);
        assert_eq!(b.app_ratio("s", "gauss", "own", "other"), None);
        near(b.app("s", "20 SGD, 20 ALS", "own", "SGD"), 0.9);
    }

    #[test]
    fn slowest_fastest_and_worst_are_of_programs_or_of_mixes() {
        let tables = [two_mixes()];
        let b = book(&tables);
        near(b.least(&["s"], "own"), (0.4_f64 * 0.8).sqrt());
        near(b.most(&["s"], "own"), (0.9_f64 * 0.8).sqrt());
        near(b.worst("s", "own"), 0.6);
        near(b.worst_app("s", "own"), 0.4);
    }

    #[test]
    fn programs_below_a_share_of_their_fair_speed_are_counted_over_all_suites() {
        let tables = [two_mixes()];
        let b = book(&tables);
        let below = |share| b.below_fair(&["s"], "own", share).unwrap();
        assert_eq!(below(0.85), [0.4, 0.8]);
        assert_eq!(below(0.4), [0.0_f64; 0], "at a promise is not below it");
        assert_eq!(b.programs(&["s"], "own"), Some(3));
        assert_eq!(b.below_fair(&["s", "another"], "own", 0.85), None);
    }

    #[test]
    fn half_a_suite_is_held_against_nothing() {
        let suite = suite("s", &["SGD", "ALS"], &["own"]);
        let planned = planned(&suite, 1);
        let results = [
            ("SGD/own/0".to_owned(), at_speed("SGD", 1.0)),
            ("SGD/fair/0".to_owned(), at_speed("SGD", 1.0)),
        ];
        let tables = [tables::table(&planned, &results.into())];
        assert_eq!(tables[0].mixes.len(), 1);
        assert_eq!(book(&tables).overall("s", "own"), None);
    }

    #[test]
    fn a_number_without_runs_is_shown_with_a_suite_of_its_paper() {
        let tables = [table_of(
            &suite("sam-fig5", &["SGD"], &["linux"]),
            &|_, _| 1.0,
        )];
        let b = book(&tables);
        assert_eq!(b.of_paper("sam-", 1.5), Some(1.5));
        assert_eq!(b.of_paper("nucore-", 1.5), None);
        assert!(b.runs("sam-") && !b.runs("mapper-"));
    }

    #[test]
    fn an_order_needs_every_step_and_every_value() {
        assert_eq!(descending(&[Some(3.0), Some(2.0), Some(1.0)]), Some(1.0));
        assert_eq!(descending(&[Some(3.0), Some(3.0), Some(1.0)]), Some(0.0));
        assert_eq!(descending(&[Some(3.0), None, Some(1.0)]), None);
    }
}
