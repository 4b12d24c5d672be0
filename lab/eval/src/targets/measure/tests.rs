use super::super::super::examples::{changed_tables_of, tables_of};
use super::super::book::tests::book;
use super::super::published::targets;
use super::*;
use mapper_sim::nucore::BandwidthError;

const NONE: f64 = f64::NAN;

/// A measure as it is written, or a published number by its target's id and its own name.
fn measure(text: &str) -> Measure {
    #[derive(Deserialize)]
    struct Entry {
        model: Measure,
    }
    let Some((id, what)) = text.split_once(": ") else {
        let entry: Entry = toml::from_str(&format!("model = {{ {text} }}")).expect(text);
        return entry.model;
    };
    let target = targets().unwrap().into_iter().find(|of| of.id == id);
    let numbers = target.expect(id).numbers;
    let mut named = numbers.into_iter().filter(|of| of.what == what);
    named.next().expect(what).model
}

/// What measures come to; `NONE`, where there is no value.
fn values(tables: &[SuiteTable], expected: &[(&str, f64)]) {
    for (text, expected) in expected {
        let value = measure(text).of(&book(tables)).unwrap_or(NONE);
        let same = value.is_nan() && expected.is_nan();
        assert!(
            same || (value - expected).abs() < 1e-9,
            "{text}: {value}, not {expected}"
        );
    }
}

fn two_mixes() -> Vec<SuiteTable> {
    tables_of(&[
        "s | 20 SGD, 20 ALS | own 0.9 0.4 | other 0.5",
        "s | SVD | own 0.8 | other 1",
    ])
}

#[test]
fn a_gain_is_of_suites_of_mixes_or_of_programs_and_none_without_both_policies() {
    for (rest, expected) in [
        // 0.6 and 0.8 against 0.5 and 1.
        ("over = 'other'", (0.48_f64 / 0.5).sqrt() - 1.0),
        (
            "over = 'other', mixes = ['20 SGD, 20 ALS'], by = 'only'",
            0.2,
        ),
        ("over = 'other', mixes = ['ALS'], by = 'only'", NONE),
        ("over = 'other', by = 'only'", NONE),
        ("over_each = 'other', apps = ['SVD']", -0.2),
        ("over_each = 'other', apps = ['ALS']", 0.2),
        ("over_each = 'other', apps = ['ALS'], of = 'speed'", -0.2),
        ("over_each = 'other', apps = ['gauss'], of = 'speed'", NONE),
        (
            "over = 'other', apps = ['SGD'], of = 'speed', by = 'only'",
            0.8,
        ),
        ("over = 'none'", NONE),
        ("over_each = 'none'", NONE),
    ] {
        let gain = format!("gain = {{ suites = ['s'], policy = 'own', {rest} }}");
        let another = gain.replace("'s'", "'another'");
        values(&two_mixes(), &[(&gain, expected), (&another, NONE)]);
    }
}

#[test]
fn slowest_fastest_and_worst_are_of_programs_or_of_mixes_and_promises_of_programs() {
    for (rest, expected) in [
        ("of = 'slowest'", (0.4_f64 * 0.8).sqrt()),
        ("of = 'fastest'", (0.9_f64 * 0.8).sqrt()),
        ("by = 'least'", 0.6),
        ("of = 'slowest', by = 'least'", 0.4),
        // At 0.9, 0.4 and 0.8 of the fair share; at a promise is not below it.
        ("of = 'share_of_fair', below = 0.85, by = 'count'", 2.0),
        ("of = 'share_of_fair', below = 0.4, by = 'count'", 0.0),
        (
            "of = 'share_of_fair', below = 0.85, by = 'share'",
            2.0 / 3.0,
        ),
        ("of = 'share_of_fair', below = 0.85", (0.4_f64 * 0.8).sqrt()),
    ] {
        let one = format!("runs = {{ suites = ['s'], policy = 'own', {rest} }}");
        let two = one.replace("['s'", "['s', 'another'");
        values(&two_mixes(), &[(&one, expected), (&two, NONE)]);
    }
}

