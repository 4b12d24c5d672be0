//! What of the results a published number is compared with: written in `lab/eval/data/published`, computed here.

use super::super::tables::{AppCell, Cell, geometric};
use super::book::{Book, descending, yes};
use super::exact;
use mapper_model::MachineProfile;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A number of the results. Without the runs that it needs it has no value.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Measure {
    /// Mean over the mixes of a suite.
    Overall { suite: String, policy: String },
    /// How much faster one policy is than another over a suite.
    Gain {
        suite: String,
        policy: String,
        over: String,
    },
    /// The same in a mix.
    MixGain {
        suite: String,
        mix: String,
        policy: String,
        over: String,
    },
    /// Speed of a program in a mix.
    App {
        suite: String,
        mix: String,
        policy: String,
        app: String,
    },
    /// How much faster a program in a mix is under one policy than under another.
    AppGain {
        suite: String,
        mix: String,
        app: String,
        policy: String,
        over: String,
    },
    /// Geometric mean of the gains of the mixes that hold a program.
    GainWith {
        suite: String,
        app: String,
        policy: String,
        over: String,
    },
    /// Geometric mean of a program's own speed over all mixes that hold it, relative to another policy.
    AppRatio {
        suite: String,
        app: String,
        policy: String,
        over: String,
    },
    /// Geometric mean of the slowest program of each mix.
    Least { suites: Vec<String>, policy: String },
    /// Geometric mean of the fastest program of each mix.
    Most { suites: Vec<String>, policy: String },
    /// The worst mix.
    Worst { suite: String, policy: String },
    /// The worst program of all mixes.
    WorstApp { suite: String, policy: String },
    /// CPUs on which a program alone is fastest.
    BestCount { app: String },
    /// Changes per second, averaged over mixes of so many programs.
    ChangesPerS {
        suite: String,
        programs: usize,
        policy: String,
        of: Changes,
    },
    /// Geometric mean of the ratios of two policies over all mixes, or the first ones.
    MeanRatio {
        suites: Vec<String>,
        first: Option<usize>,
        policy: String,
        over: String,
    },
    /// The greatest of these ratios.
    BestRatio {
        suites: Vec<String>,
        policy: String,
        over: String,
    },
    /// The least of these ratios.
    WorstRatio {
        suites: Vec<String>,
        policy: String,
        over: String,
    },
    /// Geometric mean of the ratios in these mixes of a suite.
    RatioOfMixes {
        suite: String,
        mixes: Vec<String>,
        policy: String,
        over: String,
    },
    /// Sum of the values of the mixes, relative to that of another policy.
    SumRatio {
        suite: String,
        policy: String,
        over: String,
    },
    /// Programs below this share of their fair-share speed.
    Broken {
        suites: Vec<String>,
        policy: String,
        promise: f64,
    },
    /// Their share of all programs.
    BrokenShare {
        suites: Vec<String>,
        policy: String,
        promise: f64,
    },
    /// Their mean speed, of the fair-share speed.
    BrokenDepth {
        suites: Vec<String>,
        policy: String,
        promise: f64,
    },
    /// 99th percentile of the latency of a mix's first program, milliseconds.
    P99Ms {
        suite: String,
        mix: String,
        policy: String,
    },
    /// By how much the latency of a service is lower than under another policy, averaged over its mixes.
    LowerLatency {
        suite: String,
        app: String,
        policy: String,
        over: String,
    },
    /// Geometric mean of the speeds of these programs.
    MeanOfApps {
        suite: String,
        apps: Vec<String>,
        policy: String,
    },
    /// How many of them are below a speed.
    AppsBroken {
        suite: String,
        apps: Vec<String>,
        policy: String,
        promise: f64,
    },
    /// What another threshold does to a mix.
    Sensitivity {
        suite: String,
        usual: String,
        mix: String,
        policy: String,
    },
    /// Total time of a mix relative to another policy.
    TimeRatio {
        suite: String,
        mix: String,
        policy: String,
        over: String,
    },
    /// Geometric mean of these over mixes; all, where none are named.
    MeanTimeRatio {
        suites: Vec<String>,
        #[serde(default)]
        mixes: Vec<String>,
        policy: String,
        over: String,
    },
    /// The greatest of them.
    WorstTimeRatio {
        suites: Vec<String>,
        policy: String,
        over: String,
    },
    /// Geometric mean over the mixes of the time from begin to end of a program, relative to another policy.
    TurnaroundRatio {
        suite: String,
        policy: String,
        over: String,
    },
    /// Mean share of the machine's cores that a mix's first program has.
    ShareOfCores {
        policy: String,
        cores: BTreeMap<String, u32>,
    },
    /// Mean error of the predicted bandwidth over the programs.
    BandwidthError {
        suite: String,
        policy: String,
        of: Bandwidth,
    },
    /// Gain of a pair that shares data, from two sockets to one [SAM-MPH Fig. 1].
    PairGain { stalls_per_event: f64 },
    /// Stalls per event from which that pair is better on one core [SAM-MPH Fig. 1].
    SameCoreFrom {},
    /// Six cores beside their data against one on each of six nodes [NuCore Fig. 2].
    NearAgainstFar {},
    /// Cores of the first of two programs, whose work is so many times the second's [NuPoCo Fig. 4 to 6].
    WorkedSplit { work: f64, by: exact::Criterion },
    /// Share of the time that system utilisation saves over one after the other [NuPoCo Fig. 6].
    WorkedSaving { work: f64 },
    /// Whether a program comes to the cores by node that NuCore's Table 1 prints.
    WorkedAllocation { case: String },
    /// SAM-MPH's threshold of events per 1000 cycles, as the code has it.
    SharingThreshold {},
    /// SAM-MPH's threshold of instructions per cycle, as the code has it.
    IpcThreshold {},
    /// A value and a constant.
    Plus { add: f64, value: Box<Measure> },
    /// What is left of 1.
    Saved { value: Box<Measure> },
    /// One value less another.
    Difference {
        of: Box<Measure>,
        less: Box<Measure>,
    },
    /// All of them.
    Sum { values: Vec<Measure> },
    /// Whether each is greater than the next.
    Descending { values: Vec<Measure> },
    /// Whether none is greater than the one before it, to within so much.
    NotRising { within: f64, values: Vec<Measure> },
    /// Whether none is less than the one before it, to within so much.
    NotFalling { within: f64, values: Vec<Measure> },
    /// Whether no other is less, to within so much.
    NoneBelow {
        value: Box<Measure>,
        within: f64,
        others: Vec<Measure>,
    },
    /// Whether a value is greater than a limit.
    Above { limit: f64, value: Box<Measure> },
    /// Whether a value is at least a limit.
    AtLeast { limit: f64, value: Box<Measure> },
    /// Whether a value is less than a limit.
    Below { limit: f64, value: Box<Measure> },
    /// Whether all hold.
    All { values: Vec<Measure> },
}

