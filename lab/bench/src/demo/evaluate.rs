//! From the runs to the figures of the report.
//!
//! The speedup of a program over a setting is its median time there by its median time here; a
//! pair has the geometric mean of its two programs, a setting that of its pairs. A program keeps
//! its promise if it runs at [`QOS`] or more of the speed that it has on its static fair share.
//! A run that was ended at the time limit counts with the limit, which favours the slower side.

use std::collections::BTreeMap;

use super::measure::{QOS, Run, Work};
use super::pairs::{Pair, Setting};
use super::results::{Method, PairResult, ProgramResult, Results, SettingResult, Summary, Target};
use crate::corun::build::Runtime;
use crate::corun::machine::{Disturbance, Machine};
use mapper_report::statistics::{geometric_mean, median};

/// The setting whose figures stand for mapper: the one in which OpenMP follows the allocation, as it
/// does in the figures that these are to be held against [MAPPER §4.5.2].
const HEADLINE: Setting = Setting::Follow;

/// All runs of a pair, by setting, in the order of the repetitions.
#[derive(Clone, Debug)]
pub(crate) struct MeasuredPair {
    pub(crate) pair: Pair,
    pub(crate) work: [Work; 2],
    pub(crate) runs: BTreeMap<Setting, Vec<Run>>,
}

/// Computes every figure from the runs.
pub(crate) fn evaluate(
    machine: Machine,
    disturbance: Disturbance,
    method: Method,
    measured: &[MeasuredPair],
    elapsed_s: f64,
) -> Results {
    let calibrated_s = method.calibrated_s;
    let pairs: Vec<PairResult> = measured
        .iter()
        .map(|pair| pair_result(pair, calibrated_s))
        .collect();
    let by_runtime: BTreeMap<_, _> = [Runtime::Libgomp, Runtime::Libomp]
        .into_iter()
        .map(|runtime| (runtime.name(), summaries(&pairs, runtime)))
        .filter(|(_, summaries)| !summaries.is_empty())
        .collect();
    let by_setting = by_runtime
        .get(Runtime::Libgomp.name())
        .cloned()
        .unwrap_or_default();
    let settings = || pairs.iter().flat_map(|pair| pair.settings.values());
    let wrong_results = settings().map(|setting| setting.wrong.len()).sum();
    let timed_out = settings()
        .flat_map(|setting| setting.timed_out.iter().flatten())
        .filter(|out| **out)
        .count();
    let headline = by_setting.get(&HEADLINE);
    Results {
        schema: 1,
        headline_setting: HEADLINE,
        geomean_vs_plain: headline.and_then(|summary| summary.geomean_vs_plain),
        geomean_vs_passive: headline.and_then(|summary| summary.geomean_vs_passive),
        qos_violations: headline.and_then(|summary| summary.qos_violations),
        wrong_results,
        timed_out,
        targets: targets(&by_setting, wrong_results),
        machine,
        disturbance,
        method,
        pairs,
        by_runtime,
        by_setting,
        elapsed_s,
    }
}

fn pair_result(measured: &MeasuredPair, calibrated_s: f64) -> PairResult {
    let medians: BTreeMap<Setting, [f64; 2]> = measured
        .runs
        .iter()
        .filter_map(|(setting, runs)| Some((*setting, medians(runs)?)))
        .collect();
    let settings = medians
        .iter()
        .map(|(&setting, &own)| {
            // Speed relative to a setting. A setting is not compared with itself.
            let versus = |other: Setting| {
                let base = medians.get(&other).filter(|_| other != setting)?;
                Some([base[0] / own[0], base[1] / own[1]])
            };
            let vs_static = versus(Setting::Static);
            let runs = &measured.runs[&setting];
            let result = SettingResult {
                times: runs.iter().map(|run| run.times_s).collect(),
                timed_out: runs.iter().map(|run| run.timed_out).collect(),
                medians: own,
                vs_plain: versus(Setting::Plain),
                vs_passive: versus(Setting::Passive),
                vs_static,
                geomean_vs_plain: versus(Setting::Plain).and_then(geometric_mean),
                geomean_vs_passive: versus(Setting::Passive).and_then(geometric_mean),
                qos_kept: vs_static.map(|ratios| ratios.map(|ratio| ratio >= QOS)),
                wrong: runs.iter().flat_map(|run| run.wrong.clone()).collect(),
                timeline: runs.iter().find_map(|run| run.timeline.clone()),
            };
            (setting, result)
        })
        .collect();
    let program = |which: usize| ProgramResult {
        name: measured.pair.entrants[which].program.name(),
        work: measured.work[which],
        arrives_after_s: measured.pair.entrants[which].arrives_after * calibrated_s,
    };
    PairResult {
        name: measured.pair.name,
        story: measured.pair.story,
        runtime: measured.pair.runtime.name(),
        programs: [program(0), program(1)],
        settings,
    }
}

