//! Everything that came out of an evaluation, as it is written.

/// Everything that came out.
#[derive(serde::Serialize)]
pub(super) struct Evaluation<'a> {
    pub(super) protocol: &'a super::protocol::Protocol,
    pub(super) protocol_sha256: &'a str,
    pub(super) settings: &'a [String],
    pub(super) suites: &'a [super::tables::SuiteTable],
    /// NuCore's Table 1 beside the model's, where it was run.
    pub(super) nucore_table1: Vec<super::table1::Table1>,
    pub(super) targets: &'a [super::targets::Line],
    pub(super) unjudged: &'a [super::targets::Unjudged],
    pub(super) standings: &'a [super::standing::Standing],
    pub(super) validity: &'a [super::validity::Finding],
    pub(super) left_out: usize,
}
