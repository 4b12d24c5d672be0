//! What a setting comes to over several mixes.
//!
//! Its speed is the geometric mean of the mixes'. A program keeps its promise under mapper if its speed
//! relative to the static fair share is at least what was promised; single runs below that are counted, too,
//! for every setting, so that the static fair share itself shows how many of them are noise. Figures of one
//! mix: [`super::evaluate`].

use serde::Serialize;

use super::cost::{Bound, Cost, Speed};
use super::evaluate::{MeasuredMix, MixResult, Of, SettingResult, bound_of, runs_of, speed_in};
use super::settings::Setting;
use mapper_report::bootstrap::estimate;
use mapper_report::statistics::geometric_mean;

/// A setting over all mixes, or over those of one size.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    pub(super) setting: Setting,
    pub(super) over_plain: Option<Speed>,
    pub(super) of_static: Option<Speed>,
    /// The lowest mean speed of any mix over plain Linux.
    pub(super) worst_mix_over_plain: Option<Speed>,
    /// The slowest program relative to its static fair share, of those that compute.
    pub(super) worst_program_of_static: Option<Speed>,
    /// Speed of the servers, by their latencies.
    pub(super) latency_over_plain: Option<Speed>,
    pub(super) latency_of_static: Option<Speed>,
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
    let least = |speeds: &mut dyn Iterator<Item = Speed>| {
        speeds.min_by(|one, other| one.estimate.value.total_cmp(&other.estimate.value))
    };
    let promises = setting_promises(own(), qos);
    Summary {
        setting: setting.clone(),
        over_plain: overall(setting, &Setting::Plain, measured, Cost::Seconds),
        of_static: overall(setting, &Setting::Static, measured, Cost::Seconds),
        latency_over_plain: overall(setting, &Setting::Plain, measured, Cost::P99Ms),
        latency_of_static: overall(setting, &Setting::Static, measured, Cost::P99Ms),
        worst_mix_over_plain: least(&mut own().filter_map(|(_, of)| of.over_plain)),
        worst_program_of_static: least(
            &mut programs(Cost::Seconds).filter_map(|(_, _, of)| of.of_static),
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
        for (name, result) in mix.programs.iter().zip(&of.programs) {
            let (Some(of_static), Some(below)) = (result.of_static, result.runs_below) else {
                continue;
            };
            promises.made += 1;
            promises.runs += result.valid;
            promises.runs_below += below;
            if of_static.estimate.value < qos {
                promises.broken.push(format!(
                    "{} in {} at {}{:.2}",
                    name.name,
                    mix.name,
                    of_static.bound.mark(),
                    of_static.estimate.value
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
) -> Option<Speed> {
    let mut compared = Vec::new();
    for mix in measured {
        let programs = mix.mix.programs.iter().enumerate();
        let which: Vec<Of> = programs
            .map(|(at, program)| Of {
                at,
                unit: Cost::of(program.name),
            })
            .filter(|of| of.unit == cost)
            .collect();
        if !which.is_empty() {
            compared.push((runs_of(mix, base)?, runs_of(mix, setting)?, which));
        }
    }
    let count = compared
        .iter()
        .map(|(base, own, _)| base.len().max(own.len()))
        .max()?;
    let estimate = estimate(count, |places| {
        let means: Option<Vec<f64>> = compared
            .iter()
            .map(|(base, own, which)| speed_in(base, own, which, places))
            .collect();
        geometric_mean(means?)
    })?;
    let bounds = compared
        .iter()
        .map(|(base, own, which)| bound_of(base, own, which));
    Some(Speed {
        estimate,
        bound: bounds.fold(Bound::Exact, Bound::and),
    })
}

#[cfg(test)]
mod tests {
    use super::super::evaluate::mix_result;
    use super::super::evaluate::tests::{close, example, mapper};
    use super::*;

    #[test]
    fn times_and_latencies_are_summed_up_apart() {
        let measured = example();
        let results: Vec<MixResult> = measured.iter().map(|mix| mix_result(mix, 0.85)).collect();
        let all = summary(
            &mapper(),
            &measured.iter().collect::<Vec<_>>(),
            &results.iter().collect::<Vec<_>>(),
            0.85,
        );
        // Mixes at √6.4 and 4 over plain, and at √1.6 and 2 of the static share.
        close(all.over_plain, (6.4_f64.sqrt() * 4.0).sqrt());
        close(all.of_static, (1.6_f64.sqrt() * 2.0).sqrt());
        close(all.latency_over_plain, 5.0);
        close(all.latency_of_static, 0.5);
        close(all.worst_program_of_static, 0.8);
    }

    #[test]
    fn promises_are_broken_by_medians_and_single_runs_are_counted() {
        let measured = example();
        let results: Vec<MixResult> = measured.iter().map(|mix| mix_result(mix, 0.85)).collect();
        let of = |setting: &Setting| {
            let (measured, results): (Vec<_>, Vec<_>) = measured.iter().zip(&results).unzip();
            summary(setting, &measured, &results, 0.85)
                .promises
                .unwrap()
        };
        let own = of(&mapper());
        assert_eq!(own.made, 4);
        // cg at 2/2.5 and the server at 2/4; of cg's runs two are beyond 2/0.85 s, of the server's all.
        assert_eq!(
            own.broken,
            ["cg in md+cg at 0.80", "server in server+matmul at 0.50"]
        );
        assert_eq!((own.runs, own.runs_below), (12, 5));
        let fair = of(&Setting::Static);
        assert_eq!((fair.broken.len(), fair.runs_below), (0, 0));
    }

    #[test]
    fn without_the_static_share_no_promise_can_be_judged() {
        let mut measured = example().remove(0);
        measured.runs.retain(|of| of.setting == mapper());
        let result = mix_result(&measured, 0.85);
        let all = summary(&mapper(), &[&measured], &[&result], 0.85);
        assert!(all.promises.is_none());
    }
}
