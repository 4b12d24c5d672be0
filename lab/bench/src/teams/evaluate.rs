//! From the runs to figures and verdicts.
//!
//! The speed of one setting over another is found moment by moment, from runs that followed each
//! other: the geometric mean over the programs of time there by time here. The figure is the median
//! over the moments. So what the machine does over minutes is the same for both.

use serde::Serialize;

use super::experiments::{Experiment, Group, Setting};
use super::measure::Run;
use crate::corun::machine::{Disturbance, Machine};
use mapper_report::statistics::{geometric_mean, median};

/// The whole result, as the JSON file has it. Fields are only ever added.
#[derive(Debug, Serialize)]
pub(super) struct Results {
    /// Version of this shape.
    pub(super) schema: u32,
    pub(super) machine: Machine,
    pub(super) disturbance: Disturbance,
    pub(super) scikit_learn: Option<String>,
    pub(super) repetitions: usize,
    pub(super) calibrated_s: f64,
    pub(super) limit_s: f64,
    pub(super) experiments: Vec<ExperimentResult>,
    pub(super) not_measured: Vec<NotMeasured>,
    pub(super) elapsed_s: f64,
}

/// What could not be measured, and why.
#[derive(Clone, Debug, Serialize)]
pub(super) struct NotMeasured {
    pub(super) experiment: String,
    pub(super) why: String,
}

#[derive(Debug, Serialize)]
pub(super) struct ExperimentResult {
    pub(super) group: Group,
    pub(super) programs: Vec<&'static str>,
    pub(super) settings: Vec<SettingResult>,
    pub(super) figures: Vec<Figure>,
}

#[derive(Debug, Serialize)]
pub(super) struct SettingResult {
    pub(super) title: String,
    /// Median seconds of each program.
    pub(super) medians_s: Vec<f64>,
    /// Every run, every program.
    pub(super) times_s: Vec<Vec<f64>>,
    /// Runs that were ended at the limit.
    pub(super) over_limit: usize,
    pub(super) wrong: Vec<String>,
    pub(super) notes: Vec<String>,
}

/// A figure with what is wanted of it.
#[derive(Debug, Serialize)]
pub(super) struct Figure {
    pub(super) of: String,
    pub(super) over: String,
    pub(super) at_least: f64,
    /// Nothing when no moment has runs of both.
    pub(super) value: Option<f64>,
    /// The smallest and the largest of the moments.
    pub(super) range: Option<[f64; 2]>,
    pub(super) moments: usize,
}

impl Figure {
    pub(super) fn is_met(&self) -> bool {
        self.value.is_some_and(|value| value >= self.at_least)
    }
}

impl Results {
    pub(super) fn wrong(&self) -> usize {
        self.settings().map(|setting| setting.wrong.len()).sum()
    }

    pub(super) fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.experiments.iter().flat_map(|result| &result.figures)
    }

    fn settings(&self) -> impl Iterator<Item = &SettingResult> {
        self.experiments.iter().flat_map(|result| &result.settings)
    }
}

/// The runs of an experiment by setting, in the order of the experiment's settings.
pub(super) struct Measured {
    pub(super) experiment: Experiment,
    pub(super) runs: Vec<(Setting, Vec<Run>)>,
}

pub(super) fn evaluated(measured: &Measured, cpus: usize) -> ExperimentResult {
    let experiment = &measured.experiment;
    let runs_of = |wanted: Setting| {
        measured
            .runs
            .iter()
            .find(|(setting, _)| *setting == wanted)
            .map_or(&[][..], |(_, runs)| runs)
    };
    ExperimentResult {
        group: experiment.group,
        programs: experiment.programs.iter().map(|p| p.title()).collect(),
        settings: measured
            .runs
            .iter()
            .map(|(setting, runs)| setting_result(setting.title(cpus), runs))
            .collect(),
        figures: experiment
            .wanted
            .iter()
            .map(|wanted| {
                let mut speeds = speeds(runs_of(wanted.of), runs_of(wanted.over));
                speeds.sort_by(f64::total_cmp);
                Figure {
                    of: wanted.of.title(cpus),
                    over: wanted.over.title(cpus),
                    at_least: wanted.at_least,
                    value: median(&speeds),
                    range: speeds.first().zip(speeds.last()).map(|(a, b)| [*a, *b]),
                    moments: speeds.len(),
                }
            })
            .collect(),
    }
}

