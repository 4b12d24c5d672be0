//! Puts the whole result together.

use super::judge;
use super::mix::mix_result;
use super::summary::{Evaluated, groups};
use crate::data::experiment::Experiment;
use crate::machine::Machine;
use crate::result::report::{
    DaemonFacts, HeadlineEntry, Load, MethodEntry, MixResult, NotMeasured, ProgramEntry, Results,
    SCHEMA, SettingEntry,
};
use crate::result::run::Run;
use crate::run::schedule::{Measured, MeasuredMix};

/// What is known besides the runs.
#[derive(Debug)]
pub(crate) struct Circumstances {
    pub(crate) command: String,
    pub(crate) machine: Machine,
    pub(crate) daemon: Option<DaemonFacts>,
    pub(crate) programs: Vec<ProgramEntry>,
    pub(crate) not_measured: Vec<NotMeasured>,
    pub(crate) elapsed_s: f64,
}

/// Computes every figure. A mix that has not run under all of its settings is left out.
pub(crate) fn results(
    experiment: &Experiment,
    measured: &Measured,
    known: Circumstances,
) -> Results {
    let complete: Vec<&MeasuredMix> = measured
        .mixes
        .iter()
        .filter(|mix| mix.runs.iter().all(|of| !of.runs.is_empty()))
        .collect();
    let mixes: Vec<MixResult> = complete
        .iter()
        .map(|mix| mix_result(mix, experiment))
        .collect();
    let evaluated: Vec<Evaluated<'_>> = complete
        .iter()
        .zip(&mixes)
        .map(|(measured, result)| Evaluated { measured, result })
        .collect();
    let groups = groups(&evaluated, experiment);
    let cpus = known.machine.cpus;
    let expectations = judge::speeds(experiment, &evaluated, cpus);
    let headline = experiment.headline.as_ref().and_then(|of| {
        let group = of
            .group
            .as_ref()
            .or(groups.first().map(|group| &group.title))?;
        Some(HeadlineEntry {
            setting: of.setting.clone(),
            group: group.clone(),
        })
    });
    // Also those of mixes that are left out.
    let runs = || {
        measured
            .mixes
            .iter()
            .flat_map(|mix| &mix.runs)
            .flat_map(|of| &of.runs)
    };
    Results {
        schema: SCHEMA,
        kind: "measured",
        title: experiment.title.clone(),
        about: experiment.about.clone(),
        command: known.command,
        method: Some(MethodEntry {
            method: experiment.method.clone(),
            repetitions_done: measured.repetitions,
            baselines: experiment.baselines.clone(),
            promised_against: experiment.promised_against.clone(),
        }),
        load: Some(load(
            &runs().collect::<Vec<_>>(),
            known.machine.load_average_before,
        )),
        machine: known.machine,
        daemon: known.daemon,
        settings: experiment
            .settings
            .iter()
            .map(|setting| SettingEntry {
                key: setting.key.clone(),
                title: setting.title(cpus),
                meaning: setting.meaning.clone(),
                is_managed: setting.is_managed(),
                colour: setting.colour,
            })
            .collect(),
        programs: known.programs,
        headline,
        groups,
        mixes,
        figures: Vec::new(),
        expectations,
        not_measured: known.not_measured,
        wrong_results: runs().map(|run| run.wrong.len()).sum(),
        timed_out: runs()
            .flat_map(|run| &run.programs)
            .filter(|of| of.cost.is_limit())
            .count(),
        left_out: measured.left_out,
        elapsed_s: known.elapsed_s,
    }
}

