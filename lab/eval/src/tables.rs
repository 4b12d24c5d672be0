//! From runs to the numbers of a figure: speeds of programs, of mixes, of a suite.

use super::plan::{PlannedMix, PlannedSuite};
use super::protocol::{Mean, Relative, Suite};
use super::run_spec::{Held, Results, RunResult};
use mapper_sim::nucore::BandwidthError;
use serde::Serialize;
use std::collections::BTreeMap;

/// What is shown of a timeline.
pub(super) const TIMELINE_S: f64 = 120.0;

/// A suite's results.
#[derive(Clone, Debug, Serialize)]
pub(super) struct SuiteTable {
    pub(super) suite: Suite,
    /// What every program was promised, of its speed under the static fair share.
    pub(super) promised: f64,
    /// Of the machine.
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

/// The results of a mix.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MixRow {
    pub(super) mix: String,
    pub(super) assumed: bool,
    pub(super) policies: BTreeMap<String, Cell>,
}

/// A mix under a policy.
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

/// A program in a mix under a policy.
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
    /// Whether no mix is left out.
    pub(super) const fn is_whole(&self) -> bool {
        self.incomplete == 0 && self.without_mean.is_empty()
    }

    /// Which mixes are left out as they have no mean, if any are.
    pub(super) fn without_mean_told(&self) -> Option<String> {
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
        self.apps
            .iter()
            .map(|a| a.speed)
            .fold(f64::INFINITY, f64::min)
    }

    pub(super) fn most(&self) -> f64 {
        self.apps.iter().map(|a| a.speed).fold(0.0, f64::max)
    }
}

/// The table of a suite, with what results there are.
pub(super) fn table(planned: &PlannedSuite, results: &Results) -> SuiteTable {
    let suite = &planned.suite;
    let rows: Vec<MixRow> = planned
        .mixes
        .iter()
        .map(|mix| MixRow {
            mix: mix.text.clone(),
            assumed: suite.assumed.contains(&mix.text),
            policies: mix
                .policies
                .iter()
                .filter_map(|(policy, keys)| {
                    Some((policy.clone(), cell(suite, mix, keys, results)?))
                })
                .collect(),
        })
        .collect();
    let (mixes, cut): (Vec<MixRow>, Vec<MixRow>) = rows
        .into_iter()
        .partition(|row| row.policies.len() == suite.policies.len());
    let ran = |text: &str| {
        let mut of = planned.mixes.iter().filter(|mix| mix.text == text);
        of.all(|mix| mix.keys().all(|key| results.contains_key(key)))
    };
    let (without_mean, incomplete): (Vec<MixRow>, Vec<MixRow>) =
        cut.into_iter().partition(|row| ran(&row.mix));
    let overall = suite
        .policies
        .iter()
        .filter_map(|policy| {
            let values = mixes
                .iter()
                .filter_map(|row| Some(row.policies.get(policy)?.value));
            Some((policy.clone(), geometric(values)?))
        })
        .collect();
    SuiteTable {
        suite: suite.clone(),
        promised: planned.promised,
        cpus: planned.cpus,
        mixes,
        overall,
        incomplete: incomplete.len(),
        without_mean: without_mean.into_iter().map(|row| row.mix).collect(),
    }
}