fn setting_result(title: String, runs: &[Run]) -> SettingResult {
    let programs = runs.first().map_or(0, |run| run.times_s.len());
    let of_program = |which: usize| -> Vec<f64> {
        runs.iter()
            .filter_map(|run| run.times_s.get(which).copied())
            .collect()
    };
    let mut notes: Vec<String> = runs.iter().flat_map(|run| run.notes.clone()).collect();
    notes.sort();
    notes.dedup();
    SettingResult {
        title,
        medians_s: (0..programs)
            .filter_map(|which| median(&of_program(which)))
            .collect(),
        times_s: runs.iter().map(|run| run.times_s.clone()).collect(),
        over_limit: runs.iter().filter(|run| run.is_over_limit).count(),
        wrong: runs.iter().flat_map(|run| run.wrong.clone()).collect(),
        notes,
    }
}

/// The speed of `of` over `over` at each moment that has a run of both. Two runs that were both ended
/// at the limit say nothing of each other.
fn speeds(of: &[Run], over: &[Run]) -> Vec<f64> {
    of.iter()
        .filter_map(|here| {
            let there = over.iter().find(|run| run.moment == here.moment)?;
            if here.is_over_limit && there.is_over_limit {
                return None;
            }
            let ratios = there.times_s.iter().zip(&here.times_s);
            geometric_mean(ratios.map(|(there, here)| there / here))
        })
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use super::super::experiments::experiments;
    use super::*;

    pub(in super::super) fn run(moment: usize, times_s: [f64; 2]) -> Run {
        Run {
            moment,
            times_s: times_s.to_vec(),
            is_over_limit: false,
            wrong: Vec::new(),
            notes: BTreeSet::new(),
        }
    }

    #[test]
    fn a_speed_is_the_other_time_by_the_own_over_the_programs() {
        let speeds = speeds(&[run(0, [1.0, 2.0])], &[run(0, [4.0, 2.0])]);
        assert_eq!(speeds, [2.0]);
    }

    #[test]
    fn only_runs_of_the_same_moment_are_compared() {
        let of = [run(0, [1.0; 2]), run(1, [3.0; 2])];
        assert_eq!(speeds(&of, &[run(1, [6.0; 2])]), [2.0]);
        assert!(speeds(&of, &[run(7, [6.0; 2])]).is_empty());
    }

    #[test]
    fn runs_that_were_both_ended_at_the_limit_are_not_compared() {
        let over_limit = |moment| Run {
            is_over_limit: true,
            ..run(moment, [6.0; 2])
        };
        assert!(speeds(&[over_limit(0)], &[over_limit(0)]).is_empty());
        assert_eq!(speeds(&[run(0, [2.0; 2])], &[over_limit(0)]).len(), 1);
    }

    #[test]
    fn a_figure_that_was_not_measured_is_not_met() {
        let experiment = experiments(&[Group::Dynamic]).remove(0);
        let wanted = experiment.wanted.len();
        let measured = Measured {
            experiment,
            runs: Vec::new(),
        };
        let result = evaluated(&measured, 2);
        assert_eq!(result.figures.len(), wanted);
        assert!(result.figures.iter().all(|figure| !figure.is_met()));
    }

    #[test]
    fn one_slow_moment_does_not_make_the_figure() {
        let experiment = experiments(&[Group::Dynamic]).remove(0);
        let wanted = experiment.wanted[0];
        let times = |seconds: [f64; 3]| {
            let of = |(moment, s): (usize, f64)| run(moment, [s; 2]);
            seconds.into_iter().enumerate().map(of).collect::<Vec<_>>()
        };
        let measured = Measured {
            runs: vec![
                (wanted.of, times([1.0, 9.0, 1.0])),
                (wanted.over, times([3.0, 3.0, 3.0])),
            ],
            experiment,
        };
        let figure = evaluated(&measured, 2).figures.remove(0);
        assert!((figure.value.unwrap() - 3.0).abs() < 1e-9);
        assert!(figure.is_met());
        assert_eq!(figure.moments, 3);
    }
}
