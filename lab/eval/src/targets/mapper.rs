//! MAPPER's published numbers for batch programs [MAPPER §4.4 to 4.5.3].

use super::super::tables::geometric;
use super::book::{Book, MAPPER, descending};
use super::{Target, calibrate, holds, number, validate};

pub(super) const FIG2: &str = "mapper-fig2";
pub(super) const FIG3: &str = "mapper-fig3";
pub(super) const FIG4: &str = "mapper-fig4";
pub(super) const FIG5: &str = "mapper-fig5";
const BOTH: &[&str] = &[FIG2, FIG3];
/// What programs are promised.
pub(super) const PROMISE: f64 = 0.85;

fn order(b: &Book<'_>, suite: &str) -> Option<f64> {
    descending(&[MAPPER, "linux", "hill_climb", "fair"].map(|p| b.overall(suite, p)))
}

pub(super) fn violations(b: &Book<'_>, suites: &[&str], policy: &str) -> Option<f64> {
    Some(b.below_fair(suites, policy, PROMISE)?.len() as f64)
}

/// Gain of all mixes of several suites over plain Linux, and the largest.
pub(super) fn ratios(b: &Book<'_>, suites: &[&str]) -> Option<Vec<f64>> {
    let own = b.cells(suites, MAPPER)?;
    let linux = b.cells(suites, "linux")?;
    Some(
        own.iter()
            .zip(&linux)
            .map(|(a, l)| a.1.value / l.1.value)
            .collect(),
    )
}

pub(super) fn mean_ratio(b: &Book<'_>, suites: &[&str]) -> Option<f64> {
    geometric(ratios(b, suites)?)
}

/// CPUs on which a program alone is fastest.
fn best_count(b: &Book<'_>, app: &str) -> Option<f64> {
    let cell = b.cell("mapper-alone", app, "oracle")?;
    Some(cell.apps.first()?.mean_cpus)
}

/// What Table 4 counts.
#[derive(Clone, Copy)]
enum Changes {
    /// CPU sets written.
    Written,
    /// Contexts that changed hands.
    Moved,
}

/// Changes per second, averaged over mixes of so many programs.
fn per_second(b: &Book<'_>, policy: &str, apps: usize, what: Changes) -> Option<f64> {
    let suite = if apps == 2 { FIG2 } else { FIG3 };
    let cells = b.cells(&[suite], policy)?;
    let of: Vec<f64> = cells
        .iter()
        .filter(|(_, cell)| cell.apps.len() == apps)
        .map(|(_, cell)| match what {
            Changes::Written => cell.rewrites_per_s,
            Changes::Moved => cell.moves_per_s,
        })
        .collect();
    (!of.is_empty()).then(|| of.iter().sum::<f64>() / of.len() as f64)
}

