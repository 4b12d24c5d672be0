//! An upper bound: the best allocation and placement that never changes, found by search with the model in hand. A
//! policy that sees only counters will hardly reach it; one that may change its decision can exceed it.
//!
//! All divisions of the machine in steps are laid out in several ways and judged ([`judge`](crate::judge)). The best of
//! each layout is improved by small changes (`local_search`), the best few of these are run, and the best of those is
//! improved further, running each change.

use crate::judge::{Aim, Judge};
use crate::layouts::{self, Layout};
use crate::local_search::{self, Effort};
use crate::machine::Machine;
use crate::run::on_sets;
use crate::scenario::{Method, Outcome, Scenario};
use mapper_model::CpuSet;

/// Candidates that are run after all were judged.
const RUN: usize = 4;
/// How long each layout of a single application is tried.
const TRIAL_S: f64 = 40.0;
/// The most divisions that are judged in each layout.
const MOST_DIVISIONS: usize = 400;
/// For each layout, by judging.
const JUDGED: Effort = Effort {
    tries: 2000,
    in_vain: 400,
};
/// For the best, by running.
const TRIED: Effort = Effort {
    tries: 200,
    in_vain: 100,
};

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
    let mut found = Vec::new();
    for (purpose, layout) in (1..).zip(LAYOUTS) {
        let judged = divisions.iter().map(|counts| {
            let sets = layout(machine, counts);
            (judge.value(&sets), sets)
        });
        if let Some(best) = judged.max_by(|a, b| a.0.total_cmp(&b.0)) {
            let value = |sets: &[CpuSet]| judge.value(sets);
            found.push(local_search::improve(machine, best, purpose, JUDGED, value));
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    let value_of = |outcome: &Outcome| aim.value(outcome.apps.iter().map(|app| app.speed));
    let mut tried = Vec::with_capacity(RUN);
    for (_, sets) in found.into_iter().take(RUN) {
        let outcome = on_sets(scenario, sets.clone());
        if outcome.given_up.is_some() {
            // Hundreds more would end like this.
            return outcome;
        }
        tried.push((value_of(&outcome), sets));
    }
    let Some(best) = tried.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)) else {
        return Outcome::default();
    };
    let run_value = |sets: &[CpuSet]| value_of(&on_sets(scenario, sets.to_vec()));
    let (_, sets) = local_search::improve(machine, best, 0, TRIED, run_value);
    on_sets(scenario, sets)
}

/// The best outcome of a scenario's only program over all layouts with a thread for each CPU [SAM-MPH §5: "best
/// standalone static mapping"].
#[must_use]
pub fn best_mapping_alone(scenario: &Scenario) -> Outcome {
    let Some(job) = scenario.jobs.first() else {
        return Outcome::default();
    };
    let trial = Scenario {
        method: Method::For(TRIAL_S),
        ..scenario.clone()
    };
    let layouts = layouts::alone(&scenario.machine, job.threads_on(&scenario.machine));
    let speed = |outcome: &Outcome| outcome.apps.first().map_or(0.0, |app| app.speed);
    let outcomes = layouts.into_iter().map(|set| on_sets(&trial, vec![set]));
    let best = outcomes.max_by(|a, b| speed(a).total_cmp(&speed(b)));
    best.unwrap_or_default()
}

/// Every division in steps. With up to two programs CPUs may be left over.
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
    use crate::fixtures::{self, app, job};
    use crate::scenario::Teams;

    fn scenario(names: &[&str]) -> Scenario {
        let names = names.iter().enumerate();
        let jobs = names.map(|(at, name)| job(&format!("{name}-{at}"), app(name), None));
        Scenario {
            teams: Teams::Follow,
            timeline: true,
            ..fixtures::scenario(jobs.collect())
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
                let plain = speeds(&on_sets(&scenario, sets));
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
        for (name, expected) in [("SGD", 1), ("MemBench", 4)] {
            let mut scenario = scenario(&[name]);
            scenario.jobs[0].threads = Some(20);
            let outcome = best_mapping_alone(&scenario);
            let set = &outcome.timeline[0].sets[0];
            assert_eq!(set.len(), 20, "a CPU for each thread");
            let sockets = scenario.machine.topology().sockets().iter();
            assert_eq!(
                sockets.filter(|cpus| cpus.overlap(set) > 0).count(),
                expected
            );
        }
    }

    #[test]
    fn the_best_fixed_sets_use_the_machine_and_do_not_overlap() {
        let outcome = best_fixed(&scenario(&["swaptions", "SGD"]), Aim::Geometric);
        let [first, second] = &*outcome.timeline[0].sets else {
            panic!("two sets");
        };
        assert_eq!(first.overlap(second), 0);
        // One computes and scales, so no CPU is left idle that it could use.
        assert_eq!(first.len() + second.len(), 80);
        assert_eq!(outcome.rewrites, 0);
    }
}
