//! The figures of a mix under each setting.

use std::collections::BTreeMap;

use super::speed::{Compared, certainty, costs, mean_cost, median_cost};
use crate::data::{BEST, Experiment, Unit};
use crate::result::{MixResult, ProgramResult, Run, RunCost, SettingResult, Speed};
use mapper_report::statistics::estimate;

/// A mix with every figure of its runs; settings that have not run are left out.
pub(crate) fn evaluated(mix: &MixResult, experiment: &Experiment) -> MixResult {
    let own = mix.settings.iter().filter(|of| !of.runs.is_empty());
    MixResult {
        settings: own.map(|own| figures(mix, own, experiment)).collect(),
        ..mix.clone()
    }
}

fn figures(mix: &MixResult, own: &SettingResult, experiment: &Experiment) -> SettingResult {
    let runs = &own.runs;
    let mut notes: Vec<String> = runs.iter().flat_map(|run| run.notes.clone()).collect();
    notes.sort();
    notes.dedup();
    let program = |at| program_result(mix, runs, at, experiment);
    SettingResult {
        programs: (0..mix.programs.len()).map(program).collect(),
        over: over_others(mix, runs, &mix.places(Unit::Seconds), experiment),
        wrong: runs.iter().flat_map(|run| run.wrong.clone()).collect(),
        notes,
        ..own.clone()
    }
}

/// The runs of a mix under a setting, if there are any; [`BEST`] is the fastest of those that others are compared with.
pub(super) fn runs_of<'a>(
    mix: &'a MixResult,
    setting: &str,
    experiment: &Experiment,
) -> Option<&'a [Run]> {
    if setting == BEST {
        let others = experiment.baselines.iter().filter(|key| *key != BEST);
        let others = others.filter_map(|key| runs_of(mix, key, experiment));
        let which = mix.places(Unit::Seconds);
        let costs = others.filter_map(|runs| Some((mean_cost(runs, &which)?, runs)));
        return costs
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, runs)| runs);
    }
    let runs = &mix.under(setting)?.runs;
    (!runs.is_empty()).then_some(runs)
}

/// The speed of these programs over each setting that others are compared with.
fn over_others(
    mix: &MixResult,
    own: &[Run],
    which: &[usize],
    experiment: &Experiment,
) -> BTreeMap<String, Speed> {
    let speed = |key: &String| {
        let (base, which) = (runs_of(mix, key, experiment)?, which.to_vec());
        let speed = Compared { base, own, which }.speed(experiment.method.speed)?;
        Some((key.clone(), speed))
    };
    let keys = experiment.compared_with().into_iter();
    keys.filter_map(speed).collect()
}