fn medians(runs: &[Run]) -> Option<[f64; 2]> {
    let of = |which: usize| {
        median(
            &runs
                .iter()
                .map(|run| run.times_s[which])
                .collect::<Vec<_>>(),
        )
    };
    Some([of(0)?, of(1)?])
}

/// Each setting over the pairs of one runtime.
fn summaries(pairs: &[PairResult], runtime: Runtime) -> BTreeMap<Setting, Summary> {
    let pairs: Vec<&PairResult> = pairs
        .iter()
        .filter(|pair| pair.runtime == runtime.name())
        .collect();
    Setting::ALL
        .into_iter()
        .filter_map(|setting| {
            let results: Vec<(&PairResult, &SettingResult)> = pairs
                .iter()
                .filter_map(|pair| Some((*pair, pair.settings.get(&setting)?)))
                .collect();
            (!results.is_empty()).then(|| (setting, summary(&results)))
        })
        .collect()
}

fn summary(results: &[(&PairResult, &SettingResult)]) -> Summary {
    let mean = |of: fn(&SettingResult) -> Option<f64>| {
        let ratios: Option<Vec<f64>> = results.iter().map(|(_, result)| of(result)).collect();
        ratios.and_then(geometric_mean)
    };
    let mut violations = Vec::new();
    let mut worst_program: Option<f64> = None;
    for (pair, result) in results {
        for (program, ratio) in pair
            .programs
            .iter()
            .zip(result.vs_static.into_iter().flatten())
        {
            worst_program = Some(worst_program.map_or(ratio, |worst| worst.min(ratio)));
            if ratio < QOS {
                violations.push(format!(
                    "{} in {} runs at {ratio:.2} of its fair share",
                    program.name, pair.name
                ));
            }
        }
    }
    Summary {
        geomean_vs_plain: mean(|result| result.geomean_vs_plain),
        geomean_vs_passive: mean(|result| result.geomean_vs_passive),
        worst_pair_vs_passive: results
            .iter()
            .filter_map(|(_, result)| result.geomean_vs_passive)
            .min_by(f64::total_cmp),
        worst_program_vs_static: worst_program,
        qos_violations: worst_program.map(|_| violations.len()),
        violations,
    }
}

