//! What a setting comes to over several mixes.
//!
//! Its speed is the geometric mean of the mixes'. A program keeps its promise under mapper if its speed
//! relative to the setting that promises are measured against is at least what was promised; single runs below
//! that are counted, too, for every setting, so that the static fair share itself shows how many of them are
//! noise.

use super::mix::{programs, runs_of};
use super::speed::{Compared, overall};
use crate::data::experiment::Experiment;
use crate::data::program::Unit;
use crate::result::report::{Group, MixResult, OverBaseline, Promises, SettingResult, Summary};
use crate::result::speed::Speed;
use crate::run::schedule::MeasuredMix;

/// A mix with its figures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evaluated<'a> {
    pub(crate) measured: &'a MeasuredMix,
    pub(crate) result: &'a MixResult,
}

/// The groups of an experiment: those that its mixes name, or else all mixes and those of each size.
pub(crate) fn groups(evaluated: &[Evaluated<'_>], experiment: &Experiment) -> Vec<Group> {
    let group = |title: String, chosen: Vec<Evaluated<'_>>| Group {
        title,
        mixes: chosen.len(),
        settings: experiment
            .settings
            .iter()
            .filter(|setting| chosen.iter().any(|of| own(*of, &setting.key).is_some()))
            .map(|setting| summary(&setting.key, &chosen, experiment))
            .collect(),
    };
    let mut names: Vec<&String> = Vec::new();
    for name in evaluated.iter().filter_map(|of| of.result.group.as_ref()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if !names.is_empty() {
        let of = |name: &String| {
            evaluated
                .iter()
                .filter(|of| of.result.group.as_ref() == Some(name))
                .copied()
                .collect()
        };
        return names
            .into_iter()
            .map(|name| group(name.clone(), of(name)))
            .collect();
    }
    let mut sizes: Vec<usize> = evaluated
        .iter()
        .map(|of| of.result.programs.len())
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut groups = Vec::new();
    if sizes.len() > 1 {
        groups.push(group("all mixes".to_owned(), evaluated.to_vec()));
    }
    for size in sizes {
        let of = evaluated
            .iter()
            .filter(|of| of.result.programs.len() == size);
        groups.push(group(
            format!("mixes of {size} programs"),
            of.copied().collect(),
        ));
    }
    groups
}

fn own<'a>(of: Evaluated<'a>, setting: &str) -> Option<&'a SettingResult> {
    of.result
        .settings
        .iter()
        .find(|own| own.setting == *setting)
}

/// The lower of speeds.
pub(crate) fn slowest(speeds: impl Iterator<Item = Speed>) -> Option<Speed> {
    speeds.min_by(|one, other| one.estimate.value.total_cmp(&other.estimate.value))
}

