use super::super::super::examples::{at_speed, ran, suite, table, table_of};
use super::super::super::run_spec::RunResult;
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

/// A suite under four of MAPPER's policies.
fn figure(name: &str, mixes: &[&str], run: &dyn Fn(&str, &str) -> RunResult) -> SuiteTable {
    let policies = ["mapper-paper", "linux", "hill_climb", "fair"];
    table(&suite(name, mixes, &policies), run)
}

/// A suite of one mix in which a policy has this speed.
fn speeds(name: &str, mix: &str, policies: &[(&str, f64)]) -> SuiteTable {
    let names: Vec<&str> = policies.iter().map(|(name, _)| *name).collect();
    table_of(&suite(name, &[mix], &names), &|_, policy| {
        let found = policies.iter().find(|(name, _)| *name == policy);
        found.unwrap().1
    })
}

/// A suite of one mix that takes these seconds under a policy, and each program as long.
fn timed(name: &str, mix: &str, policies: &[(&str, f64)]) -> SuiteTable {
    let names: Vec<&str> = policies.iter().map(|(name, _)| *name).collect();
    table(&suite(name, &[mix], &names), &|mix, policy| {
        let found = policies.iter().find(|(name, _)| *name == policy);
        let mut run = at_speed(mix, 100.0 / found.unwrap().1);
        run.elapsed_s = found.unwrap().1;
        run
    })
}

/// SGD and ALS at 0.9 and 0.4 under `own`, both at 0.5 under `other`; SVD at 0.8 and 1.
fn two_mixes() -> SuiteTable {
    let suite = suite("s", &["20 SGD, 20 ALS", "SVD"], &["own", "other"]);
    table(&suite, &|mix, policy| match (mix, policy) {
        ("SVD", "own") => at_speed(mix, 0.8),
        ("SVD", _) => at_speed(mix, 1.0),
        (_, "own") => ran(&[("SGD", 0.9), ("ALS", 0.4)]),
        _ => at_speed(mix, 0.5),
    })
}

#[test]
fn a_gain_is_of_suites_of_mixes_or_of_programs_and_none_without_both_policies() {
    let tables = [two_mixes()];
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
        values(&tables, &[(&gain, expected), (&another, NONE)]);
    }
}

#[test]
fn slowest_fastest_and_worst_are_of_programs_or_of_mixes_and_promises_of_programs() {
    let tables = [two_mixes()];
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
        values(&tables, &[(&one, expected), (&two, NONE)]);
    }
}

#[test]
fn an_order_needs_every_step_and_every_value() {
    let least = "{ runs = { suites = ['s'], policy = 'own', of = 'slowest' } }";
    let most = least.replace("slowest", "fastest");
    let none = least.replace("own", "none");
    let order = |values: &[&str]| format!("descending = [{}]", values.join(", "));
    values(
        &[two_mixes()],
        &[
            (&order(&[&most, least]), 1.0),
            (&order(&[&most, least, least]), 0.0),
            (&order(&[&most, &none, least]), NONE),
        ],
    );
    let policies = ["mapper-paper", "linux", "hill_climb", "fair"];
    for ([mapper, linux, climbing], held) in [
        ([1.3, 1.2, 1.1], 1.0),
        ([1.2, 1.3, 1.1], 0.0),
        ([1.3, 1.2, 0.9], 0.0),
    ] {
        // The fair share has a speed of 1 in everything that is made up.
        let speed = [mapper, linux, climbing, 1.0];
        let of: Vec<_> = policies.into_iter().zip(speed).collect();
        let tables = [speeds("mapper-fig2", "SGD, ALS", &of)];
        values(
            &tables,
            &[("MP-5: MAPPER > Linux > hill climbing > fair", held)],
        );
    }
}

#[test]
fn promises_of_several_figures_are_counted_together_and_a_missing_figure_hides_them() {
    let tables = ["mapper-fig2", "mapper-fig3"].map(|name| {
        figure(name, &["SGD, ALS"], &|_, policy| match policy {
            "mapper-paper" => ran(&[("SGD", 0.9), ("ALS", 0.84)]),
            _ => ran(&[("SGD", 0.2), ("ALS", 0.3)]),
        })
    });
    let [mapper, linux] = [
        "MP-10: promises broken, MAPPER",
        "MP-10: promises broken, Linux",
    ];
    values(&tables, &[(mapper, 2.0), (linux, 4.0)]);
    values(&tables[..1], &[(mapper, NONE)]);
}

#[test]
fn gains_of_figures_are_taken_mix_by_mix() {
    let tables = [("mapper-fig2", 0.5), ("mapper-fig3", 2.0)];
    let tables = tables
        .map(|(name, own)| speeds(name, "SGD, ALS", &[("mapper-paper", own), ("linux", 0.5)]));
    let of = |by: &str| {
        let suites = "suites = ['mapper-fig2', 'mapper-fig3']";
        format!("runs = {{ {suites}, policy = 'mapper-paper', over_each = 'linux', by = '{by}' }}")
    };
    values(
        &tables,
        &[
            ("MP-7: gain over Linux, Figures 2 and 3", 1.0),
            (&of("greatest"), 4.0),
            (&of("least"), 1.0),
        ],
    );
}

