use super::super::super::examples::{at_speed, ran, suite, table, table_of};
use super::super::super::run_spec::RunResult;
use super::super::super::tables::SuiteTable;
use super::super::book::tests::book;
use super::super::published::{Number, targets};
use super::*;
use mapper_sim::nucore::BandwidthError;

const MAPPER: &str = "mapper-paper";
const FIG2: &str = "mapper-fig2";
const FIG3: &str = "mapper-fig3";
const FIG6: &str = "mapper-fig6";

/// A published number by its target's id and the beginning of its own name.
fn published(id: &str, what: &str) -> Number {
    let target = targets().unwrap().into_iter().find(|of| of.id == id);
    let numbers = target.expect(id).numbers;
    let mut named = numbers.into_iter().filter(|of| of.what.starts_with(what));
    named.next().expect(what)
}

fn value(tables: &[SuiteTable], id: &str, what: &str) -> Option<f64> {
    published(id, what).model.of(&book(tables))
}

/// What is expected of published numbers; of NaN, that there is no value.
fn values(tables: &[SuiteTable], expected: &[(&str, &str, f64)]) {
    for (id, what, expected) in expected {
        near(value(tables, id, what), *expected, what);
    }
}

fn near(value: Option<f64>, expected: f64, what: &str) {
    match value {
        None => assert!(expected.is_nan(), "{what}: no value, not {expected}"),
        Some(value) => assert!(
            (value - expected).abs() < 1e-9,
            "{what}: {value}, not {expected}"
        ),
    }
}

/// The same of measures as they are written.
fn measures(tables: &[SuiteTable], expected: &[(&str, f64)]) {
    #[derive(Deserialize)]
    struct Entry {
        model: Measure,
    }
    for (text, expected) in expected {
        let entry: Entry = toml::from_str(&format!("model = {{ {text} }}")).expect(text);
        near(entry.model.of(&book(tables)), *expected, text);
    }
}

fn of(name: &str, mixes: &[&str], run: &dyn Fn(&str, &str) -> RunResult) -> SuiteTable {
    let policies = [MAPPER, "linux", "hill_climb", "fair"];
    table(&suite(name, mixes, &policies), run)
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
    let gain = |kind: &str, more: &str| {
        format!("{kind} = {{ suite = \"s\", {more}policy = \"own\", over = \"other\" }}")
    };
    let mix = "mix = \"20 SGD, 20 ALS\", ";
    let none = "gain = { suite = \"s\", policy = \"own\", over = \"none\" }";
    measures(
        &[two_mixes()],
        &[
            // 0.6 and 0.8 against 0.5 and 1.
            (&gain("gain", ""), (0.48_f64 / 0.5).sqrt() - 1.0),
            (&gain("mix_gain", mix), 0.2),
            (&gain("mix_gain", "mix = \"ALS\", "), f64::NAN),
            (&gain("gain_with", "app = \"SVD\", "), -0.2),
            (&gain("gain_with", "app = \"ALS\", "), 0.2),
            (&gain("app_ratio", "app = \"ALS\", "), 0.8),
            (&gain("app_ratio", "app = \"gauss\", "), f64::NAN),
            (&gain("app_gain", &format!("{mix}app = \"SGD\", ")), 0.8),
            (none, f64::NAN),
            (
                &none
                    .replace("\"s\"", "\"another\"")
                    .replace("none", "other"),
                f64::NAN,
            ),
        ],
    );
}

#[test]
fn slowest_fastest_and_worst_are_of_programs_or_of_mixes_and_promises_of_programs() {
    let of =
        |kind: &str, more: &str| format!("{kind} = {{ suites = [\"s\"], policy = \"own\"{more} }}");
    let of_two = of("broken", ", promise = 0.85").replace("[\"s\"", "[\"s\", \"another\"");
    measures(
        &[two_mixes()],
        &[
            (&of("least", ""), (0.4_f64 * 0.8).sqrt()),
            (&of("most", ""), (0.9_f64 * 0.8).sqrt()),
            (&of("worst", ""), 0.6),
            (&of("worst_app", ""), 0.4),
            // At 0.9, 0.4 and 0.8 of the fair share; at a promise is not below it.
            (&of("broken", ", promise = 0.85"), 2.0),
            (&of("broken", ", promise = 0.4"), 0.0),
            (&of("broken_share", ", promise = 0.85"), 2.0 / 3.0),
            (
                &of("broken_depth", ", promise = 0.85"),
                (0.4_f64 * 0.8).sqrt(),
            ),
            (&of_two, f64::NAN),
        ],
    );
}

