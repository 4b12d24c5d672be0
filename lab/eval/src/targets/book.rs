//! The results as published numbers are looked up in them.

use super::super::tables::SuiteTable;
use super::situation::Model;

pub(crate) struct Book<'a> {
    pub(crate) tables: &'a [SuiteTable],
    /// For numbers that need no run.
    pub(crate) model: Model<'a>,
}

impl Book<'_> {
    /// A suite that is complete.
    pub(super) fn suite(&self, name: &str) -> Option<&SuiteTable> {
        let mut tables = self.tables.iter();
        tables.find(|table| table.suite.name == name && table.is_whole())
    }

    /// Whether a suite of the paper whose suites begin so is part of the evaluation.
    pub(super) fn runs(&self, begins: &str) -> bool {
        let mut tables = self.tables.iter();
        tables.any(|table| table.suite.name.starts_with(begins))
    }

    /// What the model says without any run belongs to the evaluation of this paper, whose suites
    /// begin so.
    pub(super) fn of_paper(&self, begins: &str, value: f64) -> Option<f64> {
        self.runs(begins).then_some(value)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::super::examples::{at_speed, model, planned, suite, tables_of};
    use super::super::super::tables;
    use super::*;

    pub(in super::super) fn book(tables: &[SuiteTable]) -> Book<'_> {
        Book {
            tables,
            model: model(),
        }
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
        assert!(book(&tables).suite("s").is_none());
    }

    #[test]
    fn a_number_without_runs_is_shown_with_a_suite_of_its_paper() {
        let tables = tables_of(&["sam-fig5 | SGD | linux 1"]);
        let b = book(&tables);
        assert_eq!(b.of_paper("sam-", 1.5), Some(1.5));
        assert_eq!(b.of_paper("nucore-", 1.5), None);
        assert!(b.runs("sam-") && !b.runs("mapper-"));
    }
}
