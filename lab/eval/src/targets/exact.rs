//! Published numbers that take no run of the simulator: NuPoCo's and NuCore's worked examples, which the
//! predictors of the decision core compute anew, and SAM-MPH's thresholds, which its policy takes over.
//!
//! The examples say that the papers' formulas were read as they were meant, and nothing of how well those foretell
//! a machine. Not even that in full: the papers leave out part of what goes into them (the work in NuPoCo's
//! Figure 5, the demands in NuCore's Table 1), which was chosen so that the published results come out. Each belongs to the evaluation of its paper and is judged where that is run.

use super::book::{Book, yes};
use super::{Target, exact, holds, number, taken};
use mapper_model::MachineProfile;
use mapper_predict::nupoco::colocation::Reading;
use mapper_predict::nupoco::smp::SmpMachine;
use mapper_predict::nupoco::smp_policy::{self, Comparison, Job};
use mapper_predict::{Cycles, RequestsPerCycle};

const NUPOCO: &str = "nupoco-";
const NUCORE: &str = "nucore-";
const SAM: &str = "sam-";

/// The work of NuPoCo's two programs in Figure 5 (a), (b) and (c), as multiples of the second one's. Inferred
/// from the optima, as the paper does not print it (the note of `tests/vectors/nupoco_policies.json`).
#[derive(Clone, Copy)]
enum Work {
    Double,
    Fourfold,
    Eightfold,
}

/// NuPoCo's policies for two programs on 16 cores, the first without misses, the second with one in a hundred
/// cycles, at 50 cycles of memory for each [NuPoCo Figures 4 to 6].
fn compared(b: &Book<'_>, work: Work) -> Option<Comparison> {
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
    let first = match work {
        Work::Double => 200.0,
        Work::Fourfold => 400.0,
        Work::Eightfold => 800.0,
    };
    let jobs = [job(0.0, first)?, job(0.01, 100.0)?];
    smp_policy::compare(&machine, &jobs, Reading::Requesting).ok()
}

/// Cores of the first program in the best split that never changes.
fn best_static(b: &Book<'_>, work: Work) -> Option<f64> {
    Some(f64::from(compared(b, work)?.best_static.split[0]))
}

/// Whether NuCore's program comes to the cores by node that Table 1 prints.
fn as_printed(b: &Book<'_>, case: &str) -> Option<f64> {
    if !b.runs(NUCORE) {
        return None;
    }
    let optimum = mapper_vectors::nucore_optimum(case).ok()?;
    yes(optimum.solved == optimum.printed)
}

fn of_sam(b: &Book<'_>, value: f64) -> Option<f64> {
    b.of_paper(SAM, value)
}

pub(super) const TARGETS: &[Target] = &[
    exact(
        "NU-1",
        "NuPoCo Fig. 4-6",
        &[number(
            "greatest system utilisation, cores of the first of 16",
            11.0,
            11.0,
            11.0,
            |b| {
                let split = compared(b, Work::Fourfold)?.max_system_util.split;
                Some(f64::from(split[0]))
            },
        )],
    ),
    exact(
        "NU-2",
        "NuPoCo Fig. 4-6",
        &[number(
            "greatest CPU utilisation, cores of the first of 16",
            15.0,
            15.0,
            15.0,
            |b| {
                let split = compared(b, Work::Fourfold)?.max_cpu_util.split;
                Some(f64::from(split[0]))
            },
        )],
    ),
    exact(
        "NU-3",
        "NuPoCo Fig. 5",
        &[
            number("(a) best split, cores of the first", 6.0, 6.0, 6.0, |b| {
                best_static(b, Work::Double)
            }),
            number(
                "(b) best split, cores of the first",
                11.0,
                11.0,
                11.0,
                |b| best_static(b, Work::Fourfold),
            ),
            number(
                "(c) best split, cores of the first",
                14.0,
                14.0,
                14.0,
                |b| best_static(b, Work::Eightfold),
            ),
        ],
    ),
    exact(
        "NU-4",
        "NuPoCo Fig. 6",
        &[number(
            "(b) time saved over one after the other",
            0.4,
            0.36,
            0.42,
            |b| {
                let compared = compared(b, Work::Fourfold)?;
                Some(compared.max_system_util.reduction_vs_batch)
            },
        )],
    ),
    exact(
        "NC-1",
        "NuCore Table 1",
        &[
            holds("streamcluster on Intel has 8, 8, 3 and 0 cores", |b| {
                as_printed(b, "x-streamcluster-nucore")
            }),
            holds("resid on Intel has 7 cores of each node", |b| {
                as_printed(b, "x-mgD-resid-alpha")
            }),
            holds(
                "dgemm (MKL) on AMD has 2 cores and 6 of each other node",
                |b| as_printed(b, "o-dgemm-mkl"),
            ),
        ],
    ),
    taken(
        "SM-2",
        "SAM-MPH Fig. 1",
        &[
            number(
                "events per 1000 cycles from which programs share",
                0.78,
                0.702,
                0.858,
                |b| of_sam(b, 1e3 * MachineProfile::default().sharing_high_per_cycle),
            ),
            number(
                "instructions per cycle up to which threads share a core",
                0.9,
                0.81,
                0.99,
                |b| of_sam(b, MachineProfile::default().ipc_high),
            ),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::super::super::examples;
    use super::*;

    /// What every number comes to where the suites of all three papers are run.
    fn computed() -> Vec<(&'static str, f64, f64)> {
        let suites = ["nupoco-amd", "nucore-amd", "sam-fig5"];
        let tables = suites.map(|name| {
            examples::table_of(&examples::suite(name, &["SGD"], &["none"]), &|_, _| 1.0)
        });
        let book = Book {
            tables: &tables,
            model: examples::model(),
        };
        let of = |target: &Target| {
            let values = target.numbers.iter().map(|number| {
                let value = (number.model)(&book).unwrap_or(f64::NAN);
                (target.id, number.paper, value)
            });
            values.collect::<Vec<_>>()
        };
        TARGETS.iter().flat_map(of).collect()
    }

    #[test]
    fn worked_examples_come_out_as_printed_and_the_share_saved_as_rounded() {
        for (id, paper, value) in computed() {
            let off = if id == "NU-4" { 0.02 } else { 1e-9 };
            assert!((value - paper).abs() <= off, "{id}: {paper}, {value}");
        }
    }

    #[test]
    fn the_middle_case_is_the_one_that_the_vectors_work_out() {
        let kept = include_str!("../../../../tests/vectors/nupoco_policies.json");
        let kept: serde_json::Value = serde_json::from_str(kept).unwrap();
        let expected = &kept["cases"][0]["expect"];
        let table = examples::suite("nupoco-amd", &["SGD"], &["none"]);
        let tables = [examples::table_of(&table, &|_, _| 1.0)];
        let book = Book {
            tables: &tables,
            model: examples::model(),
        };
        let found = compared(&book, Work::Fourfold).unwrap();
        let total = expected["max_system_util"]["total"].as_f64().unwrap();
        assert!((found.max_system_util.total - total).abs() < 1e-6 * total);
        assert_eq!(
            serde_json::json!(found.max_cpu_util.split),
            expected["max_cpu_util"]["split"]
        );
    }

    #[test]
    fn a_case_that_the_vectors_do_not_have_is_an_error_that_names_it() {
        let error = mapper_vectors::nucore_optimum("no-such-case")
            .err()
            .unwrap();
        assert!(error.to_string().contains("no-such-case"), "{error}");
    }
}
