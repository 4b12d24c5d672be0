//! The models that a policy asks at every decision: NuPoCo's Algorithms 1 and 2, NuCore's program.
//!
//! Published: 1.8 ms for Algorithm 1 and 1.5 ms for Algorithm 2 [NuPoCo §7.5], 20 ms for a program
//! [NuCore §7.5]. Aims here: 50 µs (8 nodes, 4 workloads), 10 µs, and 1 ms.

#![allow(missing_docs, reason = "made by criterion's macros")]

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use mapper_predict::nucore::{
    Demand, DramCharge, EffortLimit, Machine, MachineSpec, Pair, Program,
};
use mapper_predict::nupoco::dop::{self, Section};
use mapper_predict::nupoco::network::{Averaging, NumaModel};
use mapper_predict::nupoco::numa::{Locality, NumaMachine, NumaWorkload};
use mapper_predict::nupoco::swap::{self, NodePressure, Resident, SwapRule};
use mapper_predict::{Cycles, RequestsPerCycle};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::hint::black_box;

/// Nodes and workloads.
const SIZES: [(usize, usize); 3] = [(4, 2), (8, 4), (8, 8)];

fn machine(nodes: usize) -> NumaMachine {
    let (memory, link) = (Cycles::new(15.0), Cycles::new(25.0));
    NumaMachine::uniform(
        nodes,
        8,
        memory.unwrap_or_default(),
        link.unwrap_or_default(),
    )
    .unwrap_or_else(|error| panic!("{error}"))
}

/// From compute-bound to memory-bound, interleaved and mostly local in turn.
fn workloads(count: usize) -> Vec<NumaWorkload> {
    (0..count)
        .map(|w| {
            let rate = |per_cycle| RequestsPerCycle::new(per_cycle).unwrap_or_default();
            NumaWorkload {
                requests: rate(0.004 * w as f64),
                stalling_reads: rate(0.003 * w as f64),
                locality: if w % 2 == 0 {
                    Locality::Interleaved
                } else {
                    Locality::Local(0.8)
                },
            }
        })
        .collect()
}

/// From profiles to the plan, as a policy calls it.
fn plan(machine: &NumaMachine, workloads: &[NumaWorkload], sections: &[Section]) -> dop::DopPlan {
    let model = NumaModel::new(machine, workloads, Averaging::default());
    let model = model.unwrap_or_else(|error| panic!("{error}"));
    dop::plan(&model, sections).unwrap_or_else(|error| panic!("{error}"))
}

fn algorithm_1(c: &mut Criterion) {
    let mut group = c.benchmark_group("nupoco_algorithm_1");
    for (nodes, count) in SIZES {
        let (machine, workloads) = (machine(nodes), workloads(count));
        let sections = vec![Section::Parallel; count];
        group.bench_function(format!("{nodes}_nodes_{count}_workloads"), |b| {
            b.iter(|| plan(&machine, black_box(&workloads), &sections));
        });
    }
    group.finish();
}

/// Four workloads on ever more nodes.
fn algorithm_1_by_nodes(c: &mut Criterion) {
    let mut group = c.benchmark_group("nupoco_algorithm_1_by_nodes");
    let (workloads, sections) = (workloads(4), vec![Section::Parallel; 4]);
    for nodes in [4usize, 8, 16, 32, 64] {
        let machine = machine(nodes);
        group.bench_with_input(BenchmarkId::from_parameter(nodes), &nodes, |b, _| {
            b.iter(|| plan(&machine, black_box(&workloads), &sections));
        });
    }
    group.finish();
}

/// What four workloads do to the last-level caches of each node.
fn pressures(nodes: u32) -> Vec<NodePressure<u32, u32>> {
    (0..nodes)
        .map(|node| NodePressure {
            node,
            llc_accesses: f64::from((node * 37) % 64 + 1),
            residents: (0..4)
                .map(|w| Resident {
                    workload: (node + w) % 4,
                    cores: 2,
                    miss_rate: f64::from(w) * 0.1,
                    llc_accesses: f64::from((node * 11 + w * 7) % 13),
                })
                .collect(),
        })
        .collect()
}

