//! The performance function by its formulas, where they can be worked out by hand. What whole threads do to each other
//! on a machine is in `tests/mechanisms.rs`.

use super::*;
use crate::application::AppModel;
use crate::fixtures::{app, close, computing, hsw80, set};

const CLOCK_HZ: f64 = 1.9e9;

/// Each program on a set of its own, one thread for each CPU.
fn on(machine: &Machine, apps: &[(&AppModel, &str)]) -> Solution {
    let programs = apps.iter().map(|(app, cpus)| (app.behaviour(), set(cpus)));
    let programs: Vec<_> = programs.collect();
    solve_spread(machine, &Constants::default(), &programs)
}

/// Cycles that an instruction of the only program takes on hsw80.
fn cycles(app: &AppModel, set: &str) -> f64 {
    1.0 / on(&hsw80(), &[(app, set)]).apps[0].ipc()
}

#[test]
fn two_threads_that_stall_half_of_the_time_do_seven_tenths_more_than_one() {
    let machine = hsw80();
    // A cycle of work and one of stalling: 1.9e9 · (90 + 1.42 ns) cycles a miss, four under way.
    let mut app = computing();
    app.local_share = 1.0;
    app.overlapping_misses = 4.0;
    let service_s = LINE_BYTES / machine.spec.memory_bytes_per_s;
    let miss_cycles = (machine.spec.latency_s + service_s) * CLOCK_HZ / 4.0;
    app.misses_per_kilo = [1000.0 / miss_cycles; 2];
    let (alone, both) = (cycles(&app, "0"), cycles(&app, "0,40"));
    close(alone, 2.0, 2e-2);
    // c = 2 + 0.6·a and a = (1 + 0.6·a)/c: a = 0.573, c = 2.344 and 2·2/2.344 = 1.706.
    close(2.0 * alone / both, 1.706, 1e-2);
}

#[test]
fn programs_on_a_socket_share_its_cache_and_those_elsewhere_do_not() {
    let mut app = computing();
    app.misses_per_kilo = [1.0, 4.0];
    app.working_set_mb = 2.0;
    app.shared_set_mb = 5.0;
    for (sets, expected) in [
        // 5 + 5·2 MB of 25 have room.
        (&["0-4"][..], 1.0),
        // Two of them need 30: a sixth does not fit, and it is a sixth of the way up to 4.
        (&["0-4", "5-9"], 1.5),
        (&["0-4", "10-14"], 1.0),
    ] {
        let apps: Vec<_> = sets.iter().map(|set| (&app, *set)).collect();
        let speed = on(&hsw80(), &apps).apps[0];
        close(1e3 * speed.misses / speed.instructions, expected, 1e-9);
    }
}

#[test]
fn misses_take_the_mean_of_the_routes_by_where_they_go() {
    let mut app = computing();
    app.misses_per_kilo = [0.01, 0.01];
    app.overlapping_misses = 1.0;
    let spec = hsw80().spec;
    let local_s = spec.latency_s + LINE_BYTES / spec.memory_bytes_per_s;
    let hop_s = spec.remote_latency_s + LINE_BYTES / spec.link_bytes_per_s;
    for local_share in [0.25, 0.7, 1.0] {
        app.local_share = local_share;
        let mean_s = local_s + (1.0 - local_share) * hop_s;
        close(cycles(&app, "0") - 1.0, 1e-5 * mean_s * CLOCK_HZ, 1e-3);
    }
}

#[test]
fn only_the_memory_of_its_home_is_busy_for_a_program_with_all_data_there() {
    let machine = hsw80();
    let mut app = computing();
    app.misses_per_kilo = [5.0, 5.0];
    app.home_node = Some(2);
    let solution = on(&machine, &[(&app, "0-9")]);
    let bytes_per_s = solution.apps[0].misses * LINE_BYTES;
    let busy = &solution.memory_utilisation;
    assert_eq!([busy[0], busy[1], busy[3]], [0.0; 3]);
    // Ten threads keep more than one of them waiting for it: some bandwidth is lost.
    let whole = bytes_per_s / machine.spec.memory_bytes_per_s;
    let range = whole * (1.0 - 1e-9)..=whole / 0.75;
    assert!(range.contains(&busy[2]), "{} and {whole}", busy[2]);
}

#[test]
fn bandwidth_is_lost_in_proportion_to_the_streams_beyond_the_first() {
    let mut spec = hsw80().spec;
    spec.sockets = 1;
    spec.threads_per_core = 1;
    // So slow that every thread waits nearly all of the time.
    spec.memory_bytes_per_s = 1e8;
    spec.cores_per_socket = 16;
    let machine = Machine::new("one node", spec).unwrap();
    let mut app = computing();
    app.misses_per_kilo = [50.0, 50.0];
    app.overlapping_misses = 4.0;
    let bytes_per_s = |threads: u32| {
        let set = format!("0-{}", threads - 1);
        on(&machine, &[(&app, &set)]).apps[0].misses * LINE_BYTES
    };
    // Four, seven and thirteen streams: a quarter of the quarter, half of it, all of it.
    for (threads, left) in [(4, 0.9375), (7, 0.875), (13, 0.75), (16, 0.75)] {
        // Four misses of each under way: with N in all an open queue is busy for N/(1 + N).
        let under_way = 4.0 * f64::from(threads);
        let busy = under_way / (1.0 + under_way);
        close(bytes_per_s(threads), busy * left * 1e8, 1e-2);
    }
}

fn sharing() -> AppModel {
    let mut app = computing();
    app.sharing_stalls = 1e-3;
    app.sharing_growth = 0.0;
    app
}

#[test]
fn sharing_costs_by_where_the_partners_are() {
    let mut app = sharing();
    // A core that stalls so little competes like one that does not.
    app.smt_slowdown = 0.0;
    let idle_s = LINE_BYTES / hsw80().spec.link_bytes_per_s;
    let across = 1.0 + idle_s * CLOCK_HZ / EVENT_CYCLES;
    for (set, expected) in [
        ("0", 0.0),
        // The partner in the same core, in another of the socket, in another socket.
        ("0,40", 0.05),
        ("0,1", 0.32),
        ("0,10", across),
        // Of three partners one is in the own socket and two are in another.
        ("0,1,10,11", (0.32 + 2.0 * across) / 3.0),
        // Of three partners one in the own core, two in another one.
        ("0,1,40,41", (0.05 + 2.0 * 0.32) / 3.0),
    ] {
        let off = cycles(&app, set) - 1.0 - 1e-3 * expected;
        assert!(off.abs() < 1e-8, "{set}: off by {off}");
    }
}

#[test]
fn events_are_counted_by_place_and_cost_what_the_program_sets() {
    let mut app = sharing();
    app.stalls_per_event = 400.0;
    let speed = on(&hsw80(), &[(&app, "0,1,10,11")]).apps[0];
    for (events_per_s, partners) in [(speed.inter_socket, 2.0), (speed.intra_socket, 1.0)] {
        let per_instruction = events_per_s / speed.instructions;
        close(per_instruction, partners / 3.0 * 1e-3 / 400.0, 1e-9);
    }
}

#[test]
fn it_makes_no_difference_which_of_several_equal_places_is_taken() {
    let [sgd, canneal] = ["SGD", "canneal"].map(app);
    let [first, second] = [["0-4,40-44", "5-9,10-19"], ["30-34,70-74", "35-39,20-29"]]
        .map(|sets| on(&hsw80(), &[(&sgd, sets[0]), (&canneal, sets[1])]).apps);
    for (found, expected) in second.iter().zip(&first) {
        close(found.instructions, expected.instructions, 1e-6);
    }
}
