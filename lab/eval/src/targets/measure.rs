//! What of the results a published number is compared with: written in `lab/eval/data/published`, computed here.

use super::super::tables::{AppCell, Cell, MixRow, SuiteTable, geometric};
use super::book::Book;
use super::exact;
use mapper_model::MachineProfile;
use serde::Deserialize;

/// A number of the results. Without the runs that it needs it has no value.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Measure {
    /// What came of the mixes of suites.
    Runs(Runs),
    /// How much more that is than 1.
    Gain(Runs),
    /// The number itself.
    Number(f64),
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
    /// One value less another.
    Difference {
        of: Box<Measure>,
        less: Box<Measure>,
    },
    /// One value by another.
    Quotient { of: Box<Measure>, by: Box<Measure> },
    /// All of them.
    Sum(Vec<Measure>),
    /// Whether each is greater than the next.
    Descending(Vec<Measure>),
    /// Whether none is greater than the one before it, to within so much.
    NotRising { within: f64, values: Vec<Measure> },
    /// Whether no other is less, to within so much.
    NoneBelow {
        value: Box<Measure>,
        within: f64,
        others: Vec<Measure>,
    },
    /// Whether all hold.
    All(Vec<Measure>),
}

/// Numbers of mixes or programs under a policy, and how they become one.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Runs {
    suites: Vec<String>,
    /// These mixes of each suite; all, where none are named.
    #[serde(default)]
    mixes: Vec<String>,
    /// So many of each suite, from the first on.
    first: Option<usize>,
    /// Only mixes of so many programs.
    programs: Option<usize>,
    /// Only these programs, and mixes that hold one of them; all, where none are named.
    #[serde(default)]
    apps: Vec<String>,
    policy: String,
    /// Relative to what it comes to under this policy.
    over: Option<String>,
    /// Each number relative to that under this policy.
    over_each: Option<String>,
    #[serde(default)]
    of: Of,
    /// Only numbers below this one.
    below: Option<f64>,
    #[serde(default)]
    by: By,
}

/// A number of a mix or of each of its programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Of {
    /// The one number of the mix.
    #[default]
    Value,
    /// Speed of the slowest program.
    Slowest,
    /// Speed of the fastest program.
    Fastest,
    /// Total time.
    ElapsedS,
    /// Time from begin to end of a program.
    TurnaroundS,
    /// Per second, as the next [MAPPER Table 4].
    CpuSetsWritten,
    ContextsMoved,
    /// Error of the predicted bandwidth, as the next two.
    LocalBandwidth,
    BandwidthBetween,
    AllBandwidth,
    /// 99th percentile of the latency of the first program, milliseconds.
    P99Ms,
    /// Mean CPUs of the first program.
    Cpus,
    /// The same as a share of the machine's.
    ShareOfCpus,
    /// Speed of each program.
    Speed,
    /// The same of that under the static fair share.
    ShareOfFair,
}

/// How numbers become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum By {
    #[default]
    Geometric,
    Mean,
    Sum,
    Least,
    Greatest,
    /// There is one.
    Only,
    /// How many there are.
    Count,
    /// That as a share of all, whether below or not.
    Share,
}

/// How the suites of a paper begin.
const SAM: &str = "sam-";
const NUCORE: &str = "nucore-amd";

impl Measure {
    pub(super) fn of(&self, b: &Book<'_>) -> Option<f64> {
        match self {
            Self::Runs(of) => of.number(b),
            Self::Gain(of) => Some(of.number(b)? - 1.0),
            Self::Number(number) => Some(*number),
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
            Self::Difference { of, less } => Some(of.of(b)? - less.of(b)?),
            Self::Quotient { of, by } => Some(of.of(b)? / by.of(b)?),
            Self::Sum(values) => Some(all(values, b)?.iter().sum()),
            Self::Descending(values) => steps(values, b, |one, next| one > next),
            Self::NotRising { within, values } => {
                steps(values, b, |one, next| one >= next - within)
            }
            Self::NoneBelow {
                value,
                within,
                others,
            } => {
                let (value, others) = (value.of(b)?, all(others, b)?);
                Some(yes(others.into_iter().all(|other| value <= other + within)))
            }
            Self::All(values) => Some(yes(all(values, b)?.into_iter().all(|value| value == 1.0))),
        }
    }
}

