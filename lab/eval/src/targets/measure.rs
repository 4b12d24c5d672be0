//! What of the results a published number is compared with: written in `lab/eval/data/published`, computed here.

use super::super::tables::{AppCell, Cell, MixRow, geometric};
use super::book::Book;
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
    MixGain(MixOver),
    /// Speed of a program in a mix.
    App(AppUnder),
    /// How much faster a program in a mix is under one policy than under another.
    AppGain {
        suite: String,
        mix: String,
        app: String,
        policy: String,
        over: String,
    },
    /// Geometric mean of the gains of the mixes that hold a program.
    GainWith(AppOver),
    /// Geometric mean of a program's own speed over all mixes that hold it, relative to another policy.
    AppRatio(AppOver),
    /// By how much the latency of a service is lower than under another policy, averaged over its mixes.
    LowerLatency(AppOver),
    /// Geometric mean of the slowest program of each mix.
    Least(Under),
    /// Geometric mean of the fastest program of each mix.
    Most(Under),
    /// The worst mix.
    Worst(Under),
    /// The worst program of all mixes.
    WorstApp(Under),
    /// CPUs on which a program alone is fastest.
    BestCount { app: String },
    /// Changes per second, averaged over mixes of so many programs.
    ChangesPerS {
        suite: String,
        programs: usize,
        policy: String,
        of: Changes,
    },
    /// Geometric mean of the ratios of two policies over the mixes.
    MeanRatio(Over),
    /// The greatest of these ratios.
    BestRatio(Over),
    /// The least of these ratios.
    WorstRatio(Over),
    /// Sum of the values of the mixes, relative to that of another policy.
    SumRatio(Over),
    /// Geometric mean over the mixes of the total time, relative to another policy.
    MeanTimeRatio(Over),
    /// The greatest of them.
    WorstTimeRatio(Over),
    /// Geometric mean over the mixes of the time from begin to end of a program, relative to another policy.
    TurnaroundRatio(Over),
    /// Total time of a mix relative to another policy.
    TimeRatio(MixOver),
    /// Programs below this share of their fair-share speed.
    Broken(Promised),
    /// Their share of all programs.
    BrokenShare(Promised),
    /// Their mean speed, of the fair-share speed.
    BrokenDepth(Promised),
    /// 99th percentile of the latency of a mix's first program, milliseconds.
    P99Ms {
        suite: String,
        mix: String,
        policy: String,
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

/// All mixes of suites under a policy.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Under {
    suites: Vec<String>,
    policy: String,
}

/// The same, with what each program was promised of its fair-share speed.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Promised {
    suites: Vec<String>,
    policy: String,
    promise: f64,
}

/// Mixes of suites under two policies.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Over {
    suites: Vec<String>,
    /// These of each suite; all, where none are named.
    #[serde(default)]
    mixes: Vec<String>,
    /// So many, from the first on.
    first: Option<usize>,
    policy: String,
    over: String,
}

/// A mix under two policies.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MixOver {
    suite: String,
    mix: String,
    policy: String,
    over: String,
}

/// A program in a mix.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AppUnder {
    suite: String,
    mix: String,
    policy: String,
    app: String,
}

