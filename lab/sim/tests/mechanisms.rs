//! Each mechanism of the model by itself, on loads so light or so simple that its effect can be
//! worked out by hand.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

use mapper_model::{AppId, CpuId, CpuRange, CpuSet, Observation, Qos};
use mapper_pipeline::{Controller, PipelineConfig};
use mapper_sim::application::Behaviour;
use mapper_sim::machine::{LINE_BYTES, LinkSpec};
use mapper_sim::{
    AppModel, Constants, Controlled, Decision, Fixed, Governor, Job, Lending, Machine, Method,
    Occupancy, Outcome, Overhead, Scenario, Teams, layouts, presets, run, solve,
};

/// One instruction a cycle, and nothing else.
fn computing() -> AppModel {
    let mut app = presets::app("swaptions").unwrap();
    app.ipc0 = 1.0;
    app.smt_slowdown = 0.6;
    app.misses_per_kilo = [0.0, 0.0];
    app.working_set_mb = 0.0;
    app.shared_set_mb = 0.0;
    app.sharing_stalls = 0.0;
    app.serial_share = 0.0;
    app.standalone_s = 10.0;
    app.phases.clear();
    app.check("computing").unwrap();
    app
}

/// The same with a miss so rarely that nothing queues, always to the memory of node 0.
fn missing() -> AppModel {
    let mut app = computing();
    app.misses_per_kilo = [0.01, 0.01];
    app.overlapping_misses = 2.0;
    app.home_node = Some(0);
    app
}

/// Nanoseconds of an instruction of one thread, with threads on these contexts.
fn instruction_ns(machine: &Machine, app: &Behaviour, contexts: &[u32]) -> f64 {
    under(&Constants::default(), machine, app, contexts)
}

fn under(constants: &Constants, machine: &Machine, app: &Behaviour, contexts: &[u32]) -> f64 {
    let set: CpuSet = contexts.iter().copied().map(CpuId).collect();
    let mut occupancy = Occupancy::idle(machine, 1);
    occupancy.spread(machine, 0, contexts.len() as f64, &set);
    let solution = solve(machine, constants, &[*app], &occupancy);
    1e9 * contexts.len() as f64 / solution.apps[0].instructions
}

fn close(found: f64, expected: f64, within: f64) {
    assert!(
        (found / expected - 1.0).abs() < within,
        "{found} instead of {expected}"
    );
}

#[test]
fn two_threads_of_a_core_do_together_what_the_loss_to_a_busy_sibling_leaves() {
    let machine = presets::machine("hsw80").unwrap();
    let app = computing().behaviour();
    let alone = instruction_ns(&machine, &app, &[0]);
    let second = machine.contexts() / 2;
    let both = instruction_ns(&machine, &app, &[0, second]);
    // Nobody stalls, so the sibling is always busy: 1.6 cycles, 1.25 times the throughput.
    close(both / alone, 1.6, 1e-6);
    close(2.0 * alone / both, 1.25, 1e-6);
}

#[test]
fn two_cores_of_a_module_slow_each_other_by_a_fifth_whatever_runs_there() {
    let machine = presets::machine("amd64").unwrap();
    let app = computing().behaviour();
    let alone = instruction_ns(&machine, &app, &[2]);
    // Cores 2 and 3 are a module, 3 and 4 are not.
    close(instruction_ns(&machine, &app, &[2, 3]) / alone, 1.2, 1e-6);
    close(instruction_ns(&machine, &app, &[3, 4]) / alone, 1.0, 1e-6);
}

#[test]
fn partners_in_a_module_share_through_its_cache() {
    let machine = presets::machine("amd64").unwrap();
    let mut app = computing();
    app.sharing_stalls = 1e-3;
    app.sharing_growth = 0.0;
    let stalls = |contexts: &[u32]| {
        let with = instruction_ns(&machine, &app.behaviour(), contexts);
        let mut without = app.clone();
        without.sharing_stalls = 0.0;
        (with - instruction_ns(&machine, &without.behaviour(), contexts)) * machine.spec.clock_hz
            / 1e9
    };
    let constants = Constants::default();
    // In a module like in one core. Who stalls for s cycles of 1.2 computes for less of the time, by s/1.2,
    // which spares the other 0.2·s/1.2: five sixths of s remain.
    close(
        stalls(&[2, 3]),
        1e-3 * constants.within_core * 5.0 / 6.0,
        1e-2,
    );
    close(stalls(&[3, 4]), 1e-3 * constants.intra_socket, 1e-3);
}

