//! What a run books to whom, by hand: changes of sets, the time that decisions take, new runs.

use super::*;
use crate::constants::Constants;
use crate::governor::{Decision, Fixed};
use crate::presets;
use crate::scenario::{Job, Lending, Teams, Traffic};
use mapper_model::{CpuRange, Qos};

fn job(name: &str, app: &str) -> Job {
    let mut app = presets::app(app).unwrap();
    app.serial_share = 0.0;
    app.standalone_s = 10.0;
    Job {
        name: name.to_owned(),
        app,
        threads: None,
        qos: Qos::default(),
        cpus: CpuRange::default(),
        arrives_s: 0.0,
    }
}

fn scenario(jobs: Vec<Job>) -> Scenario {
    Scenario {
        machine: presets::machine("hsw80").unwrap(),
        constants: Constants::default(),
        jobs,
        method: Method::For { seconds: 20.0 },
        teams: Teams::Fixed,
        lending: Lending::Never,
        traffic: Traffic::Untold,
        seed: 3,
        longest_step_s: None,
        timeline: false,
    }
}

fn set(text: &str) -> CpuSet {
    text.parse().unwrap()
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
        // Who sat on the half that is lost has to go to the other.
        ("0-19", "0-9", 0.5),
    ] {
        let found = share_that_moves(&set(old), &set(new), 40, core);
        assert!((found - expected).abs() < 1e-9, "{old} to {new}: {found}");
    }
}

/// Fixed sets, and decisions once a second that take their time.
struct Costly {
    sets: Fixed,
    overhead: Overhead,
}

impl Governor for Costly {
    fn interval_s(&self) -> f64 {
        1.0
    }

    fn overhead(&self) -> Overhead {
        self.overhead
    }

    fn decide(&mut self, observation: &Observation) -> Decision {
        self.sets.decide(observation)
    }
}

#[test]
fn a_decision_costs_the_program_on_the_first_context_and_all_of_it_at_barriers() {
    let mut jobs = vec![job("first", "swaptions"), job("second", "swaptions")];
    let share_lost = |jobs: &[Job], overhead: Overhead| -> Vec<f64> {
        let speeds = |overhead| {
            let sets = [("first", "0-9"), ("second", "10-19")];
            let sets = sets.map(|(name, cpus)| (name.to_owned(), set(cpus)));
            let sets = Fixed::new(sets.to_vec());
            let mut costly = Costly { sets, overhead };
            let outcome = run(
                &scenario(jobs.to_vec()),
                Some(&mut costly as &mut dyn Governor),
            );
            outcome.apps.into_iter().map(|app| app.speed)
        };
        let pairs = speeds(overhead).zip(speeds(Overhead::default()));
        pairs.map(|(with, without)| 1.0 - with / without).collect()
    };
    let close = |lost: &[f64], expected: [f64; 2]| {
        for (lost, expected) in lost.iter().zip(expected) {
            assert!(
                (lost - expected).abs() < 1e-9,
                "{lost} instead of {expected}"
            );
        }
    };
    // 40 ms for 80 threads: 80 ms for the 160 of both, every second, on one context of ten.
    let deciding = Overhead {
        decision_s: 0.04,
        everywhere: 0.0,
    };
    close(&share_lost(&jobs, deciding), [0.008, 0.0]);
    // At a barrier everybody waits for the thread that lost 8 % of its time.
    jobs[0].app.barrier_s = Some(10.0);
    close(&share_lost(&jobs, deciding), [0.08, 0.0]);
    // Counting takes its share of every context.
    let counting = Overhead {
        decision_s: 0.0,
        everywhere: 0.009,
    };
    close(&share_lost(&jobs, counting), [0.009, 0.009]);
}

/// Notes who is there at each decision, and what they are given.
struct Noting(Vec<Vec<u64>>);

impl Governor for Noting {
    fn interval_s(&self) -> f64 {
        f64::INFINITY
    }

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
        ..scenario(jobs)
    };
    let outcome = run(&scenario, Some(&mut noting as &mut dyn Governor));
    assert_eq!(outcome.apps[1].runs, 1);
    assert_eq!(noting.0[0], [1, 2]);
    assert_eq!(noting.0[1], [3, 2], "the short one has begun again");
    assert_eq!(outcome.decisions as usize, noting.0.len());
}

#[test]
fn a_set_that_is_given_again_costs_nothing() {
    let scenario = scenario(vec![job("only", "SGD")]);
    let sets = || Fixed::new(vec![("only".to_owned(), set("0-9"))]);
    let mut again = Costly {
        sets: sets(),
        overhead: Overhead::default(),
    };
    let once = run(&scenario, Some(&mut sets() as &mut dyn Governor));
    let twenty_times = run(&scenario, Some(&mut again as &mut dyn Governor));
    assert_eq!((once.rewrites, twenty_times.rewrites), (1, 1));
    let difference = once.apps[0].speed - twenty_times.apps[0].speed;
    assert!(difference.abs() < 1e-9, "{difference}");
}