/// What Table 4 of MAPPER counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Changes {
    CpuSetsWritten,
    ContextsMoved,
}

/// Which bandwidth was predicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bandwidth {
    Local,
    Between,
    Total,
}

/// How the suites of a paper begin.
const SAM: &str = "sam-";
const NUCORE: &str = "nucore-amd";

impl Measure {
    /// Its value.
    pub(super) fn of(&self, b: &Book<'_>) -> Option<f64> {
        match self {
            Self::Overall { suite, policy } => b.overall(suite, policy),
            Self::Gain {
                suite,
                policy,
                over,
            } => b.gain(suite, policy, over),
            Self::MixGain {
                suite,
                mix,
                policy,
                over,
            } => b.mix_gain(suite, mix, policy, over),
            Self::App {
                suite,
                mix,
                policy,
                app,
            } => b.app(suite, mix, policy, app),
            Self::AppGain {
                suite,
                mix,
                app,
                policy,
                over,
            } => {
                let of = |policy| b.app(suite, mix, policy, app);
                Some(of(policy)? / of(over)? - 1.0)
            }
            Self::GainWith {
                suite,
                app,
                policy,
                over,
            } => b.gain_with(suite, app, policy, over),
            Self::AppRatio {
                suite,
                app,
                policy,
                over,
            } => b.app_ratio(suite, app, policy, over),
            Self::Least { suites, policy } => b.least(suites, policy),
            Self::Most { suites, policy } => b.most(suites, policy),
            Self::Worst { suite, policy } => b.worst(suite, policy),
            Self::WorstApp { suite, policy } => b.worst_app(suite, policy),
            Self::BestCount { app } => {
                let cell = b.cell("mapper-alone", app, "oracle")?;
                Some(cell.apps.first()?.mean_cpus)
            }
            Self::ChangesPerS {
                suite,
                programs,
                policy,
                of,
            } => changes_per_s(&b.cells(&[suite], policy)?, *programs, *of),
            Self::MeanRatio {
                suites,
                first,
                policy,
                over,
            } => {
                let ratios = b.ratios(suites, policy, over)?;
                geometric(ratios.into_iter().take(first.unwrap_or(usize::MAX)))
            }
            Self::BestRatio {
                suites,
                policy,
                over,
            } => b.ratios(suites, policy, over)?.into_iter().reduce(f64::max),
            Self::WorstRatio {
                suites,
                policy,
                over,
            } => b.ratios(suites, policy, over)?.into_iter().reduce(f64::min),
            Self::RatioOfMixes {
                suite,
                mixes,
                policy,
                over,
            } => {
                let value = |mix, policy| Some(b.cell(suite, mix, policy)?.value);
                mean(
                    mixes
                        .iter()
                        .map(|mix| Some(value(mix, policy)? / value(mix, over)?)),
                )
            }
            Self::SumRatio {
                suite,
                policy,
                over,
            } => {
                let sum = |policy| -> Option<f64> {
                    let cells = b.cells(&[suite], policy)?;
                    Some(cells.iter().map(|(_, cell)| cell.value).sum())
                };
                Some(sum(policy)? / sum(over)?)
            }
            Self::Broken {
                suites,
                policy,
                promise,
            } => Some(b.below_fair(suites, policy, *promise)?.len() as f64),
            Self::BrokenShare {
                suites,
                policy,
                promise,
            } => {
                let broken = b.below_fair(suites, policy, *promise)?.len() as f64;
                Some(broken / b.programs(suites, policy)? as f64)
            }
            Self::BrokenDepth {
                suites,
                policy,
                promise,
            } => geometric(b.below_fair(suites, policy, *promise)?),
            Self::P99Ms { suite, mix, policy } => b.cell(suite, mix, policy)?.apps.first()?.p99_ms,
            Self::LowerLatency {
                suite,
                app,
                policy,
                over,
            } => Some(1.0 - 1.0 / b.app_ratio(suite, app, policy, over)?),
            Self::MeanOfApps {
                suite,
                apps,
                policy,
            } => {
                let cells = b.cells(&[suite], policy)?;
                geometric(of_apps(&cells, apps).map(|app| app.speed))
            }
            Self::AppsBroken {
                suite,
                apps,
                policy,
                promise,
            } => {
                let cells = b.cells(&[suite], policy)?;
                let below = of_apps(&cells, apps).filter(|app| app.speed < *promise);
                Some(below.count() as f64)
            }
            Self::Sensitivity {
                suite,
                usual,
                mix,
                policy,
            } => {
                let of = |suite| Some(b.cell(suite, mix, policy)?.value);
                Some(of(suite)? / of(usual)? - 1.0)
            }
            Self::TimeRatio {
                suite,
                mix,
                policy,
                over,
            } => b.time_ratio(suite, mix, policy, over),
            Self::MeanTimeRatio {
                suites,
                mixes,
                policy,
                over,
            } => geometric(b.time_ratios(suites, mixes, policy, over)?),
            Self::WorstTimeRatio {
                suites,
                policy,
                over,
            } => {
                let ratios = b.time_ratios(suites, &[], policy, over)?;
                ratios.into_iter().reduce(f64::max)
            }
            Self::TurnaroundRatio {
                suite,
                policy,
                over,
            } => {
                let (own, other) = (b.cells(&[suite], policy)?, b.cells(&[suite], over)?);
                let pairs = own.iter().zip(&other);
                mean(pairs.map(|(own, other)| Some(own.1.turnaround_s? / other.1.turnaround_s?)))
            }
            Self::ShareOfCores { policy, cores } => {
                let mut shares = Vec::new();
                for (suite, cores) in cores {
                    for (_, cell) in b.cells(&[suite], policy)? {
                        shares.push(cell.apps.first()?.mean_cpus / f64::from(*cores));
                    }
                }
                Some(shares.iter().sum::<f64>() / shares.len() as f64)
            }
            Self::BandwidthError { suite, policy, of } => {
                bandwidth_error(&b.cells(&[suite], policy)?, *of)
            }
            Self::PairGain { stalls_per_event } => {
                b.of_paper(SAM, b.model.pair_gain(*stalls_per_event)?)
            }
            Self::SameCoreFrom {} => b.of_paper(SAM, b.model.same_core_from()?),
            Self::NearAgainstFar {} => b.of_paper(NUCORE, b.model.near_against_far()?),
            Self::WorkedSplit { work, by } => exact::split(b, *work, *by),
            Self::WorkedSaving { work } => exact::saving(b, *work),
            Self::WorkedAllocation { case } => exact::as_printed(b, case),
            Self::SharingThreshold {} => {
                let threshold = MachineProfile::default().sharing_high_per_cycle;
                b.of_paper(SAM, 1e3 * threshold)
            }
            Self::IpcThreshold {} => b.of_paper(SAM, MachineProfile::default().ipc_high),
            Self::Plus { add, value } => Some(value.of(b)? + add),
            Self::Saved { value } => Some(1.0 - value.of(b)?),
            Self::Difference { of, less } => Some(of.of(b)? - less.of(b)?),
            Self::Sum { values } => Some(all(values, b)?.iter().sum()),
            Self::Descending { values } => descending(&values_of(values, b)),
            Self::NotRising { within, values } => yes(all(values, b)?
                .windows(2)
                .all(|pair| pair[0] >= pair[1] - within)),
            Self::NotFalling { within, values } => yes(all(values, b)?
                .windows(2)
                .all(|pair| pair[0] <= pair[1] + within)),
            Self::NoneBelow {
                value,
                within,
                others,
            } => {
                let (value, others) = (value.of(b)?, all(others, b)?);
                yes(others.into_iter().all(|other| value <= other + within))
            }
            Self::Above { limit, value } => yes(value.of(b)? > *limit),
            Self::AtLeast { limit, value } => yes(value.of(b)? >= *limit),
            Self::Below { limit, value } => yes(value.of(b)? < *limit),
            Self::All { values } => yes(all(values, b)?.into_iter().all(|value| value == 1.0)),
        }
    }
}