#[test]
fn a_stalled_sibling_costs_only_while_it_computes() {
    let machine = presets::machine("hsw80").unwrap();
    let mut app = missing();
    app.misses_per_kilo = [1.0, 1.0];
    let app = app.behaviour();
    let clock = machine.spec.clock_hz;
    let alone = instruction_ns(&machine, &app, &[0]) * clock / 1e9;
    let both = instruction_ns(&machine, &app, &[0, machine.contexts() / 2]) * clock / 1e9;
    // c = m + 1 + 0.6·a, where a = (1 + 0.6·a)/c is how much of the time the sibling computes.
    let memory = alone - 1.0;
    let mut active = 0.7;
    for _ in 0..100 {
        let core = 1.0 + 0.6 * active;
        active = core / (memory + core);
    }
    close(both, memory + 1.0 + 0.6 * active, 1e-3);
}

#[test]
fn each_hop_adds_its_latency_and_the_link_it_passes() {
    let machine = presets::machine("opt48").unwrap();
    let app = missing().behaviour();
    let spec = &machine.spec;
    let hop_ns = |socket: u32| {
        let context = socket * spec.cores_per_socket;
        let far = instruction_ns(&machine, &app, &[context]);
        let near = instruction_ns(&machine, &app, &[0]);
        // Per miss: one of 100,000 instructions, two under way at a time.
        (far - near) * 1e5 * 2.0
    };
    let link_ns = |bytes_per_s: f64| 1e9 * LINE_BYTES / bytes_per_s;
    let hop_alone_ns = 1e9 * spec.remote_latency_s;
    // Node 0 to 1 is a wide link, to 2 a narrow one; to 3 it goes over 1, the lowest between.
    close(hop_ns(1), hop_alone_ns + link_ns(8.5e9), 1e-3);
    close(hop_ns(2), hop_alone_ns + link_ns(5.5e9), 1e-3);
    assert_eq!(machine.route(0, 3).len(), 2);
    close(
        hop_ns(3),
        2.0 * hop_alone_ns + link_ns(8.5e9) + link_ns(5.5e9),
        1e-3,
    );
}

#[test]
fn a_saturated_memory_gives_its_bandwidth_less_the_loss_of_many_streams() {
    let mut spec = presets::machine("opt48").unwrap().spec;
    spec.sockets = 1;
    spec.cores_per_socket = 24;
    spec.links = Vec::<LinkSpec>::new();
    let machine = Machine::new("one node", spec).unwrap();
    let mut app = missing();
    app.misses_per_kilo = [100.0, 100.0];
    let app = app.behaviour();
    let all: Vec<u32> = (0..24).collect();
    let bytes_per_s = |row_buffer_loss: f64| {
        let constants = Constants {
            row_buffer_loss,
            ..Constants::default()
        };
        let rate = 24.0 * 1e9 / under(&constants, &machine, &app, &all);
        rate * 0.1 * LINE_BYTES
    };
    // All 24 threads wait for it, so nearly all of its time is used.
    close(bytes_per_s(0.0), machine.spec.memory_bytes_per_s, 0.04);
    // 23 threads beyond the first: the whole quarter is lost.
    close(bytes_per_s(0.25) / bytes_per_s(0.0), 0.75, 0.01);
}

fn scenario(machine: &str, apps: &[AppModel]) -> Scenario {
    let jobs = apps.iter().enumerate().map(|(number, app)| Job {
        name: format!("p{number}"),
        app: app.clone(),
        threads: None,
        qos: Qos::default(),
        cpus: CpuRange::default(),
        arrives_s: 0.0,
    });
    Scenario {
        machine: presets::machine(machine).unwrap(),
        constants: Constants::default(),
        jobs: jobs.collect(),
        method: Method::For(20.0),
        teams: Teams::Follow,
        seed: 7,
        lending: Lending::Never,
        traffic_by_node: false,
        longest_step_s: None,
        timeline: false,
    }
}

