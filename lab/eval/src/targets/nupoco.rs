//! The published numbers of NuPoCo and Cooperative.

use super::super::tables::geometric;
use super::book::{Book, descending, yes};
use super::{Target, holds, number, validate};

const AMD: &str = "nupoco-amd";
const INTEL: &str = "nupoco-intel";

/// Total time relative to plain Linux.
fn ntt(b: &Book<'_>, suite: &str, mix: &str, policy: &str) -> Option<f64> {
    Some(b.cell(suite, mix, policy)?.elapsed_s / b.cell(suite, mix, "linux")?.elapsed_s)
}

fn all_ntt(b: &Book<'_>, suite: &str) -> Option<Vec<f64>> {
    let mixes = b.cells(&[suite], "nupoco")?;
    mixes
        .iter()
        .map(|(mix, _)| ntt(b, suite, mix, "nupoco"))
        .collect()
}

/// By how much the mean time from begin to end of a program is shorter than under plain Linux.
fn turnaround(b: &Book<'_>, suite: &str) -> Option<f64> {
    let (own, linux) = (b.cells(&[suite], "nupoco")?, b.cells(&[suite], "linux")?);
    let ratios = own
        .iter()
        .zip(&linux)
        .map(|(a, l)| Some(a.1.turnaround_s? / l.1.turnaround_s?));
    Some(1.0 - geometric(ratios.collect::<Option<Vec<f64>>>()?)?)
}

fn against_batch(b: &Book<'_>, suites: &[&str], mixes: &[&str]) -> Option<f64> {
    let mut ratios = Vec::new();
    for suite in suites {
        for mix in mixes {
            let of = |policy| Some(b.cell(suite, mix, policy)?.elapsed_s);
            ratios.push(of("nupoco")? / of("batch")?);
        }
    }
    geometric(ratios)
}