#[test]
fn an_order_needs_every_step_and_every_value() {
    let least = "{ runs = { suites = ['s'], policy = 'own', of = 'slowest' } }";
    let most = least.replace("slowest", "fastest");
    let none = least.replace("own", "none");
    for (order, held) in [
        ([&*most, least].as_slice(), 1.0),
        (&[&most, least, least], 0.0),
        (&[&most, &none, least], NONE),
    ] {
        let order = format!("descending = [{}]", order.join(", "));
        values(&two_mixes(), &[(&order, held)]);
    }
    for (speeds, held) in [
        ("mapper-paper 1.3 | linux 1.2 | hill_climb 1.1", 1.0),
        ("mapper-paper 1.2 | linux 1.3 | hill_climb 1.1", 0.0),
        ("mapper-paper 1.3 | linux 1.2 | hill_climb 0.9", 0.0),
    ] {
        // The fair share has a speed of 1 in everything that is made up.
        let tables = tables_of(&[&format!("mapper-fig2 | SGD, ALS | {speeds} | fair 1")]);
        values(
            &tables,
            &[("MP-5: MAPPER > Linux > hill climbing > fair", held)],
        );
    }
}

#[test]
fn numbers_of_several_suites_are_taken_together_and_a_missing_one_hides_them() {
    let of_both = |rest: &str| {
        let suites = "suites = ['mapper-fig2', 'mapper-fig3'], policy = 'mapper-paper'";
        format!("runs = {{ {suites}, over_each = 'linux', {rest} }}")
    };
    let (greatest, least) = (of_both("by = 'greatest'"), of_both("by = 'least'"));
    let times = "runs = { suites = ['nupoco-amd', 'nupoco-intel'], mixes = ['BT, FT'], policy = 'nupoco', \
                 over_each = 'batch', of = 'elapsed_s' }";
    for (rows, expected) in [
        (
            [
                "mapper-fig2 | SGD, ALS | mapper-paper 0.9 0.84 | linux 0.2 0.3",
                "mapper-fig3 | SGD, ALS | mapper-paper 0.9 0.84 | linux 0.2 0.3",
            ],
            &[
                ("MP-10: promises broken, MAPPER", 2.0),
                ("MP-10: promises broken, Linux", 4.0),
            ][..],
        ),
        (
            [
                "mapper-fig2 | SGD, ALS | mapper-paper 0.5 | linux 0.5",
                "mapper-fig3 | SGD, ALS | mapper-paper 2 | linux 0.5",
            ],
            &[
                ("MP-7: gain over Linux, Figures 2 and 3", 1.0),
                (&greatest, 4.0),
                (&least, 1.0),
            ],
        ),
        (
            [
                "nupoco-amd | BT, FT | nupoco 90s | batch 100s",
                "nupoco-intel | BT, FT | nupoco 90s | batch 100s",
            ],
            &[(times, 0.9)],
        ),
        (
            [
                "sam-sens-ipc-low | 20 SGD | sam_mph 0.72",
                "sam-fig4 | 20 SGD | sam_mph 0.9",
            ],
            &[("SM-10: IPC threshold 0.63: SGD", -0.2)],
        ),
        // Not of the same mix.
        (
            [
                "sam-sens-ipc-low | 20 SGD | sam_mph 0.72",
                "sam-fig4 | 20 PMF | sam_mph 0.9",
            ],
            &[("SM-10: IPC threshold 0.63: SGD", NONE)],
        ),
    ] {
        let tables = tables_of(&rows);
        values(&tables, expected);
        for (text, _) in expected {
            values(&tables[..1], &[(text, NONE)]);
        }
    }
}

#[test]
fn the_best_count_of_cpus_is_what_the_search_gives_a_program_alone() {
    let rows = [
        "mapper-alone | SGD | oracle 1 | linux 1",
        "mapper-alone | ALS | oracle 1 | linux 1",
    ];
    let tables = changed_tables_of(&rows, &|_, policy, run| {
        run.apps[0].mean_cpus = if policy == "oracle" { 20.0 } else { 80.0 };
    });
    values(
        &tables,
        &[
            ("MP-1: ALS alone, best count against 80", 0.0),
            ("MP-1: ALS alone, best count", 20.0),
            ("MP-1: SVD alone, best count", NONE),
        ],
    );
}