fn algorithm_2_by_nodes(c: &mut Criterion) {
    let mut group = c.benchmark_group("nupoco_algorithm_2_by_nodes");
    for nodes in [8u32, 16, 32, 64] {
        let pressure = pressures(nodes);
        group.bench_with_input(BenchmarkId::from_parameter(nodes), &nodes, |b, _| {
            b.iter(|| swap::plan(black_box(&pressure), SwapRule::default()));
        });
    }
    group.finish();
}

/// The kept cases of the bandwidth program.
#[derive(Deserialize)]
struct Cases {
    machines: BTreeMap<String, MachineSpec>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    machine: String,
    app: Demand,
}

fn cases() -> Cases {
    serde_json::from_str(include_str!("../../tests/vectors/nucore.json"))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn solve(machine: &Machine, demands: &[Demand]) -> f64 {
    let program = Program::new(machine, demands, DramCharge::AsPrinted);
    let solved = program.and_then(|program| program.solve(EffortLimit::default()));
    let solved = solved.unwrap_or_else(|error| panic!("{error}"));
    assert!(solved.proven, "stopped at the effort limit");
    solved.total_bandwidth.get()
}

fn checked(spec: MachineSpec) -> Machine {
    Machine::new(spec).unwrap_or_else(|error| panic!("{error}"))
}

/// Demand checked, program compiled and solved, as for a new profile.
fn nucore(c: &mut Criterion) {
    let Cases { machines, cases } = cases();
    let mut group = c.benchmark_group("nucore");
    for Case { id, machine, app } in cases {
        let machine = checked(machines[&machine].clone());
        group.bench_function(id, |b| {
            b.iter_batched(
                || [app.clone()],
                |demands| solve(&machine, &demands),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

/// How an application uses a machine of many nodes.
#[derive(Clone, Copy, Debug)]
enum Sharing {
    /// All data are on node 0.
    AllOnOneNode,
    /// Own data on every node, some on node 0.
    PartlyOnOneNode,
    /// Own data on every node, results go to the next node.
    Ring,
}

/// Demand of an application that saturates memories and links with about two thirds of the cores.
fn demand(spec: &MachineSpec, sharing: Sharing) -> Demand {
    let nodes = spec.nodes;
    let own = |node: usize| {
        let full = 1.5 * spec.alpha[node];
        let cores = spec.cores[node];
        (0..=cores)
            .map(|c| full * f64::from(c) / f64::from(cores))
            .collect::<Vec<_>>()
    };
    let per_core = |full: f64, node: usize| full / f64::from(spec.cores[node]);
    let mut demand = Demand {
        local: (0..nodes).map(own).collect::<Vec<_>>(),
        ..Demand::default()
    };
    for node in 1..nodes {
        let rate = match sharing {
            Sharing::AllOnOneNode => {
                demand.local[node].fill(0.0);
                per_core(2.4, node)
            }
            Sharing::PartlyOnOneNode => per_core(1.2, node),
            Sharing::Ring => continue,
        };
        demand.reads.insert(Pair::new(0, node), rate);
    }
    if matches!(sharing, Sharing::Ring) {
        for node in 0..nodes {
            demand
                .writes
                .insert(Pair::new(node, (node + 1) % nodes), per_core(6.0, node));
        }
    }
    demand
}

/// The eight-node machine with ever more cores.
fn nucore_by_cores(c: &mut Criterion) {
    let base = cases()
        .machines
        .remove("OPT6174-8x6-ASSUMED")
        .unwrap_or_default();
    for sharing in [
        Sharing::AllOnOneNode,
        Sharing::PartlyOnOneNode,
        Sharing::Ring,
    ] {
        let mut group = c.benchmark_group(format!("nucore_by_cores_{sharing:?}"));
        for per_node in [3u32, 6, 12, 24, 48, 96] {
            let mut spec = base.clone();
            spec.cores.fill(per_node);
            let demands = [demand(&spec, sharing)];
            let machine = checked(spec);
            let cores = per_node * 8;
            group.bench_with_input(BenchmarkId::from_parameter(cores), &cores, |b, _| {
                b.iter(|| solve(&machine, black_box(&demands)));
            });
        }
        group.finish();
    }
}

criterion_group!(
    benches,
    algorithm_1,
    algorithm_1_by_nodes,
    algorithm_2_by_nodes,
    nucore,
    nucore_by_cores
);
criterion_main!(benches);
