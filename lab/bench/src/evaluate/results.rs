//! Puts the whole result together.

use std::time::Duration;

use super::judge;
use super::mix::evaluated;
use super::summary::groups;
use crate::data::{ExpectedFigure, Experiment, FigureExperiment, Headline, Setting};
use crate::machine::Machine;
use crate::result::{Figure, Group, Load, MethodEntry, MixResult, Results, Run, SettingEntry};
use crate::run::schedule::Measured;

/// The results of an experiment that consists of single figures, measured by the task `task`. Those that are
/// expected and were asked for by `is_wanted` have to be there.
pub(crate) fn of_figures(
    experiment: &FigureExperiment,
    task: &str,
    figures: Vec<Figure>,
    is_wanted: impl Fn(&ExpectedFigure) -> bool,
    elapsed: Duration,
) -> Results {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    Results {
        title: experiment.title.clone(),
        about: experiment.about.clone(),
        command: format!("cargo xtask {task}"),
        expectations: judge::figures(experiment, &figures, is_wanted),
        figures,
        elapsed_s: elapsed.as_secs_f64(),
        ..Results::on(Machine::describe(cpus, &["gcc"]))
    }
}

/// Computes every figure; what else is known stands in `known`. A mix that has not run under all of its settings
/// is left out.
pub(crate) fn of_runs(experiment: &Experiment, measured: &Measured, known: Results) -> Results {
    let is_complete = |mix: &&MixResult| mix.settings.iter().all(|of| !of.runs.is_empty());
    let complete = measured.mixes.iter().filter(is_complete);
    let mixes: Vec<_> = complete.map(|mix| evaluated(mix, experiment)).collect();
    let groups = groups(&mixes, experiment);
    let default = |group: &Group| {
        let summary = group.under(&experiment.headline.as_ref()?.setting)?;
        Some((group.title.clone(), summary.clone()))
    };
    let headline = experiment.headline.clone().map(|of| Headline {
        group: of.group.or(groups.first().map(|group| group.title.clone())),
        ..of
    });
    // Also those of mixes that are left out.
    let runs = measured.mixes.iter().flat_map(|mix| &mix.settings);
    let runs: Vec<&Run> = runs.flat_map(|of| &of.runs).collect();
    let programs = runs.iter().flat_map(|run| &run.programs);
    let cpus = known.machine.cpus;
    let setting = |setting: &Setting| SettingEntry {
        key: setting.key.clone(),
        title: setting.title(cpus),
        meaning: setting.meaning.clone(),
        is_managed: setting.is_managed(),
        colour: setting.colour,
    };
    let mut results = Results {
        title: experiment.title.clone(),
        about: experiment.about.clone(),
        method: Some(MethodEntry {
            method: experiment.method.clone(),
            repetitions_done: measured.repetitions,
            baselines: experiment.baselines.clone(),
            promised_against: experiment.promised_against.clone(),
        }),
        load: Some(load(&runs, known.machine.load_average_before)),
        settings: experiment.settings.iter().map(setting).collect(),
        headline,
        default: groups.iter().filter_map(default).collect(),
        groups,
        mixes,
        wrong_results: runs.iter().map(|run| run.wrong.len()).sum(),
        timed_out: programs.filter(|of| of.cost.is_limit()).count(),
        left_out: measured.left_out,
        ..known
    };
    results.expectations = judge::speeds(&experiment.expectations, &results);
    results
}

