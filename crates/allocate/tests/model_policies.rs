//! The policies that decide by a model, from counters to counts per node.

mod support;

use mapper_allocate::config::MemoryModel;
use mapper_allocate::{AllocationConfig, ProfiledOn};
use mapper_model::{CpuRange, NodeShare, Reason};
use support::{Counted, World, linear, machine};

/// The memory system of the worked numbers of NuPoCo's Algorithm 1.
fn config() -> AllocationConfig {
    AllocationConfig {
        memory: MemoryModel {
            service_cycles: Some(20.0),
            link_cycles: Some(10.0),
            ..MemoryModel::default()
        },
        ..AllocationConfig::default()
    }
}

fn world(policy: &str, sockets: u32, cores: u32) -> World {
    World::with(policy, machine(sockets, cores, 1), &config())
}

fn nodes(world: &World, place: usize) -> Vec<(u32, u32)> {
    world.last.shares[place]
        .by_node
        .iter()
        .flatten()
        .map(|NodeShare { node, cpus }| (node.0, *cpus))
        .collect()
}

#[test]
fn nupoco_gives_nodes_where_they_make_the_machine_busiest() {
    // Vector alg1-g0: one that computes, one that asks for 0.01 requests per cycle of work.
    let mut world = world("nupoco", 4, 4);
    world.arrive_counted(0.0, 8);
    world.arrive_counted(0.006, 8);
    assert_eq!(world.counts(), [8, 8], "fair shares while profiling");
    world.intervals(3);
    assert_eq!(world.states(), ["profiling", "profiling"]);
    world.intervals(2);
    assert_eq!(world.states(), ["planned", "planned"]);
    assert_eq!(world.counts(), [4, 12]);
    assert_eq!(nodes(&world, 0), [(0, 4)]);
    assert_eq!(nodes(&world, 1), [(1, 4), (2, 4), (3, 4)]);
    assert_eq!(world.intervals(50), 0, "the plan is kept");
}

#[test]
fn a_serial_section_gets_one_core() {
    for policy in ["nupoco", "max_speedup", "nucore", "equal"] {
        let mut world = world(policy, 4, 4);
        world.arrive_counted(0.0, 1);
        world.arrive_counted(0.01, 8);
        world.intervals(8);
        assert_eq!(world.counts()[0], 1, "{policy}: {:?}", world.sentences());
        assert!(world.counts()[1] > 8 || policy == "nucore", "{policy}");
    }
}

#[test]
fn without_counters_a_model_says_so_and_shares_are_fair() {
    for policy in ["nupoco", "max_speedup", "nucore"] {
        let mut world = world(policy, 2, 4);
        world.arrive(linear());
        world.arrive_counted(0.01, 8);
        world.intervals(10);
        assert_eq!(world.counts(), [4, 4], "{policy}");
        for share in &world.last.shares {
            let is_explained = share.explanation.reasons.iter().any(
                |r| matches!(r, Reason::Model { rule } if rule.contains("no last-level cache misses")),
            );
            assert!(is_explained, "{policy}: {share:?}");
        }
    }
}

#[test]
fn the_sum_of_speedups_favours_the_application_that_scales() {
    let mut world = world("max_speedup", 8, 4);
    world.arrive_counted(0.0, 8);
    world.arrive_counted(0.002, 8);
    world.arrive_counted(0.012, 8);
    world.intervals(8);
    assert_eq!(world.counts().iter().sum::<u32>(), 32);
    assert_eq!(world.counts()[0], 24, "{:?}", world.sentences());
}

#[test]
fn a_serial_section_does_not_break_up_the_clusters_of_the_others() {
    let mut world = world("max_speedup", 4, 8);
    world.arrive_counted(0.0, 8);
    world.arrive_counted(0.001, 8);
    world.arrive_counted(0.004, 8);
    world.arrive_counted(0.0, 1);
    world.intervals(8);
    let counts = world.counts();
    assert_eq!(counts[3], 1, "{:?}", world.sentences());
    assert!(counts[..3].iter().all(|c| *c >= 8), "{counts:?}");
    assert_eq!(counts.iter().sum::<u32>(), 32);
}

#[test]
fn nucore_feeds_memories_with_the_fewest_cores_and_leaves_the_rest_to_computing() {
    let mut world = World::with(
        "nucore",
        machine(4, 8, 1),
        &AllocationConfig {
            memory: MemoryModel {
                node_gb_per_s: Some(20.0),
                ..MemoryModel::default()
            },
            ..AllocationConfig::default()
        },
    );
    // At 1.9 GHz and 64 bytes a line 0.05 misses per cycle are 6 GB/s: four cores fill a node.
    world.arrive_counted(0.05, 8);
    world.arrive_counted(0.0001, 8);
    world.intervals(8);
    assert_eq!(world.counts(), [16, 16], "{:?}", world.sentences());
    assert_eq!(nodes(&world, 0), [(0, 4), (1, 4), (2, 4), (3, 4)]);

    // Alone, it gets as many as its memories feed, and no more.
    world.apps.pop();
    world.intervals(2);
    assert_eq!(world.counts(), [16]);
    assert_eq!(world.last.free, 16);
}