/// The mean speed of a setting over another in these mixes, by the programs of one unit.
pub(crate) fn mean(
    setting: &str,
    over: &str,
    mixes: &[Evaluated<'_>],
    unit: Unit,
    experiment: &Experiment,
) -> Option<Speed> {
    let mut compared = Vec::new();
    for mix in mixes {
        let which = programs(mix.measured, Some(unit));
        if !which.is_empty() {
            compared.push(Compared {
                base: runs_of(mix.measured, over)?,
                own: runs_of(mix.measured, setting)?,
                which,
            });
        }
    }
    overall(&compared, experiment.method.speed)
}

fn summary(setting: &str, mixes: &[Evaluated<'_>], experiment: &Experiment) -> Summary {
    let own = || mixes.iter().filter_map(|of| own(*of, setting));
    let over = experiment.baselines.iter().map(|baseline| {
        let mean = |unit| mean(setting, baseline, mixes, unit, experiment);
        let of = OverBaseline {
            mean: mean(Unit::Seconds),
            slowest_mix: slowest(own().filter_map(|of| of.over.get(baseline).copied())),
            latency: mean(Unit::P99),
        };
        (baseline.clone(), of)
    });
    let against = experiment.promised_against.as_ref();
    Summary {
        setting: setting.to_owned(),
        over: over.collect(),
        slowest_program: against.and_then(|against| slowest_program(setting, against, mixes)),
        promises: promises(setting, mixes, experiment),
    }
}

/// The slowest program whose time counts, over a baseline.
pub(crate) fn slowest_program(setting: &str, over: &str, mixes: &[Evaluated<'_>]) -> Option<Speed> {
    let speeds = mixes
        .iter()
        .filter_map(|mix| Some((mix, own(*mix, setting)?)));
    slowest(speeds.flat_map(|(mix, own)| {
        let programs = mix.result.programs.iter().zip(&own.programs);
        programs
            .filter(|(member, _)| member.unit == Unit::Seconds)
            .filter_map(|(_, result)| result.over.get(over).copied())
    }))
}

fn promises(setting: &str, mixes: &[Evaluated<'_>], experiment: &Experiment) -> Option<Promises> {
    let against = experiment.promised_against.as_ref()?;
    let mut promises = Promises {
        made: 0,
        broken: Vec::new(),
        runs: 0,
        runs_below: 0,
    };
    for mix in mixes {
        let Some(own) = own(*mix, setting) else {
            continue;
        };
        for (member, result) in mix.result.programs.iter().zip(&own.programs) {
            let (Some(speed), Some(below), Some(is_kept)) = (
                result.over.get(against),
                result.runs_below,
                result.keeps_promise,
            ) else {
                continue;
            };
            promises.made += 1;
            promises.runs += result.valid;
            promises.runs_below += below;
            if !is_kept {
                promises.broken.push(format!(
                    "{} in {} at {}{:.2}",
                    member.name,
                    mix.result.name,
                    speed.certainty.mark(),
                    speed.estimate.value
                ));
            }
        }
    }
    (promises.made > 0).then_some(promises)
}

#[cfg(test)]
mod tests {
    use super::super::mix::mix_result;
    use super::super::mix::tests::{close, example, live};
    use super::*;

    fn of_group(measured: &[MeasuredMix], setting: &str) -> Summary {
        let results: Vec<MixResult> = measured
            .iter()
            .map(|mix| mix_result(mix, &live()))
            .collect();
        let evaluated = measured
            .iter()
            .zip(&results)
            .map(|(measured, result)| Evaluated { measured, result });
        summary(setting, &evaluated.collect::<Vec<_>>(), &live())
    }

    #[test]
    fn times_and_latencies_are_summed_up_apart() {
        let all = of_group(&example(), "mapper");
        // Mixes at √6.4 and 4 over plain, and at √1.6 and 2 of the static share.
        close(
            all.over["plain"].mean.as_ref(),
            (6.4_f64.sqrt() * 4.0).sqrt(),
        );
        close(
            all.over["static"].mean.as_ref(),
            (1.6_f64.sqrt() * 2.0).sqrt(),
        );
        close(all.over["plain"].latency.as_ref(), 5.0);
        close(all.over["static"].latency.as_ref(), 0.5);
        close(all.over["static"].slowest_mix.as_ref(), 1.6_f64.sqrt());
        close(all.slowest_program.as_ref(), 0.8);
    }

    #[test]
    fn promises_are_broken_by_medians_and_single_runs_are_counted() {
        let own = of_group(&example(), "mapper").promises.unwrap();
        assert_eq!(own.made, 4);
        // cg at 2/2.5 and the server at 2/4; of cg's runs two are beyond 2/0.85 s, of the server's all.
        assert_eq!(
            own.broken,
            ["cg in md+cg at 0.80", "server in server+matmul at 0.50"]
        );
        assert_eq!((own.runs, own.runs_below), (12, 5));
        let fair = of_group(&example(), "static").promises.unwrap();
        assert_eq!((fair.broken.len(), fair.runs_below), (0, 0));
    }

    #[test]
    fn without_the_static_share_no_promise_can_be_judged() {
        let mut measured = example().remove(0);
        measured.runs.retain(|of| of.setting.key == "mapper");
        assert!(of_group(&[measured], "mapper").promises.is_none());
    }
}
