//! From the runs to the figures of the report.
//!
//! A program's *cost* is its time, or the 99th percentile of its latencies if it answers requests. Its
//! speed over a setting is its median cost there by its median cost here. A mix has the geometric mean
//! of its programs that compute; latencies vary far more than times and stand by themselves. A program
//! keeps its promise under mapper if its speed relative to the static fair share is at least what was
//! promised; single runs below that are counted, too, for every setting, so that the static fair share
//! itself shows how many of them are noise. Intervals: see [`crate::corun::bootstrap`].

use serde::Serialize;

use super::measure::{ProgramRun, Run, SERVER};
use super::mixes::Mix;
use super::settings::Setting;
use crate::corun::bootstrap::{Estimate, estimate};
use crate::corun::statistics::{geometric_mean, median};

/// All runs of a mix: for every setting those of each repetition, in the order of the settings.
#[derive(Clone, Debug)]
pub(super) struct MeasuredMix {
    pub(super) mix: Mix,
    pub(super) runs: Vec<SettingRuns>,
}

/// The runs of a mix under one setting, by repetition.
#[derive(Clone, Debug, Serialize)]
pub(super) struct SettingRuns {
    pub(super) setting: Setting,
    pub(super) runs: Vec<Run>,
}

/// What the cost of a program is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Cost {
    Seconds,
    P99Ms,
}

/// What came of a mix.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MixResult {
    pub(super) name: String,
    pub(super) programs: Vec<ProgramName>,
    pub(super) settings: Vec<SettingResult>,
    /// Everything that was seen.
    pub(super) runs: Vec<SettingRuns>,
}

/// A program of a mix.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ProgramName {
    pub(super) name: &'static str,
    pub(super) cost: Cost,
}

/// What came of a mix under one setting.
#[derive(Clone, Debug, Serialize)]
pub(super) struct SettingResult {
    pub(super) setting: Setting,
    pub(super) programs: Vec<ProgramResult>,
    /// Geometric means over the programs that compute; nothing where the other was not measured.
    pub(super) over_plain: Option<Estimate>,
    pub(super) of_static: Option<Estimate>,
    pub(super) wrong: Vec<String>,
}

/// What came of one program.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ProgramResult {
    pub(super) cost: Estimate,
    /// Runs that were ended at the limit.
    pub(super) over_limit: usize,
    pub(super) over_plain: Option<Estimate>,
    pub(super) of_static: Option<Estimate>,
    /// Single runs slower than what was promised.
    pub(super) runs_below: Option<usize>,
}

/// A setting over all mixes, or over those of one size.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    pub(super) setting: Setting,
    pub(super) over_plain: Option<Estimate>,
    pub(super) of_static: Option<Estimate>,
    /// The lowest mean speed of any mix over plain Linux.
    pub(super) worst_mix_over_plain: Option<f64>,
    /// The slowest program relative to its static fair share, of those that compute.
    pub(super) worst_program_of_static: Option<f64>,
    /// Speed of the servers, by their latencies.
    pub(super) latency_over_plain: Option<Estimate>,
    pub(super) latency_of_static: Option<Estimate>,
    pub(super) promises: Option<Promises>,
}

/// How promises were kept.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Promises {
    /// Programs of mixes.
    pub(super) made: usize,
    /// Those whose median speed is below what was promised.
    pub(super) broken: Vec<String>,
    pub(super) runs: usize,
    pub(super) runs_below: usize,
}

fn cost(program: &ProgramRun) -> f64 {
    program.p99_ms.unwrap_or(program.seconds)
}

/// The median cost of a program in the repetitions at these places.
fn median_cost(runs: &[Run], program: usize, places: &[usize]) -> Option<f64> {
    let costs: Option<Vec<f64>> = places
        .iter()
        .map(|&place| Some(cost(runs.get(place)?.programs.get(program)?)))
        .collect();
    median(&costs?)
}

/// Computes every figure of a mix; settings that have not run are left out.
pub(super) fn mix_result(measured: &MeasuredMix, qos: f64) -> MixResult {
    let programs: Vec<ProgramName> = measured
        .mix
        .programs
        .iter()
        .map(|program| ProgramName {
            name: program.name,
            cost: if program.name == SERVER {
                Cost::P99Ms
            } else {
                Cost::Seconds
            },
        })
        .collect();
    let settings = measured
        .runs
        .iter()
        .filter(|of| !of.runs.is_empty())
        .filter_map(|own| setting_result(measured, own, &programs, qos))
        .collect();
    MixResult {
        name: measured.mix.name(),
        programs,
        settings,
        runs: measured.runs.clone(),
    }
}

