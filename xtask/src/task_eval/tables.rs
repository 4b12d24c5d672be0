//! From runs to the numbers of a figure: speeds of programs, of mixes, of a suite.

use super::execute::Results;
use super::plan::{PlannedMix, PlannedSuite};
use super::protocol::{Mean, Relative, Suite};
use super::run_spec::{Held, RunResult};
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
    pub(super) mixes: Vec<MixRow>,
    /// Geometric mean over the mixes that are complete for every policy.
    pub(super) overall: BTreeMap<String, f64>,
    /// Mixes left out because the evaluation was stopped.
    pub(super) incomplete: usize,
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
    /// Mean time from begin to end of the programs that run once.
    pub(super) turnaround_s: Option<f64>,
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
    /// Lines from other cores of the socket, and from other sockets, per cycle.
    pub(super) intra_socket_per_cycle: f64,
    pub(super) inter_socket_per_cycle: f64,
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
        mixes,
        overall,
        incomplete: cut.len(),
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
        .flat_map(|run| run.apps.iter().map(|app| app.first_end_s))
        .collect();
    Some(Cell {
        value: mean(suite.mean, &speeds)?,
        seeds,
        apps,
        rewrites_per_s: average(runs.iter().map(|run| run.rewrites_per_s)),
        moves_per_s: average(runs.iter().map(|run| run.moves_per_s)),
        elapsed_s: average(runs.iter().map(|run| run.elapsed_s)),
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