fn load(runs: &[&Run], average_before: f64) -> Load {
    let mean = |of: &dyn Fn(&Run) -> f64| {
        runs.iter().map(|run| of(run)).sum::<f64>() / runs.len().max(1) as f64
    };
    let runnable = runs.iter().map(|run| run.before.runnable);
    let others = |run: &Run| run.during.other_processes_cpus;
    Load {
        average_before,
        runnable_mean: mean(&|run| f64::from(run.before.runnable)),
        runnable_most: runnable.max().unwrap_or(0),
        others_mean: mean(&others),
        others_most: runs.iter().map(|run| others(run)).fold(0.0, f64::max),
        stolen_mean: mean(&|run| run.during.stolen_cpus),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::mix::tests::{example as measured, live};
    use super::*;
    use crate::data::Bound;
    use crate::result::{DaemonFacts, Judged, ProgramEntry, SCHEMA, TimelineSample};
    use crate::run::schedule::Ended;

    /// What is known besides the runs.
    pub(crate) fn known() -> Results {
        Results {
            command: "cargo xtask eval --live".to_owned(),
            daemon: Some(DaemonFacts::default()),
            programs: vec![ProgramEntry {
                name: "md".to_owned(),
                runtime: "libgomp".to_owned(),
                summary: "molecular dynamics".to_owned(),
                steps: 7,
            }],
            elapsed_s: 30.0,
            ..Results::on(Machine::example())
        }
    }

    /// The results of mixes whose runs were made up.
    pub(crate) fn of_mixes(of: &Experiment, mixes: Vec<MixResult>, left_out: usize) -> Results {
        let measured = Measured {
            mixes,
            repetitions: 3,
            left_out,
            ended: Ended::Done,
        };
        of_runs(of, &measured, known())
    }

    /// Results with everything in them that a report can show.
    pub(crate) fn example() -> Results {
        let mut mixes = measured();
        let mapper = &mut mixes[0].settings[2].runs;
        mapper[1].reject("md <is> wrong".to_owned());
        mapper[0].notes.push("threads wait".to_owned());
        let sample = |n: u32| TimelineSample {
            at_s: f64::from(n) * 0.05,
            cpus: vec![Some(if n < 20 { 2 } else { 1 }), (n >= 20).then_some(1)],
        };
        mapper[0].timeline = (0..40).map(sample).collect();
        let mut results = of_mixes(&live(), mixes, 0);
        let judged = |(name, is_met): (&str, _)| Judged {
            name: name.to_owned(),
            wanted: Bound::AtLeast(1.5),
            unit: "×".to_owned(),
            found: None,
            published: None,
            is_met,
        };
        results.expectations = [("kept", true), ("broken", false)].map(judged).to_vec();
        results
    }

    #[test]
    fn mixes_of_one_size_are_one_group_and_of_several_are_also_taken_together() {
        let titles = |results: &Results| -> Vec<String> {
            let groups = results.groups.iter();
            groups.map(|group| group.title.clone()).collect()
        };
        let results = example();
        assert_eq!(titles(&results), ["mixes of 2 programs"]);
        // The headline is that of the setting and group of the experiment.
        assert_eq!(results.headline_summary().unwrap().setting, "mapper");
        let group = results.headline.unwrap().group.unwrap();
        assert_eq!(group, "mixes of 2 programs");
        let mut mixed = measured();
        let third = mixed[0].programs[0].clone();
        mixed[0].programs.push(third);
        for run in mixed[0].settings.iter_mut().flat_map(|of| &mut of.runs) {
            run.programs.push(run.programs[0]);
        }
        let wanted = ["all mixes", "mixes of 2 programs", "mixes of 3 programs"];
        assert_eq!(titles(&of_mixes(&live(), mixed, 0)), wanted);
    }

    #[test]
    fn what_was_finished_before_a_stop_is_kept_and_a_mix_without_a_setting_left_out() {
        let mut stopped = measured();
        stopped[0].settings[1].runs.truncate(2);
        stopped[1].settings[2].runs.clear();
        let results = of_mixes(&live(), stopped, 4);
        let names: Vec<&str> = results.mixes.iter().map(|mix| &*mix.name).collect();
        assert_eq!(names, ["md+cg"]);
        assert_eq!(results.settings.len(), 3);
        assert!(results.caution().unwrap().contains("4 runs were left out"));
    }

    #[test]
    fn wrong_results_limits_and_disturbances_are_reported_and_a_quiet_measurement_is_not() {
        let results = example();
        assert_eq!((results.wrong_results, results.timed_out), (1, 2));
        let mut results = of_mixes(&live(), measured(), 0);
        assert_eq!((results.wrong_results, results.caution()), (0, None));
        results.load.as_mut().unwrap().others_mean = 0.4;
        results.method.as_mut().unwrap().repetitions_done = 1;
        let caution = results.caution().unwrap();
        for part in ["other work used 0.40 CPUs", "fewer than 3 repetitions"] {
            assert!(caution.contains(part), "{caution}");
        }
    }

    #[test]
    fn the_json_has_the_documented_shape() {
        let json = serde_json::to_value(example()).unwrap();
        assert_eq!(json["schema"], SCHEMA);
        assert_eq!(json["kind"], "measured");
        let keys = "machine method load mixes groups expectations headline";
        for key in keys.split(' ') {
            assert!(!json[key].is_null(), "{key}");
        }
        let own = &json["mixes"][0]["settings"][2];
        assert_eq!(own["setting"], "mapper");
        assert!(own["over"]["plain"]["value"].is_f64());
        assert!(own["programs"][0]["cost"]["low"].is_f64());
        let run = &own["runs"][0];
        assert!(run["before"]["load_average"].is_f64());
        assert_eq!(run["timeline"][0]["cpus"], serde_json::json!([2, null]));
        let summary = &json["groups"][0]["settings"][2];
        assert!(summary["over"]["static"]["mean"]["value"].is_f64());
        // What mapper comes to by default stands at the top.
        assert_eq!(json["default"]["mixes of 2 programs"], *summary);
        assert!(summary["promises"]["broken"].is_array());
    }
}
