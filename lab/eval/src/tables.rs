//! From runs to the numbers of a figure: speeds of programs, of mixes, of a suite.

use super::plan::{PlannedMix, PlannedSuite};
use super::protocol::{Mean, Relative, Suite};
use super::run_spec::{AppResult, Held, Results, RunResult};
use mapper_sim::nucore::BandwidthError;
use serde::Serialize;
use std::collections::BTreeMap;

/// What is shown of a timeline.
pub(super) const TIMELINE_S: f64 = 120.0;

#[derive(Clone, Debug, Serialize)]
pub(super) struct SuiteTable {
    pub(super) suite: Suite,
    /// What every program was promised, of its speed under the static fair share.
    pub(super) promised: f64,
    pub(super) cpus: u32,
    pub(super) mixes: Vec<MixRow>,
    /// Geometric mean over the mixes that are complete for every policy.
    pub(super) overall: BTreeMap<String, f64>,
    /// Mixes left out because the evaluation was stopped.
    pub(super) incomplete: usize,
    /// Mixes left out because speeds came to nothing, or to no number at all, so that they have no mean.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) without_mean: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct MixRow {
    pub(super) mix: String,
    pub(super) assumed: bool,
    pub(super) policies: BTreeMap<String, Cell>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Cell {
    /// One number for the mix.
    pub(super) value: f64,
    /// That number of each seed.
    pub(super) seeds: Vec<f64>,
    pub(super) apps: Vec<AppCell>,
    pub(super) rewrites_per_s: f64,
    pub(super) moves_per_s: f64,
    /// When the last program ended.
    pub(super) elapsed_s: f64,
    /// Mean time from arrival to the end of the first run, where every program has ended.
    pub(super) turnaround_s: Option<f64>,
    /// How far off the bandwidth is that the policy predicts, where it predicts one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bandwidth_error: Option<BandwidthError>,
    /// Who held which CPUs when, with the first seed, up to [`TIMELINE_S`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) timeline: Vec<Held>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct AppCell {
    pub(super) name: String,
    /// In the unit of the suite.
    pub(super) speed: f64,
    /// Relative to the static fair share, where that was run.
    pub(super) of_fair: Option<f64>,
    /// That of each seed.
    pub(super) of_fair_seeds: Vec<f64>,
    pub(super) p99_ms: Option<f64>,
    pub(super) mean_cpus: f64,
    /// Cores of each node that it was given last, with the first seed.
    pub(super) cores_by_node: Vec<u32>,
    /// Lines from other cores of the socket, and from other sockets, per cycle.
    pub(super) intra_socket_per_cycle: f64,
    pub(super) inter_socket_per_cycle: f64,
}

impl SuiteTable {
    pub(super) const fn is_whole(&self) -> bool {
        self.incomplete == 0 && self.without_mean.is_empty()
    }

    /// Which mixes are left out as they have no mean, if any are.
    pub(super) fn without_mean_shown(&self) -> Option<String> {
        (!self.without_mean.is_empty()).then(|| {
            format!(
                "left out: {}, as what speeds are related to, or they themselves, came to nothing",
                self.without_mean.join("; ")
            )
        })
    }
}

impl Cell {
    pub(super) fn least(&self) -> f64 {
        let speeds = self.apps.iter().map(|app| app.speed);
        speeds.fold(f64::INFINITY, f64::min)
    }

