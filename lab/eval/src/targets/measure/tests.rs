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
        let value = measure(text).of(&book(tables));
        let same = match value {
            None => expected.is_nan(),
            Some(value) => (value - expected).abs() < 1e-9,
        };
        assert!(same, "{text}: {value:?}, not {expected}");
    }
}

/// Suites made up by rows, below them what measures come to, and a blank line between cases.
const CASES: &str = "
# A gain is of suites (0.6 and 0.8 against 0.5 and 1), of mixes or of programs, and none without both policies.
s | 20 SGD, 20 ALS | own 0.9 0.4 | other 0.5
s | SVD | own 0.8 | other 1
= -0.0202041028867 gain = { suites = ['s'], policy = 'own', over = 'other' }
= 0.2 gain = { suites = ['s'], policy = 'own', over = 'other', mixes = ['20 SGD, 20 ALS'], by = 'only' }
= none gain = { suites = ['s'], policy = 'own', over = 'other', mixes = ['ALS'], by = 'only' }
= none gain = { suites = ['s'], policy = 'own', over = 'other', by = 'only' }
= -0.2 gain = { suites = ['s'], policy = 'own', over_each = 'other', apps = ['SVD'] }
= 0.2 gain = { suites = ['s'], policy = 'own', over_each = 'other', apps = ['ALS'] }
= -0.2 gain = { suites = ['s'], policy = 'own', over_each = 'other', apps = ['ALS'], of = 'speed' }
= none gain = { suites = ['s'], policy = 'own', over_each = 'other', apps = ['gauss'], of = 'speed' }
= 0.8 gain = { suites = ['s'], policy = 'own', over = 'other', apps = ['SGD'], of = 'speed', by = 'only' }
= none gain = { suites = ['s'], policy = 'own', over = 'none' }
= none gain = { suites = ['s'], policy = 'own', over_each = 'none' }
= none gain = { suites = ['another'], policy = 'own', over = 'other' }

# Slowest, fastest and worst are of programs or of mixes.
s | 20 SGD, 20 ALS | own 0.9 0.4 | other 0.5
s | SVD | own 0.8 | other 1
= 0.5656854249492 runs = { suites = ['s'], policy = 'own', of = 'slowest' }
= 0.8485281374239 runs = { suites = ['s'], policy = 'own', of = 'fastest' }
= 0.6 runs = { suites = ['s'], policy = 'own', by = 'least' }
= 0.4 runs = { suites = ['s'], policy = 'own', of = 'slowest', by = 'least' }

# Promises are of programs: at 0.9, 0.4 and 0.8 of the fair share; at a promise is not below it.
s | 20 SGD, 20 ALS | own 0.9 0.4 | other 0.5
s | SVD | own 0.8 | other 1
= 2 runs = { suites = ['s'], policy = 'own', of = 'share_of_fair', below = 0.85, by = 'count' }
= 0 runs = { suites = ['s'], policy = 'own', of = 'share_of_fair', below = 0.4, by = 'count' }
= 0.6666666666667 runs = { suites = ['s'], policy = 'own', of = 'share_of_fair', below = 0.85, by = 'share' }
= 0.5656854249492 runs = { suites = ['s'], policy = 'own', of = 'share_of_fair', below = 0.85 }
= none runs = { suites = ['s', 'another'], policy = 'own', of = 'share_of_fair', below = 0.85, by = 'count' }

# An order needs every step and every value; the fair share has a speed of 1 in everything that is made up.
mapper-fig2 | SGD, ALS | mapper-paper 1.3 | linux 1.2 | hill_climb 1.1 | fair 1
= 1 MP-5: MAPPER > Linux > hill climbing > fair
= 0 descending = [{ number = 2 }, { number = 1 }, { number = 1 }]
= 1 descending = [{ number = 2 }, { number = 1 }]
= none descending = [{ number = 2 }, { runs = { suites = ['mapper-fig2'], policy = 'none' } }, { number = 1 }]

