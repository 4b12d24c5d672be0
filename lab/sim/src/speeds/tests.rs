//! What becomes of a speed: crowding, the balancer, waking up, and what counters and memory are told.

use super::*;
use crate::presets;
use mapper_model::{CpuRange, Qos};

fn hsw80() -> Machine {
    presets::machine("hsw80").unwrap()
}

/// One instruction a cycle, and nothing else.
fn computing() -> AppModel {
    let mut app = presets::app("swaptions").unwrap();
    app.ipc0 = 1.0;
    app.smt_slowdown = 0.0;
    app.misses_per_kilo = [0.0, 0.0];
    app.working_set_mb = 0.0;
    app.shared_set_mb = 0.0;
    app.sharing_stalls = 0.0;
    app.serial_share = 0.0;
    app.phases.clear();
    app
}

fn job(app: AppModel, threads: u32) -> Job {
    Job {
        name: "program".into(),
        app,
        threads: Some(threads),
        qos: Qos::default(),
        cpus: CpuRange::default(),
        arrives_s: 0.0,
    }
}

/// The paces of programs, each on a set or, without one, wherever Linux has it.
fn paces(constants: &Constants, jobs: &[(Job, Option<&str>)]) -> Vec<Pace> {
    let mut speeds = Speeds::new(&hsw80(), constants, Teams::Fixed).with_traffic(Traffic::ByNode);
    let programs: Vec<Program> = (jobs.iter().enumerate())
        .map(|(number, (job, _))| speeds.program(job, number))
        .collect();
    let sets: Vec<Option<CpuSet>> = (jobs.iter())
        .map(|(_, set)| set.map(|set| set.parse().unwrap()))
        .collect();
    let places: Vec<Place<'_>> = (sets.iter().enumerate())
        .map(|(program, set)| Place {
            program,
            part: 0,
            set: set.as_ref(),
            rank: None,
        })
        .collect();
    speeds.paces(&programs, &places).to_vec()
}

fn close(found: f64, expected: f64) {
    assert!(
        (found / expected - 1.0).abs() < 1e-9,
        "{found} instead of {expected}"
    );
}

#[test]
fn more_threads_than_own_cpus_cost_their_share_except_in_pipelines() {
    let useful = |app: &AppModel, threads: u32| {
        let on_ten = (job(app.clone(), threads), Some("0-9"));
        paces(&Constants::default(), &[on_ten])[0]
            .events
            .instructions
    };
    let mut app = computing();
    // Two and four threads for each CPU: 16 % of a half, of three quarters.
    close(useful(&app, 20) / useful(&app, 10), 1.0 - 0.16 * 0.5);
    close(useful(&app, 40) / useful(&app, 10), 1.0 - 0.16 * 0.75);
    app.pipeline = true;
    close(useful(&app, 40) / useful(&app, 10), 1.0);
}

#[test]
fn threads_that_take_turns_under_linux_lose_what_time_sharing_costs() {
    let constants = Constants {
        balancer_moves_per_s: 0.0,
        ..Constants::default()
    };
    let progress = |threads: u32| {
        let jobs = [threads; 2].map(|threads| (job(computing(), threads), None));
        paces(&constants, &jobs)[0].progress
    };
    // 80 threads on 80 contexts have one each; of 160 each has half of one and loses 8 % of it.
    close(progress(40), 1.0);
    close(progress(80), 0.5 * 0.92);
}

#[test]
fn the_balancers_moves_take_what_each_of_them_costs() {
    let mut app = computing();
    app.working_set_mb = 2.0;
    let of = |balancer_moves_per_s: f64| {
        let constants = Constants {
            balancer_moves_per_s,
            ..Constants::default()
        };
        let jobs = [(); 2].map(|()| (job(app.clone(), 80), None));
        paces(&constants, &jobs)[0].progress
    };
    // Twice a second 30 µs, and every second time 2 MB at 5 GB/s: 0.06 ms and 0.4 ms.
    close(of(2.0) / of(0.0), 1.0 - 0.46e-3);
}