    pub(super) fn most(&self) -> f64 {
        self.apps.iter().map(|a| a.speed).fold(0.0, f64::max)
    }
}

pub(super) fn table(planned: &PlannedSuite, results: &Results) -> SuiteTable {
    let suite = &planned.suite;
    let (mut mixes, mut without_mean, mut incomplete) = (Vec::new(), Vec::new(), 0);
    for mix in &planned.mixes {
        let cell = |keys: &[String]| cell(suite, mix, keys, results);
        let cells = mix.policies.iter();
        let cells = cells.filter_map(|(policy, keys)| Some((policy.clone(), cell(keys)?)));
        let policies: BTreeMap<String, Cell> = cells.collect();
        if policies.len() == suite.policies.len() {
            mixes.push(MixRow {
                mix: mix.text.clone(),
                assumed: suite.assumed.contains(&mix.text),
                policies,
            });
        } else if mix.keys().all(|key| results.contains_key(key)) {
            without_mean.push(mix.text.clone());
        } else {
            incomplete += 1;
        }
    }
    let overall = suite.policies.iter().filter_map(|policy| {
        let value = |row: &MixRow| Some(row.policies.get(policy)?.value);
        Some((policy.clone(), geometric(mixes.iter().filter_map(value))?))
    });
    SuiteTable {
        suite: suite.clone(),
        promised: planned.promised,
        cpus: planned.cpus,
        overall: overall.collect(),
        mixes,
        incomplete,
        without_mean,
    }
}

fn cell(suite: &Suite, mix: &PlannedMix, keys: &[String], results: &Results) -> Option<Cell> {
    let runs = keys.iter().map(|key| results.get(key));
    let runs: Vec<&RunResult> = runs.collect::<Option<_>>()?;
    let first = runs.first()?;
    let fair = match &mix.fair {
        Some(key) => Some(results.get(key)?),
        None => None,
    };
    let alone: Option<Vec<&RunResult>> = mix.alone.iter().map(|key| results.get(key)).collect();
    let base = |app: usize| match suite.relative {
        Relative::Alone => Some(1.0),
        Relative::Fair => Some(fair?.apps.get(app)?.speed),
        Relative::BestStatic | Relative::OneCore => {
            Some(alone.as_ref()?.get(app)?.apps.first()?.speed)
        }
    };
    let of_run = |run: &&RunResult| {
        let speeds = run.apps.iter().enumerate();
        let speeds: Option<Vec<f64>> = speeds.map(|(at, a)| Some(a.speed / base(at)?)).collect();
        mean(suite.mean, &speeds?)
    };
    let seeds: Vec<f64> = runs.iter().map(of_run).collect::<Option<_>>()?;
    let app = |at: usize| {
        let of = |number: fn(&AppResult) -> f64| runs.iter().map(move |run| number(&run.apps[at]));
        // The mean of running times, as the papers have it.
        let times: f64 = of(|app| 1.0 / app.speed.max(1e-12)).sum();
        let speed = runs.len() as f64 / times;
        let fair = fair.map(|fair| fair.apps[at].speed);
        let of_fair_seeds =
            fair.map(|fair| of(|app| app.speed).map(|speed| speed / fair).collect());
        let latencies: Vec<f64> = runs.iter().filter_map(|run| run.apps[at].p99_s).collect();
        let p99_s = latencies.iter().sum::<f64>();
        Some(AppCell {
            name: first.apps[at].name.clone(),
            speed: speed / base(at)?,
            of_fair: fair.map(|fair| speed / fair),
            of_fair_seeds: of_fair_seeds.unwrap_or_default(),
            p99_ms: (!latencies.is_empty()).then(|| 1e3 * p99_s / latencies.len() as f64),
            mean_cpus: average(of(|app| app.mean_cpus)),
            cores_by_node: first.apps[at].cores_by_node.clone(),
            intra_socket_per_cycle: average(of(|app| app.intra_socket_per_cycle)),
            inter_socket_per_cycle: average(of(|app| app.inter_socket_per_cycle)),
        })
    };
    let apps: Vec<AppCell> = (0..first.apps.len()).map(app).collect::<Option<_>>()?;
    let speeds: Vec<f64> = apps.iter().map(|a| a.speed).collect();
    let all = runs.iter().flat_map(|run| &run.apps);
    let ends = all.map(|app| Some(app.first_end_s? - app.arrives_s));
    let ends: Option<Vec<f64>> = ends.collect();
    let of = |number: fn(&RunResult) -> f64| average(runs.iter().map(|run| number(run)));
    let timeline = first.timeline.iter();
    let shown = timeline.take_while(|held| held.at_s <= TIMELINE_S);
    Some(Cell {
        value: mean(suite.mean, &speeds)?,
        seeds,
        apps,
        rewrites_per_s: of(|run| run.rewrites_per_s),
        moves_per_s: of(|run| run.moves_per_s),
        elapsed_s: of(|run| run.elapsed_s),
        bandwidth_error: first.bandwidth_error,
        turnaround_s: ends.map(|ends| average(ends.into_iter())),
        timeline: shown.cloned().collect(),
    })
}

fn mean(kind: Mean, values: &[f64]) -> Option<f64> {
    match kind {
        Mean::Geometric => geometric(values.iter().copied()),
        Mean::Harmonic => {
            let sum: f64 = values.iter().map(|v| 1.0 / v).sum();
            Some(values.len() as f64 / sum).filter(|v| v.is_finite())
        }
        Mean::Sum => Some(values.iter().sum()),
    }
}

/// The geometric mean; nothing for no values.
pub(super) fn geometric(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value.ln();
        count += 1.0;
    }
    let mean = (count > 0.0).then(|| f64::exp(sum / count));
    mean.filter(|mean| mean.is_finite())
}

