//! The ceiling: the best allocation and placement that never changes, found by search with the
//! model in hand. No policy that sees counters only can be expected to reach it, and one that may
//! change its mind can in principle exceed it.
//!
//! All divisions of the machine in steps are laid out in several ways and judged ([`judge`](crate::judge)).
//! The best of each way is changed bit by bit as long as that pays ([`local_search`](crate::local_search)),
//! the best few of what that comes to are run, and the best of those is changed on, each change being run.

use crate::governor::{Fixed, Governor};
use crate::judge::{Aim, Judge};
use crate::layouts;
use crate::local_search::{self, Effort};
use crate::machine::Machine;
use crate::run::run;
use crate::scenario::{Method, Outcome, Scenario};
use mapper_model::CpuSet;

/// Candidates that are run after all were judged.
const RUN: usize = 4;
/// How long each layout of a single application is tried.
const TRIAL_S: f64 = 40.0;
/// Divisions that are judged at most in each layout.
const MOST_DIVISIONS: usize = 400;
/// Of each layout.
const JUDGED: Effort = Effort {
    tries: 2000,
    in_vain: 400,
};
/// Of the best, by running it.
const TRIED: Effort = Effort {
    tries: 200,
    in_vain: 100,
};

/// Gives everybody its count.
type Layout = fn(&Machine, &[u32]) -> Vec<CpuSet>;

const LAYOUTS: [Layout; 5] = [
    layouts::packed,
    |machine, counts| reversed(layouts::packed, machine, counts),
    layouts::spread,
    layouts::interleaved,
    |machine, counts| reversed(layouts::interleaved, machine, counts),
];

fn reversed(layout: Layout, machine: &Machine, counts: &[u32]) -> Vec<CpuSet> {
    let counts: Vec<u32> = counts.iter().rev().copied().collect();
    let mut sets = layout(machine, &counts);
    sets.reverse();
    sets
}