/// The mixes of a suite that hold a program, under two policies.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AppOver {
    suite: String,
    app: String,
    policy: String,
    over: String,
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
    pub(super) fn of(&self, b: &Book<'_>) -> Option<f64> {
        match self {
            Self::Overall { suite, policy } => b.overall(suite, policy),
            Self::Gain {
                suite,
                policy,
                over,
            } => Some(b.overall(suite, policy)? / b.overall(suite, over)? - 1.0),
            Self::MixGain(of) => Some(of.ratio(b, |cell| cell.value)? - 1.0),
            Self::App(of) => Some(app(b.cell(&of.suite, &of.mix, &of.policy)?, &of.app)?.speed),
            Self::AppGain {
                suite,
                mix,
                app,
                policy,
                over,
            } => {
                let of = |policy| Some(self::app(b.cell(suite, mix, policy)?, app)?.speed);
                Some(of(policy)? / of(over)? - 1.0)
            }
            Self::GainWith(of) => Some(of.ratio(b, |cell, _| cell.value)? - 1.0),
            Self::AppRatio(of) => of.ratio(b, |_, app| app.speed),
            Self::LowerLatency(of) => Some(1.0 - 1.0 / of.ratio(b, |_, app| app.speed)?),
            Self::Least(of) => geometric(of.cells(b)?.iter().map(|cell| cell.least())),
            Self::Most(of) => geometric(of.cells(b)?.iter().map(|cell| cell.most())),
            Self::Worst(of) => of.cells(b)?.iter().map(|cell| cell.value).reduce(f64::min),
            Self::WorstApp(of) => {
                let cells = of.cells(b)?.into_iter();
                cells.map(Cell::least).reduce(f64::min)
            }
            Self::BestCount { app } => {
                let cell = b.cell("mapper-alone", app, "oracle")?;
                Some(cell.apps.first()?.mean_cpus)
            }
            Self::ChangesPerS {
                suite,
                programs,
                policy,
                of,
            } => {
                let cells = b.cells(&[suite], policy)?.into_iter();
                average(
                    cells
                        .filter(|cell| cell.apps.len() == *programs)
                        .map(|cell| match of {
                            Changes::CpuSetsWritten => Some(cell.rewrites_per_s),
                            Changes::ContextsMoved => Some(cell.moves_per_s),
                        }),
                )
            }
            Self::MeanRatio(of) => geometric(of.ratios(b, value)?),
            Self::BestRatio(of) => of.ratios(b, value)?.into_iter().reduce(f64::max),
            Self::WorstRatio(of) => of.ratios(b, value)?.into_iter().reduce(f64::min),
            Self::SumRatio(of) => {
                let cells = of.cells(b)?;
                let sum = |of: fn(&[&Cell; 2]) -> f64| cells.iter().map(of).sum::<f64>();
                Some(sum(|[own, _]| own.value) / sum(|[_, other]| other.value))
            }
            Self::MeanTimeRatio(of) => geometric(of.ratios(b, elapsed)?),
            Self::WorstTimeRatio(of) => of.ratios(b, elapsed)?.into_iter().reduce(f64::max),
            Self::TurnaroundRatio(of) => geometric(of.ratios(b, |cell| cell.turnaround_s)?),
            Self::TimeRatio(of) => of.ratio(b, |cell| cell.elapsed_s),
            Self::Broken(of) => Some(of.below(b)?.len() as f64),
            Self::BrokenShare(of) => {
                let cells = b.cells(&of.suites, &of.policy)?;
                let programs: usize = cells.iter().map(|cell| cell.apps.len()).sum();
                Some(of.below(b)?.len() as f64 / programs as f64)
            }
            Self::BrokenDepth(of) => geometric(of.below(b)?),
            Self::P99Ms { suite, mix, policy } => b.cell(suite, mix, policy)?.apps.first()?.p99_ms,
            Self::MeanOfApps {
                suite,
                apps,
                policy,
            } => geometric(speeds(&b.cells(&[suite], policy)?, apps)),
            Self::AppsBroken {
                suite,
                apps,
                policy,
                promise,
            } => {
                let speeds = speeds(&b.cells(&[suite], policy)?, apps);
                Some(speeds.iter().filter(|speed| *speed < promise).count() as f64)
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
            Self::ShareOfCores { policy, cores } => {
                let mut shares = Vec::new();
                for (suite, cores) in cores {
                    for cell in b.cells(&[suite], policy)? {
                        shares.push(Some(cell.apps.first()?.mean_cpus / f64::from(*cores)));
                    }
                }
                average(shares)
            }
            Self::BandwidthError { suite, policy, of } => {
                let errors = b.cells(&[suite], policy)?.into_iter().map(|cell| {
                    let error = cell.bandwidth_error?;
                    Some(match of {
                        Bandwidth::Local => error.local,
                        Bandwidth::Between => error.between,
                        Bandwidth::Total => error.total,
                    })
                });
                average(errors)
            }
            Self::PairGain { stalls_per_event } => {
                b.of_paper(SAM, b.model.pair_gain(*stalls_per_event)?)
            }
            Self::SameCoreFrom {} => b.of_paper(SAM, b.model.same_core_from()?),
            Self::NearAgainstFar {} => b.of_paper(NUCORE, b.model.near_against_far()?),
            Self::WorkedSplit { work, by } => exact::split(b, *work, *by),
            Self::WorkedSaving { work } => exact::saving(b, *work),
            Self::WorkedAllocation { case } => exact::as_printed(b, case).map(yes),
            Self::SharingThreshold {} => {
                let threshold = MachineProfile::default().sharing_high_per_cycle;
                b.of_paper(SAM, 1e3 * threshold)
            }
            Self::IpcThreshold {} => b.of_paper(SAM, MachineProfile::default().ipc_high),
            Self::Plus { add, value } => Some(value.of(b)? + add),
            Self::Saved { value } => Some(1.0 - value.of(b)?),
            Self::Difference { of, less } => Some(of.of(b)? - less.of(b)?),
            Self::Sum { values } => Some(all(values, b)?.iter().sum()),
            Self::Descending { values } => steps(values, b, |one, next| one > next),
            Self::NotRising { within, values } => {
                steps(values, b, |one, next| one >= next - within)
            }
            Self::NotFalling { within, values } => {
                steps(values, b, |one, next| one <= next + within)
            }
            Self::NoneBelow {
                value,
                within,
                others,
            } => {
                let (value, others) = (value.of(b)?, all(others, b)?);
                Some(yes(others.into_iter().all(|other| value <= other + within)))
            }
            Self::Above { limit, value } => Some(yes(value.of(b)? > *limit)),
            Self::AtLeast { limit, value } => Some(yes(value.of(b)? >= *limit)),
            Self::Below { limit, value } => Some(yes(value.of(b)? < *limit)),
            Self::All { values } => {
                Some(yes(all(values, b)?.into_iter().all(|value| value == 1.0)))
            }
        }
    }
}