fn average(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(s, c), v| (s + v, c + 1.0));
    sum / f64::max(count, 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::examples::{changed_tables_of, key, planned, ran, suite, table, tables_of};
    use super::*;
    use mapper_model::CpuSet;

    const MIX: &str = "20 SGD, 20 ALS";

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value}, not {expected}");
    }

    fn of(mean: Mean, relative: Relative) -> Suite {
        let mut suite = suite("s", &[MIX], &["linux", "mapper"]);
        (suite.mean, suite.relative) = (mean, relative);
        suite
    }

    fn cell(table: &SuiteTable) -> &Cell {
        &table.mixes[0].policies["mapper"]
    }

    /// Two programs at a speed of 1, after a change of their run.
    fn changed(change: &dyn Fn(&mut RunResult)) -> Cell {
        let rows = ["s | SGD, ALS | mapper 1"];
        cell(&changed_tables_of(&rows, &|_, _, run| change(run))[0]).clone()
    }

    #[test]
    fn a_mix_is_the_mean_that_its_suite_names_of_its_programs_speeds_and_a_suite_the_geometric() {
        for (mean, expected) in [
            (Mean::Geometric, 0.4),
            (Mean::Harmonic, 0.32),
            (Mean::Sum, 1.0),
        ] {
            let of_mean = of(mean, Relative::Alone);
            let table = table(&of_mean, &|_, _| ran(&[("SGD", 0.8), ("ALS", 0.2)]));
            let cell = cell(&table);
            near(cell.value, expected);
            near(cell.seeds[0], expected);
            near(cell.least(), 0.2);
            near(cell.most(), 0.8);
        }
        // A program that came to nothing makes its mix nothing and not a mix without it.
        assert!(cell(&tables_of(&["s | SGD, ALS | mapper 0.8 0"])[0]).value < 1e-5);
        assert_eq!(geometric([0.5, f64::NAN]), None);
        assert_eq!(geometric([]), None);
        let mut two = suite("s", &["SGD", "ALS"], &["linux"]);
        two.mean = Mean::Sum;
        let speed = |mix: &str| if mix == "SGD" { 0.9 } else { 0.4 };
        near(
            table(&two, &|mix, _| ran(&[(mix, speed(mix))])).overall["linux"],
            0.6,
        );
    }

    #[test]
    fn a_program_has_the_mean_of_its_running_times_over_the_seeds_and_every_seed_by_itself() {
        let speeds = [1.0, 0.5, 0.25];
        let runs = speeds.iter().enumerate();
        let runs = runs.map(|(seed, speed)| (key("SGD", "mapper", seed), ran(&[("SGD", *speed)])));
        let fair = (key("SGD", "fair", 0), ran(&[("SGD", 0.5)]));
        let results: Results = runs.chain([fair]).collect();
        let table = super::table(&planned(&suite("s", &["SGD"], &["mapper"]), 3), &results);
        let cell = cell(&table);
        near(cell.apps[0].speed, 3.0 / 7.0);
        near(cell.value, 3.0 / 7.0);
        assert_eq!(cell.seeds, speeds);
        assert_eq!(cell.apps[0].of_fair_seeds, [2.0, 1.0, 0.5]);
        near(cell.apps[0].of_fair.unwrap(), 6.0 / 7.0);
    }

    #[test]
    fn a_mix_without_all_seeds_is_left_out_and_counted_and_one_without_a_mean_named() {
        let planned = planned(&suite("s", &["SGD", "ALS"], &["linux", "mapper"]), 2);
        let mut results = Results::new();
        for (mix, speed) in [("SGD", 0.9), ("ALS", 0.1)] {
            for policy in ["linux", "mapper", "fair"] {
                let runs = [0, 1].map(|seed| (key(mix, policy, seed), ran(&[(mix, speed)])));
                results.extend(runs);
            }
        }
        assert_eq!(super::table(&planned, &results).incomplete, 0);
        results.remove(&key("ALS", "mapper", 1));
        let table = super::table(&planned, &results);
        assert_eq!((table.incomplete, table.mixes.len()), (1, 1));
        near(table.overall["linux"], 0.9);
        // Nothing at all is no mean of one.
        let nothing = super::table(&planned, &Results::new());
        assert!(nothing.overall.is_empty() && nothing.incomplete == 2);

        let table = &tables_of(&["s | SGD | mapper 0.9", "s | ALS | mapper NaN"])[0];
        assert_eq!((table.incomplete, table.mixes.len()), (0, 1));
        assert!(!table.is_whole());
        let output = table.without_mean_shown().unwrap();
        assert!(output.contains("left out: ALS, as"), "{output}");
        near(table.overall["mapper"], 0.9);
    }

    #[test]
    fn speeds_are_related_to_what_the_suite_names_and_without_that_a_mix_is_left_out() {
        let run = || ran(&[("SGD", 0.8), ("ALS", 0.2)]);
        let results: Results = [
            (key(MIX, "linux", 0), run()),
            (key(MIX, "mapper", 0), run()),
            (key(MIX, "fair", 0), ran(&[("SGD", 0.5), ("ALS", 0.4)])),
            (key("SGD", "alone", 0), ran(&[("SGD", 2.0)])),
            (key("ALS", "alone", 0), ran(&[("ALS", 0.1)])),
        ]
        .into();
        for (relative, expected, missing) in [
            (Relative::Alone, [0.8, 0.2], key(MIX, "linux", 0)),
            (Relative::Fair, [1.6, 0.5], key(MIX, "fair", 0)),
            (Relative::BestStatic, [0.4, 2.0], key("ALS", "alone", 0)),
            (Relative::OneCore, [0.4, 2.0], key("ALS", "alone", 0)),
        ] {
            let planned = planned(&of(Mean::Geometric, relative), 1);
            let table = super::table(&planned, &results);
            let speeds: Vec<f64> = cell(&table).apps.iter().map(|app| app.speed).collect();
            assert_eq!(speeds, expected);
            let mut results = results.clone();
            results.remove(&missing);
            assert_eq!(super::table(&planned, &results).incomplete, 1);
        }
    }

    #[test]
    fn the_order_of_policies_and_mixes_does_not_change_a_number() {
        let there = tables_of(&[
            "s | SGD | linux 0.3 | mapper 0.7 | sam 0.45",
            "s | ALS, SVD | linux 0.9 0.2 | mapper 0.35 | sam 0.6 0.55",
            "s | gauss | linux 0.8 | mapper 0.15 | sam 0.95",
        ]);
        let back = tables_of(&[
            "s | gauss | sam 0.95 | mapper 0.15 | linux 0.8",
            "s | ALS, SVD | sam 0.6 0.55 | mapper 0.35 | linux 0.9 0.2",
            "s | SGD | sam 0.45 | mapper 0.7 | linux 0.3",
        ]);
        assert_eq!(there[0].overall.len(), 3);
        for (policy, value) in &there[0].overall {
            near(back[0].overall[policy], *value);
        }
        for (row, same) in there[0].mixes.iter().zip(back[0].mixes.iter().rev()) {
            assert_eq!(row.mix, same.mix);
            for (policy, cell) in &row.policies {
                near(same.policies[policy].value, cell.value);
            }
        }
    }

    #[test]
    fn times_are_given_only_where_every_program_ended_latencies_of_services_timelines_as_plotted() {
        for (ends, arrives_s, expected) in [
            ([Some(10.0), Some(30.0)], 0.0, Some(20.0)),
            ([Some(100.0), Some(100.0)], 60.0, Some(70.0)),
            ([Some(10.0), None], 0.0, None),
        ] {
            let cell = changed(&|run| {
                for (app, end) in run.apps.iter_mut().zip(ends) {
                    app.first_end_s = end;
                }
                run.apps[1].arrives_s = arrives_s;
            });
            assert_eq!(cell.turnaround_s, expected, "from arrival to the end");
        }
        let cell = changed(&|run| run.apps[1].p99_s = Some(0.012));
        assert_eq!(cell.apps[0].p99_ms, None);
        near(cell.apps[1].p99_ms.unwrap(), 12.0);
        let cell = changed(&|run| {
            let cpus = vec![CpuSet::default(); 2];
            let held = |at_s| Held {
                at_s,
                cpus: cpus.clone(),
            };
            run.timeline = [0.0, TIMELINE_S, TIMELINE_S + 1.0].map(held).to_vec();
        });
        assert_eq!(cell.timeline.len(), 2);
    }
}