#[expect(clippy::cast_precision_loss, reason = "some hundred runs")]
fn load(runs: &[&Run], average_before: f64) -> Load {
    let mean = |of: &dyn Fn(&Run) -> f64| {
        runs.iter().map(|run| of(run)).sum::<f64>() / runs.len().max(1) as f64
    };
    let others = |run: &Run| run.during.other_processes_cpus;
    Load {
        average_before,
        runnable_mean: mean(&|run| f64::from(run.before.runnable)),
        runnable_most: runs
            .iter()
            .map(|run| run.before.runnable)
            .max()
            .unwrap_or(0),
        others_mean: mean(&others),
        others_most: runs.iter().map(|run| others(run)).fold(0.0, f64::max),
        stolen_mean: mean(&|run| run.during.stolen_cpus),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::mix::tests::{example as measured, live};
    use super::*;
    use crate::result::run::{Timeline, TimelineSample};
    use crate::run::schedule::Ended;

    fn known() -> Circumstances {
        Circumstances {
            command: "cargo xtask eval --live".to_owned(),
            machine: Machine::example(),
            daemon: Some(DaemonFacts {
                version: "0.1.0".to_owned(),
                allocation: "mapper".to_owned(),
                mapping: "sam_mph".to_owned(),
                enforcer: "affinity (cgroup: not delegated)".to_owned(),
                counters: "runtime progress".to_owned(),
            }),
            programs: vec![ProgramEntry {
                name: "md".to_owned(),
                runtime: "libgomp",
                summary: "molecular dynamics".to_owned(),
                steps: 7,
            }],
            not_measured: Vec::new(),
            elapsed_s: 30.0,
        }
    }

    /// The results of an experiment whose runs were made up.
    pub(crate) fn of_runs(experiment: &Experiment, measured: &Measured) -> Results {
        results(experiment, measured, known())
    }

    fn of_mixes(mixes: Vec<MeasuredMix>, left_out: usize) -> Results {
        let measured = Measured {
            mixes,
            repetitions: 3,
            left_out,
            ended: Ended::Done,
        };
        of_runs(&live(), &measured)
    }

    /// Results with everything in them that a report can show.
    pub(crate) fn example() -> Results {
        let mut mixes = measured();
        let mapper = &mut mixes[0].runs[2].runs;
        mapper[1].reject("md <is> wrong".to_owned());
        mapper[0].notes.push("threads wait".to_owned());
        mapper[0].timeline = Some(Timeline {
            samples: (0_u32..40)
                .map(|n| TimelineSample {
                    at_s: f64::from(n) * 0.05,
                    cpus: vec![Some(if n < 20 { 2 } else { 1 }), (n >= 20).then_some(1)],
                })
                .collect(),
        });
        let mut results = of_mixes(mixes, 0);
        results.expectations = [("kept", true), ("broken", false)]
            .map(|(name, is_met)| crate::result::report::Judged {
                name: name.to_owned(),
                wanted: crate::data::bound::Bound::AtLeast(1.5),
                unit: "×".to_owned(),
                found: None,
                published: None,
                is_met,
            })
            .to_vec();
        results
    }

    #[test]
    fn mixes_of_one_size_are_one_group_and_of_several_are_also_taken_together() {
        let titles = |results: &Results| -> Vec<String> {
            results
                .groups
                .iter()
                .map(|group| group.title.clone())
                .collect()
        };
        assert_eq!(titles(&example()), ["mixes of 2 programs"]);
        let mut mixed = measured();
        let third = mixed[0].mix.members[0].clone();
        mixed[0].mix.members.push(third);
        for run in mixed[0].runs.iter_mut().flat_map(|of| &mut of.runs) {
            let again = run.programs[0];
            run.programs.push(again);
        }
        assert_eq!(
            titles(&of_mixes(mixed, 0)),
            ["all mixes", "mixes of 2 programs", "mixes of 3 programs"]
        );
    }

    #[test]
    fn what_was_finished_before_a_stop_is_kept_and_a_mix_without_a_setting_left_out() {
        let mut stopped = measured();
        stopped[0].runs[1].runs.truncate(2);
        stopped[1].runs[2].runs.clear();
        let results = of_mixes(stopped, 4);
        let names: Vec<&str> = results.mixes.iter().map(|mix| &*mix.name).collect();
        assert_eq!(names, ["md+cg"]);
        assert_eq!(results.settings.len(), 3);
        assert!(results.caution().unwrap().contains("4 runs were left out"));
    }

    #[test]
    fn wrong_results_and_runs_at_the_limit_are_counted() {
        let results = example();
        assert_eq!((results.wrong_results, results.timed_out), (1, 2));
        assert_eq!(of_mixes(measured(), 0).wrong_results, 0);
    }

    #[test]
    fn a_disturbed_measurement_says_so_and_a_quiet_one_does_not() {
        let mut results = of_mixes(measured(), 0);
        assert_eq!(results.caution(), None);
        results.load.as_mut().unwrap().others_mean = 0.4;
        assert!(
            results
                .caution()
                .unwrap()
                .contains("other work used 0.40 CPUs")
        );
        results.method.as_mut().unwrap().repetitions_done = 1;
        assert!(
            results
                .caution()
                .unwrap()
                .contains("fewer than 3 repetitions")
        );
    }

    #[test]
    fn the_headline_is_that_of_the_setting_and_group_of_the_experiment() {
        let results = example();
        let own = results.headline_summary().unwrap();
        assert_eq!(own.setting, "mapper");
        assert_eq!(results.headline.unwrap().group, "mixes of 2 programs");
    }

    #[test]
    fn the_json_has_the_documented_shape() {
        let json = serde_json::to_value(example()).unwrap();
        assert_eq!(
            (&json["schema"], &json["kind"]),
            (&SCHEMA.into(), &"measured".into())
        );
        for key in [
            "machine",
            "method",
            "load",
            "mixes",
            "groups",
            "expectations",
            "headline",
        ] {
            assert!(!json[key].is_null(), "{key}");
        }
        let own = &json["mixes"][0]["settings"][2];
        assert_eq!(own["setting"], "mapper");
        assert!(
            own["over"]["plain"]["value"].is_f64() && own["programs"][0]["cost"]["low"].is_f64()
        );
        let run = &own["runs"][0];
        assert!(run["before"]["load_average"].is_f64());
        assert_eq!(
            run["timeline"]["samples"][0]["cpus"],
            serde_json::json!([2, null])
        );
        let summary = &json["groups"][0]["settings"][2];
        assert!(summary["over"]["static"]["mean"]["value"].is_f64());
        assert!(summary["promises"]["broken"].is_array());
    }
}
