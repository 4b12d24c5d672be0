//! From the runs to the figures of the report.
//!
//! A program's speed over a setting is its median cost ([`super::cost`]) there by its median cost here,
//! over the runs that are valid. A mix has the geometric mean
//! of its programs that compute; latencies vary far more than times and stand by themselves. Intervals: see
//! [`mapper_report::bootstrap`]. What a setting comes to over several mixes: [`super::summary`].

use serde::Serialize;

use super::cost::{self, Bound, Cost, MedianCost, RunCost, Speed};
use super::measure::Run;
use super::mixes::Mix;
use super::settings::Setting;
use mapper_report::bootstrap::{Estimate, estimate};
use mapper_report::statistics::geometric_mean;

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
    pub(super) over_plain: Option<Speed>,
    pub(super) of_static: Option<Speed>,
    pub(super) wrong: Vec<String>,
}

/// What came of one program.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ProgramResult {
    /// Nothing if no run was valid.
    pub(super) cost: Option<Estimate>,
    /// Whether the median cost is only a bound.
    pub(super) bound: Bound,
    /// Runs whose results were right, or that were ended at the limit.
    pub(super) valid: usize,
    /// Runs that were ended at the limit.
    pub(super) over_limit: usize,
    pub(super) over_plain: Option<Speed>,
    pub(super) of_static: Option<Speed>,
    /// Single runs slower than what was promised.
    pub(super) runs_below: Option<usize>,
}

/// A program of a mix whose figures are computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Of {
    /// In the order of the mix.
    pub(super) at: usize,
    pub(super) unit: Cost,
}

/// The median cost of a program in the repetitions at these places, as far as there are valid ones.
fn median_cost(runs: &[Run], of: Of, places: &[usize]) -> Option<MedianCost> {
    let costs = places
        .iter()
        .filter_map(|&place| Some(runs.get(place)?.programs.get(of.at)?.cost));
    cost::median_cost(costs, of.unit)
}

/// Computes every figure of a mix; settings that have not run are left out.
pub(super) fn mix_result(measured: &MeasuredMix, qos: f64) -> MixResult {
    let programs: Vec<ProgramName> = measured
        .mix
        .programs
        .iter()
        .map(|program| ProgramName {
            name: program.name,
            cost: Cost::of(program.name),
        })
        .collect();
    let settings = measured
        .runs
        .iter()
        .filter(|of| !of.runs.is_empty())
        .map(|own| setting_result(measured, own, &programs, qos))
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
) -> SettingResult {
    let all: Vec<Of> = programs
        .iter()
        .enumerate()
        .map(|(at, program)| Of {
            at,
            unit: program.cost,
        })
        .collect();
    let computing: Vec<Of> = all
        .iter()
        .copied()
        .filter(|of| of.unit == Cost::Seconds)
        .collect();
    let over = |other: &Setting, which: &[Of]| speed(runs_of(measured, other)?, &own.runs, which);
    let places: Vec<usize> = (0..own.runs.len()).collect();
    let results = all.iter().map(|&of| {
        let promised = runs_of(measured, &Setting::Static).and_then(|runs| {
            let places: Vec<usize> = (0..runs.len()).collect();
            Some(median_cost(runs, of, &places)?.value / qos)
        });
        let seen = || {
            let programs = own.runs.iter().filter_map(|run| run.programs.get(of.at));
            programs.map(|program| program.cost)
        };
        let valid: Vec<f64> = seen().filter_map(|cost| cost.in_unit(of.unit)).collect();
        let middle = median_cost(&own.runs, of, &places);
        ProgramResult {
            cost: estimate(own.runs.len(), |places| {
                Some(median_cost(&own.runs, of, places)?.value)
            }),
            bound: middle.map_or(Bound::Unknown, |middle| middle.bound),
            valid: valid.len(),
            over_limit: seen()
                .filter(|cost| matches!(cost, RunCost::Limit(_)))
                .count(),
            over_plain: over(&Setting::Plain, &[of]),
            of_static: over(&Setting::Static, &[of]),
            runs_below: promised.map(|most| valid.iter().filter(|&&cost| cost > most).count()),
        }
    });
    SettingResult {
        setting: own.setting.clone(),
        programs: results.collect(),
        over_plain: over(&Setting::Plain, &computing),
        of_static: over(&Setting::Static, &computing),
        wrong: own.runs.iter().flat_map(|run| run.wrong.clone()).collect(),
    }
}

/// The runs of a mix under a setting, if there are any.
pub(super) fn runs_of<'a>(measured: &'a MeasuredMix, setting: &Setting) -> Option<&'a [Run]> {
    let found = measured.runs.iter().find(|of| of.setting == *setting)?;
    (!found.runs.is_empty()).then_some(&*found.runs)
}