/// Gives its only program one of two sets in turn.
struct Alternating {
    sets: [CpuSet; 2],
    next: usize,
}

impl Governor for Alternating {
    fn interval_s(&self) -> f64 {
        0.1
    }

    fn decide(&mut self, observation: &Observation) -> Decision {
        let set = self.sets[self.next].clone();
        self.next = 1 - self.next;
        let apps = observation.apps.iter().map(|app| app.app);
        apps.map(|app: AppId| (app, set.clone())).collect()
    }
}

fn alternating(scenario: &Scenario, sets: [CpuSet; 2]) -> Outcome {
    let mut governor = Alternating { sets, next: 0 };
    run(scenario, Some(&mut governor))
}

fn fixed(scenario: &Scenario, set: &CpuSet) -> Outcome {
    let mut governor = Fixed(vec![("p0".into(), set.clone())]);
    run(scenario, Some(&mut governor))
}

#[test]
fn writing_a_set_and_moving_cores_cost_what_the_constants_say() {
    let mut app = computing();
    app.openmp = true;
    let scenario = scenario("hsw80", &[app]);
    let sets = [layouts::packed(&scenario.machine, &[10, 10])].concat();
    let [one, other]: [CpuSet; 2] = sets.try_into().unwrap();
    let machine = &scenario.machine;
    let socket = |set: &CpuSet| {
        let sockets = machine.topology().sockets();
        sockets.iter().position(|cpus| cpus.overlap(set) > 0)
    };
    assert_eq!(socket(&one), socket(&other), "all on one socket");
    let still = fixed(&scenario, &one).apps[0].speed;
    let moving = alternating(&scenario, [one, other]).apps[0].speed;
    let constants = scenario.constants;
    // Ten times a second all threads move to other cores of the socket.
    let lost = 10.0 * (constants.cpuset_s + constants.move_core_s);
    close(moving / still, 1.0 - lost, 2e-3);
}

#[test]
fn moving_to_another_socket_costs_the_cache_as_well() {
    let mut app = presets::app("SGD").unwrap();
    app.serial_share = 0.0;
    app.openmp = true;
    let scenario = scenario("hsw80", &[app]);
    let sockets = scenario.machine.topology().sockets();
    let part = |socket: usize, from: usize| -> CpuSet {
        sockets[socket].iter().skip(from).take(5).collect()
    };
    let within = alternating(&scenario, [part(0, 0), part(0, 5)]).apps[0].speed;
    let across = alternating(&scenario, [part(0, 0), part(1, 0)]).apps[0].speed;
    assert!(across < 0.99 * within, "{across} against {within}");
}

#[test]
fn the_same_seed_gives_the_same_run_to_the_last_bit_and_another_one_does_not() {
    let apps = ["SGD", "canneal"].map(|name| presets::app(name).unwrap());
    let once = |seed: u64| {
        let mut scenario = scenario("hsw80", &apps);
        scenario.seed = seed;
        scenario.timeline = true;
        scenario.method = Method::For(60.0);
        let topology = scenario.machine.topology().clone();
        // A policy whose decisions depend on how readings scatter.
        let config = PipelineConfig {
            allocation: "mapper".into(),
            ..PipelineConfig::default()
        };
        let controller = Controller::new(config, topology).unwrap();
        let mut governor = Controlled::new(Box::new(controller), 1.0, Overhead::default());
        run(&scenario, Some(&mut governor))
    };
    assert_eq!(once(1), once(1));
    assert_ne!(once(1), once(2));
}

#[test]
fn a_run_without_end_in_sight_is_given_up_and_says_so() {
    let mut app = computing();
    app.standalone_s = 1e9;
    app.serial_share = 0.5;
    let mut scenario = scenario("ivb40", &[app]);
    scenario.method = Method::EachOnce;
    scenario.constants.cycle_s = 1.0;
    let given_up = run(&scenario, None).given_up.unwrap();
    assert_eq!(given_up.program, scenario.jobs[0].name);
    assert!(given_up.steps > 0 && given_up.speed > 0.0);
}