mapper-fig2 | SGD, ALS | mapper-paper 1.2 | linux 1.3 | hill_climb 1.1 | fair 1
= 0 MP-5: MAPPER > Linux > hill climbing > fair

mapper-fig2 | SGD, ALS | mapper-paper 1.3 | linux 1.2 | hill_climb 0.9 | fair 1
= 0 MP-5: MAPPER > Linux > hill climbing > fair

# Promises of several figures are counted together, and a missing figure hides them.
mapper-fig2 | SGD, ALS | mapper-paper 0.9 0.84 | linux 0.2 0.3
mapper-fig3 | SGD, ALS | mapper-paper 0.9 0.84 | linux 0.2 0.3
= 2 MP-10: promises broken, MAPPER
= 4 MP-10: promises broken, Linux

mapper-fig2 | SGD, ALS | mapper-paper 0.9 0.84 | linux 0.2 0.3
= none MP-10: promises broken, MAPPER

# Gains of figures are taken mix by mix.
mapper-fig2 | SGD, ALS | mapper-paper 0.5 | linux 0.5
mapper-fig3 | SGD, ALS | mapper-paper 2 | linux 0.5
= 1 MP-7: gain over Linux, Figures 2 and 3
= 4 runs = { suites = ['mapper-fig2', 'mapper-fig3'], policy = 'mapper-paper', over_each = 'linux', by = 'greatest' }
= 1 runs = { suites = ['mapper-fig2', 'mapper-fig3'], policy = 'mapper-paper', over_each = 'linux', by = 'least' }

# Figure 7 is MAPPER over NuPoCo.
mapper-fig7 | BT, KM | mapper-paper 0.6 | nupoco 0.8
mapper-fig7 | BT, FT | mapper-paper 0.6 | nupoco 0.8
= 0.75 runs = { suites = ['mapper-fig7'], mixes = ['BT, KM', 'BT, FT'], policy = 'mapper-paper', over_each = 'nupoco' }
= none runs = { suites = ['mapper-fig7'], mixes = ['BT, KM', 'EP, KM'], policy = 'mapper-paper', over_each = 'nupoco' }
= 1 MP-32: less than NuPoCo for BT and KM

# Of Figure 5 the first eleven mixes are those in which all share.
sam-fig5 | 1 SGD | sam_mph 0.6 | linux 0.5
sam-fig5 | 2 SGD | sam_mph 0.6 | linux 0.5
sam-fig5 | 3 SGD | sam_mph 0.6 | linux 0.5
sam-fig5 | 4 SGD | sam_mph 0.6 | linux 0.5
sam-fig5 | 5 SGD | sam_mph 0.6 | linux 0.5
sam-fig5 | 6 SGD | sam_mph 0.6 | linux 0.5
sam-fig5 | 7 SGD | sam_mph 0.6 | linux 0.5
sam-fig5 | 8 SGD | sam_mph 0.6 | linux 0.5
sam-fig5 | 9 SGD | sam_mph 0.6 | linux 0.5
sam-fig5 | 10 SGD | sam_mph 0.6 | linux 0.5
sam-fig5 | 11 SGD | sam_mph 0.6 | linux 0.5
sam-fig5 | 12 SGD | sam_mph 5 | linux 0.5
sam-fig5 | 13 SGD | sam_mph 5 | linux 0.5
= 0.2 SM-6: mixes 1-11, SAM-MPH over Linux

# The least and the greatest gain are those of single mixes.
sam-fig6 | SGD | sam_mph 0.6 | linux 0.5
sam-fig6 | ALS | sam_mph 0.8 | linux 0.5
sam-fig6 | SVD | sam_mph 0.7 | linux 0.5
= 0.2 SM-8: 80 CPUs, least gain over Linux
= 0.6 SM-8: 80 CPUs, greatest gain over Linux