/// Runs a scenario on the best fixed sets that were found.
#[must_use]
pub fn best_fixed(scenario: &Scenario, aim: Aim) -> Outcome {
    let machine = &scenario.machine;
    let mut judge = Judge::new(scenario, aim);
    let divisions = divisions(scenario);
    let mut found: Vec<(f64, Vec<CpuSet>)> = (1..)
        .zip(LAYOUTS)
        .filter_map(|(purpose, layout)| {
            let judged = divisions.iter().map(|counts| {
                let sets = layout(machine, counts);
                (judge.value(&sets), sets)
            });
            let best = judged.max_by(|a, b| a.0.total_cmp(&b.0))?;
            Some(local_search::improve(
                machine,
                best,
                purpose,
                JUDGED,
                |sets| judge.value(sets),
            ))
        })
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    let value_of = |outcome: &Outcome| aim.value(outcome.apps.iter().map(|app| app.speed));
    let run_value = |sets: &[CpuSet]| value_of(&run_on(scenario, sets.to_vec()));
    let mut tried = Vec::with_capacity(RUN);
    for (_, sets) in found.into_iter().take(RUN) {
        let outcome = run_on(scenario, sets.clone());
        if outcome.given_up.is_some() {
            // Hundreds more would end like this.
            return outcome;
        }
        tried.push((value_of(&outcome), sets));
    }
    let best = tried.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
    let Some(best) = best else {
        return Outcome::default();
    };
    let (_, sets) = local_search::improve(machine, best, 0, TRIED, run_value);
    run_on(scenario, sets)
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

/// Every division in steps; CPUs may be left over with up to two programs, and the search leaves some where
/// that pays.
fn divisions(scenario: &Scenario) -> Vec<Vec<u32>> {
    let (contexts, apps) = (scenario.machine.contexts(), scenario.jobs.len());
    let slack = apps <= 2;
    let mut step = (contexts / 20).max(1);
    let mut divisions = layouts::divisions(contexts / step, apps, slack);
    while divisions.len() > MOST_DIVISIONS && contexts / (step * 2) >= apps as u32 {
        step *= 2;
        divisions = layouts::divisions(contexts / step, apps, slack);
    }
    for counts in &mut divisions {
        counts.iter_mut().for_each(|count| *count *= step);
    }
    divisions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;
    use crate::scenario::{Job, Lending, Teams};
    use mapper_model::{CpuRange, Qos};

    fn scenario(names: &[&str]) -> Scenario {
        let jobs = names.iter().enumerate().map(|(at, name)| Job {
            name: format!("{name}-{at}"),
            app: presets::app(name).unwrap(),
            threads: None,
            qos: Qos::new(0.85).unwrap(),
            cpus: CpuRange::default(),
            arrives_s: 0.0,
        });
        Scenario {
            machine: presets::machine("hsw80").unwrap(),
            constants: crate::Constants::default(),
            jobs: jobs.collect(),
            method: Method::For { seconds: 20.0 },
            teams: Teams::Follow,
            lending: Lending::Never,
            traffic: crate::scenario::Traffic::default(),
            seed: 1,
            longest_step_s: None,
            timeline: false,
        }
    }

    #[test]
    fn no_plain_layout_exceeds_the_best_fixed_sets() {
        let scenario = scenario(&["SGD", "SGD", "BS"]);
        let speeds =
            |outcome: &Outcome| Aim::Geometric.value(outcome.apps.iter().map(|app| app.speed));
        let best = speeds(&best_fixed(&scenario, Aim::Geometric));
        for layout in LAYOUTS {
            for counts in [[20, 20, 40], [26, 27, 27], [40, 20, 20]] {
                let sets = layout(&scenario.machine, &counts);
                let plain = speeds(&run_on(&scenario, sets));
                assert!(best >= plain, "{counts:?}: {plain} over {best}");
            }
        }
    }

    #[test]
    fn every_division_in_steps_is_there_and_leaves_cpus_only_to_two() {
        let two = divisions(&scenario(&["SGD", "BS"]));
        // Steps of 4 of 80: every pair from 4 on that is no more than 80, 19 + 18 + … + 1.
        assert_eq!(two.len(), 190);
        assert!(two.contains(&vec![4, 4]) && two.contains(&vec![76, 4]));
        let three = divisions(&scenario(&["SGD", "BS", "SGD"]));
        assert!(three.iter().all(|counts| counts.iter().sum::<u32>() == 80));
        // 20 steps among three: 19 over 2.
        assert_eq!(three.len(), 171);
        let five = divisions(&scenario(&["SGD", "BS", "SGD", "BS", "SGD"]));
        // 20 steps among five would be 3876: twice as long ones make 9 over 4.
        assert_eq!(five.len(), 126);
        assert!(five.iter().flatten().all(|count| count.is_multiple_of(8)));
    }

    #[test]
    fn alone_a_sharing_program_is_best_on_few_sockets_and_a_streaming_one_on_all() {
        let found = |name: &str| {
            let mut scenario = scenario(&[name]);
            scenario.jobs[0].threads = Some(20);
            scenario.timeline = true;
            let outcome = best_mapping_alone(&scenario);
            let set = outcome.timeline[0].sets[0].clone();
            let sockets = scenario.machine.topology().sockets();
            assert_eq!(set.len(), 20, "a CPU for each thread");
            sockets.iter().filter(|cpus| cpus.overlap(&set) > 0).count()
        };
        assert_eq!(found("SGD"), 1);
        assert_eq!(found("MemBench"), 4);
    }

    #[test]
    fn the_best_fixed_sets_use_the_machine_and_overlap_nowhere() {
        let mut scenario = scenario(&["swaptions", "SGD"]);
        scenario.timeline = true;
        let outcome = best_fixed(&scenario, Aim::Geometric);
        let [first, second] = &*outcome.timeline[0].sets else {
            panic!("two sets");
        };
        assert_eq!(first.overlap(second), 0);
        // One computes and scales, so nothing is left idle that it could use.
        assert_eq!(first.len() + second.len(), 80);
        assert_eq!(outcome.rewrites, 0);
    }
}
