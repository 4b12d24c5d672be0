//! `nupoco_swap`: nodes with many and few cache accesses exchange cores, and then leave it at that.

#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

use mapper_model::topology::Shape;
use mapper_model::{
    Allocation, AppId, AppName, AppSpec, AppView, CpuSet, Explanation, MachineProfile, NodeId,
    NodeShare, Profile, Rates, Share, Sharing, Snapshot, Topology, Trigger,
};
use mapper_placement::{PlacementConfig, find};

/// Four nodes of eight cores; the first application fills nodes 0 and 2, the second 1 and 3.
fn place(misses: [Option<f64>; 2], held: &[CpuSet; 2]) -> [CpuSet; 2] {
    let topology = Topology::regular(Shape {
        sockets: 4,
        cores_per_socket: 8,
        threads_per_core: 1,
    });
    let spec = AppSpec::named(AppName::new("app").unwrap());
    let profiles = [1, 2].map(|id| Profile {
        rates: Some(Rates {
            llc_misses_per_s: misses[id as usize - 1],
            ..Rates::default()
        }),
        ..Profile::unknown(AppId(id))
    });
    let views = [0, 1].map(|i| AppView {
        app: profiles[i].app,
        spec: &spec,
        profile: &profiles[i],
        held: &held[i],
        allowed: None,
    });
    let shares = [[0, 2], [1, 3]].iter().zip(1..).map(|(nodes, id)| Share {
        app: AppId(id),
        cpus: 16,
        sharing: Sharing::Exclusive,
        by_node: Some(
            nodes
                .iter()
                .map(|&node| NodeShare {
                    node: NodeId(node),
                    cpus: 8,
                })
                .collect(),
        ),
        fair: 16,
        floor: None,
        spare: 0,
        norm_eff: None,
        state: String::new(),
        explanation: Explanation::default(),
    });
    let allocation = Allocation {
        shares: shares.collect(),
        ..Allocation::default()
    };
    let snapshot = Snapshot {
        tick: 1,
        now_ns: 0,
        trigger: Trigger::Interval,
        topology: &topology,
        usable: topology.cpus(),
        machine: &MachineProfile::default(),
        apps: &views,
    };
    let policy = (find("nupoco_swap").unwrap().build)(&PlacementConfig::default());
    let placement = policy.place(&snapshot, &allocation);
    [0, 1].map(|i| placement.apps[i].cpus.clone())
}

fn by_node(cpus: &CpuSet) -> Vec<u32> {
    (0..4)
        .map(|n| cpus.iter().filter(|c| c.0 / 8 == n).count() as u32)
        .collect()
}

const NOBODY: [CpuSet; 2] = [CpuSet::new(), CpuSet::new()];

#[test]
fn before_anything_is_measured_the_allocation_decides() {
    let placed = place([Some(1e8), None], &NOBODY);
    assert_eq!(by_node(&placed[0]), [8, 0, 8, 0]);
    assert_eq!(place([Some(1e8), None], &placed), placed);
}

#[test]
fn a_hungry_and_a_modest_application_end_side_by_side() {
    let first = place([None, None], &NOBODY);
    // 50 and 0.5 million misses on each node: two cores change places twice, then all are equal.
    let second = place([Some(1e8), Some(1e6)], &first);
    assert_eq!(by_node(&second[0]), [4; 4]);
    assert_eq!(by_node(&second[1]), [4; 4]);
    assert!(second[0].overlap(&first[0]) == 8);
    assert_eq!(place([Some(1e8), Some(1e6)], &second), second);
}

#[test]
fn two_applications_alike_are_left_apart() {
    let first = place([None, None], &NOBODY);
    assert_eq!(place([Some(1e8), Some(6e7)], &first), first);
    assert_eq!(place([Some(0.0), Some(0.0)], &first), first);
}
