//! SAM-MPH's published numbers [SAM-MPH §3, §5].

use super::book::{Book, descending, yes};
use super::{Target, calibrate, holds, number, validate};

/// How its suites begin.
const PAPER: &str = "sam-";
const FIG4: &str = "sam-fig4";
const FIG5: &str = "sam-fig5";
const FIG6: &str = "sam-fig6";

/// SAM as published, task by task; protocols before the fourth have only `sam`, by programs.
fn sam(b: &Book<'_>, suite: &str) -> &'static str {
    match b.overall(suite, "sam-per-task") {
        Some(_) => "sam-per-task",
        None => "sam",
    }
}

/// Gain over the first 11 mixes of Figure 5, in which all programs share data.
fn sharing_mixes(b: &Book<'_>, policy: &str, over: &str) -> Option<f64> {
    let (own, other) = (b.cells(&[FIG5], policy)?, b.cells(&[FIG5], over)?);
    let ratios = own
        .iter()
        .zip(&other)
        .take(11)
        .map(|(a, o)| a.1.value / o.1.value);
    Some(super::super::tables::geometric(ratios)? - 1.0)
}

fn extreme(b: &Book<'_>, pick: fn(f64, f64) -> f64) -> Option<f64> {
    let (own, linux) = (b.cells(&[FIG6], "sam_mph")?, b.cells(&[FIG6], "linux")?);
    let gains = own
        .iter()
        .zip(&linux)
        .map(|(a, l)| a.1.value / l.1.value - 1.0);
    gains.reduce(pick)
}

/// What another threshold does to a mix.
fn sensitivity(b: &Book<'_>, suite: &str, usual: &str, mix: &str) -> Option<f64> {
    let of = |suite| Some(b.cell(suite, mix, "sam_mph")?.value);
    Some(of(suite)? / of(usual)? - 1.0)
}

pub(super) const TARGETS: &[Target] = &[
    calibrate(
        "SM-1",
        "SAM-MPH Fig. 1",
        &[
            number(
                "pair with 436 stalls per event, one socket",
                1.5,
                1.35,
                1.65,
                |b| b.of_paper(PAPER, b.model.pair_gain(436.0)?),
            ),
            number(
                "pair with 677 stalls per event, one socket",
                2.4,
                2.16,
                2.64,
                |b| b.of_paper(PAPER, b.model.pair_gain(677.0)?),
            ),
        ],
    ),
    validate(
        "SM-2",
        "SAM-MPH Fig. 1",
        &[number(
            "stalls per event from which one core is better",
            550.0,
            495.0,
            605.0,
            |b| b.of_paper(PAPER, b.model.same_core_from()?),
        )],
    ),
    validate(
        "SM-4",
        "SAM-MPH §5.2",
        &[
            number("one program on 80 CPUs, over Linux", 0.57, 0.35, 0.8, |b| {
                b.gain(FIG4, "sam_mph", "linux")
            }),
            holds("at least the best fixed mapping, on average", |b| {
                yes(b.overall(FIG4, "sam_mph")? >= 1.0)
            }),
        ],
    ),
    validate(
        "SM-5",
        "SAM-MPH Fig. 5",
        &[
            number("over Linux", 0.27, 0.17, 0.37, |b| {
                b.gain(FIG5, "sam_mph", "linux")
            }),
            number("over SAM", 0.09, 0.03, 0.15, |b| {
                b.gain(FIG5, "sam_mph", sam(b, FIG5))
            }),
            number("of the best mapping alone", 0.976, 0.916, 1.036, |b| {
                b.overall(FIG5, "sam_mph")
            }),
            number("worst mix", 0.93, 0.83, 1.03, |b| b.worst(FIG5, "sam_mph")),
        ],
    ),
    validate(
        "SM-6",
        "SAM-MPH §5.3",
        &[
            number("mixes 1-11, SAM-M over Linux", 0.21, 0.11, 0.31, |b| {
                sharing_mixes(b, "sam_m", "linux")
            }),
            number("mixes 1-11, SAM-M over SAM", 0.05, -0.05, 0.15, |b| {
                sharing_mixes(b, "sam_m", sam(b, FIG5))
            }),
            number("mixes 1-11, SAM-MP over Linux", 0.25, 0.15, 0.35, |b| {
                sharing_mixes(b, "sam_mp", "linux")
            }),
            number("mixes 1-11, SAM-MP over SAM", 0.08, -0.02, 0.18, |b| {
                sharing_mixes(b, "sam_mp", sam(b, FIG5))
            }),
            number("mixes 1-11, SAM-MPH over Linux", 0.3, 0.2, 0.4, |b| {
                sharing_mixes(b, "sam_mph", "linux")
            }),
            number("mixes 1-11, SAM-MPH over SAM", 0.13, 0.03, 0.23, |b| {
                sharing_mixes(b, "sam_mph", sam(b, FIG5))
            }),
            number("SAM-MPH > SAM-MP > SAM-M > SAM", 1.0, 1.0, 1.0, |b| {
                descending(
                    &["sam_mph", "sam_mp", "sam_m", sam(b, FIG5)]
                        .map(|p| sharing_mixes(b, p, "linux")),
                )
            }),
        ],
    ),
    validate(
        "SM-7",
        "SAM-MPH §5.3",
        &[
            number(
                "40 CPUs, slowest program, SAM-MPH",
                0.953,
                0.873,
                1.033,
                |b| b.least(&[FIG5], "sam_mph"),
            ),
            number("40 CPUs, slowest program, SAM", 0.86, 0.78, 0.94, |b| {
                b.least(&[FIG5], sam(b, FIG5))
            }),
            number("40 CPUs, slowest program, Linux", 0.71, 0.63, 0.79, |b| {
                b.least(&[FIG5], "linux")
            }),
            number(
                "40 CPUs, fastest program, SAM-MPH",
                1.0003,
                0.92,
                1.08,
                |b| b.most(&[FIG5], "sam_mph"),
            ),
            number("40 CPUs, fastest program, SAM", 0.932, 0.852, 1.012, |b| {
                b.most(&[FIG5], sam(b, FIG5))
            }),
            number(
                "40 CPUs, fastest program, Linux",
                0.839,
                0.759,
                0.919,
                |b| b.most(&[FIG5], "linux"),
            ),
        ],
    ),
    validate(
        "SM-8",
        "SAM-MPH Fig. 6",
        &[
            number("80 CPUs, over Linux", 0.43, 0.31, 0.55, |b| {
                b.gain(FIG6, "sam_mph", "linux")
            }),
            number("80 CPUs, over SAM", 0.21, 0.09, 0.33, |b| {
                b.gain(FIG6, "sam_mph", sam(b, FIG6))
            }),
            number("80 CPUs, least gain over Linux", 0.29, 0.17, 0.41, |b| {
                extreme(b, f64::min)
            }),
            number("80 CPUs, greatest gain over Linux", 0.61, 0.49, 0.73, |b| {
                extreme(b, f64::max)
            }),
        ],
    ),
    validate(
        "SM-9",
        "SAM-MPH §5.3",
        &[
            number(
                "80 CPUs, slowest program, SAM-MPH",
                0.889,
                0.789,
                0.989,
                |b| b.least(&[FIG6], "sam_mph"),
            ),
            number("80 CPUs, slowest program, SAM", 0.734, 0.634, 0.834, |b| {
                b.least(&[FIG6], sam(b, FIG6))
            }),
            number(
                "80 CPUs, slowest program, Linux",
                0.571,
                0.471,
                0.671,
                |b| b.least(&[FIG6], "linux"),
            ),
            number(
                "80 CPUs, fastest program, SAM-MPH",
                0.989,
                0.889,
                1.089,
                |b| b.most(&[FIG6], "sam_mph"),
            ),
            number("80 CPUs, fastest program, SAM", 0.822, 0.722, 0.922, |b| {
                b.most(&[FIG6], sam(b, FIG6))
            }),
            number(
                "80 CPUs, fastest program, Linux",
                0.795,
                0.695,
                0.895,
                |b| b.most(&[FIG6], "linux"),
            ),
        ],
    ),
    validate(
        "SM-10",
        "SAM-MPH §5.4",
        &[
            number("IPC threshold 1.08: PMF", -0.07, -0.14, -0.035, |b| {
                sensitivity(b, "sam-sens-ipc-high", FIG4, "20 PMF")
            }),
            number("IPC threshold 0.63: SGD", -0.18, -0.36, -0.09, |b| {
                sensitivity(b, "sam-sens-ipc-low", FIG4, "20 SGD")
            }),
            number(
                "coherence threshold +30 %: mix 8",
                -0.15,
                -0.3,
                -0.075,
                |b| sensitivity(b, "sam-sens-sharing-high", FIG5, "12 ALS, 14 SGD, 14 RBM"),
            ),
            number("coherence threshold -50 %: mix 1", -0.3, -0.6, -0.15, |b| {
                sensitivity(b, "sam-sens-sharing-low", FIG5, "12 ALS, 14 SGD, 14 LSGD")
            }),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::super::super::examples::{suite, table_of};
    use super::super::book::tests::{book, near};
    use super::*;

    #[test]
    fn sam_is_that_of_single_tasks_where_the_protocol_has_it() {
        let with = suite(FIG5, &["SGD"], &["sam", "sam-per-task"]);
        let without = suite(FIG5, &["SGD"], &["sam"]);
        let named = |suite| {
            let tables = [table_of(suite, &|_, _| 1.0)];
            sam(&book(&tables), FIG5)
        };
        assert_eq!(named(&with), "sam-per-task");
        assert_eq!(named(&without), "sam");
    }

    #[test]
    fn of_figure_5_the_first_eleven_mixes_are_those_in_which_all_share() {
        let names: Vec<String> = (0..13).map(|at| format!("{} SGD", at + 1)).collect();
        let mixes: Vec<&str> = names.iter().map(String::as_str).collect();
        let suite = suite(FIG5, &mixes, &["sam_mph", "linux"]);
        let tables = [table_of(&suite, &|mix, policy| {
            let late = mix == "12 SGD" || mix == "13 SGD";
            match policy {
                "linux" => 0.5,
                _ if late => 5.0,
                _ => 0.6,
            }
        })];
        near(sharing_mixes(&book(&tables), "sam_mph", "linux"), 0.2);
    }

    #[test]
    fn the_least_and_the_greatest_gain_are_those_of_single_mixes() {
        let suite = suite(FIG6, &["SGD", "ALS", "SVD"], &["sam_mph", "linux"]);
        let tables = [table_of(&suite, &|mix, policy| match (mix, policy) {
            (_, "linux") => 0.5,
            ("SGD", _) => 0.6,
            ("ALS", _) => 0.8,
            _ => 0.7,
        })];
        near(extreme(&book(&tables), f64::min), 0.2);
        near(extreme(&book(&tables), f64::max), 0.6);
    }

    #[test]
    fn what_a_threshold_does_is_told_of_the_same_mix_with_the_usual_one() {
        let of = |name, speed| {
            let suite = suite(name, &["20 SGD"], &["sam_mph"]);
            table_of(&suite, &move |_, _| speed)
        };
        let tables = [of("sam-sens-ipc-low", 0.72), of(FIG4, 0.9)];
        let b = book(&tables);
        near(sensitivity(&b, "sam-sens-ipc-low", FIG4, "20 SGD"), -0.2);
        assert_eq!(sensitivity(&b, "sam-sens-ipc-low", FIG4, "20 PMF"), None);
        assert_eq!(sensitivity(&b, "sam-sens-ipc-low", FIG5, "20 SGD"), None);
    }
}