#[test]
fn a_thread_that_moves_within_its_core_loses_nothing_but_the_writing_of_the_set() {
    let mut app = computing();
    app.openmp = true;
    let scenario = scenario("hsw80", &[app]);
    let [one, other]: [CpuSet; 2] = ["0-9", "40-49"].map(|set| set.parse().unwrap());
    let still = fixed(&scenario, &one).apps[0].speed;
    let moving = alternating(&scenario, [one, other]).apps[0].speed;
    // 199 times in 20 s 1 ms, and the 30 us of another core never.
    let lost_s = 199.0 * scenario.constants.cpuset_s;
    close(moving / still, 1.0 - lost_s / 20.0, 1e-6);
}

#[test]
fn a_program_that_loses_half_of_its_cores_moves_half_of_its_threads() {
    let app = computing();
    let scenario = Scenario {
        teams: Teams::Fixed,
        ..scenario("hsw80", &[app])
    };
    let speed = |sets: [&str; 2], move_core_s: f64| {
        let mut scenario = scenario.clone();
        scenario.constants.move_core_s = move_core_s;
        let sets = sets.map(|set| set.parse().unwrap());
        alternating(&scenario, sets).apps[0].speed
    };
    // Five times a second from ten cores to five of them and five times back: half of the threads each
    // time. At 1 ms a move that is half a per cent of the time.
    let lost = speed(["0-9", "0-4"], 0.0) - speed(["0-9", "0-4"], 1e-3);
    let mean = 0.5 * (speed(["0-9", "0-9"], 0.0) + speed(["0-4", "0-4"], 0.0));
    close(lost / mean, 10.0 * 0.5 * 1e-3, 1e-2);
}

/// Ten seconds of plain Linux with this many threads that can run.
fn under_linux(app: &AppModel, threads: u32, constants: Constants) -> f64 {
    let mut scenario = scenario("hsw80", std::slice::from_ref(app));
    scenario.constants = constants;
    scenario.jobs[0].threads = Some(threads);
    scenario.jobs.push(Job {
        name: "other".into(),
        app: computing(),
        threads: Some(40),
        ..scenario.jobs[0].clone()
    });
    run(&scenario, None).apps[0].speed
}

#[test]
fn linuxs_balancer_moves_nobody_while_every_thread_has_a_context_of_its_own() {
    let app = presets::app("canneal").unwrap();
    let moves = |balancer_moves_per_s: f64, threads: u32| {
        let constants = Constants {
            balancer_moves_per_s,
            ..Constants::default()
        };
        under_linux(&app, threads, constants)
    };
    assert_eq!(moves(0.0, 40), moves(2.0, 40), "80 threads on 80 contexts");
    assert!(moves(0.0, 41) > moves(2.0, 41), "81 threads");
}

#[test]
fn a_thread_that_linux_moved_across_sockets_finds_its_data_on_the_old_node_for_a_while() {
    let mut app = missing();
    // 100,000 misses of a second's 1.9e9 instructions at most, so that nothing queues; half of them to
    // the own node and a sixth to each of the others.
    app.misses_per_kilo = [0.05, 0.05];
    app.home_node = None;
    app.local_share = 0.5;
    let speed = |move_node_s: f64| {
        let constants = Constants {
            move_node_s,
            ..Constants::default()
        };
        under_linux(&app, 80, constants)
    };
    let machine = presets::machine("hsw80").unwrap();
    // Afterwards a third of the misses is farther away than before: one half, less the sixth that has
    // come nearer. Each costs 60 ns and the 6.4 ns that a line takes on a link, two at a time.
    let spec = &machine.spec;
    let farther_s = spec.remote_latency_s + LINE_BYTES / spec.link_bytes_per_s;
    close(machine.mean_remote_s(), 60e-9 + 6.4e-9, 1e-9);
    let per_instruction = 5e-5 / 3.0 * farther_s * spec.clock_hz / 2.0;
    let before = before_the_move(&machine, &app);
    let penalty = per_instruction / (before + per_instruction);
    // One move a second across sockets, each with 100 ms like that.
    let expected = 0.1 * penalty;
    let lost = 1.0 - speed(0.1) / speed(0.0);
    close(lost, expected, 0.02);
}