#[test]
fn an_order_needs_every_step_and_every_value() {
    let least = "{ least = { suites = [\"s\"], policy = \"own\" } }";
    let most = least.replace("least", "most");
    let none = least.replace("own", "none");
    let order = |values: &[&str]| format!("descending = {{ values = [{}] }}", values.join(", "));
    measures(
        &[two_mixes()],
        &[
            (&order(&[&most, least]), 1.0),
            (&order(&[&most, least, least]), 0.0),
            (&order(&[&most, &none, least]), f64::NAN),
        ],
    );
}

#[test]
fn the_published_order_holds_only_in_full() {
    let order_of = |speeds: [f64; 3]| {
        let policies = [MAPPER, "linux", "hill_climb", "fair"];
        // The fair share has a speed of 1 in everything that is made up.
        let table = table_of(&suite(FIG2, &["SGD, ALS"], &policies), &|_, policy| {
            speeds[policies.iter().position(|name| *name == policy).unwrap()]
        });
        value(&[table], "MP-5", "MAPPER > Linux")
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
    let [mapper, linux] = ["promises broken, MAPPER", "promises broken, Linux"];
    values(&tables, &[("MP-10", mapper, 2.0), ("MP-10", linux, 4.0)]);
    values(&tables[..1], &[("MP-10", mapper, f64::NAN)]);
}

#[test]
fn gains_of_figures_are_taken_mix_by_mix() {
    let figure = |name, own| {
        of(name, &["SGD, ALS"], &move |mix, policy| {
            at_speed(mix, if policy == MAPPER { own } else { 0.5 })
        })
    };
    let tables = [figure(FIG2, 0.5), figure(FIG3, 2.0)];
    values(&tables, &[("MP-7", "gain over Linux", 1.0)]);
    let of = |kind: &str| {
        let suites = "suites = [\"mapper-fig2\", \"mapper-fig3\"]";
        format!("{kind} = {{ {suites}, policy = \"mapper-paper\", over = \"linux\" }}")
    };
    measures(
        &tables,
        &[(&of("best_ratio"), 4.0), (&of("worst_ratio"), 1.0)],
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
    values(&tables, &[("MP-1", "ALS alone, best count", 0.0)]);
    let counts = [("ALS", 20.0), ("SVD", f64::NAN)];
    let counts = counts.map(|(app, count)| (format!("best_count = {{ app = \"{app}\" }}"), count));
    measures(
        &tables,
        &counts
            .each_ref()
            .map(|(text, count)| (text.as_str(), *count)),
    );
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
    for programs in [2, 3, 4] {
        let written = format!("CPU sets written per second, {programs} programs");
        let moved = format!("contexts moved per second, {programs} programs");
        let count = f64::from(programs);
        values(
            &tables,
            &[("MP-12", &written, count), ("MP-12", &moved, 10.0 * count)],
        );
    }
    let five = "changes_per_s = { suite = \"mapper-fig3\", programs = 5, policy = \"mapper-paper\", \
                of = \"contexts_moved\" }";
    measures(&tables, &[(five, f64::NAN)]);
}

/// A figure with memcached at `service` under MAPPER and at 0.8 under Linux, BSGD everywhere at 0.5.
fn with_service(name: &str, service: f64) -> SuiteTable {
    let suite = suite(name, &["memcached, BSGD"], &[MAPPER, "linux"]);
    table(&suite, &|_, policy| {
        let speed = if policy == MAPPER { service } else { 0.8 };
        let mut run = ran(&[("memcached", speed), ("BSGD", 0.5)]);
        run.apps[0].p99_s = Some(0.01 / speed);
        run
    })
}

#[test]
fn the_latency_shown_is_that_of_the_service_and_lower_by_as_much_as_it_is_faster() {
    values(
        &[with_service(FIG6, 1.0)],
        &[
            ("MP-24", "memcached with BSGD, MAPPER", 10.0),
            ("MP-23", "memcached with BSGD on Linux", 12.5),
            ("MP-24", "memcached's p99 below", 0.2),
        ],
    );
}

#[test]
fn only_services_count_where_services_are_meant() {
    values(
        &[with_service(FIG6, 0.9)],
        &[
            ("MP-25", "services of fair, MAPPER", 0.9),
            ("MP-26", "services below their promise, MAPPER", 0.0),
            ("MP-26", "services below their promise, Linux", 1.0),
        ],
    );
}

#[test]
fn the_share_of_broken_promises_needs_all_five_figures() {
    let figures = (2..=6).map(|at| with_service(&format!("mapper-fig{at}"), 0.9));
    let tables: Vec<SuiteTable> = figures.collect();
    let [mapper, linux] = [
        "share of promises broken, MAPPER",
        "share of promises broken, Linux",
    ];
    // BSGD in each of the five.
    values(&tables, &[("MP-30", mapper, 0.5), ("MP-30", linux, 1.0)]);
    values(&tables[1..], &[("MP-30", mapper, f64::NAN)]);
}

#[test]
fn figure_7_is_mapper_over_nupoco() {
    let suite = suite("mapper-fig7", &["BT, KM", "BT, FT"], &[MAPPER, "nupoco"]);
    let tables = [table(&suite, &|_, policy| {
        let speed = if policy == MAPPER { 0.6 } else { 0.8 };
        ran(&[("BT", speed), ("KM", speed)])
    })];
    let over = |mixes: &str| {
        let rest = "policy = \"mapper-paper\", over = \"nupoco\"";
        format!("mean_ratio = {{ suites = [\"mapper-fig7\"], mixes = [{mixes}], {rest} }}")
    };
    let (both, other) = (
        over("\"BT, KM\", \"BT, FT\""),
        over("\"BT, KM\", \"EP, KM\""),
    );
    measures(&tables, &[(&both, 0.75), (&other, f64::NAN)]);
    values(&tables, &[("MP-32", "less than NuPoCo", 1.0)]);
}

#[test]
fn of_figure_5_the_first_eleven_mixes_are_those_in_which_all_share() {
    let names: Vec<String> = (0..13).map(|at| format!("{} SGD", at + 1)).collect();
    let mixes: Vec<&str> = names.iter().map(String::as_str).collect();
    let suite = suite("sam-fig5", &mixes, &["sam_mph", "linux"]);
    let tables = [table_of(&suite, &|mix, policy| match policy {
        "linux" => 0.5,
        _ if mix == "12 SGD" || mix == "13 SGD" => 5.0,
        _ => 0.6,
    })];
    values(&tables, &[("SM-6", "mixes 1-11, SAM-MPH over Linux", 0.2)]);
}

#[test]
fn the_least_and_the_greatest_gain_are_those_of_single_mixes() {
    let suite = suite("sam-fig6", &["SGD", "ALS", "SVD"], &["sam_mph", "linux"]);
    let tables = [table_of(&suite, &|mix, policy| match (mix, policy) {
        (_, "linux") => 0.5,
        ("SGD", _) => 0.6,
        ("ALS", _) => 0.8,
        _ => 0.7,
    })];
    let [least, greatest] = ["80 CPUs, least gain", "80 CPUs, greatest gain"];
    values(&tables, &[("SM-8", least, 0.2), ("SM-8", greatest, 0.6)]);
}

#[test]
fn what_a_threshold_does_is_of_the_same_mix_with_the_usual_one() {
    let of = |name, speed| {
        let suite = suite(name, &["20 SGD"], &["sam_mph"]);
        table_of(&suite, &move |_, _| speed)
    };
    let tables = [of("sam-sens-ipc-low", 0.72), of("sam-fig4", 0.9)];
    values(&tables, &[("SM-10", "IPC threshold 0.63", -0.2)]);
    let other = |usual: &str, mix: &str| {
        let rest = format!("usual = \"{usual}\", mix = \"{mix}\", policy = \"sam_mph\"");
        format!("sensitivity = {{ suite = \"sam-sens-ipc-low\", {rest} }}")
    };
    let (mix, suite) = (other("sam-fig4", "20 PMF"), other("sam-fig5", "20 SGD"));
    measures(&tables, &[(&mix, f64::NAN), (&suite, f64::NAN)]);
}

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
fn total_time_is_of_that_under_linux_and_turnaround_is_what_is_saved() {
    let mixes = ["BT, FT", "BT, SP"];
    let seconds = |mix: &str, policy: &str| match (mix, policy) {
        (_, "linux") => 100.0,
        ("BT, FT", _) => 80.0,
        _ => 125.0,
    };
    let tables = [timed("nupoco-amd", &mixes, &["nupoco", "linux"], &seconds)];
    let of = |kind: &str, which: &str| {
        format!("{kind} = {{ {which}, policy = \"nupoco\", over = \"linux\" }}")
    };
    let suite = "suite = \"nupoco-amd\", mix = \"BT, FT\"";
    measures(
        &tables,
        &[
            (&of("time_ratio", suite), 0.8),
            (&of("time_ratio", &suite.replace("FT", "KM")), f64::NAN),
            (&of("worst_time_ratio", "suites = [\"nupoco-amd\"]"), 1.25),
        ],
    );
    values(
        &tables,
        &[
            ("NU-5", "total time", 1.0),
            ("NU-9", "shorter turnaround, AMD", 0.0),
        ],
    );
}

#[test]
fn against_batch_all_mixes_of_all_suites_count() {
    let of = |name| {
        timed(name, &["BT, FT"], &["nupoco", "batch"], &|_, policy| {
            if policy == "batch" { 100.0 } else { 90.0 }
        })
    };
    let tables = [of("nupoco-amd"), of("nupoco-intel")];
    let text = "mean_time_ratio = { suites = [\"nupoco-amd\", \"nupoco-intel\"], mixes = [\"BT, FT\"], \
                policy = \"nupoco\", over = \"batch\" }";
    measures(&tables, &[(text, 0.9)]);
    measures(&tables[..1], &[(text, f64::NAN)]);
}

#[test]
fn equal_is_best_when_no_other_is_ahead_by_more_than_a_hundredth() {
    let best = |equal: f64| {
        let others = [
            "equal",
            "nupoco",
            "nupoco_greedy",
            "scalability-plain",
            "batch",
            "linux",
        ];
        let seconds = |_: &str, policy: &str| match policy {
            "equal" => equal,
            "nupoco" => 90.0,
            _ => 100.0,
        };
        let tables = [timed("nupoco-intel", &["BT, KM"], &others, &seconds)];
        value(&tables, "NU-13", "Equal is best in scenario 8")
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
    values(&tables, &[("CPR-1", "Equal, of max speedup", 0.75)]);
}

#[test]
fn scaf_is_what_times_are_compared_with() {
    let scaf = |max_speedup: f64| {
        let policies = ["equal", "max_speedup", "scaf"];
        let seconds = |_: &str, policy: &str| match policy {
            "scaf" => 100.0,
            "equal" => 80.0,
            _ => max_speedup,
        };
        let tables = [timed("cooperative-fig4", &["BT, FT"], &policies, &seconds)];
        value(&tables, "CPR-3", "SCAF")
    };
    assert_eq!(scaf(90.0), Some(1.0));
    assert_eq!(scaf(110.0), Some(0.0));
}

const AMD: &str = "nucore-amd";
const INTEL: &str = "nucore-intel";
const STATIC: &str = "nucore-static";

fn nucore(name: &str, mixes: &[&str], cores: f64) -> SuiteTable {
    let suite = suite(name, mixes, &[STATIC, "nucore", "linux"]);
    table(&suite, &|mix, policy| {
        let speed = match policy {
            STATIC => 1.5,
            "nucore" => 1.2,
            _ => 1.0,
        };
        let mut run = at_speed(mix, speed);
        run.apps[0].mean_cpus = if policy == STATIC { cores } else { 1.0 };
        run.bandwidth_error = (policy == STATIC).then_some(BandwidthError {
            local: 0.3,
            between: 0.0,
            total: if mix == "mg-rprj3" { 0.3 } else { 0.1 },
        });
        run
    })
}

#[test]
fn nucores_static_allocation_is_compared_on_both_machines_and_errors_are_means_over_programs() {
    let mixes = &["mg-resid", "mg-rprj3"];
    let tables = [nucore(AMD, mixes, 24.0), nucore(INTEL, mixes, 32.0)];
    values(
        &tables,
        &[
            ("NC-2", "over all cores", 1.5),
            ("NC-3", "mg.D-resid over all cores, Intel", 1.5),
            ("NC-3", "streamcluster over all cores, Intel", f64::NAN),
            // Half of 48 and all of 32.
            ("NC-2", "share of the cores", 0.75),
            ("NC-6", "error of all bandwidth, AMD", 0.2),
        ],
    );
    values(
        &tables[..1],
        &[
            ("NC-2", "over all cores", f64::NAN),
            ("NC-6", "error of all bandwidth, Intel", f64::NAN),
        ],
    );
}