#[test]
fn a_service_under_linux_wakes_up_late_by_the_threads_before_it_and_on_its_own_cpus_at_once() {
    let memcached = presets::app("memcached").unwrap();
    let p99_s = |wake_delay_slices: f64, set: Option<&str>| {
        let constants = Constants {
            wake_delay_slices,
            ..Constants::default()
        };
        let others = set.map(|_| "40-79");
        let jobs = [
            (job(memcached.clone(), 80), set),
            (job(computing(), 80), others),
        ];
        paces(&constants, &jobs)[0].p99_s.unwrap()
    };
    // 160 threads on 80 contexts: r = 2 and slices of 12 ms. δ·(r − 1)·q.
    let delay_s = p99_s(0.72, None) - p99_s(0.0, None);
    assert!((delay_s - 0.72 * 12e-3).abs() < 1e-9, "{delay_s}");
    assert_eq!(p99_s(0.72, Some("0-39")), p99_s(0.0, Some("0-39")));
}

#[test]
fn the_memory_of_each_node_is_reported_with_what_its_own_cpus_take() {
    let mut app = computing();
    app.misses_per_kilo = [1.0, 1.0];
    app.local_share = 0.7;
    let pace = &paces(&Constants::default(), &[(job(app, 10), Some("10-19"))])[0];
    let [none, asked, ..] = pace.asked.as_slice() else {
        panic!("no traffic by node");
    };
    assert_eq!(none.total, 0.0);
    close(asked.total, pace.events.misses * LINE_BYTES);
    close(asked.own, 0.7 * asked.total);
}

#[test]
fn who_spins_at_barriers_looks_busy_with_instructions_that_are_no_progress() {
    let mut app = computing();
    app.barrier_s = Some(1e-3);
    app.spin = true;
    let pace = |threads: u32| {
        let own = (job(app.clone(), threads), Some("0-9"));
        paces(&Constants::default(), &[own]).remove(0)
    };
    let (calm, crowded) = (pace(10), pace(20));
    // r = 2 on slices of 12 ms: 1 + 0.5·12/((1 + 1/12)·2) = 3.769, and 8 % for the locks.
    let kept = 1.0 / (1.0 + 0.5 * 12.0 / ((1.0 + 1.0 / 12.0) * 2.0));
    // What the barriers take is spun away at 1.6 instructions a cycle.
    let spun = crowded.events.cycles * (1.0 - kept) * 1.6;
    close(
        crowded.events.instructions,
        calm.events.instructions * kept * 0.92 + spun,
    );
}

#[test]
fn data_that_all_threads_have_on_one_node_are_no_farther_after_a_move() {
    let penalty = |change: &dyn Fn(&mut AppModel)| {
        let mut app = computing();
        app.misses_per_kilo = [1.0, 1.0];
        change(&mut app);
        let own = (job(app, 10), Some("0-9"));
        paces(&Constants::default(), &[own])[0].remote_penalty
    };
    assert!(penalty(&|app| app.local_share = 0.7) > 0.0);
    assert_eq!(penalty(&|app| app.local_share = 0.25), 0.0, "interleaved");
    assert_eq!(penalty(&|app| app.home_node = Some(1)), 0.0);
}

#[test]
fn a_service_alone_has_on_all_cpus_as_a_set_the_speed_that_it_has_under_plain_linux() {
    for name in ["memcached", "Mediastreaming"] {
        let app = presets::app(name).unwrap();
        assert!(app.service.is_some(), "{name} serves");
        let alone = |set| paces(&Constants::default(), &[(job(app.clone(), 80), set)]).remove(0);
        let (linux, own) = (alone(None), alone(Some("0-79")));
        close(linux.progress, 1.0);
        close(own.progress, 1.0);
        assert_eq!(own.p99_s.is_some(), linux.p99_s.is_some());
        if let (Some(own_s), Some(linux_s)) = (own.p99_s, linux.p99_s) {
            close(own_s, linux_s);
        }
    }
}
