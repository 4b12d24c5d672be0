//! The published numbers of NuCore.
//!
//! They are those of its static allocation (`nucore-static`) for the eleven programs of Table 1. Protocols
//! before the fifth have six stand-ins and only the daemon's policy, and are judged by these.

use super::super::tables::{Cell, geometric};
use super::book::Book;
use super::{Target, number, validate};

const AMD: &str = "nucore-amd";
const INTEL: &str = "nucore-intel";
const BOTH: &[&str] = &[AMD, INTEL];
const STATIC: &str = "nucore-static";

/// The policy that stands for NuCore.
fn own(b: &Book<'_>) -> &'static str {
    let has = |suite: &&str| b.overall(suite, STATIC).is_some();
    if BOTH.iter().any(has) {
        STATIC
    } else {
        "nucore"
    }
}

/// How much faster than another policy, over both machines.
fn over(b: &Book<'_>, policy: &str) -> Option<f64> {
    let (own, other) = (b.cells(BOTH, own(b))?, b.cells(BOTH, policy)?);
    geometric(own.iter().zip(&other).map(|(a, o)| a.1.value / o.1.value))
}

/// Mean share of the machine's cores.
fn share_of_cores(b: &Book<'_>) -> Option<f64> {
    let share = |suite, cores: f64| -> Option<Vec<f64>> {
        let cells = b.cells(&[suite], own(b))?;
        let used = cells
            .iter()
            .map(|(_, cell)| Some(cell.apps.first()?.mean_cpus / cores));
        used.collect()
    };
    let all = [share(AMD, 48.0)?, share(INTEL, 32.0)?].concat();
    Some(all.iter().sum::<f64>() / all.len() as f64)
}

/// How much faster than all cores, for the first of these names that was run.
fn gain(b: &Book<'_>, suite: &str, names: &[&str]) -> Option<f64> {
    let of = |mix: &&str| b.mix_gain(suite, mix, own(b), "linux");
    Some(1.0 + names.iter().find_map(of)?)
}

/// Mean error of the predicted bandwidth over the programs.
fn error(b: &Book<'_>, suite: &str, of: fn(&Cell) -> Option<f64>) -> Option<f64> {
    let cells = b.cells(&[suite], STATIC)?;
    let errors: Option<Vec<f64>> = cells.iter().map(|(_, cell)| of(cell)).collect();
    let errors = errors.filter(|errors| !errors.is_empty())?;
    Some(errors.iter().sum::<f64>() / errors.len() as f64)
}

fn local(cell: &Cell) -> Option<f64> {
    Some(cell.bandwidth_error?.local)
}

fn between(cell: &Cell) -> Option<f64> {
    Some(cell.bandwidth_error?.between)
}

fn total(cell: &Cell) -> Option<f64> {
    Some(cell.bandwidth_error?.total)
}

pub(super) const TARGETS: &[Target] = &[
    validate(
        "NC-2",
        "NuCore Fig. 11",
        &[
            number("over all cores", 1.27, 1.12, 1.45, |b| over(b, "linux")),
            number("share of the cores", 0.756, 0.65, 0.87, share_of_cores),
        ],
    ),
    validate(
        "NC-3",
        "NuCore Fig. 11",
        &[
            number("streamcluster over all cores, AMD", 3.34, 2.64, 4.04, |b| {
                gain(b, AMD, &["streamcluster-roi", "streamcluster"])
            }),
            number(
                "streamcluster over all cores, Intel",
                1.79,
                1.55,
                2.03,
                |b| gain(b, INTEL, &["streamcluster-roi", "streamcluster"]),
            ),
            number("mg.D-resid over all cores, Intel", 1.1, 1.07, 1.13, |b| {
                gain(b, INTEL, &["mg-resid"])
            }),
            number("mg.D-rprj3 over all cores, AMD", 1.09, 1.063, 1.117, |b| {
                gain(b, AMD, &["mg-rprj3"])
            }),
            number(
                "dgemm (ACML) over all cores, AMD",
                1.12,
                1.084,
                1.156,
                |b| gain(b, AMD, &["dgemm-acml", "dgemm"]),
            ),
        ],
    ),
    validate(
        "NC-4",
        "NuCore §7",
        &[
            number("over Varuna (approximation)", 1.18, 1.05, 1.35, |b| {
                over(b, "varuna")
            }),
            number("over CRUST (approximation)", 1.21, 1.05, 1.4, |b| {
                over(b, "crust")
            }),
        ],
    ),
    validate(
        "NC-5",
        "NuCore Fig. 2",
        &[number(
            "six cores on one node against six nodes",
            1.34,
            1.15,
            1.55,
            |b| b.of_paper(AMD, b.model.near_against_far()?),
        )],
    ),
    validate(
        "NC-6",
        "NuCore Table 2",
        &[
            number("error of local bandwidth, Intel", 0.079, 0.0, 0.15, |b| {
                error(b, INTEL, local)
            }),
            number(
                "error of bandwidth between nodes, Intel",
                0.043,
                0.0,
                0.15,
                |b| error(b, INTEL, between),
            ),
            number("error of all bandwidth, Intel", 0.056, 0.0, 0.15, |b| {
                error(b, INTEL, total)
            }),
            number("error of local bandwidth, AMD", 0.087, 0.0, 0.15, |b| {
                error(b, AMD, local)
            }),
            number(
                "error of bandwidth between nodes, AMD",
                0.047,
                0.0,
                0.15,
                |b| error(b, AMD, between),
            ),
            number("error of all bandwidth, AMD", 0.067, 0.0, 0.15, |b| {
                error(b, AMD, total)
            }),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::super::super::examples;
    use super::super::book::tests::{book, near};
    use super::*;
    use crate::tables::SuiteTable;
    use mapper_sim::nucore::BandwidthError;

    const STATIC_AND_OTHERS: [&str; 3] = [STATIC, "nucore", "linux"];

    fn table(name: &str, mixes: &[&str], policies: &[&str], cores: f64) -> SuiteTable {
        let suite = examples::suite(name, mixes, policies);
        examples::table(&suite, &|mix, policy| {
            let speed = match policy {
                STATIC => 1.5,
                "nucore" => 1.2,
                _ => 1.0,
            };
            let mut run = examples::at_speed(mix, speed);
            run.apps[0].mean_cpus = if policy == STATIC { cores } else { 1.0 };
            run.bandwidth_error = (policy == STATIC).then_some(BandwidthError {
                local: 0.3,
                between: 0.0,
                total: if mix == "mg-rprj3" { 0.3 } else { 0.1 },
            });
            run
        })
    }

    fn value(tables: &[SuiteTable], what: &str) -> Option<f64> {
        let mut numbers = TARGETS.iter().flat_map(|target| target.numbers);
        (numbers.find(|number| number.what == what).unwrap().model)(&book(tables))
    }

    #[test]
    fn the_static_allocation_is_judged_where_it_was_run_and_else_the_daemons_policy() {
        let mixes = &["mg-resid", "mg-rprj3"];
        let of = |policies: &[&str]| {
            let tables = [
                table(AMD, mixes, policies, 24.0),
                table(INTEL, mixes, policies, 32.0),
            ];
            let shown = ["over all cores", "share of the cores"];
            shown.map(|what| (value(&tables, what).unwrap() * 1000.0).round())
        };
        assert_eq!(of(&STATIC_AND_OTHERS), [1500.0, 750.0]);
        assert_eq!(of(&["nucore", "linux"])[0], 1200.0);
    }

    #[test]
    fn programs_go_by_their_name_of_table_1_or_by_that_of_the_stand_in() {
        for name in ["streamcluster", "streamcluster-roi"] {
            let tables = [table(INTEL, &[name], &STATIC_AND_OTHERS, 8.0)];
            let what = "streamcluster over all cores, Intel";
            assert!((value(&tables, what).unwrap() - 1.5).abs() < 1e-9, "{name}");
            assert_eq!(value(&tables, "mg.D-resid over all cores, Intel"), None);
        }
    }

    #[test]
    fn errors_of_bandwidth_are_means_over_the_programs() {
        let mixes = &["mg-resid", "mg-rprj3"];
        let tables = [table(AMD, mixes, &STATIC_AND_OTHERS, 24.0)];
        let error = value(&tables, "error of all bandwidth, AMD").unwrap();
        assert!((error - 0.2).abs() < 1e-9, "{error}");
        assert_eq!(value(&tables, "error of all bandwidth, Intel"), None);
        let older = [table(AMD, mixes, &["nucore", "linux"], 24.0)];
        assert_eq!(value(&older, "error of all bandwidth, AMD"), None);
    }

    #[test]
    fn nucore_is_compared_on_both_machines_and_its_cores_with_all_of_each() {
        let of = |name, cores: f64| {
            let suite = examples::suite(name, &["streamcluster"], &["nucore", "linux"]);
            examples::table(&suite, &move |mix, policy| {
                let mut run = examples::at_speed(mix, if policy == "nucore" { 1.2 } else { 1.0 });
                run.apps[0].mean_cpus = cores;
                run
            })
        };
        let tables = [of(AMD, 24.0), of(INTEL, 32.0)];
        let b = book(&tables);
        near(over(&b, "linux"), 1.2);
        near(gain(&b, AMD, &["streamcluster"]), 1.2);
        // Half of 48 and all of 32.
        near(share_of_cores(&b), 0.75);
        assert_eq!(over(&book(&tables[..1]), "linux"), None);
    }
}
