//! Whole runs of the decision step where the same count elsewhere is not the same speed: promises are shares of the
//! speed under the static fair share, in its placement, and who gains by nearness comes to one node.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

use mapper_model::{CpuRange, MachineProfile, Qos};
use mapper_pipeline::{Controller, PipelineConfig};
use mapper_sim::{
    Constants, Controlled, Job, Lending, Method, Outcome, Overhead, Scenario, Teams, presets, run,
    stream,
};

/// What becomes of these programs, with so many threads or one for each context, on four sockets under an
/// allocation and a mapping policy.
fn outcome(
    programs: &[(&str, Option<u32>)],
    (allocation, mapping): (&str, &str),
    interval_s: f64,
) -> Outcome {
    let machine = presets::machine("hsw80").unwrap();
    let jobs = programs.iter().map(|&(name, threads)| Job {
        name: name.to_owned(),
        app: presets::app(name).unwrap(),
        threads,
        qos: Qos::new(0.85).unwrap(),
        cpus: CpuRange::default(),
        arrives_s: 0.0,
    });
    let scenario = Scenario {
        jobs: jobs.collect(),
        constants: Constants::default(),
        method: Method::LongestTimes(3),
        teams: Teams::Fixed,
        lending: Lending::Never,
        traffic_by_node: false,
        seed: 1,
        longest_step_s: None,
        timeline: false,
        machine,
    };
    let measured = stream::measure(&scenario.machine, &scenario.constants).unwrap();
    let config = PipelineConfig {
        allocation: allocation.into(),
        mapping: mapping.into(),
        machine: MachineProfile {
            clock_hz: scenario.machine.spec.clock_hz,
            llc_misses_per_s: 0.6 * measured.node_bytes_per_s / 64.0,
            ..MachineProfile::default()
        },
        ..PipelineConfig::default()
    };
    let topology = scenario.machine.topology().clone();
    let controller = Controller::new(config, topology).unwrap();
    let mut governor = Controlled::new(Box::new(controller), interval_s, Overhead::default());
    run(&scenario, Some(&mut governor))
}

/// Their speeds, with a thread for each context.
fn speeds(programs: &[&str], policies: (&str, &str), interval_s: f64) -> Vec<f64> {
    let programs: Vec<_> = programs.iter().map(|name| (*name, None)).collect();
    let outcome = outcome(&programs, policies, interval_s);
    outcome.apps.iter().map(|app| app.speed).collect()
}

#[test]
fn mapper_next_puts_a_program_of_few_threads_that_share_some_on_one_node() {
    // Left to itself the mapping gives them 20 whole cores, which are on two nodes.
    for program in ["PMF", "LuBench"] {
        let outcome = outcome(&[(program, Some(10))], ("mapper-next", "sam_mph"), 1.0);
        let machine = presets::machine("hsw80").unwrap();
        let held = outcome.apps[0].held.as_ref().unwrap();
        let nodes = machine.topology().nodes().iter();
        let on = nodes.filter(|node| node.cpus.overlap(held) > 0).count();
        assert_eq!((on, held.len()), (1, 20), "{program} holds {held}");
    }
}

#[test]
fn mapper_next_keeps_promises_where_the_fair_share_runs_beside_stalled_threads() {
    for mix in [
        &["BS", "gauss", "BSGD", "HuBench"][..],
        &["scalarpenta", "MemBench", "jacobi"][..],
    ] {
        let fair = speeds(mix, ("fair", "spread"), f64::INFINITY);
        let own = speeds(mix, ("mapper-next", "sam_mph"), 1.0);
        for ((name, fair), own) in mix.iter().zip(&fair).zip(&own) {
            let kept = own / fair;
            assert!(
                kept >= 0.85,
                "{name} in {mix:?}: {kept:.3} of the fair share"
            );
        }
    }
}