/// Scalability as published, without memory; protocols before the fourth have only the one with it.
fn scalability(b: &Book<'_>, suite: &str) -> &'static str {
    match b.overall(suite, "scalability-plain") {
        Some(_) => "scalability-plain",
        None => "scalability",
    }
}

fn equal_best(b: &Book<'_>, mix: &str) -> Option<f64> {
    let equal = ntt(b, INTEL, mix, "equal")?;
    let others = [
        "nupoco",
        "nupoco_greedy",
        scalability(b, INTEL),
        "batch",
        "linux",
    ];
    let others: Option<Vec<f64>> = others.iter().map(|p| ntt(b, INTEL, mix, p)).collect();
    yes(others?.into_iter().all(|other| equal <= other + 0.01))
}

/// Sum of the speedups relative to max speedup, averaged over the mixes.
fn of_max(b: &Book<'_>, suite: &str, policy: &str) -> Option<f64> {
    let sum = |policy| -> Option<f64> {
        Some(
            b.cells(&[suite], policy)?
                .iter()
                .map(|(_, c)| c.value)
                .sum(),
        )
    };
    Some(sum(policy)? / sum("max_speedup")?)
}

/// Mean time from start to end of a program, of that under SCAF.
fn over_scaf(b: &Book<'_>, policy: &str) -> Option<f64> {
    let suite = &["cooperative-fig4"];
    let (own, scaf) = (b.cells(suite, policy)?, b.cells(suite, "scaf")?);
    let ratios = own.iter().zip(&scaf);
    let ratios: Option<Vec<f64>> = ratios
        .map(|(own, scaf)| Some(own.1.turnaround_s? / scaf.1.turnaround_s?))
        .collect();
    geometric(ratios?)
}

pub(super) const TARGETS: &[Target] = &[
    validate(
        "NU-5",
        "NuPoCo Fig. 11",
        &[number(
            "total time of Linux's, AMD-64",
            0.91,
            0.84,
            0.97,
            |b| geometric(all_ntt(b, AMD)?),
        )],
    ),
    validate(
        "NU-6",
        "NuPoCo Fig. 11",
        &[number(
            "total time of Linux's, Intel-72",
            0.81,
            0.73,
            0.9,
            |b| geometric(all_ntt(b, INTEL)?),
        )],
    ),
    validate(
        "NU-7",
        "NuPoCo §7.4",
        &[
            number("scenario 4, AMD", 0.8, 0.7, 0.92, |b| {
                ntt(b, AMD, "BT, FT, SP", "nupoco")
            }),
            number("scenario 10, Intel", 0.65, 0.55, 0.8, |b| {
                ntt(b, INTEL, "SP, KM", "nupoco")
            }),
        ],
    ),
    validate(
        "NU-8",
        "NuPoCo §7.4",
        &[number("worst scenario", 1.0, 0.0, 1.03, |b| {
            [all_ntt(b, AMD)?, all_ntt(b, INTEL)?]
                .concat()
                .into_iter()
                .reduce(f64::max)
        })],
    ),
    validate(
        "NU-9",
        "NuPoCo §7.4",
        &[
            number("shorter turnaround, AMD", 0.108, 0.05, 0.18, |b| {
                turnaround(b, AMD)
            }),
            number("shorter turnaround, Intel", 0.123, 0.06, 0.2, |b| {
                turnaround(b, INTEL)
            }),
        ],
    ),
    validate(
        "NU-10",
        "NuPoCo Fig. 12",
        &[
            number("harmonic mean over Linux, AMD", 0.132, 0.05, 0.25, |b| {
                b.gain(AMD, "nupoco", "linux")
            }),
            number("harmonic mean over Linux, Intel", 0.108, 0.04, 0.22, |b| {
                b.gain(INTEL, "nupoco", "linux")
            }),
        ],
    ),
    validate(
        "NU-11",
        "NuPoCo §7.4",
        &[number("scenario 4 against Batch", -0.1, -0.2, -0.03, |b| {
            Some(against_batch(b, &[AMD], &["BT, FT, SP"])? - 1.0)
        })],
    ),
    validate(
        "NU-12",
        "NuPoCo §7.4",
        &[number(
            "scenarios 1-3 against Batch",
            1.0,
            0.93,
            1.05,
            |b| against_batch(b, &[AMD, INTEL], &["BT, FT", "BT, SP", "FT, SP"]),
        )],
    ),
    validate(
        "NU-13",
        "NuPoCo §7.4",
        &[
            holds("Scalability loses in scenario 2", |b| {
                yes(ntt(b, AMD, "BT, SP", scalability(b, AMD))? > 1.0)
            }),
            holds("Scalability loses in scenario 8", |b| {
                yes(ntt(b, AMD, "BT, KM", scalability(b, AMD))? > 1.0)
            }),
            holds("Scalability loses in scenario 10", |b| {
                yes(ntt(b, AMD, "SP, KM", scalability(b, AMD))? > 1.0)
            }),
            holds("Equal is best in scenario 8 on Intel", |b| {
                equal_best(b, "BT, KM")
            }),
            holds("Equal is best in scenario 9 on Intel", |b| {
                equal_best(b, "FT, KM")
            }),
        ],
    ),
    validate(
        "NU-14",
        "NuPoCo §7.5",
        &[number(
            "FT, EP and BS against Linux",
            -0.19,
            -0.28,
            -0.08,
            |b| Some(ntt(b, "nupoco-fig13", "EP, FT, BS", "nupoco")? - 1.0),
        )],
    ),
    validate(
        "CPR-1",
        "Cooperative Fig. 3a",
        &[
            number("dynamic on Linux, of max speedup", 0.79, 0.73, 0.85, |b| {
                of_max(b, "cooperative-amd", "linux")
            }),
            number("guided on Linux, of max speedup", 0.88, 0.82, 0.94, |b| {
                of_max(b, "cooperative-amd", "linux")
            }),
            number("Equal, of max speedup", 0.91, 0.85, 0.97, |b| {
                of_max(b, "cooperative-amd", "equal")
            }),
            holds("max speedup > Equal > Linux", |b| {
                descending(
                    &["max_speedup", "equal", "linux"].map(|p| of_max(b, "cooperative-amd", p)),
                )
            }),
        ],
    ),
    validate(
        "CPR-2",
        "Cooperative Fig. 3b",
        &[
            number("dynamic on Linux, of max speedup", 0.93, 0.89, 0.97, |b| {
                of_max(b, "cooperative-tile", "linux")
            }),
            number("guided on Linux, of max speedup", 0.97, 0.93, 1.01, |b| {
                of_max(b, "cooperative-tile", "linux")
            }),
            number("Equal, of max speedup", 0.99, 0.95, 1.03, |b| {
                of_max(b, "cooperative-tile", "equal")
            }),
            holds("max speedup > Equal > Linux", |b| {
                descending(
                    &["max_speedup", "equal", "linux"].map(|p| of_max(b, "cooperative-tile", p)),
                )
            }),
        ],
    ),
    validate(
        "CPR-3",
        "Cooperative Fig. 4",
        &[holds(
            "SCAF (approximation) slower than Equal and max speedup",
            |b| {
                let slower = |policy| Some(over_scaf(b, policy)? < 1.0);
                yes(slower("equal")? && slower("max_speedup")?)
            },
        )],
    ),
];

#[cfg(test)]
mod tests {
    use super::super::super::examples::{at_speed, suite, table, table_of};
    use super::super::super::tables::SuiteTable;
    use super::super::book::tests::{book, near};
    use super::*;

    /// A suite in which a mix takes these seconds under a policy, and each program as long.
    fn timed(
        name: &str,
        mixes: &[&str],
        policies: &[&str],
        seconds: &dyn Fn(&str, &str) -> f64,
    ) -> SuiteTable {
        table(&suite(name, mixes, policies), &|mix, policy| {
            let elapsed_s = seconds(mix, policy);
            let mut run = at_speed(mix, 100.0 / elapsed_s);
            run.elapsed_s = elapsed_s;
            run
        })
    }

    #[test]
    fn total_time_is_told_of_that_under_linux_and_turnaround_as_what_is_saved() {
        let policies = ["nupoco", "linux"];
        let tables = [timed(
            AMD,
            &["BT, FT", "BT, SP"],
            &policies,
            &|mix, policy| match (mix, policy) {
                (_, "linux") => 100.0,
                ("BT, FT", _) => 80.0,
                _ => 125.0,
            },
        )];
        let b = book(&tables);
        near(ntt(&b, AMD, "BT, FT", "nupoco"), 0.8);
        assert_eq!(all_ntt(&b, AMD).unwrap(), [0.8, 1.25]);
        near(turnaround(&b, AMD), 0.0);
        assert_eq!(ntt(&b, AMD, "BT, KM", "nupoco"), None);
    }

    #[test]
    fn against_batch_all_mixes_of_all_suites_count() {
        let of = |name| {
            timed(name, &["BT, FT"], &["nupoco", "batch"], &|_, policy| {
                if policy == "batch" { 100.0 } else { 90.0 }
            })
        };
        let tables = [of(AMD), of(INTEL)];
        near(
            against_batch(&book(&tables), &[AMD, INTEL], &["BT, FT"]),
            0.9,
        );
        assert_eq!(
            against_batch(&book(&tables[..1]), &[AMD, INTEL], &["BT, FT"]),
            None
        );
    }

    #[test]
    fn scalability_is_the_published_one_where_the_protocol_has_it() {
        let named = |policies: &[&str]| {
            let tables = [table_of(&suite(AMD, &["BT, FT"], policies), &|_, _| 1.0)];
            scalability(&book(&tables), AMD)
        };
        assert_eq!(
            named(&["scalability", "scalability-plain"]),
            "scalability-plain"
        );
        assert_eq!(named(&["scalability"]), "scalability");
    }

    #[test]
    fn equal_is_best_when_no_other_is_ahead_by_more_than_a_hundredth() {
        let best = |equal: f64| {
            let policies = [
                "equal",
                "nupoco",
                "nupoco_greedy",
                "scalability",
                "batch",
                "linux",
            ];
            let tables = [timed(
                INTEL,
                &["BT, KM"],
                &policies,
                &|_, policy| match policy {
                    "equal" => equal,
                    "nupoco" => 90.0,
                    _ => 100.0,
                },
            )];
            equal_best(&book(&tables), "BT, KM")
        };
        assert_eq!(best(85.0), Some(1.0));
        assert_eq!(best(90.5), Some(1.0), "as good as tied");
        assert_eq!(best(92.0), Some(0.0));
    }

    #[test]
    fn speedups_are_summed_before_they_are_compared_with_the_greatest() {
        let suite = suite("cooperative-amd", &["BT", "FT"], &["equal", "max_speedup"]);
        let tables = [table_of(&suite, &|mix, policy| match (mix, policy) {
            ("BT", "equal") => 3.0,
            ("FT", "equal") => 6.0,
            ("BT", _) => 4.0,
            _ => 8.0,
        })];
        near(of_max(&book(&tables), "cooperative-amd", "equal"), 0.75);
    }

    #[test]
    fn scaf_is_what_times_are_compared_with() {
        let policies = ["equal", "scaf"];
        let tables = [timed(
            "cooperative-fig4",
            &["BT, FT"],
            &policies,
            &|_, policy| {
                if policy == "scaf" { 100.0 } else { 80.0 }
            },
        )];
        near(over_scaf(&book(&tables), "equal"), 0.8);
    }
}