fn setting_result(
    measured: &MeasuredMix,
    own: &SettingRuns,
    programs: &[ProgramName],
    qos: f64,
) -> Option<SettingResult> {
    let all: Vec<usize> = (0..programs.len()).collect();
    let computing = || {
        let computes = |&at: &usize| programs.get(at).is_some_and(|p| p.cost == Cost::Seconds);
        all.iter().copied().filter(computes).collect::<Vec<_>>()
    };
    let over =
        |other: &Setting, which: &[usize]| speed(runs_of(measured, other)?, &own.runs, which);
    let results = all.iter().map(|&at| {
        let of_static = over(&Setting::Static, &[at]);
        let promised = runs_of(measured, &Setting::Static).and_then(|runs| {
            let places: Vec<usize> = (0..runs.len()).collect();
            Some(median_cost(runs, at, &places)? / qos)
        });
        let seen = || own.runs.iter().filter_map(|run| run.programs.get(at));
        Some(ProgramResult {
            cost: estimate(own.runs.len(), |places| median_cost(&own.runs, at, places))?,
            over_limit: seen().filter(|program| program.is_over_limit).count(),
            over_plain: over(&Setting::Plain, &[at]),
            of_static,
            runs_below: promised.map(|most| seen().filter(|program| cost(program) > most).count()),
        })
    });
    Some(SettingResult {
        setting: own.setting.clone(),
        programs: results.collect::<Option<Vec<_>>>()?,
        over_plain: over(&Setting::Plain, &computing()),
        of_static: over(&Setting::Static, &computing()),
        wrong: own.runs.iter().flat_map(|run| run.wrong.clone()).collect(),
    })
}

fn runs_of<'a>(measured: &'a MeasuredMix, setting: &Setting) -> Option<&'a [Run]> {
    let found = measured.runs.iter().find(|of| of.setting == *setting)?;
    (!found.runs.is_empty()).then_some(&*found.runs)
}

/// Mean speed of the programs `which` over `base`, from the repetitions that both have.
fn speed(base: &[Run], own: &[Run], which: &[usize]) -> Option<Estimate> {
    estimate(base.len().min(own.len()), |places| {
        speed_in(base, own, which, places)
    })
}

fn speed_in(base: &[Run], own: &[Run], which: &[usize], places: &[usize]) -> Option<f64> {
    let ratios: Option<Vec<f64>> = which
        .iter()
        .map(|&at| Some(median_cost(base, at, places)? / median_cost(own, at, places)?))
        .collect();
    geometric_mean(ratios?)
}

/// A setting over these mixes, whose results are `results`.
pub(super) fn summary(
    setting: &Setting,
    measured: &[&MeasuredMix],
    results: &[&MixResult],
    qos: f64,
) -> Summary {
    let own = || {
        results.iter().filter_map(|&mix| {
            let of = mix.settings.iter().find(|of| of.setting == *setting)?;
            Some((mix, of))
        })
    };
    let programs = |cost: Cost| {
        own().flat_map(move |(mix, of)| {
            let both = mix.programs.iter().zip(&of.programs);
            both.filter(move |(name, _)| name.cost == cost)
                .map(move |(name, result)| (mix, name, result))
        })
    };
    let least = |values: &mut dyn Iterator<Item = f64>| values.min_by(f64::total_cmp);
    let promises = setting_promises(own(), qos);
    Summary {
        setting: setting.clone(),
        over_plain: overall(setting, &Setting::Plain, measured, Cost::Seconds),
        of_static: overall(setting, &Setting::Static, measured, Cost::Seconds),
        latency_over_plain: overall(setting, &Setting::Plain, measured, Cost::P99Ms),
        latency_of_static: overall(setting, &Setting::Static, measured, Cost::P99Ms),
        worst_mix_over_plain: least(&mut own().filter_map(|(_, of)| Some(of.over_plain?.value))),
        worst_program_of_static: least(
            &mut programs(Cost::Seconds).filter_map(|(_, _, of)| Some(of.of_static?.value)),
        ),
        promises,
    }
}

fn setting_promises<'a>(
    own: impl Iterator<Item = (&'a MixResult, &'a SettingResult)>,
    qos: f64,
) -> Option<Promises> {
    let mut promises = Promises {
        made: 0,
        broken: Vec::new(),
        runs: 0,
        runs_below: 0,
    };
    for (mix, of) in own {
        let runs = mix.runs.iter().find(|runs| runs.setting == of.setting);
        for (name, result) in mix.programs.iter().zip(&of.programs) {
            let (Some(of_static), Some(below)) = (result.of_static, result.runs_below) else {
                continue;
            };
            promises.made += 1;
            promises.runs += runs.map_or(0, |runs| runs.runs.len());
            promises.runs_below += below;
            if of_static.value < qos {
                promises.broken.push(format!(
                    "{} in {} at {:.2}",
                    name.name, mix.name, of_static.value
                ));
            }
        }
    }
    (promises.made > 0).then_some(promises)
}

/// Geometric mean over the mixes of the speeds over `base`. A draw of repetitions is the same for all
/// mixes, since a repetition goes through all of them.
fn overall(
    setting: &Setting,
    base: &Setting,
    measured: &[&MeasuredMix],
    cost: Cost,
) -> Option<Estimate> {
    let mut compared = Vec::new();
    for mix in measured {
        let which: Vec<usize> = mix
            .mix
            .programs
            .iter()
            .enumerate()
            .filter(|(_, program)| (program.name == SERVER) == (cost == Cost::P99Ms))
            .map(|(at, _)| at)
            .collect();
        if !which.is_empty() {
            compared.push((runs_of(mix, base)?, runs_of(mix, setting)?, which));
        }
    }
    let count = compared
        .iter()
        .map(|(base, own, _)| base.len().min(own.len()))
        .min()?;
    estimate(count, |places| {
        let means: Option<Vec<f64>> = compared
            .iter()
            .map(|(base, own, which)| speed_in(base, own, which, places))
            .collect();
        geometric_mean(means?)
    })
}