impl Runs {
    fn number(&self, b: &Book<'_>) -> Option<f64> {
        let own = self.combined(b, &self.policy)?;
        match &self.over {
            Some(other) => Some(own / self.combined(b, other)?),
            None => Some(own),
        }
    }

    fn combined(&self, b: &Book<'_>, policy: &str) -> Option<f64> {
        let mut numbers = self.numbers(b, policy)?;
        if let Some(other) = &self.over_each {
            let others = self.numbers(b, other)?;
            let pairs = numbers.iter_mut().zip(others);
            pairs.for_each(|(number, other)| *number /= other);
        }
        let all = numbers.len() as f64;
        numbers.retain(|number| self.below.is_none_or(|below| *number < below));
        let count = numbers.len() as f64;
        let mut numbers = numbers.into_iter();
        match self.by {
            By::Geometric => geometric(numbers),
            By::Mean => (count > 0.0).then(|| numbers.sum::<f64>() / count),
            By::Sum => Some(numbers.sum()),
            By::Least => numbers.reduce(f64::min),
            By::Greatest => numbers.reduce(f64::max),
            By::Only => numbers.next().filter(|_| count == 1.0),
            By::Count => Some(count),
            By::Share => Some(count / all),
        }
    }

    /// The number of each mix or program that is meant.
    fn numbers(&self, b: &Book<'_>, policy: &str) -> Option<Vec<f64>> {
        let mut numbers = Vec::new();
        for suite in &self.suites {
            let table = b.suite(suite)?;
            let named = |mix: &String| table.mixes.iter().find(|row| row.mix == *mix);
            let rows: Vec<&MixRow> = match &*self.mixes {
                [] => table.mixes.iter().collect(),
                mixes => mixes.iter().map(named).collect::<Option<_>>()?,
            };
            for row in rows.into_iter().take(self.first.unwrap_or(usize::MAX)) {
                let cell = row.policies.get(policy)?;
                let size = self.programs.unwrap_or(cell.apps.len());
                if cell.apps.len() == size && cell.apps.iter().any(|app| self.means(app)) {
                    numbers.extend(self.numbers_of(table, cell)?);
                }
            }
        }
        Some(numbers)
    }

    fn means(&self, app: &AppCell) -> bool {
        self.apps.is_empty() || self.apps.contains(&app.name)
    }

    fn numbers_of(&self, table: &SuiteTable, cell: &Cell) -> Option<Vec<f64>> {
        let first = cell.apps.first()?;
        let meant = || cell.apps.iter().filter(|app| self.means(app));
        let number = match self.of {
            Of::Value => cell.value,
            Of::Slowest => cell.least(),
            Of::Fastest => cell.most(),
            Of::ElapsedS => cell.elapsed_s,
            Of::TurnaroundS => cell.turnaround_s?,
            Of::CpuSetsWritten => cell.rewrites_per_s,
            Of::ContextsMoved => cell.moves_per_s,
            Of::LocalBandwidth => cell.bandwidth_error?.local,
            Of::BandwidthBetween => cell.bandwidth_error?.between,
            Of::AllBandwidth => cell.bandwidth_error?.total,
            Of::P99Ms => first.p99_ms?,
            Of::Cpus => first.mean_cpus,
            Of::ShareOfCpus => first.mean_cpus / f64::from(table.cpus),
            Of::Speed => return Some(meant().map(|app| app.speed).collect()),
            Of::ShareOfFair => return meant().map(|app| app.of_fair).collect(),
        };
        Some(vec![number])
    }
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

#[cfg(test)]
mod tests;
