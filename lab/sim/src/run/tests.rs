//! What a run charges to whom, by hand: changes of sets, the time of decisions, repeated runs.

use super::*;
use crate::fixtures::{self, app, set};
use crate::governor::{Controlled, Decision};
use crate::scenario::Job;

fn job(name: &str, of: &str) -> Job {
    let mut app = app(of);
    app.serial_share = 0.0;
    app.standalone_s = 10.0;
    fixtures::job(name, app, None)
}

#[test]
fn the_share_that_moves_is_what_one_place_has_more_of_than_before() {
    let core = |context: usize| context % 40;
    for (old, new, expected) in [
        ("0-9", "0-9", 0.0),
        ("0-9", "10-19", 1.0),
        // The other context of the same cores.
        ("0-9", "40-49", 0.0),
        ("0-9", "0-9,40-49", 0.0),
        // Five of ten cores are new; of twice as many cores half.
        ("0-9", "5-14", 0.5),
        ("0-9", "0-19", 0.5),
        // Threads on the lost half have to go to the other.
        ("0-19", "0-9", 0.5),
    ] {
        let found = share_that_moves(&set(old), &set(new), 40, core);
        assert!((found - expected).abs() < 1e-9, "{old} to {new}: {found}");
    }
}

#[test]
fn a_decision_costs_the_program_on_the_first_context_and_all_of_it_at_barriers() {
    let mut jobs = vec![job("first", "swaptions"), job("second", "swaptions")];
    let speeds = |jobs: &[Job], decision_s: f64, everywhere: f64| {
        let sets = [("first", "0-9"), ("second", "10-19")];
        let sets = sets.map(|(name, cpus)| (name.to_owned(), set(cpus)));
        let overhead = Overhead {
            decision_s,
            everywhere,
        };
        let fixed = Box::new(Fixed(sets.to_vec()));
        let mut costly = Controlled::new(fixed, 1.0, overhead);
        let outcome = run(&fixtures::scenario(jobs.to_vec()), Some(&mut costly));
        [0, 1].map(|app| outcome.apps[app].speed)
    };
    for (barrier_s, decision_s, everywhere, expected) in [
        // 40 ms for 80 threads: 80 ms for the 160 of both, every second, on one context of ten.
        (None, 0.04, 0.0, [0.008, 0.0]),
        // At a barrier all wait for the thread that lost 8 % of its time.
        (Some(10.0), 0.04, 0.0, [0.08, 0.0]),
        // Counting takes its share of every context.
        (Some(10.0), 0.0, 0.009, [0.009, 0.009]),
    ] {
        jobs[0].app.barrier_s = barrier_s;
        let with = speeds(&jobs, decision_s, everywhere);
        let without = speeds(&jobs, 0.0, 0.0);
        for at in 0..2 {
            let lost = 1.0 - with[at] / without[at];
            let off = lost - expected[at];
            assert!(off.abs() < 1e-9, "{lost} instead of {expected:?}");
        }
    }
}

/// Notes the applications of each decision.
struct Noting(Vec<Vec<u64>>);

impl Governor for Noting {
    fn decide(&mut self, observation: &Observation) -> Decision {
        let there = observation.apps.iter().map(|app| app.app.0);
        self.0.push(there.collect());
        Decision::default()
    }
}

#[test]
fn a_program_that_starts_anew_is_another_application_for_every_policy() {
    let mut jobs = vec![job("short", "swaptions"), job("long", "swaptions")];
    for job in &mut jobs {
        job.threads = Some(40);
    }
    // Under no set 40 threads each do what they do alone; the second lasts twice as long.
    jobs[1].app.standalone_s = 20.0;
    let mut noting = Noting(Vec::new());
    let scenario = Scenario {
        method: Method::LongestTimes(1),
        ..fixtures::scenario(jobs)
    };
    let outcome = run(&scenario, Some(&mut noting));
    assert_eq!(outcome.apps[1].runs, 1);
    assert_eq!(noting.0[0], [1, 2]);
    assert_eq!(noting.0[1], [3, 2], "the short one has begun again");
    assert_eq!(outcome.decisions as usize, noting.0.len());
}

#[test]
fn a_set_that_is_given_again_costs_nothing() {
    let scenario = fixtures::scenario(vec![job("only", "SGD")]);
    let sets = || Fixed(vec![("only".to_owned(), set("0-9"))]);
    let mut again = Controlled::new(Box::new(sets()), 1.0, Overhead::default());
    let once = run(&scenario, Some(&mut sets()));
    let twenty_times = run(&scenario, Some(&mut again));
    assert_eq!((once.rewrites, twenty_times.rewrites), (1, 1));
    let difference = once.apps[0].speed - twenty_times.apps[0].speed;
    assert!(difference.abs() < 1e-9, "{difference}");
}
