//! Whole runs of the simulator.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

use mapper_model::{CpuRange, CpuSet, Qos};
use mapper_pipeline::{Controller, OverheadBudget, PipelineConfig};
use mapper_sim::{
    Constants, Controlled, Fixed, Governor, Job, Method, Outcome, Overhead, Scenario, Teams,
    layouts, on_sets, presets, run,
};

fn scenario(machine: &str, apps: &[&str]) -> Scenario {
    let jobs = apps.iter().map(|name| Job {
        name: (*name).to_owned(),
        app: presets::app(name).unwrap(),
        threads: None,
        qos: Qos::default(),
        cpus: CpuRange::default(),
        arrives_s: 0.0,
    });
    Scenario {
        machine: presets::machine(machine).unwrap(),
        constants: Constants::default(),
        jobs: jobs.collect(),
        method: Method::LongestTimes(2),
        teams: Teams::Fixed,
        seed: 1,
        lending: mapper_sim::Lending::Never,
        traffic_by_node: false,
        longest_step_s: None,
        timeline: true,
    }
}

fn halves(scenario: &Scenario) -> Vec<CpuSet> {
    let half = scenario.machine.contexts() / 2;
    layouts::packed(&scenario.machine, &[half, half])
}

#[test]
fn every_program_alone_under_plain_linux_has_the_speed_it_is_measured_by() {
    for (name, app) in presets::read_apps(presets::APPS).unwrap() {
        let alone = run(&scenario("hsw80", &[&name]), None);
        let speed = alone.apps[0].speed;
        assert!((speed - 1.0).abs() < 1e-3, "{name}: {speed}");
        if app.service.is_none() {
            let expected_s = 2.0 * app.standalone_s;
            assert!((alone.elapsed_s - expected_s).abs() < 1e-2, "{name}");
        }
    }
}

#[test]
fn a_program_that_arrives_later_leaves_the_machine_to_the_others_until_then() {
    let mut later = scenario("hsw80", &["canneal", "swaptions"]);
    later.method = Method::For(30.0);
    let together = run(&later, None);
    later.jobs[1].arrives_s = 20.0;
    let outcome = run(&later, None);
    let [first, second] = [&outcome.apps[0], &outcome.apps[1]];
    assert_eq!((first.begin_s, second.begin_s), (Some(0.0), Some(20.0)));
    // Two thirds of the time alone, at full speed; then as together.
    let beside = together.apps[0].speed;
    let expected = (2.0 + beside) / 3.0;
    assert!(
        (first.speed - expected).abs() < 0.05,
        "{} {beside}",
        first.speed
    );
    // Nobody is there at first, and the run still begins at 0.
    later.jobs[0].arrives_s = 5.0;
    let outcome = run(&later, None);
    assert_eq!(outcome.apps[0].begin_s, Some(5.0));
    assert!((outcome.elapsed_s - 30.0).abs() < 1e-6);
    // Each once: it does not end before those who are still to come.
    later.method = Method::EachOnce;
    later.jobs[1].arrives_s = 1000.0;
    let outcome = run(&later, None);
    assert!(outcome.elapsed_s > 1000.0 && outcome.apps[1].runs == 1);
}

#[test]
fn steps_that_are_never_long_give_the_same_as_events() {
    let events = scenario("hsw80", &["SGD", "fluidanimate"]);
    for (step_s, governed) in [(1e-3, false), (10e-3, true)] {
        let steps = Scenario {
            longest_step_s: Some(step_s),
            ..events.clone()
        };
        let [one, other] = [&events, &steps].map(|scenario| {
            if governed {
                on_sets(scenario, halves(scenario))
            } else {
                run(scenario, None)
            }
        });
        for (a, b) in one.apps.iter().zip(&other.apps) {
            assert!(
                (a.speed / b.speed - 1.0).abs() < 1e-6,
                "{} {}",
                a.speed,
                b.speed
            );
        }
    }
}

#[test]
fn sharing_programs_do_better_on_sockets_of_their_own() {
    let scenario = scenario("ivb40", &["SGD", "BSGD"]);
    let packed = on_sets(&scenario, halves(&scenario));
    let spread = on_sets(&scenario, layouts::spread(&scenario.machine, &[20, 20]));
    for (a, b) in packed.apps.iter().zip(&spread.apps) {
        assert!(
            a.speed > 1.1 * b.speed,
            "{}: {} against {}",
            a.name,
            a.speed,
            b.speed
        );
    }
}

#[test]
fn programs_that_only_compute_do_as_well_anywhere() {
    let scenario = scenario("hsw80", &["swaptions", "CPU"]);
    let packed = on_sets(&scenario, halves(&scenario));
    let spread = on_sets(&scenario, layouts::spread(&scenario.machine, &[40, 40]));
    for (a, b) in packed.apps.iter().zip(&spread.apps) {
        assert!((a.speed / b.speed - 1.0).abs() < 0.02, "{}", a.name);
    }
}

#[test]
fn one_after_the_other_takes_the_sum_of_the_times() {
    let mut batch = scenario("amd64", &["BT", "EP"]);
    batch.method = Method::InTurn;
    let outcome = run(&batch, None);
    assert!(
        (outcome.elapsed_s - 80.0).abs() < 1e-3,
        "{}",
        outcome.elapsed_s
    );
    assert_eq!(outcome.apps[1].begin_s, outcome.apps[0].first_end_s);
}