#[test]
fn changes_per_second_are_of_mixes_of_so_many_programs_two_in_figure_2_more_in_figure_3() {
    let rows = [
        "mapper-fig2 | SGD, ALS | mapper-paper 1",
        "mapper-fig3 | SGD, ALS, SVD | mapper-paper 1",
        "mapper-fig3 | SGD, ALS, SVD, RBM | mapper-paper 1",
    ];
    let tables = changed_tables_of(&rows, &|_, _, run| {
        run.rewrites_per_s = run.apps.len() as f64;
        run.moves_per_s = 10.0 * run.rewrites_per_s;
    });
    for programs in [2, 3, 4] {
        let written = format!("MP-12: CPU sets written per second, {programs} programs");
        let moved = format!("MP-12: contexts moved per second, {programs} programs");
        let count = f64::from(programs);
        values(&tables, &[(&written, count), (&moved, 10.0 * count)]);
    }
    let five = "runs = { suites = ['mapper-fig3'], programs = 5, policy = 'mapper-paper', \
                of = 'contexts_moved', by = 'mean' }";
    values(&tables, &[(five, NONE)]);
}

/// Figures with memcached at `service` under MAPPER and at 0.8 under Linux, BSGD everywhere at 0.5.
fn with_service(figures: std::ops::RangeInclusive<u32>, service: f64) -> Vec<SuiteTable> {
    let speeds = format!("mapper-paper {service} 0.5 | linux 0.8 0.5");
    let rows = figures.map(|at| format!("mapper-fig{at} | memcached, BSGD | {speeds}"));
    let rows: Vec<String> = rows.collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    changed_tables_of(&rows, &|_, _, run| {
        run.apps[0].p99_s = Some(0.01 / run.apps[0].speed);
    })
}

#[test]
fn only_services_count_where_services_are_meant_with_their_latency_that_is_lower_as_they_are_faster()
 {
    values(
        &with_service(6..=6, 1.0),
        &[
            ("MP-24: memcached with BSGD, MAPPER, p99 in ms", 10.0),
            ("MP-23: memcached with BSGD on Linux, p99 in ms", 12.5),
            ("MP-24: memcached's p99 below Linux's", 0.2),
        ],
    );
    let [mapper, linux] =
        ["MAPPER", "Linux"].map(|of| format!("MP-30: share of promises broken, {of}"));
    let figures = with_service(2..=6, 0.9);
    values(
        &figures,
        &[
            ("MP-25: services of fair, MAPPER", 0.9),
            ("MP-26: services below their promise, MAPPER", 0.0),
            ("MP-26: services below their promise, Linux", 1.0),
            // BSGD in each of the five.
            (&mapper, 0.5),
            (&linux, 1.0),
        ],
    );
    values(&figures[1..], &[(&mapper, NONE)]);
}

#[test]
fn the_first_mixes_named_ones_or_single_ones_count_where_they_are_meant() {
    let fig5: Vec<String> = (1..=13)
        .map(|at| {
            format!(
                "sam-fig5 | {at} SGD | sam_mph {} | linux 0.5",
                if at > 11 { 5.0 } else { 0.6 }
            )
        })
        .collect();
    let fig5: Vec<&str> = fig5.iter().map(String::as_str).collect();
    values(
        &tables_of(&fig5),
        &[("SM-6: mixes 1-11, SAM-MPH over Linux", 0.2)],
    );
    let fig6 = tables_of(&[
        "sam-fig6 | SGD | sam_mph 0.6 | linux 0.5",
        "sam-fig6 | ALS | sam_mph 0.8 | linux 0.5",
        "sam-fig6 | SVD | sam_mph 0.7 | linux 0.5",
    ]);
    values(
        &fig6,
        &[
            ("SM-8: 80 CPUs, least gain over Linux", 0.2),
            ("SM-8: 80 CPUs, greatest gain over Linux", 0.6),
        ],
    );
    let fig7 = tables_of(&[
        "mapper-fig7 | BT, KM | mapper-paper 0.6 | nupoco 0.8",
        "mapper-fig7 | BT, FT | mapper-paper 0.6 | nupoco 0.8",
    ]);
    let over = |mixes: &str| {
        let rest = "policy = 'mapper-paper', over_each = 'nupoco'";
        format!("runs = {{ suites = ['mapper-fig7'], mixes = [{mixes}], {rest} }}")
    };
    values(
        &fig7,
        &[
            (&over("'BT, KM', 'BT, FT'"), 0.75),
            (&over("'BT, KM', 'EP, KM'"), NONE),
            ("MP-32: less than NuPoCo for BT and KM", 1.0),
        ],
    );
}