/// The project's own targets, for both ways of running under mapper.
fn targets(by_setting: &BTreeMap<Setting, Summary>, wrong_results: usize) -> Vec<Target> {
    let mut targets = vec![Target {
        what: "wrong results, all settings".to_owned(),
        wanted: "0".to_owned(),
        found: wrong_results.to_string(),
        met: wrong_results == 0,
    }];
    for setting in Setting::ALL
        .into_iter()
        .filter(|setting| setting.is_managed())
    {
        let Some(summary) = by_setting.get(&setting) else {
            continue;
        };
        let title = setting.title();
        let mut ratio = |what: &str, found: Option<f64>, least: f64| {
            if let Some(found) = found {
                targets.push(Target {
                    what: format!("{title}: {what}"),
                    wanted: format!("at least {least:.2}"),
                    found: format!("{found:.2}"),
                    met: found >= least,
                });
            }
        };
        ratio(
            "geometric mean over plain Linux",
            summary.geomean_vs_plain,
            1.5,
        );
        ratio(
            "geometric mean over passive waiting",
            summary.geomean_vs_passive,
            1.0,
        );
        ratio(
            "slowest pair against passive waiting",
            summary.worst_pair_vs_passive,
            0.95,
        );
        ratio(
            "slowest program against its static fair share",
            summary.worst_program_vs_static,
            QOS,
        );
    }
    targets
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::pairs::PAIRS;
    use super::super::timeline::{DaemonFacts, Timeline, TimelineSample};
    use super::*;

    fn run(times_s: [f64; 2]) -> Run {
        Run {
            times_s,
            timed_out: [false; 2],
            wrong: Vec::new(),
            timeline: None,
        }
    }

    fn work() -> Work {
        Work {
            size: None,
            steps: 10,
        }
    }

    /// Every pair, with times chosen so that the ratios are easy: plain twice and passive as long
    /// as under mapper, the static fair share a little faster.
    fn measured() -> Vec<MeasuredPair> {
        PAIRS
            .iter()
            .map(|&pair| {
                let times = [
                    (Setting::Plain, [4.0, 4.0]),
                    (Setting::Passive, [2.0, 2.0]),
                    (Setting::Static, [1.8, 2.0]),
                    (Setting::Fixed, [2.0, 2.0]),
                    (Setting::Follow, [1.0, 2.0]),
                    (Setting::Virtual, [1.0, 1.0]),
                ];
                let runs = times
                    .into_iter()
                    .map(|(setting, times)| (setting, vec![run(times); 3]))
                    .collect();
                MeasuredPair {
                    pair,
                    work: [work(), work()],
                    runs,
                }
            })
            .collect()
    }

    fn evaluated(measured: &[MeasuredPair]) -> Results {
        let disturbance = Disturbance {
            other_processes_cpus: 0.02,
            stolen_cpus: 0.0,
        };
        let method = Method {
            repetitions_wanted: 3,
            repetitions_done: 3,
            qos: QOS,
            interval_ms: 100,
            calibrated_s: 2.2,
            time_limit_s: 20.0,
            fair_cpus: [1, 1],
            daemon: Some(DaemonFacts {
                version: "0.1.0".to_owned(),
                allocation: "mapper".to_owned(),
                mapping: "sam_mph".to_owned(),
                enforcer: "affinity (cgroup: not delegated)".to_owned(),
                counters: "runtime progress".to_owned(),
            }),
        };
        evaluate(Machine::example(), disturbance, method, measured, 200.0)
    }

    /// Results with everything in them that a report can show.
    pub(crate) fn example() -> Results {
        let mut measured = measured();
        let timeline = Timeline {
            samples: (0_u32..40)
                .map(|n| TimelineSample {
                    at_s: f64::from(n) * 0.05,
                    cpus: [Some(if n < 20 { 2 } else { 1 }), (n >= 20).then_some(1)],
                })
                .collect(),
        };
        for pair in &mut measured {
            for setting in [Setting::Fixed, Setting::Follow] {
                pair.runs.get_mut(&setting).unwrap()[0].timeline = Some(timeline.clone());
            }
            let plain = pair.runs.get_mut(&Setting::Plain).unwrap();
            plain[1] = Run {
                timed_out: [true, false],
                ..run([20.0, 4.0])
            };
        }
        measured[1].runs.get_mut(&Setting::Fixed).unwrap()[2]
            .wrong
            .push("md <is> wrong".into());
        evaluated(&measured)
    }

    fn close(found: Option<f64>, wanted: f64) {
        assert!(
            (found.unwrap() - wanted).abs() < 1e-9,
            "{found:?} instead of {wanted}"
        );
    }

    #[test]
    fn a_speedup_is_the_other_time_by_the_own() {
        let results = evaluated(&measured());
        let follow = &results.pairs[0].settings[&Setting::Follow];
        assert_eq!(follow.vs_plain, Some([4.0, 2.0]));
        assert_eq!(follow.vs_passive, Some([2.0, 1.0]));
        close(follow.geomean_vs_plain, 8.0_f64.sqrt());
        close(
            results.by_setting[&Setting::Follow].geomean_vs_passive,
            2.0_f64.sqrt(),
        );
    }

    #[test]
    fn the_headline_is_the_setting_that_follows_over_the_libgomp_pairs() {
        let mut measured = measured();
        let libomp = measured
            .iter_mut()
            .find(|m| m.pair.runtime == Runtime::Libomp)
            .unwrap();
        libomp
            .runs
            .insert(Setting::Follow, vec![run([100.0, 100.0])]);
        let results = evaluated(&measured);
        assert_eq!(results.headline_setting, Setting::Follow);
        close(results.geomean_vs_plain, 8.0_f64.sqrt());
        close(results.geomean_vs_passive, 2.0_f64.sqrt());
        close(
            results.by_runtime["libomp"][&Setting::Follow].geomean_vs_plain,
            0.04,
        );
    }

    #[test]
    fn a_promise_is_broken_below_its_share_of_the_static_time() {
        let mut measured = measured();
        measured[0]
            .runs
            .insert(Setting::Follow, vec![run([1.8 / 0.84, 2.0 / 0.86])]);
        let results = evaluated(&measured);
        assert_eq!(
            results.pairs[0].settings[&Setting::Follow].qos_kept,
            Some([false, true])
        );
        assert_eq!(results.qos_violations, Some(1));
        let summary = &results.by_setting[&Setting::Follow];
        assert!(
            summary.violations[0].contains(PAIRS[0].name),
            "{:?}",
            summary.violations
        );
    }

    #[test]
    fn medians_are_taken_before_ratios() {
        let mut measured = measured();
        let runs = vec![run([4.0, 4.0]), run([4.0, 4.0]), run([400.0, 4.0])];
        measured[0].runs.insert(Setting::Plain, runs);
        let results = evaluated(&measured);
        assert_eq!(
            results.pairs[0].settings[&Setting::Plain].medians,
            [4.0, 4.0]
        );
    }

    #[test]
    fn what_was_not_measured_has_no_figure() {
        let mut measured = measured();
        for pair in &mut measured {
            pair.runs.remove(&Setting::Follow);
            pair.runs.remove(&Setting::Passive);
        }
        let results = evaluated(&measured);
        assert_eq!(results.geomean_vs_plain, None);
        assert_eq!(results.qos_violations, None);
        assert_eq!(results.by_setting[&Setting::Fixed].geomean_vs_passive, None);
        assert!(
            results
                .targets
                .iter()
                .all(|target| !target.what.contains("following"))
        );
    }

    #[test]
    fn wrong_results_and_missed_targets_are_told_apart() {
        let results = example();
        assert_eq!(results.wrong_results, 1);
        assert_eq!(results.timed_out, PAIRS.len());
        let missed: Vec<_> = results
            .targets
            .iter()
            .filter(|target| !target.met)
            .collect();
        assert_eq!(missed.len(), 1, "{missed:?}");
    }

    #[test]
    fn the_json_has_the_documented_shape() {
        let json = serde_json::to_value(example()).unwrap();
        for key in ["machine", "pairs", "by_setting", "targets", "method"] {
            assert!(!json[key].is_null(), "{key}");
        }
        for key in ["geomean_vs_plain", "geomean_vs_passive"] {
            assert!(json[key].is_f64(), "{key}");
        }
        for key in ["qos_violations", "wrong_results"] {
            assert!(json[key].is_u64(), "{key}");
        }
        assert_eq!(json["headline_setting"], "follow");
        let pairs = json["pairs"].as_array().unwrap();
        assert_eq!(pairs.len(), PAIRS.len());
        for pair in pairs {
            assert!(pair["name"].is_string());
            assert_eq!(pair["programs"].as_array().unwrap().len(), 2);
            for setting in Setting::ALL {
                let result = &pair["settings"][setting.key()];
                let times = result["times"].as_array().unwrap();
                assert_eq!(times.len(), 3);
                assert!(
                    times
                        .iter()
                        .all(|both| both[0].is_f64() && both[1].is_f64())
                );
            }
            let samples = &pair["settings"]["follow"]["timeline"]["samples"];
            assert_eq!(samples[0]["cpus"], serde_json::json!([2, null]));
        }
        for setting in ["fixed", "follow"] {
            assert!(
                json["by_setting"][setting]["geomean_vs_plain"].is_f64(),
                "{setting}"
            );
        }
    }
}