fn program_result(
    mix: &MixResult,
    runs: &[Run],
    at: usize,
    experiment: &Experiment,
) -> ProgramResult {
    let over = over_others(mix, runs, &[at], experiment);
    let against = experiment.promised_against.as_ref();
    let promised = experiment.method.promise.zip(against);
    let most = promised.and_then(|(promise, against)| {
        let base = runs_of(mix, against, experiment)?;
        let all: Vec<usize> = (0..base.len()).collect();
        Some(median_cost(base, at, &all)? / promise)
    });
    let valid: Vec<f64> = costs(runs, at).filter_map(RunCost::value).collect();
    ProgramResult {
        cost: estimate(runs.len(), |places| median_cost(runs, at, places)),
        certainty: certainty(runs, at),
        valid: valid.len(),
        over_limit: costs(runs, at).filter(|cost| cost.is_limit()).count(),
        keeps_promise: promised
            .and_then(|(promise, against)| Some(over.get(against)?.estimate.value >= promise)),
        runs_below: most.map(|most| valid.iter().filter(|&&cost| cost > most).count()),
        over,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::data::experiment::tests::live as live_of;
    use crate::result::Certainty;
    use crate::run::schedule::tests::run;
    use crate::run::schedule::without_runs;

    /// The experiment of [`example`].
    pub(crate) fn live() -> Experiment {
        let settings = ["plain", "static", "mapper"];
        live_of(&["md+cg", "server+matmul"], &settings)
    }

    /// A mix with the costs of each run under plain Linux, the static share, and mapper; those of `server` are
    /// milliseconds.
    fn measured(place: usize, costs: [&[[f64; 2]]; 3]) -> MixResult {
        let mut mix = without_runs(&live()).remove(place);
        for (setting, costs) in mix.settings.iter_mut().zip(costs) {
            let runs = costs.iter().enumerate();
            setting.runs = runs.map(|(moment, costs)| run(moment, costs)).collect();
            let is_latency = mix.programs[0].unit == Unit::P99;
            for (run, costs) in setting.runs.iter_mut().zip(costs).filter(|_| is_latency) {
                run.programs[0].cost = RunCost::Exact(costs[0]);
            }
        }
        mix
    }

    /// Two mixes whose ratios are easy.
    pub(crate) fn example() -> Vec<MixResult> {
        // Medians: plain 8 and 2, static 2 and 2, mapper 1 and 2.5.
        let first: [&[[f64; 2]]; 3] = [
            &[[8.0, 2.0], [8.0, 1.0], [4.0, 3.0]],
            &[[2.0, 2.0]; 3],
            &[[1.0, 2.5], [1.0, 2.5], [1.0, 2.0]],
        ];
        // Medians: plain 20 ms and 2 s, static 2 ms and 1 s, mapper 4 ms and 0.5 s.
        let second: [&[[f64; 2]]; 3] = [
            &[[20.0, 2.0], [30.0, 2.0], [10.0, 2.0]],
            &[[2.0, 1.0]; 3],
            &[[4.0, 0.5]; 3],
        ];
        vec![measured(0, first), measured(1, second)]
    }

    pub(crate) fn close(found: Option<&Speed>, wanted: f64) {
        let found = found.unwrap().estimate.value;
        assert!((found - wanted).abs() < 1e-9, "{found} for {wanted}");
    }

    #[test]
    fn a_mix_has_the_mean_speed_of_its_programs_by_medians() {
        let result = evaluated(&example()[0], &live());
        let [plain, fair, own] = [0, 1, 2].map(|place| &result.settings[place]);
        // 8/1 and 2/2.5 have the geometric mean √6.4; 2/1 and 2/2.5 √1.6.
        for (speeds, over, wanted) in [
            (&own.over, "plain", 6.4_f64.sqrt()),
            (&own.over, "static", 1.6_f64.sqrt()),
            (&own.programs[0].over, "plain", 8.0),
            (&own.programs[1].over, "static", 0.8),
            (&plain.over, "plain", 1.0),
            (&fair.over, "plain", 2.0),
        ] {
            close(speeds.get(over), wanted);
        }
        // Speeds of 2 and 0.8 over the static share, and 0.85 is promised.
        let kept = own.programs.iter().map(|of| of.keeps_promise);
        assert_eq!(kept.collect::<Vec<_>>(), [Some(true), Some(false)]);
        assert_eq!(own.programs[1].runs_below, Some(2));
        // Under plain Linux two of three runs of md were ended, so that what it takes part in is a bound.
        assert_eq!(plain.programs[0].over_limit, 2);
        assert_eq!(plain.programs[0].certainty, Certainty::AtLeast);
        for (speeds, over, wanted) in [
            (&own.programs[0].over, "plain", Certainty::AtLeast),
            (&own.over, "plain", Certainty::AtLeast),
            (&own.over, "static", Certainty::Exact),
            (&plain.over, "static", Certainty::AtMost),
            (&fair.programs[1].over, "plain", Certainty::Exact),
        ] {
            assert_eq!(speeds[over].certainty, wanted);
        }
        // Latencies stand by themselves.
        let result = evaluated(&example()[1], &live());
        let own = &result.settings[2];
        assert_eq!(result.programs[0].unit, Unit::P99);
        assert_eq!(own.programs[0].cost.unwrap().value, 4.0);
        close(own.programs[0].over.get("plain"), 5.0);
        close(own.over.get("plain"), 4.0);
    }

    #[test]
    fn the_best_of_the_others_is_chosen_for_each_mix() {
        let mut experiment = live();
        experiment.baselines.push(BEST.to_owned());
        // Plain 8 and 2, static 2 and 2; then plain 2 s, static 1 s.
        for (mix, wanted) in example().iter().zip([1.6_f64.sqrt(), 2.0]) {
            let own = evaluated(mix, &experiment).settings.remove(2);
            close(own.over.get(BEST), wanted);
            assert_eq!(own.over[BEST], own.over["static"]);
        }
        let mut plain = example().remove(0);
        for run in &mut plain.settings[0].runs {
            let costs = run.programs.iter_mut();
            costs.for_each(|of| of.cost = RunCost::Exact(0.5));
        }
        let own = evaluated(&plain, &experiment).settings.remove(2);
        assert_eq!(own.over[BEST], own.over["plain"]);
    }

    #[test]
    fn a_wrong_run_changes_no_figure() {
        for mix in example() {
            // Quick runs that crashed, and the same runs without any cost.
            let (mut without, mut with) = (mix.clone(), mix);
            for (of, other) in with.settings.iter_mut().zip(&mut without.settings) {
                let run = &mut of.runs[2];
                run.programs
                    .iter_mut()
                    .for_each(|of| of.cost = RunCost::Exact(0.01));
                run.reject("crashed".to_owned());
                let programs = other.runs[2].programs.iter_mut();
                programs.for_each(|of| of.cost = RunCost::Invalid);
            }
            let figures = |mix: &MixResult| {
                let mut result = evaluated(mix, &live());
                for of in &mut result.settings {
                    of.runs.clear();
                    of.wrong.clear();
                }
                format!("{result:?}")
            };
            assert_eq!(figures(&with), figures(&without));
            for of in &mut without.settings {
                of.runs.truncate(2);
            }
            let values = |mix: &MixResult| -> Vec<f64> {
                let settings = evaluated(mix, &live()).settings;
                let value = |of: &SettingResult| of.over["static"].estimate.value;
                settings.iter().map(value).collect()
            };
            assert_eq!(values(&with), values(&without));
        }
    }

    #[test]
    fn what_has_no_valid_run_has_no_figure_and_after_a_stop_each_setting_counts_with_what_it_has() {
        let mut wrong = example().remove(0);
        for run in &mut wrong.settings[2].runs {
            run.reject("crashed".to_owned());
        }
        let own = evaluated(&wrong, &live()).settings.remove(2);
        assert!(own.over.is_empty() && own.programs[0].cost.is_none());
        assert_eq!((own.programs[0].valid, own.wrong.len()), (0, 3));

        let mut alone = example().remove(0);
        alone.settings.retain(|of| of.setting == "mapper");
        let own = evaluated(&alone, &live()).settings.remove(0);
        assert!(own.over.is_empty() && own.programs[0].keeps_promise.is_none());
        assert!(own.programs[0].runs_below.is_none());

        let mut stopped = example().remove(0);
        stopped.settings[2].runs.truncate(1);
        let own = evaluated(&stopped, &live()).settings.remove(2);
        // The plain medians are those of all three repetitions: 8 and 2.
        close(own.programs[1].over.get("plain"), 0.8);
        close(own.over.get("plain"), 6.4_f64.sqrt());
    }
}