impl Under {
    fn cells<'b>(&self, b: &'b Book<'_>) -> Option<Vec<&'b Cell>> {
        b.cells(&self.suites, &self.policy)
    }
}

impl Promised {
    /// The shares of the fair-share speed of those below what they were promised.
    fn below(&self, b: &Book<'_>) -> Option<Vec<f64>> {
        let cells = b.cells(&self.suites, &self.policy)?;
        let apps = cells.iter().flat_map(|cell| &cell.apps);
        let mut below: Vec<f64> = apps.map(|app| app.of_fair).collect::<Option<_>>()?;
        below.retain(|of_fair| *of_fair < self.promise);
        Some(below)
    }
}

impl Over {
    /// Each mix under both policies.
    fn cells<'b>(&self, b: &'b Book<'_>) -> Option<Vec<[&'b Cell; 2]>> {
        let mut cells = Vec::new();
        for suite in &self.suites {
            let rows = &b.suite(suite)?.mixes;
            let named = |mix: &String| rows.iter().find(|row| row.mix == *mix);
            let rows: Vec<&MixRow> = match &*self.mixes {
                [] => rows.iter().collect(),
                mixes => mixes.iter().map(named).collect::<Option<_>>()?,
            };
            for row in rows {
                let of = |policy| row.policies.get(policy);
                cells.push([of(&self.policy)?, of(&self.over)?]);
            }
        }
        cells.truncate(self.first.unwrap_or(usize::MAX));
        Some(cells)
    }

    fn ratios(&self, b: &Book<'_>, of: fn(&Cell) -> Option<f64>) -> Option<Vec<f64>> {
        let cells = self.cells(b)?.into_iter();
        cells
            .map(|[own, other]| Some(of(own)? / of(other)?))
            .collect()
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "not every number of a cell is there"
)]
const fn value(cell: &Cell) -> Option<f64> {
    Some(cell.value)
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "not every number of a cell is there"
)]
const fn elapsed(cell: &Cell) -> Option<f64> {
    Some(cell.elapsed_s)
}

impl MixOver {
    fn ratio(&self, b: &Book<'_>, of: fn(&Cell) -> f64) -> Option<f64> {
        let cell = |policy| b.cell(&self.suite, &self.mix, policy);
        Some(of(cell(&self.policy)?) / of(cell(&self.over)?))
    }
}

impl AppOver {
    /// Geometric mean over the mixes that hold the program.
    fn ratio(&self, b: &Book<'_>, of: fn(&Cell, &AppCell) -> f64) -> Option<f64> {
        let ratio = |row: &MixRow| {
            let number = |policy| {
                let cell = row.policies.get(policy)?;
                Some(of(cell, app(cell, &self.app)?))
            };
            Some(number(&self.policy)? / number(&self.over)?)
        };
        geometric(b.suite(&self.suite)?.mixes.iter().filter_map(ratio))
    }
}

fn app<'a>(cell: &'a Cell, name: &str) -> Option<&'a AppCell> {
    cell.apps.iter().find(|app| app.name == name)
}

/// Of these programs in these mixes.
fn speeds(cells: &[&Cell], names: &[String]) -> Vec<f64> {
    let apps = cells.iter().flat_map(|cell| &cell.apps);
    let named = apps.filter(|app| names.contains(&app.name));
    named.map(|app| app.speed).collect()
}

/// 1 for yes, 0 for no.
fn yes(held: bool) -> f64 {
    f64::from(u8::from(held))
}

/// All values, if there are all.
fn all(measures: &[Measure], b: &Book<'_>) -> Option<Vec<f64>> {
    measures.iter().map(|measure| measure.of(b)).collect()
}

/// Whether something holds of each value and the next.
fn steps(measures: &[Measure], b: &Book<'_>, holds: impl Fn(f64, f64) -> bool) -> Option<f64> {
    let values = all(measures, b)?;
    Some(yes(values.windows(2).all(|pair| holds(pair[0], pair[1]))))
}

/// The mean, if there are values and all of them.
fn average(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let values = values.into_iter().collect::<Option<Vec<f64>>>()?;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests;