#[test]
fn nucore_gives_data_on_one_node_the_cores_of_that_node() {
    let config = AllocationConfig {
        memory: MemoryModel {
            node_gb_per_s: Some(20.0),
            ..MemoryModel::default()
        },
        ..AllocationConfig::default()
    };
    let mut world = World::with("nucore", machine(4, 8, 1), &config);
    // 3 GB/s a core on average, 4 where the data are: five cores there ask for all that it has.
    world.arrive_counted(0.025, 8);
    world.apps[0].home = Some(2);
    world.intervals(8);
    assert_eq!(nodes(&world, 0), [(2, 5)], "{:?}", world.sentences());
}

#[test]
fn on_one_cpu_of_each_node_a_profile_is_taken_and_then_left() {
    let config = AllocationConfig {
        memory: MemoryModel {
            node_gb_per_s: Some(20.0),
            profiled_on: ProfiledOn::OneCpuOfEachNode,
            ..MemoryModel::default()
        },
        ..AllocationConfig::default()
    };
    let mut world = World::with("nucore", machine(4, 8, 1), &config);
    world.arrive_counted(0.05, 8);
    assert_eq!(nodes(&world, 0), [(0, 1), (1, 1), (2, 1), (3, 1)]);
    assert_eq!(world.states(), ["profiling"]);
    world.intervals(6);
    assert_eq!(world.states(), ["planned"]);
    assert_eq!(world.counts(), [16], "{:?}", world.sentences());
    assert_eq!(
        world.intervals(200),
        0,
        "nothing is measured again without a new phase"
    );
}

#[test]
fn who_cannot_have_a_cpu_of_each_node_is_profiled_on_its_fair_share() {
    let config = AllocationConfig {
        memory: MemoryModel {
            profiled_on: ProfiledOn::OneCpuOfEachNode,
            ..MemoryModel::default()
        },
        ..AllocationConfig::default()
    };
    let mut world = World::with("nucore", machine(4, 2, 1), &config);
    for _ in 0..3 {
        world.arrive_counted(0.0001, 8);
    }
    assert_eq!(world.counts().iter().sum::<u32>(), 8);
    world.intervals(8);
    assert_eq!(world.states(), ["planned"; 3], "{:?}", world.sentences());
}

#[test]
fn what_one_limits_itself_not_to_use_goes_to_the_others() {
    for policy in ["nupoco", "max_speedup", "nucore"] {
        let mut world = world(policy, 2, 8);
        world.arrive_as(linear(), |spec| {
            spec.cpus = CpuRange::new(1, Some(2)).unwrap();
        });
        world.arrive(linear());
        for app in &mut world.apps {
            app.counted = Some(Counted {
                misses_per_cycle: 0.0001,
                coherence_per_cycle: 0.0,
                threads: 8,
            });
        }
        world.intervals(8);
        assert_eq!(world.states(), ["planned", "planned"], "{policy}");
        assert_eq!(world.counts(), [2, 14], "{policy}: {:?}", world.sentences());
    }
}

#[test]
fn a_plan_names_giver_and_taker() {
    let mut world = world("nupoco", 4, 4);
    world.arrive_counted(0.0, 8);
    world.arrive_counted(0.006, 8);
    let moved = loop {
        let before = world.counts();
        world.intervals(1);
        if before != world.counts() {
            break world.sentences();
        }
        assert!(world.tick < 20);
    };
    assert!(
        moved[0].starts_with("8 → 4 CPUs: gave 4 to `a2`; planned on 1 of 4 nodes"),
        "{moved:?}"
    );
    assert!(
        moved[1].starts_with("8 → 12 CPUs: got 4 from `a1`; planned on 3 of 4 nodes"),
        "{moved:?}"
    );
}

#[test]
fn more_applications_than_nodes_share_cores() {
    for policy in ["nupoco", "max_speedup", "nucore"] {
        let mut world = world(policy, 2, 8);
        for misses in [0.0, 0.001, 0.002, 0.004, 0.01] {
            world.arrive_counted(misses, 4);
        }
        world.intervals(10);
        assert!(world.counts().iter().all(|c| *c >= 1), "{policy}");
        assert_eq!(world.intervals(20), 0, "{policy}");
    }
}
