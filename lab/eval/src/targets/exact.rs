//! NuPoCo's and NuCore's worked examples, which the predictors of the decision core compute anew. What they show is
//! said in `lab/eval/data/published/exact.toml`.

use super::book::Book;
use mapper_predict::nupoco::colocation::Reading;
use mapper_predict::nupoco::smp::SmpMachine;
use mapper_predict::nupoco::smp_policy::{self, Comparison, Job};
use mapper_predict::{Cycles, RequestsPerCycle};
use serde::Deserialize;

const NUPOCO: &str = "nupoco-";
const NUCORE: &str = "nucore-";

/// By what the cores are divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Criterion {
    /// The greatest system utilisation.
    SystemUtilisation,
    /// The greatest CPU utilisation.
    CpuUtilisation,
    /// The best split that never changes.
    BestStatic,
}

/// NuPoCo's policies for two programs on 16 cores, the first without misses, the second with one in a hundred
/// cycles, at 50 cycles of memory for each [NuPoCo Figures 4 to 6]. The time of the first one on one core is inferred
/// from the optima, as the paper does not print it (the note of `tests/vectors/nupoco_policies.json`); that of the
/// second is 100.
fn compared(b: &Book<'_>, work: f64) -> Option<Comparison> {
    if !b.runs(NUPOCO) {
        return None;
    }
    let machine = SmpMachine::new(16, Cycles::new(50.0).ok()?).ok()?;
    let job = |rate, time_on_one_core| {
        Some(Job {
            rate: RequestsPerCycle::new(rate).ok()?,
            time_on_one_core,
        })
    };
    let jobs = [job(0.0, work)?, job(0.01, 100.0)?];
    smp_policy::compare(&machine, &jobs, Reading::Requesting).ok()
}

pub(super) fn split(b: &Book<'_>, work: f64, by: Criterion) -> Option<f64> {
    let compared = compared(b, work)?;
    let split = match by {
        Criterion::SystemUtilisation => &compared.max_system_util.split,
        Criterion::CpuUtilisation => &compared.max_cpu_util.split,
        Criterion::BestStatic => &compared.best_static.split,
    };
    split.first().copied().map(f64::from)
}

/// Share of the time that system utilisation saves over one after the other.
pub(super) fn saving(b: &Book<'_>, work: f64) -> Option<f64> {
    Some(compared(b, work)?.max_system_util.reduction_vs_batch)
}

/// Whether NuCore's program comes to the cores by node that Table 1 prints.
pub(super) fn as_printed(b: &Book<'_>, case: &str) -> Option<bool> {
    if !b.runs(NUCORE) {
        return None;
    }
    let optimum = mapper_vectors::nucore_optimum(case).ok()?;
    Some(optimum.solved == optimum.printed)
}

#[cfg(test)]
mod tests {
    use super::super::super::examples::tables_of;
    use super::super::book::tests::book;
    use super::super::published::{self, Use};
    use super::*;

    #[test]
    fn worked_examples_come_out_as_printed_and_the_share_saved_as_rounded() {
        let suites = [
            "nupoco-amd | SGD | none 1",
            "nucore-amd | SGD | none 1",
            "sam-fig5 | SGD | none 1",
        ];
        let tables = tables_of(&suites);
        let book = book(&tables);
        let mut computed = 0;
        for target in published::targets().unwrap() {
            for number in target.numbers {
                if [Use::Exact, Use::Taken].contains(&target.uses) {
                    let (id, paper) = (&target.id, number.paper);
                    let value = number.model.of(&book).unwrap();
                    let off = if id == "NU-4" { 0.02 } else { 1e-9 };
                    assert!((value - paper).abs() <= off, "{id}: {paper}, {value}");
                    computed += 1;
                }
            }
        }
        assert_eq!(computed, 11);
    }

    #[test]
    fn the_middle_case_is_the_one_that_the_vectors_work_out() {
        let kept = include_str!("../../../../tests/vectors/nupoco_policies.json");
        let kept: serde_json::Value = serde_json::from_str(kept).unwrap();
        let expected = &kept["cases"][0]["expect"];
        let tables = tables_of(&["nupoco-amd | SGD | none 1"]);
        let found = compared(&book(&tables), 400.0).unwrap();
        let total = expected["max_system_util"]["total"].as_f64().unwrap();
        assert!((found.max_system_util.total - total).abs() < 1e-6 * total);
        assert_eq!(
            serde_json::json!(found.max_cpu_util.split),
            expected["max_cpu_util"]["split"]
        );
    }

    #[test]
    fn a_case_that_the_vectors_do_not_have_is_an_error_that_names_it() {
        let found = mapper_vectors::nucore_optimum("no-such-case");
        let error = found.err().unwrap();
        assert!(error.to_string().contains("no-such-case"), "{error}");
    }
}
