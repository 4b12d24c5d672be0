//! Everything that came out of an evaluation, as it is written.

use super::protocol::Protocol;
use super::standing::Standing;
use super::table1::Table1;
use super::tables::SuiteTable;
use super::targets::{Line, Unjudged};
use super::validity::Finding;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Evaluation<'a> {
    pub(super) protocol: &'a Protocol,
    pub(super) protocol_sha256: &'a str,
    pub(super) settings: &'a [String],
    pub(super) suites: &'a [SuiteTable],
    /// NuCore's Table 1 beside the model's, where it was run.
    pub(super) nucore_table1: Vec<Table1>,
    pub(super) targets: &'a [Line],
    pub(super) unjudged: &'a [Unjudged],
    pub(super) standings: &'a [Standing],
    pub(super) validity: &'a [Finding],
    pub(super) left_out: usize,
}
