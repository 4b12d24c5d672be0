//! The bandwidth program on the published cases and on cases made to show one rule each.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mapper_predict::nucore::{
    Demand, DramCharge, EffortLimit, Machine, MachineSpec, NodeAllocation, NuCoreError, Pair,
    Program,
};
use std::collections::BTreeMap;

/// The cases kept in the repository.
fn vectors() -> Vec<(String, Machine, Demand, serde_json::Value)> {
    let text = include_str!("../../../tests/vectors/nucore.json");
    let file: serde_json::Value = serde_json::from_str(text).unwrap();
    let machines: BTreeMap<String, MachineSpec> =
        serde_json::from_value(file["machines"].clone()).unwrap();
    file["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| {
            let spec = machines[case["machine"].as_str().unwrap()].clone();
            (
                case["id"].as_str().unwrap().to_owned(),
                Machine::new(spec).unwrap(),
                serde_json::from_value(case["app"].clone()).unwrap(),
                case["expect"].clone(),
            )
        })
        .collect()
}

#[test]
fn the_published_cases_are_solved_exactly() {
    for (id, machine, demand, expect) in vectors() {
        let demands = [demand];
        let program = Program::new(&machine, &demands, DramCharge::AsPrinted).unwrap();
        let solved = program.solve(EffortLimit::default()).unwrap();
        assert!(solved.proven);
        let bandwidth = expect["total_bw"].as_f64().unwrap();
        assert!(
            (solved.total_bandwidth.get() - bandwidth).abs() < 1e-4,
            "{id}"
        );
        let allocation: Vec<u32> = serde_json::from_value(expect["alloc_lexmax"].clone()).unwrap();
        assert_eq!(solved.allocation.0[0], allocation, "{id}");
        // Far from the effort limit: a decision stays within its time.
        assert!(solved.effort.programs < 100, "{id}: {:?}", solved.effort);
    }
}

#[test]
fn streamcluster_has_the_sixty_optima_of_its_vector() {
    let (_, machine, demand, expect) = vectors()
        .into_iter()
        .find(|(id, ..)| id == "x-streamcluster-nucore")
        .unwrap();
    let demands = [demand];
    let program = Program::new(&machine, &demands, DramCharge::AsPrinted).unwrap();
    let counts = || 0..=8u32;
    let optima = counts()
        .flat_map(|a| counts().flat_map(move |b| counts().map(move |c| [a, b, c])))
        .filter(|held| (11..=19).contains(&held.iter().sum::<u32>()))
        .map(|[a, b, c]| NodeAllocation(vec![vec![a, b, c, 19 - a - b - c]]))
        .filter(|a| program.bandwidth(a).unwrap().total.get() >= 20.26 - 1e-4)
        .count();
    assert_eq!(
        Some(optima as u64),
        expect["optimal_vectors_with_same_total"].as_u64()
    );
}

#[test]
fn the_corrected_model_charges_a_write_where_it_goes() {
    // Node 0 only writes to node 1, whose memory is slow.
    let spec = MachineSpec {
        nodes: 2,
        cores: vec![4, 4],
        physical: [(Pair::new(0, 1), 100.0)].into(),
        alpha: vec![50.0, 3.0],
        beta: vec![0.0; 2],
        ..MachineSpec::default()
    };
    let demands = [Demand {
        local: vec![vec![0.0; 5]; 2],
        writes: [(Pair::new(0, 1), 2.0)].into(),
        ..Demand::default()
    }];
    let machine = Machine::new(spec).unwrap();
    let solve = |charge| {
        let program = Program::new(&machine, &demands, charge).unwrap();
        program.solve(EffortLimit::default()).unwrap()
    };
    let printed = solve(DramCharge::AsPrinted);
    assert_eq!(
        (printed.total_bandwidth.get(), printed.total_cores),
        (8.0, 4)
    );
    let corrected = solve(DramCharge::AtTheTarget);
    assert_eq!(
        (corrected.total_bandwidth.get(), corrected.total_cores),
        (3.0, 2)
    );
}

#[test]
fn parts_share_the_allowance_of_stage_two() {
    // Each node's last core brings 0.00006: one may go for 1e-4, not both; the first one stays.
    let spec = MachineSpec {
        nodes: 2,
        cores: vec![2, 2],
        alpha: vec![50.0; 2],
        beta: vec![0.0; 2],
        ..MachineSpec::default()
    };
    let table = vec![0.0, 5.0, 5.00006];
    let demands = [Demand {
        local: vec![table.clone(), table],
        ..Demand::default()
    }];
    let machine = Machine::new(spec).unwrap();
    let program = Program::new(&machine, &demands, DramCharge::AsPrinted).unwrap();
    let solved = program.solve(EffortLimit::default()).unwrap();
    assert_eq!(solved.allocation.0[0], [2, 1]);
}

#[test]
fn without_applications_nothing_is_requested() {
    let (_, machine, ..) = vectors().remove(0);
    let program = Program::new(&machine, &[], DramCharge::AsPrinted).unwrap();
    let solved = program.solve(EffortLimit::default()).unwrap();
    assert_eq!((solved.total_cores, solved.total_bandwidth.get()), (0, 0.0));
}

#[test]
fn an_interrupted_search_still_answers_and_says_so() {
    let (_, machine, demand, _) = vectors().remove(0);
    let demands = [demand];
    let program = Program::new(&machine, &demands, DramCharge::AsPrinted).unwrap();
    let limit = EffortLimit {
        programs: 2,
        ..EffortLimit::default()
    };
    let solved = program.solve(limit).unwrap();
    assert!(!solved.proven);
    assert!((solved.total_bandwidth.get() - 20.26).abs() < 1e-4);
    let none = EffortLimit {
        programs: 0,
        ..EffortLimit::default()
    };
    assert!(matches!(
        program.solve(none),
        Err(NuCoreError::Undecided { .. })
    ));
}

#[test]
fn bad_demands_name_their_place() {
    let (_, machine, demand, _) = vectors().remove(0);
    let refused = |demand: Demand| {
        Program::new(&machine, &[demand], DramCharge::AsPrinted)
            .unwrap_err()
            .to_string()
    };
    let mut bad = demand.clone();
    bad.local[2].pop();
    assert_eq!(
        refused(bad),
        "b of application 0 on node 2 has 8 entries, expected 9"
    );
    let mut bad = demand.clone();
    bad.local[1][0] = 1.0;
    assert_eq!(
        refused(bad),
        "b of application 0 on node 1 starts with 1: no core asks for nothing, start with 0"
    );
    let mut bad = demand.clone();
    bad.reads.insert(Pair::new(0, 0), 1.0);
    assert_eq!(
        refused(bad),
        "read_solo of application 0 names pair 0-0: a node does not reach itself over a link"
    );
    let mut bad = demand;
    bad.least_cores = 33;
    assert_eq!(
        refused(bad),
        "application 0 needs 33 cores of 32: ask for at most 32"
    );
}