/// Mean speed of the programs `which` over `base`.
fn speed(base: &[Run], own: &[Run], which: &[Of]) -> Option<Speed> {
    let count = base.len().max(own.len());
    let estimate = estimate(count, |places| speed_in(base, own, which, places))?;
    Some(Speed {
        estimate,
        bound: bound_of(base, own, which),
    })
}

/// The mean speed of these programs over `base` in the repetitions at these places.
pub(super) fn speed_in(base: &[Run], own: &[Run], which: &[Of], places: &[usize]) -> Option<f64> {
    let ratios: Option<Vec<f64>> = which
        .iter()
        .map(|&of| Some(median_cost(base, of, places)?.value / median_cost(own, of, places)?.value))
        .collect();
    geometric_mean(ratios?)
}

/// Of which kind the mean speed of these programs is.
pub(super) fn bound_of(base: &[Run], own: &[Run], which: &[Of]) -> Bound {
    if std::ptr::eq(base, own) {
        // Beside itself a setting has exactly its own speed.
        return Bound::Exact;
    }
    let of_runs = |runs: &[Run], of: Of| {
        let places: Vec<usize> = (0..runs.len()).collect();
        median_cost(runs, of, &places).map_or(Bound::Unknown, |of| of.bound)
    };
    which.iter().fold(Bound::Exact, |bound, &of| {
        bound.and(Bound::of_ratio(of_runs(base, of), of_runs(own, of)))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::measure::{ProgramRun, SERVER};
    use super::super::mixes;
    use super::super::settings::Levers;
    use super::*;
    use crate::corun::machine::{Disturbance, LoadBefore};

    pub(crate) fn mapper() -> Setting {
        Setting::Managed {
            policy: None,
            levers: Levers::Default,
        }
    }

    /// A run with these costs: seconds, or of `server` milliseconds.
    pub(crate) fn run(mix: &Mix, costs: &[f64]) -> Run {
        let programs = mix.programs.iter().zip(costs).map(|(program, &cost)| {
            let is_server = program.name == SERVER;
            ProgramRun {
                seconds: if is_server { 1.0 } else { cost },
                cost: if is_server {
                    RunCost::P99Ms(cost)
                } else if cost >= 8.0 {
                    RunCost::Limit(cost)
                } else {
                    RunCost::Seconds(cost)
                },
            }
        });
        Run {
            before: LoadBefore {
                load_average: 0.5,
                runnable: 1,
            },
            during: Disturbance {
                other_processes_cpus: 0.01,
                stolen_cpus: 0.0,
            },
            programs: programs.collect(),
            wrong: Vec::new(),
        }
    }

    /// A mix with the costs of each run under plain Linux, the static share, and mapper.
    fn measured(mix: &str, costs: [&[&[f64]]; 3]) -> MeasuredMix {
        let mix = mixes::select(&[mix.to_owned()]).unwrap().remove(0);
        let settings = [Setting::Plain, Setting::Static, mapper()];
        let runs = settings.into_iter().zip(costs).map(|(setting, costs)| {
            let runs = costs.iter().map(|costs| run(&mix, costs)).collect();
            SettingRuns { setting, runs }
        });
        MeasuredMix {
            runs: runs.collect(),
            mix,
        }
    }

    /// Two mixes whose ratios are easy.
    pub(crate) fn example() -> Vec<MeasuredMix> {
        vec![
            // Medians: plain 8 and 2, static 2 and 2, mapper 1 and 2.5.
            measured(
                "md+cg",
                [
                    &[&[8.0, 2.0], &[8.0, 1.0], &[4.0, 3.0]],
                    &[&[2.0, 2.0], &[2.0, 2.0], &[2.0, 2.0]],
                    &[&[1.0, 2.5], &[1.0, 2.5], &[1.0, 2.0]],
                ],
            ),
            // Medians: plain 20 ms and 2 s, static 2 ms and 1 s, mapper 4 ms and 0.5 s.
            measured(
                "server+matmul",
                [
                    &[&[20.0, 2.0], &[30.0, 2.0], &[10.0, 2.0]],
                    &[&[2.0, 1.0], &[2.0, 1.0], &[2.0, 1.0]],
                    &[&[4.0, 0.5], &[4.0, 0.5], &[4.0, 0.5]],
                ],
            ),
        ]
    }

    pub(crate) fn close(found: Option<Speed>, wanted: f64) {
        let found = found.unwrap().estimate.value;
        assert!((found - wanted).abs() < 1e-9, "{found} for {wanted}");
    }

    #[test]
    fn a_mix_has_the_mean_speed_of_its_programs_by_medians() {
        let result = mix_result(&example()[0], 0.85);
        let [plain, fair, own] = &result.settings[..] else {
            panic!("{result:?}")
        };
        // 8/1 and 2/2.5 have the geometric mean √6.4; 2/1 and 2/2.5 √1.6.
        close(own.over_plain, 6.4_f64.sqrt());
        close(own.of_static, 1.6_f64.sqrt());
        close(own.programs[0].over_plain, 8.0);
        close(own.programs[1].of_static, 0.8);
        close(plain.over_plain, 1.0);
        close(fair.over_plain, 2.0);
        assert_eq!(plain.programs[0].over_limit, 2);
    }

    #[test]
    fn latencies_stand_by_themselves() {
        let result = mix_result(&example()[1], 0.85);
        let own = &result.settings[2];
        assert_eq!(result.programs[0].cost, Cost::P99Ms);
        assert_eq!(own.programs[0].cost.unwrap().value, 4.0);
        close(own.programs[0].over_plain, 5.0);
        close(own.over_plain, 4.0);
    }

    #[test]
    fn a_wrong_run_changes_no_figure() {
        for mix in example() {
            let figures = |mix: &MeasuredMix| {
                let result = mix_result(mix, 0.85);
                let speeds = |of: &SettingResult| {
                    let cost = |of: &ProgramResult| (of.cost, of.of_static, of.over_plain);
                    let programs: Vec<_> = of.programs.iter().map(cost).collect();
                    let runs = |of: &ProgramResult| (of.runs_below, of.valid);
                    let runs: Vec<_> = of.programs.iter().map(runs).collect();
                    (of.over_plain, of.of_static, programs, runs)
                };
                result.settings.iter().map(speeds).collect::<Vec<_>>()
            };
            // Quick runs that crashed; the same number under each setting, as draws are in pairs.
            let mut without = mix.clone();
            let mut with = mix;
            for of in &mut with.runs {
                for program in &mut of.runs[2].programs {
                    program.seconds = 0.01;
                    program.cost = RunCost::Seconds(0.01);
                }
                of.runs[2].reject("crashed".to_owned());
            }
            for of in &mut without.runs {
                for program in &mut of.runs[2].programs {
                    program.cost = RunCost::Invalid;
                }
            }
            assert_eq!(figures(&with), figures(&without));
            for of in &mut without.runs {
                of.runs.truncate(2);
            }
            let values = |mix: &MeasuredMix| {
                let of = mix_result(mix, 0.85).settings;
                let values = of.iter().map(|of| of.of_static.unwrap().estimate.value);
                values.collect::<Vec<_>>()
            };
            assert_eq!(values(&with), values(&without));
        }
    }

    #[test]
    fn a_setting_under_which_every_run_is_wrong_has_no_figure_and_is_still_told() {
        let mut measured = example().remove(0);
        for run in &mut measured.runs[2].runs {
            run.reject("crashed".to_owned());
        }
        let result = mix_result(&measured, 0.85);
        let own = &result.settings[2];
        assert!(own.over_plain.is_none() && own.programs[0].cost.is_none());
        assert_eq!((own.programs[0].valid, own.wrong.len()), (0, 3));
    }

    #[test]
    fn a_speed_over_runs_that_were_ended_is_a_bound() {
        let result = mix_result(&example()[0], 0.85);
        let [plain, fair, own] = &result.settings[..] else {
            panic!("{result:?}")
        };
        // Under plain Linux two of three runs of md were ended.
        assert_eq!(own.programs[0].over_plain.unwrap().bound, Bound::AtLeast);
        assert_eq!(own.over_plain.unwrap().bound, Bound::AtLeast);
        assert_eq!(own.of_static.unwrap().bound, Bound::Exact);
        assert_eq!(plain.of_static.unwrap().bound, Bound::AtMost);
        assert_eq!(plain.programs[0].bound, Bound::AtLeast);
        assert_eq!(fair.programs[1].over_plain.unwrap().bound, Bound::Exact);
    }

    #[test]
    fn after_a_stop_each_setting_counts_with_what_it_has() {
        let mut stopped = example().remove(0);
        stopped.runs[2].runs.truncate(1);
        let result = mix_result(&stopped, 0.85);
        // The plain medians are those of all three repetitions: 8 and 2.
        close(result.settings[2].programs[1].over_plain, 0.8);
        close(result.settings[2].over_plain, 6.4_f64.sqrt());
    }

    #[test]
    fn what_was_not_measured_has_no_figure() {
        let mut measured = example().remove(0);
        measured.runs.retain(|of| of.setting == mapper());
        let result = mix_result(&measured, 0.85);
        let own = &result.settings[0];
        assert!(own.over_plain.is_none() && own.of_static.is_none());
        assert!(own.programs[0].runs_below.is_none());
    }
}