/// Cycles of an instruction with all contexts busy.
fn before_the_move(machine: &Machine, app: &AppModel) -> f64 {
    let all: Vec<u32> = (0..machine.contexts()).collect();
    instruction_ns(machine, &app.behaviour(), &all) * machine.spec.clock_hz / 1e9
}

#[test]
fn queueing_of_coherence_is_that_of_every_way_two_hops_with_both_of_their_links() {
    let machine = presets::machine("opt48").unwrap();
    let mut app = computing();
    // So rare that links stay idle.
    app.sharing_stalls = 1e-3;
    app.sharing_growth = 0.0;
    let app = app.behaviour();
    // Two threads on two nodes: all sharing is between sockets.
    let cycles = instruction_ns(&machine, &app, &[0, 6]) * machine.spec.clock_hz / 1e9;
    // 18 links between 8 nodes: 36 of the 56 ways are direct, ten over a link of 8.5 GB/s.
    let (wide_s, narrow_s) = (64.0 / 8.5e9, 64.0 / 5.5e9);
    let mut ways_s = 8.0 * narrow_s + 10.0 * wide_s + 26.0 * narrow_s;
    // The other 20 go over the lowest node in between: 0 and 1 in the middle wherever they can.
    let wide = |a: usize, b: usize| {
        [(0, 1), (2, 3), (4, 5), (6, 7), (3, 4)].contains(&(a.min(b), a.max(b)))
    };
    for (from, via, to) in TWO_HOPS {
        assert_eq!(machine.route(from, to).len(), 2, "{from} to {to}");
        for (a, b) in [(from, via), (via, to)] {
            ways_s += if wide(a, b) { wide_s } else { narrow_s };
        }
    }
    let mean_s = ways_s / 64.0;
    let expected = 1e-3 * (1.0 + mean_s * machine.spec.clock_hz / 250.0);
    close(cycles - 1.0, expected, 1e-6);
}

/// Pairs of nodes of opt48 without a link, with the lowest node that has one to both.
const TWO_HOPS: [(usize, usize, usize); 20] = [
    (0, 1, 3),
    (0, 1, 5),
    (0, 1, 7),
    (3, 1, 0),
    (5, 1, 0),
    (7, 1, 0),
    (1, 0, 4),
    (1, 0, 6),
    (4, 0, 1),
    (6, 0, 1),
    (2, 1, 5),
    (2, 1, 7),
    (5, 1, 2),
    (7, 1, 2),
    (3, 2, 6),
    (6, 2, 3),
    (4, 3, 7),
    (7, 3, 4),
    (5, 4, 6),
    (6, 4, 5),
];

/// Gives everybody one set and notes how many threads can run.
struct Asking {
    set: CpuSet,
    runnable: Vec<Option<u32>>,
}

impl Governor for Asking {
    fn interval_s(&self) -> f64 {
        1.0
    }

    fn decide(&mut self, observation: &Observation) -> Decision {
        let apps = observation.apps.iter();
        self.runnable
            .extend(apps.clone().map(|app| app.reading.runnable_threads));
        apps.map(|app| (app.app, self.set.clone())).collect()
    }
}

#[test]
fn a_team_that_follows_reports_the_threads_it_has_and_another_all() {
    let mut app = computing();
    app.openmp = true;
    for (teams, expected) in [(Teams::Follow, 10), (Teams::Fixed, 80)] {
        let scenario = Scenario {
            teams,
            method: Method::For(3.5),
            ..scenario("hsw80", &[app.clone()])
        };
        let set = "0-9".parse().unwrap();
        let runnable = Vec::new();
        let mut asking = Asking { set, runnable };
        let outcome = run(&scenario, Some(&mut asking as &mut dyn Governor));
        assert_eq!(outcome.given_up, None);
        // Before it has a set of its own, all; then at the end of every second.
        let expected = [80, expected, expected, expected].map(Some);
        assert_eq!(asking.runnable, expected, "{teams:?}");
    }
}