fn cell(suite: &Suite, mix: &PlannedMix, keys: &[String], results: &Results) -> Option<Cell> {
    let runs: Vec<&RunResult> = keys.iter().filter_map(|key| results.get(key)).collect();
    let first = runs.first().filter(|_| runs.len() == keys.len())?;
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
    let seeds: Vec<f64> = runs
        .iter()
        .map(|run| {
            let speeds = run.apps.iter().enumerate();
            let speeds: Option<Vec<f64>> =
                speeds.map(|(at, a)| Some(a.speed / base(at)?)).collect();
            mean(suite.mean, &speeds?)
        })
        .collect::<Option<_>>()?;
    let apps: Vec<AppCell> = (0..first.apps.len())
        .map(|at| {
            // The mean of running times, as the papers have it.
            let times = runs.iter().map(|run| 1.0 / run.apps[at].speed.max(1e-12));
            let speed = runs.len() as f64 / times.sum::<f64>();
            let latencies: Vec<f64> = runs.iter().filter_map(|run| run.apps[at].p99_s).collect();
            Some(AppCell {
                name: first.apps[at].name.clone(),
                speed: speed / base(at)?,
                of_fair: fair.map(|fair| speed / fair.apps[at].speed),
                of_fair_seeds: fair.map_or_else(Vec::new, |fair| {
                    let speeds = runs.iter().map(|run| run.apps[at].speed);
                    speeds.map(|speed| speed / fair.apps[at].speed).collect()
                }),
                p99_ms: (!latencies.is_empty())
                    .then(|| 1e3 * latencies.iter().sum::<f64>() / latencies.len() as f64),
                mean_cpus: average(runs.iter().map(|run| run.apps[at].mean_cpus)),
                cores_by_node: first.apps[at].cores_by_node.clone(),
                intra_socket_per_cycle: average(
                    runs.iter().map(|run| run.apps[at].intra_socket_per_cycle),
                ),
                inter_socket_per_cycle: average(
                    runs.iter().map(|run| run.apps[at].inter_socket_per_cycle),
                ),
            })
        })
        .collect::<Option<_>>()?;
    let speeds: Vec<f64> = apps.iter().map(|a| a.speed).collect();
    let ends: Option<Vec<f64>> = runs
        .iter()
        .flat_map(|run| run.apps.iter())
        .map(|app| Some(app.first_end_s? - app.arrives_s))
        .collect();
    Some(Cell {
        value: mean(suite.mean, &speeds)?,
        seeds,
        apps,
        rewrites_per_s: average(runs.iter().map(|run| run.rewrites_per_s)),
        moves_per_s: average(runs.iter().map(|run| run.moves_per_s)),
        elapsed_s: average(runs.iter().map(|run| run.elapsed_s)),
        bandwidth_error: first.bandwidth_error,
        turnaround_s: ends.map(|ends| average(ends.into_iter())),
        timeline: first
            .timeline
            .iter()
            .take_while(|held| held.at_s <= TIMELINE_S)
            .cloned()
            .collect(),
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
    (count > 0.0)
        .then(|| f64::exp(sum / count))
        .filter(|v| v.is_finite())
}

fn average(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(s, c), v| (s + v, c + 1.0));
    sum / f64::max(count, 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::examples::{key, planned, ran, suite, table, table_of};
    use super::super::protocol::Suite;
    use super::*;
    use mapper_model::CpuSet;

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value}, not {expected}");
    }

    fn of(mean: Mean, relative: Relative) -> Suite {
        Suite {
            mean,
            relative,
            ..suite("s", &["20 SGD, 20 ALS"], &["linux", "mapper"])
        }
    }

    fn cell(table: &SuiteTable) -> &Cell {
        &table.mixes[0].policies["mapper"]
    }

    #[test]
    fn a_mix_is_the_mean_that_its_suite_names_of_its_programs_speeds() {
        for (mean, expected) in [
            (Mean::Geometric, 0.4),
            (Mean::Harmonic, 0.32),
            (Mean::Sum, 1.0),
        ] {
            let table = table(&of(mean, Relative::Alone), &|_, _| {
                ran(&[("SGD", 0.8), ("ALS", 0.2)])
            });
            near(cell(&table).value, expected);
            near(cell(&table).seeds[0], expected);
        }
    }

    #[test]
    fn a_suite_is_the_geometric_mean_of_its_mixes_whatever_that_of_a_mix_is() {
        let two = Suite {
            mean: Mean::Sum,
            ..suite("s", &["SGD", "ALS"], &["linux"])
        };
        let table = table_of(&two, &|mix, _| if mix == "SGD" { 0.9 } else { 0.4 });
        near(table.overall["linux"], 0.6);
    }

    #[test]
    fn a_program_has_the_mean_of_its_running_times_over_the_seeds_and_every_seed_by_itself() {
        let suite = suite("s", &["SGD"], &["mapper"]);
        let speeds = [1.0, 0.5, 0.25];
        let mut results: Results = speeds
            .iter()
            .enumerate()
            .map(|(seed, &speed)| (key("SGD", "mapper", seed), ran(&[("SGD", speed)])))
            .collect();
        results.insert(key("SGD", "fair", 0), ran(&[("SGD", 0.5)]));
        let table = super::table(&planned(&suite, 3), &results);
        let cell = cell(&table);
        near(cell.apps[0].speed, 3.0 / 7.0);
        near(cell.value, 3.0 / 7.0);
        assert_eq!(cell.seeds, speeds);
        assert_eq!(cell.apps[0].of_fair_seeds, [2.0, 1.0, 0.5]);
        near(cell.apps[0].of_fair.unwrap(), 6.0 / 7.0);
    }

    #[test]
    fn a_mix_without_all_seeds_of_all_policies_is_left_out_and_counted() {
        let two = suite("s", &["SGD", "ALS"], &["linux", "mapper"]);
        let planned = planned(&two, 2);
        let mut results = Results::new();
        for mix in ["SGD", "ALS"] {
            for policy in ["linux", "mapper", "fair"] {
                for seed in 0..2 {
                    let speed = if mix == "SGD" { 0.9 } else { 0.1 };
                    results.insert(key(mix, policy, seed), ran(&[(mix, speed)]));
                }
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
    }

    #[test]
    fn a_mix_whose_speeds_are_no_numbers_is_named_and_does_not_count_as_stopped() {
        let two = suite("s", &["SGD", "ALS"], &["mapper"]);
        let table = table_of(&two, &|mix, _| if mix == "SGD" { 0.9 } else { f64::NAN });
        assert_eq!((table.incomplete, table.mixes.len()), (0, 1));
        assert!(!table.is_whole());
        let told = table.without_mean_told().unwrap();
        assert!(told.contains("left out: ALS, as"), "{told}");
        near(table.overall["mapper"], 0.9);
    }

    #[test]
    fn speeds_are_related_to_what_the_suite_names() {
        let run = || ran(&[("SGD", 0.8), ("ALS", 0.2)]);
        let results: Results = [
            (key("20 SGD, 20 ALS", "linux", 0), run()),
            (key("20 SGD, 20 ALS", "mapper", 0), run()),
            (
                key("20 SGD, 20 ALS", "fair", 0),
                ran(&[("SGD", 0.5), ("ALS", 0.4)]),
            ),
            (key("SGD", "alone", 0), ran(&[("SGD", 2.0)])),
            (key("ALS", "alone", 0), ran(&[("ALS", 0.1)])),
        ]
        .into();
        let speeds = |relative| -> Vec<f64> {
            let suite = of(Mean::Geometric, relative);
            let table = super::table(&planned(&suite, 1), &results);
            cell(&table).apps.iter().map(|app| app.speed).collect()
        };
        assert_eq!(speeds(Relative::Alone), [0.8, 0.2]);
        assert_eq!(speeds(Relative::Fair), [1.6, 0.5]);
        assert_eq!(speeds(Relative::BestStatic), [0.4, 2.0]);
        assert_eq!(speeds(Relative::OneCore), [0.4, 2.0]);
    }

    #[test]
    fn without_the_run_that_speeds_are_related_to_a_mix_is_left_out() {
        for (relative, missing) in [
            (Relative::Fair, key("20 SGD, 20 ALS", "fair", 0)),
            (Relative::BestStatic, key("ALS", "alone", 0)),
        ] {
            let suite = of(Mean::Geometric, relative);
            let mut results = Results::new();
            for key in planned(&suite, 1)
                .mixes
                .iter()
                .flat_map(|mix| {
                    let policies = mix.policies.iter().flat_map(|(_, keys)| keys.clone());
                    policies.chain(mix.fair.clone()).chain(mix.alone.clone())
                })
                .filter(|key| *key != missing)
            {
                results.insert(key, ran(&[("SGD", 0.8), ("ALS", 0.2)]));
            }
            assert_eq!(super::table(&planned(&suite, 1), &results).incomplete, 1);
        }
    }

    #[test]
    fn the_order_of_policies_and_mixes_does_not_change_a_number() {
        let speed = |mix: &str, policy: &str| {
            let at = mix.len() as f64 + policy.bytes().map(f64::from).sum::<f64>() / 100.0;
            1.0 / at
        };
        let there = suite(
            "s",
            &["SGD", "ALS, SVD", "gauss"],
            &["linux", "mapper", "sam"],
        );
        let mut back = there.clone();
        back.policies.reverse();
        back.mixes.reverse();
        let (there, back) = (table_of(&there, &speed), table_of(&back, &speed));
        assert_eq!(there.overall.len(), 3);
        for (policy, value) in &there.overall {
            near(back.overall[policy], *value);
        }
        for row in &there.mixes {
            let same = back
                .mixes
                .iter()
                .find(|other| other.mix == row.mix)
                .unwrap();
            for (policy, cell) in &row.policies {
                near(same.policies[policy].value, cell.value);
            }
        }
    }

    #[test]
    fn a_program_that_came_to_nothing_makes_its_mix_nothing_and_not_a_mix_without_it() {
        let table = table(&of(Mean::Geometric, Relative::Alone), &|_, _| {
            ran(&[("SGD", 0.8), ("ALS", 0.0)])
        });
        assert!(cell(&table).value < 1e-5);
        assert_eq!(geometric([0.5, f64::NAN]), None);
        assert_eq!(geometric([]), None);
    }

    #[test]
    fn the_time_to_an_end_is_given_only_where_every_program_ended() {
        let turnaround = |ends: [Option<f64>; 2]| {
            let table = table(&of(Mean::Geometric, Relative::Alone), &|_, _| {
                let mut run = ran(&[("SGD", 1.0), ("ALS", 1.0)]);
                for (app, end) in run.apps.iter_mut().zip(ends) {
                    app.first_end_s = end;
                }
                run
            });
            cell(&table).turnaround_s
        };
        assert_eq!(turnaround([Some(10.0), Some(30.0)]), Some(20.0));
        assert_eq!(turnaround([Some(10.0), None]), None);
    }

    #[test]
    fn nobody_waits_before_it_arrives() {
        let table = table(&of(Mean::Geometric, Relative::Alone), &|_, _| {
            let mut run = ran(&[("SGD", 1.0), ("ALS", 1.0)]);
            run.apps[1].arrives_s = 60.0;
            run
        });
        assert_eq!(cell(&table).turnaround_s, Some(70.0));
    }

    #[test]
    fn latencies_are_the_mean_of_the_seeds_and_none_of_programs_without() {
        let table = table(&of(Mean::Geometric, Relative::Alone), &|_, _| {
            let mut run = ran(&[("SGD", 1.0), ("ALS", 1.0)]);
            run.apps[1].p99_s = Some(0.012);
            run
        });
        assert_eq!(cell(&table).apps[0].p99_ms, None);
        near(cell(&table).apps[1].p99_ms.unwrap(), 12.0);
    }

    #[test]
    fn a_timeline_is_cut_where_the_plot_ends() {
        let table = table(&of(Mean::Geometric, Relative::Alone), &|_, _| {
            let mut run = ran(&[("SGD", 1.0), ("ALS", 1.0)]);
            let at = [0.0, TIMELINE_S, TIMELINE_S + 1.0];
            run.timeline = at
                .map(|at_s| Held {
                    at_s,
                    cpus: vec![CpuSet::default(); 2],
                })
                .to_vec();
            run
        });
        assert_eq!(cell(&table).timeline.len(), 2);
    }

    #[test]
    fn the_slowest_and_fastest_program_end_the_whisker() {
        let table = table(&of(Mean::Geometric, Relative::Alone), &|_, _| {
            ran(&[("SGD", 0.8), ("ALS", 0.2)])
        });
        near(cell(&table).least(), 0.2);
        near(cell(&table).most(), 0.8);
    }
}
