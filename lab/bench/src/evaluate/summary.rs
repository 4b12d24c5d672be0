//! What a setting comes to over several mixes.
//!
//! Its speed is the geometric mean of the mixes'. A program keeps its promise under mapper if its speed
//! relative to the setting that promises are measured against is at least what was promised; single runs below
//! that are counted, too, for every setting, so that the static fair share itself shows how many of them are
//! noise.

use super::mix::runs_of;
use super::speed::{Compared, overall};
use crate::data::{Experiment, Unit};
use crate::result::{Group, MixResult, OverSetting, Promises, SettingResult, Speed, Summary};

/// The groups of an experiment: those that its mixes name, or else all mixes and those of each size.
pub(crate) fn groups(mixes: &[MixResult], experiment: &Experiment) -> Vec<Group> {
    let mut groups: Vec<(String, Vec<&MixResult>)> = Vec::new();
    for mix in mixes {
        let of_size = format!("mixes of {} programs", mix.programs.len());
        let title = mix.group.clone().unwrap_or(of_size);
        match groups.iter_mut().find(|(known, _)| *known == title) {
            Some((_, members)) => members.push(mix),
            None => groups.push((title, vec![mix])),
        }
    }
    if groups.len() > 1 && mixes.iter().all(|mix| mix.group.is_none()) {
        groups.sort_by(|(one, _), (other, _)| one.cmp(other));
        groups.insert(0, ("all mixes".to_owned(), mixes.iter().collect()));
    }
    let groups = groups.into_iter();
    let group = |(title, mixes): (_, Vec<_>)| group(&mixes, title, experiment);
    groups.map(group).collect()
}

fn group(mixes: &[&MixResult], title: String, experiment: &Experiment) -> Group {
    let keys = experiment.settings.iter().map(|of| &of.key);
    let keys = keys.filter(|key| mixes.iter().any(|mix| mix.under(key).is_some()));
    Group {
        title,
        mixes: mixes.len(),
        settings: keys.map(|key| summary(key, mixes, experiment)).collect(),
    }
}

fn summary<'a>(setting: &str, mixes: &[&'a MixResult], experiment: &Experiment) -> Summary {
    let own = |mix: &&'a MixResult| Some((*mix, mix.under(setting)?));
    let own: Vec<(&MixResult, &SettingResult)> = mixes.iter().filter_map(own).collect();
    let over = experiment.compared_with().into_iter().map(|key| {
        let programs = own.iter().flat_map(|(mix, own)| {
            let timed = mix.places(Unit::Seconds).into_iter();
            timed.filter_map(|at| own.programs[at].over.get(key))
        });
        let mean = |unit| mean(setting, key, mixes, unit, experiment);
        let of = OverSetting {
            mean: mean(Unit::Seconds),
            slowest_mix: slowest(own.iter().filter_map(|(_, own)| own.over.get(key))),
            slowest_program: slowest(programs),
            latency: mean(Unit::P99),
        };
        (key.clone(), of)
    });
    Summary {
        setting: setting.to_owned(),
        over: over.collect(),
        promises: promises(&own, experiment),
    }
}

fn slowest<'a>(speeds: impl Iterator<Item = &'a Speed>) -> Option<Speed> {
    let order = |one: &&Speed, other: &&Speed| one.estimate.value.total_cmp(&other.estimate.value);
    speeds.min_by(order).copied()
}

/// The mean speed of a setting over another in these mixes, by the programs of one unit.
fn mean(
    setting: &str,
    over: &str,
    mixes: &[&MixResult],
    unit: Unit,
    experiment: &Experiment,
) -> Option<Speed> {
    let mut compared = Vec::new();
    for mix in mixes {
        let which = mix.places(unit);
        if !which.is_empty() {
            let [base, own] = [over, setting].map(|key| runs_of(mix, key, experiment));
            let (base, own) = base.zip(own)?;
            compared.push(Compared { base, own, which });
        }
    }
    overall(&compared, experiment.method.speed)
}

fn promises(own: &[(&MixResult, &SettingResult)], experiment: &Experiment) -> Option<Promises> {
    let against = experiment.promised_against.as_ref()?;
    let mut promises = Promises::default();
    for (mix, own) in own {
        for (member, result) in mix.programs.iter().zip(&own.programs) {
            let judged = result.runs_below.zip(result.keeps_promise);
            let Some((speed, (below, is_kept))) = result.over.get(against).zip(judged) else {
                continue;
            };
            promises.made += 1;
            promises.runs += result.valid;
            promises.runs_below += below;
            if !is_kept {
                let (name, mark) = (&member.name, speed.certainty.mark());
                let value = speed.estimate.value;
                let broken = format!("{name} in {} at {mark}{value:.2}", mix.name);
                promises.broken.push(broken);
            }
        }
    }
    (promises.made > 0).then_some(promises)
}

#[cfg(test)]
mod tests {
    use super::super::mix::evaluated;
    use super::super::mix::tests::{close, example, live};
    use super::*;

    fn of_group(measured: &[MixResult], setting: &str) -> Summary {
        let mixes = measured.iter().map(|mix| evaluated(mix, &live()));
        let mixes: Vec<MixResult> = mixes.collect();
        summary(setting, &mixes.iter().collect::<Vec<_>>(), &live())
    }

    #[test]
    fn times_and_latencies_are_summed_up_apart() {
        let all = of_group(&example(), "mapper");
        // Mixes at √6.4 and 4 over plain, and at √1.6 and 2 of the static share.
        let (plain, fair) = (&all.over["plain"], &all.over["static"]);
        for (speed, wanted) in [
            (&plain.mean, (6.4_f64.sqrt() * 4.0).sqrt()),
            (&fair.mean, (1.6_f64.sqrt() * 2.0).sqrt()),
            (&plain.latency, 5.0),
            (&fair.latency, 0.5),
            (&fair.slowest_mix, 1.6_f64.sqrt()),
            (&fair.slowest_program, 0.8),
        ] {
            close(speed.as_ref(), wanted);
        }
    }

    #[test]
    fn promises_are_broken_by_medians_and_single_runs_are_counted() {
        let own = of_group(&example(), "mapper").promises.unwrap();
        assert_eq!(own.made, 4);
        // cg at 2/2.5 and the server at 2/4; of cg's runs two are beyond 2/0.85 s, of the server's all.
        let broken = ["cg in md+cg at 0.80", "server in server+matmul at 0.50"];
        assert_eq!(own.broken, broken);
        assert_eq!((own.runs, own.runs_below), (12, 5));
        let fair = of_group(&example(), "static").promises.unwrap();
        assert_eq!((fair.broken.len(), fair.runs_below), (0, 0));
        // Without the static share no promise can be judged.
        let mut measured = example().remove(0);
        measured.settings.retain(|of| of.setting == "mapper");
        assert!(of_group(&[measured], "mapper").promises.is_none());
    }
}