# What a threshold does is of the same mix with the usual one.
sam-sens-ipc-low | 20 SGD | sam_mph 0.72
sam-fig4 | 20 SGD | sam_mph 0.9
= -0.2 SM-10: IPC threshold 0.63: SGD

sam-sens-ipc-low | 20 SGD | sam_mph 0.72
sam-fig4 | 20 PMF | sam_mph 0.9
= none SM-10: IPC threshold 0.63: SGD

sam-sens-ipc-low | 20 SGD | sam_mph 0.72
= none SM-10: IPC threshold 0.63: SGD

# Total time is of that under Linux and turnaround is what is saved.
nupoco-amd | BT, FT | nupoco 80s | linux 100s
nupoco-amd | BT, SP | nupoco 125s | linux 100s
= 0.8 runs = { suites = ['nupoco-amd'], mixes = ['BT, FT'], policy = 'nupoco', over = 'linux', of = 'elapsed_s', by = 'only' }
= none runs = { suites = ['nupoco-amd'], mixes = ['BT, KM'], policy = 'nupoco', over = 'linux', of = 'elapsed_s', by = 'only' }
= 1.25 runs = { suites = ['nupoco-amd'], policy = 'nupoco', over_each = 'linux', of = 'elapsed_s', by = 'greatest' }
= 1 NU-5: total time of Linux's, AMD-64
= 0 NU-9: shorter turnaround, AMD

# Against batch all mixes of all suites count.
nupoco-amd | BT, FT | nupoco 90s | batch 100s
nupoco-intel | BT, FT | nupoco 90s | batch 100s
= 0.9 runs = { suites = ['nupoco-amd', 'nupoco-intel'], policy = 'nupoco', over_each = 'batch', of = 'elapsed_s' }

nupoco-amd | BT, FT | nupoco 90s | batch 100s
= none runs = { suites = ['nupoco-amd', 'nupoco-intel'], policy = 'nupoco', over_each = 'batch', of = 'elapsed_s' }

# Equal is best when no other is ahead by more than a hundredth.
nupoco-intel | BT, KM | equal 85s | nupoco 90s | nupoco_greedy 99s | scalability-plain 99s | batch 99s | linux 100s
= 1 NU-13: Equal is best in scenario 8 on Intel

nupoco-intel | BT, KM | equal 90.5s | nupoco 90s | nupoco_greedy 99s | scalability-plain 99s | batch 99s | linux 100s
= 1 NU-13: Equal is best in scenario 8 on Intel

nupoco-intel | BT, KM | equal 92s | nupoco 90s | nupoco_greedy 99s | scalability-plain 99s | batch 99s | linux 100s
= 0 NU-13: Equal is best in scenario 8 on Intel

# SCAF is what times are compared with.
cooperative-fig4 | BT, FT | equal 80s | max_speedup 90s | scaf 100s
= 1 CPR-3: SCAF (approximation) slower than Equal and max speedup

cooperative-fig4 | BT, FT | equal 80s | max_speedup 110s | scaf 100s
= 0 CPR-3: SCAF (approximation) slower than Equal and max speedup

# Speedups are summed before they are compared with the greatest.
cooperative-amd | BT | equal 3 | max_speedup 4
cooperative-amd | FT | equal 6 | max_speedup 8
= 0.75 CPR-1: Equal, of max speedup
";

#[test]
fn measures_come_to_what_the_made_up_suites_say() {
    for case in CASES.split("\n\n") {
        let lines = case.trim().lines().filter(|line| !line.starts_with('#'));
        let lines: Vec<&str> = lines.collect();
        let below = lines.iter().position(|line| line.starts_with("= "));
        let (rows, expected) = lines.split_at(below.unwrap());
        let tables = tables_of(rows);
        for line in expected {
            let (value, text) = line[2..].split_once(' ').unwrap();
            let value = if value == "none" {
                NONE
            } else {
                value.parse().unwrap()
            };
            values(&tables, &[(text, value)]);
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