#[test]
fn times_are_of_those_under_another_policy_and_speedups_are_summed_before() {
    let amd = tables_of(&[
        "nupoco-amd | BT, FT | nupoco 80s | linux 100s",
        "nupoco-amd | BT, SP | nupoco 125s | linux 100s",
    ]);
    let of = |rest| {
        format!("runs = {{ suites = ['nupoco-amd'], policy = 'nupoco', of = 'elapsed_s', {rest} }}")
    };
    values(
        &amd,
        &[
            (&of("mixes = ['BT, FT'], over = 'linux', by = 'only'"), 0.8),
            (&of("mixes = ['BT, KM'], over = 'linux', by = 'only'"), NONE),
            (&of("over_each = 'linux', by = 'greatest'"), 1.25),
            ("NU-5: total time of Linux's, AMD-64", 1.0),
            ("NU-9: shorter turnaround, AMD", 0.0),
        ],
    );
    // As good as tied is best, too.
    for (equal, held) in [("85", 1.0), ("90.5", 1.0), ("92", 0.0)] {
        let others = "nupoco_greedy 100s | scalability-plain 100s | batch 100s | linux 100s";
        let tables = tables_of(&[&format!(
            "nupoco-intel | BT, KM | equal {equal}s | nupoco 90s | {others}"
        )]);
        values(
            &tables,
            &[("NU-13: Equal is best in scenario 8 on Intel", held)],
        );
    }
    for (greatest, held) in [("90", 1.0), ("110", 0.0)] {
        let tables = tables_of(&[&format!(
            "cooperative-fig4 | BT, FT | equal 80s | max_speedup {greatest}s | scaf 100s"
        )]);
        let slower = "CPR-3: SCAF (approximation) slower than Equal and max speedup";
        values(&tables, &[(slower, held)]);
    }
    let speedups = tables_of(&[
        "cooperative-amd | BT | equal 3 | max_speedup 4",
        "cooperative-amd | FT | equal 6 | max_speedup 8",
    ]);
    values(&speedups, &[("CPR-1: Equal, of max speedup", 0.75)]);
}

#[test]
fn nucores_static_allocation_is_compared_on_both_machines_and_errors_are_means_over_programs() {
    let rows = [
        "nucore-amd | mg-resid | nucore-static 1.5 | nucore 1.2 | linux 1",
        "nucore-amd | mg-rprj3 | nucore-static 1.5 | nucore 1.2 | linux 1",
        "nucore-intel | mg-resid | nucore-static 1.5 | nucore 1.2 | linux 1",
        "nucore-intel | mg-rprj3 | nucore-static 1.5 | nucore 1.2 | linux 1",
    ];
    let mut tables = changed_tables_of(&rows, &|mix, policy, run| {
        run.apps[0].mean_cpus = if policy == "nucore-static" { 24.0 } else { 1.0 };
        run.bandwidth_error = (policy == "nucore-static").then_some(BandwidthError {
            local: 0.3,
            between: 0.0,
            total: if mix == "mg-rprj3" { 0.3 } else { 0.1 },
        });
    });
    (tables[0].cpus, tables[1].cpus) = (48, 24);
    values(
        &tables,
        &[
            ("NC-2: over all cores", 1.5),
            ("NC-3: mg.D-resid over all cores, Intel", 1.5),
            ("NC-3: streamcluster over all cores, Intel", NONE),
            // Half of 48 and all of 24.
            ("NC-2: share of the cores", 0.75),
            ("NC-6: error of all bandwidth, AMD", 0.2),
        ],
    );
    values(
        &tables[..1],
        &[
            ("NC-2: over all cores", NONE),
            ("NC-6: error of all bandwidth, Intel", NONE),
        ],
    );
}
