//! The ceiling: the best allocation and placement that never changes, found by search with the
//! model in hand. No policy that sees counters only can be expected to reach it, and one that may
//! change its mind can in principle exceed it.
//!
//! All divisions of the machine in steps are laid out packed and spread, in both orders of the
//! applications, and judged by the speed they would have if each went through its parts while the
//! others are in their longest one. The best few are then run.

use crate::governor::{Fixed, Governor};
use crate::layouts;
use crate::run::run;
use crate::scenario::{Method, Outcome, Scenario};
use crate::speeds::{Place, Program, Speeds};
use mapper_model::CpuSet;

/// Candidates that are run after all were judged.
const RUN: usize = 3;
/// How long each layout of a single application is tried.
const TRIAL_S: f64 = 40.0;
/// Divisions that are judged at most.
const MOST_DIVISIONS: usize = 1000;

/// Runs a scenario on the best fixed sets that were found.
#[must_use]
pub fn best_fixed(scenario: &Scenario) -> Outcome {
    let candidates = candidates(scenario);
    let judge = Judge::new(scenario);
    let mut judged: Vec<(f64, Vec<CpuSet>)> = candidates
        .into_iter()
        .map(|sets| (judge.value(&sets), sets))
        .collect();
    judged.sort_by(|a, b| b.0.total_cmp(&a.0));
    let outcomes = judged.into_iter().take(RUN).map(|(_, sets)| {
        let outcome = run_on(scenario, sets);
        (value(outcome.apps.iter().map(|app| app.speed)), outcome)
    });
    outcomes
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or_else(Outcome::default, |(_, outcome)| outcome)
}

/// Runs each layout of a scenario's only program with a thread for each CPU, and returns the best
/// outcome [SAM-MPH §5: "best standalone static mapping"].
#[must_use]
pub fn best_mapping_alone(scenario: &Scenario) -> Outcome {
    let Some(job) = scenario.jobs.first() else {
        return Outcome::default();
    };
    let trial = Scenario {
        method: Method::For { seconds: TRIAL_S },
        ..scenario.clone()
    };
    layouts::alone(&scenario.machine, job.threads_on(&scenario.machine))
        .into_iter()
        .map(|set| run_on(&trial, vec![set]))
        .max_by(|a, b| {
            let speed = |o: &Outcome| o.apps.first().map_or(0.0, |app| app.speed);
            speed(a).total_cmp(&speed(b))
        })
        .unwrap_or_default()
}

fn run_on(scenario: &Scenario, sets: Vec<CpuSet>) -> Outcome {
    let names = scenario.jobs.iter().map(|job| job.name.clone());
    let mut fixed = Fixed::new(names.zip(sets).collect());
    run(scenario, Some(&mut fixed as &mut dyn Governor))
}

fn candidates(scenario: &Scenario) -> Vec<Vec<CpuSet>> {
    let machine = &scenario.machine;
    let (contexts, apps) = (machine.contexts(), scenario.jobs.len());
    let slack = apps <= 2;
    let mut step = (contexts / 20).max(1);
    let mut divisions = layouts::divisions(contexts / step, apps, slack);
    while divisions.len() > MOST_DIVISIONS && contexts / (step * 2) >= apps as u32 {
        step *= 2;
        divisions = layouts::divisions(contexts / step, apps, slack);
    }
    let mut all = Vec::new();
    for division in divisions {
        let counts: Vec<u32> = division.iter().map(|units| units * step).collect();
        all.push(layouts::packed(machine, &counts));
        all.push(layouts::spread(machine, &counts));
        let reversed: Vec<u32> = counts.iter().rev().copied().collect();
        let mut sets = layouts::packed(machine, &reversed);
        sets.reverse();
        all.push(sets);
    }
    all
}

struct Judge<'a> {
    scenario: &'a Scenario,
    programs: Vec<Program>,
}

impl<'a> Judge<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let speeds = Speeds::new(&scenario.machine, &scenario.constants, scenario.teams);
        let programs = scenario.jobs.iter().enumerate();
        Self {
            programs: programs.map(|(n, job)| speeds.program(job, n)).collect(),
            scenario,
        }
    }

    /// Geometric mean of the speeds on these sets.
    fn value(&self, sets: &[CpuSet]) -> f64 {
        let scenario = self.scenario;
        let mut speeds = Speeds::new(&scenario.machine, &scenario.constants, scenario.teams);
        let longest: Vec<usize> = self
            .programs
            .iter()
            .map(|program| {
                let parts = program.cycle.parts().iter().enumerate();
                parts
                    .filter(|(_, part)| part.parallel)
                    .max_by(|a, b| a.1.share.total_cmp(&b.1.share))
                    .map_or(0, |(at, _)| at)
            })
            .collect();
        let mut progress_of = |of: usize, part: usize| {
            let places: Vec<Place<'_>> = sets
                .iter()
                .enumerate()
                .map(|(program, set)| Place {
                    program,
                    part: if program == of {
                        part
                    } else {
                        longest[program]
                    },
                    set: Some(set),
                })
                .collect();
            speeds
                .paces(&self.programs, &places)
                .get(of)
                .map_or(0.0, |pace| pace.progress)
        };
        value((0..self.programs.len()).map(|of| {
            let parts = self.programs[of].cycle.parts();
            let time: f64 = parts
                .iter()
                .enumerate()
                .map(|(part, p)| p.share / progress_of(of, part).max(1e-9))
                .sum();
            1.0 / time
        }))
    }
}

/// What is to be as great as can be: the geometric mean.
fn value(speeds: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = speeds.fold((0.0, 0.0), |(sum, count), speed| {
        (sum + speed.max(1e-12).ln(), count + 1.0)
    });
    if count > 0.0 {
        f64::exp(sum / count)
    } else {
        0.0
    }
}