fn values_of(measures: &[Measure], b: &Book<'_>) -> Vec<Option<f64>> {
    measures.iter().map(|measure| measure.of(b)).collect()
}

/// All values, if there are all.
fn all(measures: &[Measure], b: &Book<'_>) -> Option<Vec<f64>> {
    values_of(measures, b).into_iter().collect()
}

/// Geometric mean, if all values are there.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    geometric(values.collect::<Option<Vec<f64>>>()?)
}

fn changes_per_s(cells: &[(&str, &Cell)], programs: usize, of: Changes) -> Option<f64> {
    let cells = cells.iter().filter(|(_, cell)| cell.apps.len() == programs);
    let rates: Vec<f64> = cells
        .map(|(_, cell)| match of {
            Changes::CpuSetsWritten => cell.rewrites_per_s,
            Changes::ContextsMoved => cell.moves_per_s,
        })
        .collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

fn of_apps<'a>(
    cells: &'a [(&str, &Cell)],
    names: &'a [String],
) -> impl Iterator<Item = &'a AppCell> {
    let apps = cells.iter().flat_map(|(_, cell)| &cell.apps);
    apps.filter(|app| names.contains(&app.name))
}

fn bandwidth_error(cells: &[(&str, &Cell)], of: Bandwidth) -> Option<f64> {
    let error = |cell: &Cell| {
        let error = cell.bandwidth_error?;
        Some(match of {
            Bandwidth::Local => error.local,
            Bandwidth::Between => error.between,
            Bandwidth::Total => error.total,
        })
    };
    let errors: Option<Vec<f64>> = cells.iter().map(|(_, cell)| error(cell)).collect();
    let errors = errors.filter(|errors| !errors.is_empty())?;
    Some(errors.iter().sum::<f64>() / errors.len() as f64)
}

#[cfg(test)]
mod tests;
