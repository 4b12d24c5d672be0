//! Effects on a speed: crowding, the balancer, waking up, and what counters and memory show.

use super::*;
use crate::Constants;
use crate::fixtures::{self, app, job};

fn close(found: f64, expected: f64) {
    fixtures::close(found, expected, 1e-9);
}

/// One instruction a cycle, and nothing else.
fn computing() -> AppModel {
    AppModel {
        smt_slowdown: 0.0,
        ..fixtures::computing()
    }
}

/// The paces of programs with so many threads, each on a set or, without one, under plain Linux.
fn paces(constants: &Constants, programs: &[(&AppModel, u32, Option<&str>)]) -> Vec<Pace> {
    let mut scenario = fixtures::scenario(Vec::new());
    (scenario.constants, scenario.traffic_by_node) = (*constants, true);
    let mut speeds = Speeds::new(&scenario);
    let sets = programs.iter().map(|(_, _, set)| set.map(fixtures::set));
    let sets: Vec<Option<CpuSet>> = sets.collect();
    let program = |(number, (app, threads, _)): (usize, &(&AppModel, u32, Option<&str>))| {
        speeds.program(&job("program", (*app).clone(), Some(*threads)), number)
    };
    let programs: Vec<Program> = programs.iter().enumerate().map(program).collect();
    let places = programs.iter().zip(&sets).map(|(program, set)| Place {
        program,
        part: 0,
        set: set.as_ref(),
        idle_time: None,
    });
    speeds.paces(&places.collect::<Vec<_>>()).to_vec()
}

/// The pace of one program on a set.
fn pace(app: &AppModel, threads: u32, set: &str) -> Pace {
    paces(&Constants::default(), &[(app, threads, Some(set))]).remove(0)
}

#[test]
fn more_threads_than_own_cpus_cost_their_share_except_in_pipelines() {
    let useful = |app: &AppModel, threads| pace(app, threads, "0-9").events.instructions;
    let mut app = computing();
    // Two and four threads for each CPU: 16 % of a half, of three quarters.
    close(useful(&app, 20) / useful(&app, 10), 1.0 - 0.16 * 0.5);
    close(useful(&app, 40) / useful(&app, 10), 1.0 - 0.16 * 0.75);
    app.pipeline = true;
    close(useful(&app, 40) / useful(&app, 10), 1.0);
}

#[test]
fn threads_that_take_turns_under_linux_lose_what_time_sharing_and_moves_cost() {
    let progress = |balancer_moves_per_s: f64, app: &AppModel, threads| {
        let constants = Constants {
            balancer_moves_per_s,
            ..Constants::default()
        };
        paces(&constants, &[(app, threads, None); 2])[0].progress
    };
    let mut app = computing();
    // 80 threads on 80 contexts have one each; of 160 each has half of one and loses 8 % of it.
    close(progress(0.0, &app, 40), 1.0);
    close(progress(0.0, &app, 80), 0.5 * 0.92);
    // Twice a second 30 µs, and every second time 2 MB at 5 GB/s: 0.06 ms and 0.4 ms.
    app.working_set_mb = 2.0;
    let moved = progress(2.0, &app, 80) / progress(0.0, &app, 80);
    close(moved, 1.0 - 0.46e-3);
}

#[test]
fn a_service_under_linux_wakes_up_late_by_the_threads_before_it_and_on_its_own_cpus_immediately() {
    let (memcached, other) = (app("memcached"), computing());
    let p99_s = |wake_delay_slices: f64, set: Option<&str>| {
        let constants = Constants {
            wake_delay_slices,
            ..Constants::default()
        };
        let others = set.map(|_| "40-79");
        let programs = [(&memcached, 80, set), (&other, 80, others)];
        paces(&constants, &programs)[0].p99_s.unwrap()
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
    let pace = pace(&app, 10, "10-19");
    assert_eq!(pace.requested[0].total, 0.0);
    close(pace.requested[1].total, pace.events.misses * LINE_BYTES);
    close(pace.requested[1].own, 0.7 * pace.requested[1].total);
}

#[test]
fn spinning_at_barriers_looks_busy_with_instructions_that_are_no_progress() {
    let mut app = computing();
    app.barrier_s = Some(1e-3);
    app.spin = true;
    let [calm, crowded] = [10, 20].map(|threads| pace(&app, threads, "0-9").events);
    // r = 2 on slices of 12 ms: 1 + 0.5·12/((1 + 1/12)·2) = 3.769, and 8 % for the locks.
    let kept = 1.0 / (1.0 + 0.5 * 12.0 / ((1.0 + 1.0 / 12.0) * 2.0));
    // What the barriers take is spun away at 1.6 instructions a cycle.
    let spun = crowded.cycles * (1.0 - kept) * 1.6;
    close(crowded.instructions, calm.instructions * kept * 0.92 + spun);
}

#[test]
fn data_that_all_threads_have_on_one_node_are_no_farther_after_a_move() {
    let penalty = |local_share, home_node| {
        let mut app = computing();
        app.misses_per_kilo = [1.0, 1.0];
        (app.local_share, app.home_node) = (local_share, home_node);
        pace(&app, 10, "0-9").remote_penalty
    };
    assert!(penalty(0.7, None) > 0.0);
    assert_eq!(penalty(0.25, None), 0.0, "interleaved");
    assert_eq!(penalty(0.6, Some(1)), 0.0);
}

#[test]
fn a_service_alone_has_on_all_cpus_as_a_set_the_speed_that_it_has_under_plain_linux() {
    for name in ["memcached", "Mediastreaming"] {
        let app = app(name);
        assert!(app.service.is_some(), "{name} serves");
        let linux = paces(&Constants::default(), &[(&app, 80, None)]).remove(0);
        let own = pace(&app, 80, "0-79");
        close(linux.progress, 1.0);
        close(own.progress, 1.0);
        assert_eq!(own.p99_s.is_some(), linux.p99_s.is_some());
        close(own.p99_s.unwrap_or(1.0), linux.p99_s.unwrap_or(1.0));
    }
}