#[test]
fn one_after_the_other_nobody_begins_before_it_arrives() {
    let mut batch = scenario("amd64", &["BT", "EP"]);
    batch.method = Method::InTurn;
    let begins_s = |batch: &Scenario| {
        let outcome = run(batch, None);
        assert!(outcome.apps.iter().all(|app| app.runs == 1));
        [0, 1].map(|at| outcome.apps[at].begin_s.unwrap().round())
    };
    assert_eq!(begins_s(&batch), [0.0, 40.0]);
    // Whoever comes first is first, and the machine waits for whoever comes after it is free.
    batch.jobs[0].arrives_s = 10.0;
    assert_eq!(begins_s(&batch), [40.0, 0.0]);
    batch.jobs[0].arrives_s = 100.0;
    assert_eq!(begins_s(&batch), [100.0, 0.0]);
    batch.jobs[1].arrives_s = 200.0;
    assert_eq!(begins_s(&batch), [100.0, 200.0]);
}

#[test]
fn a_run_continues_until_a_late_program_has_run_as_often_as_the_longest() {
    let mut late = scenario("hsw80", &["canneal", "swaptions"]);
    late.method = Method::LongestTimes(2);
    for (arrives_s, longest) in [(0.0, 0), (50.0, 0), (1000.0, 1)] {
        late.jobs[1].arrives_s = arrives_s;
        let outcome = run(&late, None);
        assert!(outcome.apps.iter().all(|app| app.runs >= 1), "{arrives_s}");
        assert_eq!(outcome.apps[longest].runs, 2, "{arrives_s}");
    }
}

#[test]
fn services_are_observed_for_a_while_after_the_last_has_arrived() {
    let mut late = scenario("hsw80", &["memcached", "memcached"]);
    late.jobs[1].name = "late".into();
    late.method = Method::LongestTimes(2);
    late.jobs[1].arrives_s = 70.0;
    let outcome = run(&late, None);
    assert_eq!(outcome.apps[1].begin_s, Some(70.0));
    assert!(outcome.elapsed_s > 120.0);
}

/// Decisions of 20 s, one every 20 ms as asked, at 5 ms for 80 threads.
fn governed_in_short_intervals(budget: OverheadBudget) -> Outcome {
    let mut short = scenario("hsw80", &["moldyn", "ferret"]);
    short.jobs[1].threads = Some(322);
    short.teams = Teams::Follow;
    short.method = Method::For(20.0);
    let topology = short.machine.topology().clone();
    let controller = Controller::new(PipelineConfig::default(), topology).unwrap();
    let overhead = Overhead {
        decision_s: short.constants.decision_s,
        everywhere: 0.0,
    };
    let mut governor = Controlled::new(Box::new(controller), 0.02, overhead).within(budget);
    run(&short, Some(&mut governor))
}

#[test]
fn a_decision_that_costs_more_than_its_budget_is_taken_less_often_and_nobody_pays_for_more() {
    let as_asked = governed_in_short_intervals(OverheadBudget::OFF);
    // 25 ms for 402 threads: one every 1.3 s.
    let within = governed_in_short_intervals(OverheadBudget::default());
    assert!(as_asked.decisions > 900, "{}", as_asked.decisions);
    assert!(
        (10..=25).contains(&within.decisions),
        "{}",
        within.decisions
    );
    let moldyn = [&as_asked, &within].map(|outcome| outcome.apps[0].speed);
    assert!(moldyn[1] > 3.0 * moldyn[0], "{moldyn:?}");
}

#[test]
fn a_team_that_does_not_divide_the_chunks_loses_a_whole_round() {
    let mut scenario = scenario("hsw80", &["mandel"]);
    scenario.teams = Teams::Follow;
    let speed = |scenario: &Scenario, cpus| {
        let set = layouts::packed(&scenario.machine, &[cpus]);
        on_sets(scenario, set).apps[0].speed
    };
    let even = speed(&scenario, 36) / speed(&scenario, 40);
    scenario.jobs[0].app.loop_chunks = Some(80);
    let uneven = speed(&scenario, 36) / speed(&scenario, 40);
    assert!((0.89..0.92).contains(&even), "{even}");
    // Three rounds instead of two, in which idle siblings leave their cores to those that compute.
    assert!((0.66..0.85).contains(&uneven), "{uneven}");
}

#[test]
fn who_spins_at_an_uneven_loop_looks_busy() {
    use std::cell::RefCell;
    struct Watching<'a> {
        fixed: Fixed,
        seen: &'a RefCell<f64>,
    }
    impl Governor for Watching<'_> {
        fn interval_s(&self) -> f64 {
            1.0
        }
        fn decide(&mut self, observation: &mapper_model::Observation) -> mapper_sim::Decision {
            let reading = &observation.apps[0].reading;
            *self.seen.borrow_mut() = reading.cpu_time_ns.unwrap_or(0) as f64;
            self.fixed.decide(observation)
        }
    }
    let cpu_time = |chunks, spin| {
        let mut scenario = scenario("hsw80", &["conjgrad"]);
        scenario.teams = Teams::Follow;
        scenario.method = Method::For(9.0);
        scenario.jobs[0].app.serial_share = 0.0;
        scenario.jobs[0].app.loop_chunks = chunks;
        scenario.jobs[0].app.spin = spin;
        let set = layouts::packed(&scenario.machine, &[36]).remove(0);
        let seen = RefCell::new(0.0);
        let mut watching = Watching {
            fixed: Fixed(vec![("conjgrad".into(), set)]),
            seen: &seen,
        };
        let _ = run(&scenario, Some(&mut watching as &mut dyn Governor));
        seen.into_inner()
    };
    let even = cpu_time(None, true);
    assert!((cpu_time(Some(80), true) / even - 1.0).abs() < 0.01);
    assert!((cpu_time(Some(80), false) / even - 80.0 / 108.0).abs() < 0.01);
}