#[test]
fn the_best_count_of_cpus_is_what_the_search_gives_a_program_alone() {
    let alone = suite("mapper-alone", &["SGD", "ALS"], &["oracle", "linux"]);
    let tables = [table(&alone, &|mix, policy| {
        let mut run = at_speed(mix, 1.0);
        run.apps[0].mean_cpus = if policy == "oracle" { 20.0 } else { 80.0 };
        run
    })];
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
    let more = ["SGD, ALS, SVD", "SGD, ALS, SVD, RBM"];
    let tables = [("mapper-fig2", &["SGD, ALS"][..]), ("mapper-fig3", &more)];
    let tables = tables.map(|(name, mixes)| {
        figure(name, mixes, &|mix, _| {
            let mut run = at_speed(mix, 1.0);
            run.rewrites_per_s = run.apps.len() as f64;
            run.moves_per_s = 10.0 * run.apps.len() as f64;
            run
        })
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

/// A figure with memcached at `service` under MAPPER and at 0.8 under Linux, BSGD everywhere at 0.5.
fn with_service(name: &str, service: f64) -> SuiteTable {
    let suite = suite(name, &["memcached, BSGD"], &["mapper-paper", "linux"]);
    table(&suite, &|_, policy| {
        let speed = if policy == "linux" { 0.8 } else { service };
        let mut run = ran(&[("memcached", speed), ("BSGD", 0.5)]);
        run.apps[0].p99_s = Some(0.01 / speed);
        run
    })
}

#[test]
fn only_services_count_where_services_are_meant_with_their_latency_that_is_lower_as_they_are_faster()
 {
    values(
        &[with_service("mapper-fig6", 1.0)],
        &[
            ("MP-24: memcached with BSGD, MAPPER, p99 in ms", 10.0),
            ("MP-23: memcached with BSGD on Linux, p99 in ms", 12.5),
            ("MP-24: memcached's p99 below Linux's", 0.2),
        ],
    );
    values(
        &[with_service("mapper-fig6", 0.9)],
        &[
            ("MP-25: services of fair, MAPPER", 0.9),
            ("MP-26: services below their promise, MAPPER", 0.0),
            ("MP-26: services below their promise, Linux", 1.0),
        ],
    );
}

#[test]
fn the_share_of_broken_promises_needs_all_five_figures() {
    let figures = (2..=6).map(|at| with_service(&format!("mapper-fig{at}"), 0.9));
    let tables: Vec<SuiteTable> = figures.collect();
    let mapper = "MP-30: share of promises broken, MAPPER";
    let linux = "MP-30: share of promises broken, Linux";
    // BSGD in each of the five.
    values(&tables, &[(mapper, 0.5), (linux, 1.0)]);
    values(&tables[1..], &[(mapper, NONE)]);
}

#[test]
fn figure_7_is_mapper_over_nupoco() {
    let policies = ["mapper-paper", "nupoco"];
    let tables = [table_of(
        &suite("mapper-fig7", &["BT, KM", "BT, FT"], &policies),
        &|_, policy| if policy == "nupoco" { 0.8 } else { 0.6 },
    )];
    let over = |mixes: &str| {
        let rest = "policy = 'mapper-paper', over_each = 'nupoco'";
        format!("runs = {{ suites = ['mapper-fig7'], mixes = [{mixes}], {rest} }}")
    };
    values(
        &tables,
        &[
            (&over("'BT, KM', 'BT, FT'"), 0.75),
            (&over("'BT, KM', 'EP, KM'"), NONE),
            ("MP-32: less than NuPoCo for BT and KM", 1.0),
        ],
    );
}

#[test]
fn of_sam_mphs_figures_the_first_eleven_mixes_or_single_ones_count_where_they_are_meant() {
    let names: Vec<String> = (1..=13).map(|at| format!("{at} SGD")).collect();
    let mixes: Vec<&str> = names.iter().map(String::as_str).collect();
    let fig5 = suite("sam-fig5", &mixes, &["sam_mph", "linux"]);
    let fig5 = table_of(&fig5, &|mix, policy| match (mix, policy) {
        (_, "linux") => 0.5,
        ("12 SGD" | "13 SGD", _) => 5.0,
        _ => 0.6,
    });
    let fig6 = suite("sam-fig6", &["SGD", "ALS", "SVD"], &["sam_mph", "linux"]);
    let fig6 = table_of(&fig6, &|mix, policy| match (mix, policy) {
        (_, "linux") => 0.5,
        ("SGD", _) => 0.6,
        ("ALS", _) => 0.8,
        _ => 0.7,
    });
    values(
        &[fig5, fig6],
        &[
            ("SM-6: mixes 1-11, SAM-MPH over Linux", 0.2),
            ("SM-8: 80 CPUs, least gain over Linux", 0.2),
            ("SM-8: 80 CPUs, greatest gain over Linux", 0.6),
        ],
    );
}

#[test]
fn what_a_threshold_does_is_of_the_same_mix_with_the_usual_one() {
    let tables = [("sam-sens-ipc-low", 0.72), ("sam-fig4", 0.9)];
    let tables = tables.map(|(name, speed)| speeds(name, "20 SGD", &[("sam_mph", speed)]));
    let threshold = "SM-10: IPC threshold 0.63: SGD";
    values(&tables, &[(threshold, -0.2)]);
    values(&tables[..1], &[(threshold, NONE)]);
    let other = speeds("sam-fig4", "20 PMF", &[("sam_mph", 0.9)]);
    values(&[tables[0].clone(), other], &[(threshold, NONE)]);
}

#[test]
fn total_time_is_of_that_under_linux_and_turnaround_is_what_is_saved() {
    let suite = suite("nupoco-amd", &["BT, FT", "BT, SP"], &["nupoco", "linux"]);
    let tables = [table(&suite, &|mix, policy| {
        let seconds = match (mix, policy) {
            (_, "linux") => 100.0,
            ("BT, FT", _) => 80.0,
            _ => 125.0,
        };
        let mut run = at_speed(mix, 100.0 / seconds);
        run.elapsed_s = seconds;
        run
    })];
    let of = |rest| {
        format!("runs = {{ suites = ['nupoco-amd'], policy = 'nupoco', of = 'elapsed_s', {rest} }}")
    };
    values(
        &tables,
        &[
            (&of("mixes = ['BT, FT'], over = 'linux', by = 'only'"), 0.8),
            (&of("mixes = ['BT, KM'], over = 'linux', by = 'only'"), NONE),
            (&of("over_each = 'linux', by = 'greatest'"), 1.25),
            ("NU-5: total time of Linux's, AMD-64", 1.0),
            ("NU-9: shorter turnaround, AMD", 0.0),
        ],
    );
}

#[test]
fn times_are_compared_over_all_suites_with_all_other_policies_and_with_scaf() {
    let batch = [("nupoco", 90.0), ("batch", 100.0)];
    let tables = ["nupoco-amd", "nupoco-intel"].map(|name| timed(name, "BT, FT", &batch));
    let text = "runs = { suites = ['nupoco-amd', 'nupoco-intel'], mixes = ['BT, FT'], policy = 'nupoco', \
                over_each = 'batch', of = 'elapsed_s' }";
    values(&tables, &[(text, 0.9)]);
    values(&tables[..1], &[(text, NONE)]);
    // As good as tied is best, too.
    for (equal, held) in [(85.0, 1.0), (90.5, 1.0), (92.0, 0.0)] {
        let others = ["nupoco_greedy", "scalability-plain", "batch", "linux"].map(|of| (of, 100.0));
        let policies = [&[("equal", equal), ("nupoco", 90.0)][..], &others].concat();
        let tables = [timed("nupoco-intel", "BT, KM", &policies)];
        values(
            &tables,
            &[("NU-13: Equal is best in scenario 8 on Intel", held)],
        );
    }
    for (greatest, held) in [(90.0, 1.0), (110.0, 0.0)] {
        let policies = [("equal", 80.0), ("max_speedup", greatest), ("scaf", 100.0)];
        let slower = "CPR-3: SCAF (approximation) slower than Equal and max speedup";
        values(
            &[timed("cooperative-fig4", "BT, FT", &policies)],
            &[(slower, held)],
        );
    }
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
    values(&tables, &[("CPR-1: Equal, of max speedup", 0.75)]);
}

#[test]
fn nucores_static_allocation_is_compared_on_both_machines_and_errors_are_means_over_programs() {
    let tables = [("nucore-amd", 48, 24.0), ("nucore-intel", 32, 32.0)];
    let tables = tables.map(|(name, cpus, held)| {
        let policies = ["nucore-static", "nucore", "linux"];
        let suite = suite(name, &["mg-resid", "mg-rprj3"], &policies);
        let mut table = table(&suite, &|mix, policy| {
            let mut run = at_speed(
                mix,
                match policy {
                    "nucore-static" => 1.5,
                    "nucore" => 1.2,
                    _ => 1.0,
                },
            );
            run.apps[0].mean_cpus = if policy == "nucore-static" { held } else { 1.0 };
            run.bandwidth_error = (policy == "nucore-static").then_some(BandwidthError {
                local: 0.3,
                between: 0.0,
                total: if mix == "mg-rprj3" { 0.3 } else { 0.1 },
            });
            run
        });
        table.cpus = cpus;
        table
    });
    values(
        &tables,
        &[
            ("NC-2: over all cores", 1.5),
            ("NC-3: mg.D-resid over all cores, Intel", 1.5),
            ("NC-3: streamcluster over all cores, Intel", NONE),
            // Half of 48 and all of 32.
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