pub(super) const TARGETS: &[Target] = &[
    calibrate(
        "MP-1",
        "MAPPER §4.4",
        &[
            number(
                "SVD alone, best count against 80",
                0.048,
                0.028,
                0.068,
                |b| b.mix_gain("mapper-alone", "SVD", "oracle", "linux"),
            ),
            number(
                "SGD alone, best count against 80",
                0.041,
                0.021,
                0.061,
                |b| b.mix_gain("mapper-alone", "SGD", "oracle", "linux"),
            ),
            number(
                "BSGD alone, best count against 80",
                0.082,
                0.062,
                0.102,
                |b| b.mix_gain("mapper-alone", "BSGD", "oracle", "linux"),
            ),
            number(
                "ALS alone, best count against 80",
                0.048,
                0.028,
                0.068,
                |b| b.mix_gain("mapper-alone", "ALS", "oracle", "linux"),
            ),
            number("SVD alone, best count", 20.0, 15.0, 25.0, |b| {
                best_count(b, "SVD")
            }),
            number("SGD alone, best count", 20.0, 15.0, 25.0, |b| {
                best_count(b, "SGD")
            }),
            number("BSGD alone, best count", 20.0, 15.0, 25.0, |b| {
                best_count(b, "BSGD")
            }),
            number("ALS alone, best count", 20.0, 15.0, 25.0, |b| {
                best_count(b, "ALS")
            }),
        ],
    ),
    calibrate(
        "MP-3",
        "MAPPER Fig. 2",
        &[
            number("Linux", 0.8, 0.77, 0.83, |b| b.overall(FIG2, "linux")),
            number("fair share", 0.699, 0.669, 0.729, |b| {
                b.overall(FIG2, "fair")
            }),
        ],
    ),
    validate(
        "MP-4",
        "MAPPER Fig. 2",
        &[number("MAPPER", 0.848, 0.79, 0.92, |b| {
            b.overall(FIG2, MAPPER)
        })],
    ),
    validate(
        "MP-5",
        "MAPPER Fig. 2",
        &[
            number("hill climbing", 0.75, 0.69, 0.81, |b| {
                b.overall(FIG2, "hill_climb")
            }),
            holds("MAPPER > Linux > hill climbing > fair", |b| order(b, FIG2)),
        ],
    ),
    validate(
        "MP-6",
        "MAPPER Fig. 3",
        &[
            number("MAPPER", 0.708, 0.637, 0.779, |b| b.overall(FIG3, MAPPER)),
            number("Linux", 0.667, 0.6, 0.734, |b| b.overall(FIG3, "linux")),
            number("hill climbing", 0.607, 0.546, 0.668, |b| {
                b.overall(FIG3, "hill_climb")
            }),
            number("fair share", 0.599, 0.539, 0.659, |b| {
                b.overall(FIG3, "fair")
            }),
            holds("MAPPER > Linux > hill climbing > fair", |b| order(b, FIG3)),
        ],
    ),
    validate(
        "MP-7",
        "MAPPER §4.5.1",
        &[number(
            "gain over Linux, Figures 2 and 3",
            0.0663,
            0.02,
            0.15,
            |b| Some(mean_ratio(b, BOTH)? - 1.0),
        )],
    ),
    validate(
        "MP-8",
        "MAPPER §4.5.1",
        &[
            number("gain of SVD and freqmine", 0.39, 0.15, 0.55, |b| {
                b.mix_gain(FIG2, "80 SVD, 80 freqmine", MAPPER, "linux")
            }),
            number("gain of SVD in it", 0.6, 0.2, 0.8, |b| {
                let of = |p| b.app(FIG2, "80 SVD, 80 freqmine", p, "SVD");
                Some(of(MAPPER)? / of("linux")? - 1.0)
            }),
        ],
    ),
    validate(
        "MP-9",
        "MAPPER §4.5.1",
        &[
            number("gain of ALS and canneal", -0.11, -0.2, 0.05, |b| {
                b.mix_gain(FIG2, "80 ALS, 80 canneal", MAPPER, "linux")
            }),
            number("gain of ALS in it", -0.18, -0.3, 0.05, |b| {
                let of = |p| b.app(FIG2, "80 ALS, 80 canneal", p, "ALS");
                Some(of(MAPPER)? / of("linux")? - 1.0)
            }),
        ],
    ),
    validate(
        "MP-10",
        "MAPPER §4.5.1",
        &[
            number("promises broken, MAPPER", 1.0, 0.0, 3.0, |b| {
                violations(b, BOTH, MAPPER)
            }),
            number("promises broken, Linux", 4.0, 2.0, 8.0, |b| {
                violations(b, BOTH, "linux")
            }),
        ],
    ),
    validate(
        "MP-11",
        "MAPPER §4.5.1",
        &[
            number("slowest program, MAPPER", 0.63, 0.554, 0.706, |b| {
                b.least(BOTH, MAPPER)
            }),
            number("slowest program, fair share", 0.529, 0.466, 0.592, |b| {
                b.least(BOTH, "fair")
            }),
            number("slowest program, hill climbing", 0.546, 0.48, 0.612, |b| {
                b.least(BOTH, "hill_climb")
            }),
            number("slowest program, Linux", 0.612, 0.539, 0.685, |b| {
                b.least(BOTH, "linux")
            }),
            holds("MAPPER > Linux > hill climbing > fair", |b| {
                descending(&[MAPPER, "linux", "hill_climb", "fair"].map(|p| b.least(BOTH, p)))
            }),
        ],
    ),
    validate(
        "MP-12",
        "MAPPER Table 4",
        &[
            number(
                "CPU sets written per second, 2 programs",
                0.77,
                0.385,
                1.54,
                |b| per_second(b, MAPPER, 2, Changes::Written),
            ),
            number(
                "contexts moved per second, 2 programs",
                8.3,
                4.15,
                16.6,
                |b| per_second(b, MAPPER, 2, Changes::Moved),
            ),
            number(
                "CPU sets written per second, 4 programs",
                1.68,
                0.84,
                3.4,
                |b| per_second(b, MAPPER, 4, Changes::Written),
            ),
            number(
                "contexts moved per second, 4 programs",
                12.4,
                6.2,
                24.8,
                |b| per_second(b, MAPPER, 4, Changes::Moved),
            ),
            number(
                "CPU sets written per second, 3 programs",
                1.36,
                0.68,
                2.72,
                |b| per_second(b, MAPPER, 3, Changes::Written),
            ),
            number(
                "contexts moved per second, 3 programs",
                10.8,
                5.4,
                21.6,
                |b| per_second(b, MAPPER, 3, Changes::Moved),
            ),
            number(
                "CPU sets written per second, 2 programs, hill climbing",
                0.62,
                0.31,
                1.24,
                |b| per_second(b, "hill_climb", 2, Changes::Written),
            ),
            number(
                "contexts moved per second, 2 programs, hill climbing",
                7.4,
                3.7,
                14.8,
                |b| per_second(b, "hill_climb", 2, Changes::Moved),
            ),
            number(
                "CPU sets written per second, 3 programs, hill climbing",
                1.43,
                0.715,
                2.86,
                |b| per_second(b, "hill_climb", 3, Changes::Written),
            ),
            number(
                "contexts moved per second, 3 programs, hill climbing",
                15.4,
                7.7,
                30.8,
                |b| per_second(b, "hill_climb", 3, Changes::Moved),
            ),
            number(
                "CPU sets written per second, 4 programs, hill climbing",
                1.8,
                0.9,
                3.6,
                |b| per_second(b, "hill_climb", 4, Changes::Written),
            ),
            number(
                "contexts moved per second, 4 programs, hill climbing",
                18.6,
                9.3,
                37.2,
                |b| per_second(b, "hill_climb", 4, Changes::Moved),
            ),
            number(
                "CPU sets written per second, 2 programs, fair share",
                0.083,
                0.0415,
                0.166,
                |b| per_second(b, "fair", 2, Changes::Written),
            ),
            number(
                "CPU sets written per second, 3 programs, fair share",
                0.52,
                0.26,
                1.04,
                |b| per_second(b, "fair", 3, Changes::Written),
            ),
            number(
                "CPU sets written per second, 4 programs, fair share",
                0.36,
                0.18,
                0.72,
                |b| per_second(b, "fair", 4, Changes::Written),
            ),
        ],
    ),
    validate(
        "MP-13",
        "MAPPER Fig. 4",
        &[number("MAPPER over Linux", 1.442, 1.25, 1.65, |b| {
            Some(1.0 + b.gain(FIG4, MAPPER, "linux")?)
        })],
    ),
    calibrate(
        "MP-14",
        "MAPPER Fig. 4",
        &[number(
            "moldyn with mandel on Linux, of fair",
            0.127,
            0.097,
            0.157,
            |b| b.app(FIG4, "moldyn, mandel", "linux", "moldyn"),
        )],
    ),
    validate(
        "MP-15",
        "MAPPER Fig. 4",
        &[number(
            "moldyn and multigrid over Linux",
            3.33,
            2.3,
            4.5,
            |b| Some(1.0 + b.mix_gain(FIG4, "moldyn, multigrid", MAPPER, "linux")?),
        )],
    ),
    validate(
        "MP-16",
        "MAPPER Fig. 4",
        &[
            number("conjgrad with mandel, MAPPER", 0.836, 0.716, 0.956, |b| {
                b.app(FIG4, "conjgrad, mandel", MAPPER, "conjgrad")
            }),
            number("conjgrad with 3D FFT, MAPPER", 0.788, 0.668, 0.908, |b| {
                b.app(FIG4, "conjgrad, fft3d", MAPPER, "conjgrad")
            }),
            number("conjgrad with mandel, Linux", 0.458, 0.258, 0.658, |b| {
                b.app(FIG4, "conjgrad, mandel", "linux", "conjgrad")
            }),
            number("conjgrad with 3D FFT, Linux", 0.818, 0.618, 1.018, |b| {
                b.app(FIG4, "conjgrad, fft3d", "linux", "conjgrad")
            }),
        ],
    ),
    validate(
        "MP-17",
        "MAPPER Fig. 4",
        &[
            number("worst mix, MAPPER", 0.93, 0.87, 0.99, |b| {
                b.worst(FIG4, MAPPER)
            }),
            number("worst mix, Linux", 0.3, 0.2, 0.4, |b| {
                b.worst(FIG4, "linux")
            }),
            number("promises broken, MAPPER", 2.0, 0.0, 5.0, |b| {
                violations(b, &[FIG4], MAPPER)
            }),
            number("promises broken, Linux", 13.0, 8.0, 20.0, |b| {
                violations(b, &[FIG4], "linux")
            }),
        ],
    ),
    validate(
        "MP-18",
        "MAPPER Fig. 5",
        &[
            number("MAPPER over Linux", 1.2, 1.08, 1.32, |b| {
                Some(1.0 + b.gain(FIG5, MAPPER, "linux")?)
            }),
            number("MAPPER of fair", 1.11, 1.02, 1.2, |b| {
                b.overall(FIG5, MAPPER)
            }),
            number("Linux of fair", 0.925, 0.85, 1.0, |b| {
                b.overall(FIG5, "linux")
            }),
        ],
    ),
    validate(
        "MP-19",
        "MAPPER Fig. 5",
        &[
            number("slowest program, MAPPER", 1.028, 0.905, 1.151, |b| {
                b.least(&[FIG5], MAPPER)
            }),
            number("slowest program, Linux", 0.822, 0.723, 0.921, |b| {
                b.least(&[FIG5], "linux")
            }),
            number("fastest program, MAPPER", 1.201, 1.057, 1.345, |b| {
                b.most(&[FIG5], MAPPER)
            }),
            number("fastest program, Linux", 1.043, 0.918, 1.168, |b| {
                b.most(&[FIG5], "linux")
            }),
        ],
    ),
    validate(
        "MP-20",
        "MAPPER Fig. 5",
        &[
            number("ferret and moldyn over Linux", 1.75, 1.4875, 2.0125, |b| {
                Some(1.0 + b.mix_gain(FIG5, "322 ferret, moldyn", MAPPER, "linux")?)
            }),
            number("gain of SGD mixes", 0.31, 0.2015, 0.4185, |b| {
                b.gain_with(FIG5, "SGD", MAPPER, "linux")
            }),
            number("gain of SVD mixes", 0.34, 0.221, 0.459, |b| {
                b.gain_with(FIG5, "SVD", MAPPER, "linux")
            }),
            number("gain of ferret mixes", 0.21, 0.1365, 0.2835, |b| {
                b.gain_with(FIG5, "ferret", MAPPER, "linux")
            }),
            number("ferret itself against Linux", 0.86, 0.811, 0.909, |b| {
                b.app_ratio(FIG5, "ferret", MAPPER, "linux")
            }),
        ],
    ),
    validate(
        "MP-21",
        "MAPPER Fig. 5",
        &[
            number("worst mix, MAPPER", 0.93, 0.78, 1.08, |b| {
                b.worst(FIG5, MAPPER)
            }),
            number("worst mix, Linux", 0.53, 0.38, 0.68, |b| {
                b.worst(FIG5, "linux")
            }),
            number("worst program, MAPPER", 0.88, 0.73, 1.03, |b| {
                b.worst_app(FIG5, MAPPER)
            }),
            number("worst program, Linux", 0.24, 0.09, 0.39, |b| {
                b.worst_app(FIG5, "linux")
            }),
            number("promises broken, MAPPER", 0.0, 0.0, 2.0, |b| {
                violations(b, &[FIG5], MAPPER)
            }),
            number("promises broken, Linux", 4.0, 2.0, 8.0, |b| {
                violations(b, &[FIG5], "linux")
            }),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::super::super::examples::{at_speed, ran, suite, table, table_of};
    use super::super::super::run_spec::RunResult;
    use super::super::super::tables::SuiteTable;
    use super::super::book::tests::{book, near};
    use super::*;

    fn of(name: &str, mixes: &[&str], run: &dyn Fn(&str, &str) -> RunResult) -> SuiteTable {
        let policies = [MAPPER, "linux", "hill_climb", "fair"];
        table(&suite(name, mixes, &policies), run)
    }

    #[test]
    fn the_published_order_holds_only_in_full() {
        let order_of = |speeds: [f64; 3]| {
            let policies = [MAPPER, "linux", "hill_climb", "fair"];
            // The fair share has a speed of 1 in everything that is made up.
            let table = table_of(&suite(FIG2, &["SGD, ALS"], &policies), &|_, policy| {
                speeds[policies.iter().position(|name| *name == policy).unwrap()]
            });
            order(&book(&[table]), FIG2)
        };
        assert_eq!(order_of([1.3, 1.2, 1.1]), Some(1.0));
        assert_eq!(order_of([1.2, 1.3, 1.1]), Some(0.0));
        assert_eq!(order_of([1.3, 1.2, 0.9]), Some(0.0));
    }

    #[test]
    fn promises_of_several_figures_are_counted_together_and_a_missing_figure_hides_them() {
        let figure = |name| {
            of(name, &["SGD, ALS"], &|_, policy| match policy {
                MAPPER => ran(&[("SGD", 0.9), ("ALS", 0.84)]),
                _ => ran(&[("SGD", 0.2), ("ALS", 0.3)]),
            })
        };
        let tables = [figure(FIG2), figure(FIG3)];
        near(violations(&book(&tables), BOTH, MAPPER), 2.0);
        near(violations(&book(&tables), BOTH, "linux"), 4.0);
        assert_eq!(violations(&book(&tables[..1]), BOTH, MAPPER), None);
    }

    #[test]
    fn gains_of_figures_are_taken_mix_by_mix() {
        let figure = |name, own| {
            of(name, &["SGD, ALS"], &move |mix, policy| {
                at_speed(mix, if policy == MAPPER { own } else { 0.5 })
            })
        };
        let tables = [figure(FIG2, 0.5), figure(FIG3, 2.0)];
        let b = book(&tables);
        assert_eq!(ratios(&b, BOTH).unwrap(), [1.0, 4.0]);
        near(mean_ratio(&b, BOTH), 2.0);
    }

    #[test]
    fn the_best_count_of_cpus_is_what_the_search_gives_a_program_alone() {
        let alone = suite("mapper-alone", &["SGD", "ALS"], &["oracle", "linux"]);
        let tables = [table(&alone, &|mix, policy| {
            let mut run = at_speed(mix, 1.0);
            run.apps[0].mean_cpus = if policy == "oracle" { 20.0 } else { 80.0 };
            run
        })];
        near(best_count(&book(&tables), "ALS"), 20.0);
        assert_eq!(best_count(&book(&tables), "SVD"), None);
    }

    #[test]
    fn changes_per_second_are_of_mixes_of_so_many_programs_two_in_figure_2_more_in_figure_3() {
        let changing = |name: &str, mixes: &[&str]| {
            of(name, mixes, &|mix, _| {
                let mut run = at_speed(mix, 1.0);
                run.rewrites_per_s = run.apps.len() as f64;
                run.moves_per_s = 10.0 * run.apps.len() as f64;
                run
            })
        };
        let tables = [
            changing(FIG2, &["SGD, ALS"]),
            changing(FIG3, &["SGD, ALS, SVD", "SGD, ALS, SVD, RBM"]),
        ];
        let b = book(&tables);
        for programs in [2, 3, 4] {
            near(
                per_second(&b, MAPPER, programs, Changes::Written),
                programs as f64,
            );
            near(
                per_second(&b, MAPPER, programs, Changes::Moved),
                10.0 * programs as f64,
            );
        }
        assert_eq!(per_second(&b, MAPPER, 5, Changes::Moved), None);
    }
}
