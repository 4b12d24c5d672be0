//! NuCore: on each node as many cores as its memory can feed, and no more [NuCore §5, §6].
//!
//! An integer program finds the core counts per node with the most memory bandwidth, and of those the
//! fewest cores ([`mapper_predict::nucore`]). It is meant for applications short of bandwidth; one
//! that computes has no use for its answer. So the applications are parted: those of which a node
//! full of threads would ask more than its memory can give go into the program, which may use what
//! the fair shares of the others leave; the others share what remains, so that cores the program
//! finds useless go to those who compute.
//!
//! Demands: one core asks for the bandwidth that was measured; c cores of a node for c times that.
//! The paper predicts the table with DraMon, and profiles reads and writes between nodes with one
//! core per node; counters for that are rare, so data are taken to be private to each node
//! [readings, NuCore, issue 9]. In the program each application is held to as many cores as bring
//! its weighted part of the bandwidth, else the tie rule would give the first one everything.

use crate::model_driven::nodes::{Division, NodeCapacity, Surplus};
use crate::model_driven::{Inputs, ModelDriven, Planner, SERIAL};
use crate::section::Section;
use crate::shares::{self, Claim};
use mapper_predict::nucore::{
    Demand, DramCharge, EffortLimit, Machine, MachineSpec, NuCoreError, Program, Solution,
};
use std::collections::BTreeMap;

/// The name it is selected by.
pub const NAME: &str = "nucore";

/// The policy.
pub type Nucore = ModelDriven<BandwidthProgram>;

/// NuCore's integer program.
#[derive(Debug)]
pub struct BandwidthProgram;

impl Planner for BandwidthProgram {
    const NAME: &'static str = NAME;

    fn plan(inputs: &Inputs<'_>) -> Result<Division, String> {
        plan(inputs).map_err(|error| error.to_string())
    }
}

/// Work that a plan may take: some milliseconds.
const EFFORT: EffortLimit = EffortLimit {
    programs: 100,
    cut_tests: 100_000,
};

/// How an application takes part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Serial,
    Computes,
    ShortOfBandwidth,
}

fn plan(inputs: &Inputs<'_>) -> Result<Division, NuCoreError> {
    let alpha = inputs.memory.node_gb_per_s;
    let largest = inputs.nodes.iter().map(|n| n.cpus).max().unwrap_or(0);
    let demand = |i: usize| inputs.memory.gb_per_s(&inputs.candidates[i].measured);
    let parts: Vec<Part> = inputs
        .candidates
        .iter()
        .enumerate()
        .map(|(i, candidate)| match candidate.section {
            Section::Serial => Part::Serial,
            Section::Parallel if demand(i) * f64::from(largest) > alpha => Part::ShortOfBandwidth,
            Section::Parallel => Part::Computes,
        })
        .collect();
    let of =
        |part: Part| -> Vec<usize> { (0..parts.len()).filter(|&i| parts[i] == part).collect() };
    let (serial, short, computing) = (
        of(Part::Serial),
        of(Part::ShortOfBandwidth),
        of(Part::Computes),
    );
    // What the program may use: all but one core for each serial section and the fair shares of
    // those who compute.
    let owed: u32 = computing
        .iter()
        .map(|&i| inputs.candidates[i].fair)
        .sum::<u32>()
        + serial.len() as u32;
    let for_program = inputs
        .cpus()
        .saturating_sub(owed)
        .max(short.len() as u32)
        .min(inputs.cpus());
    let capacity = spread(inputs.nodes, for_program);
    let mut by_node = vec![vec![0u32; inputs.nodes.len()]; parts.len()];
    let mut solution = None;
    if !short.is_empty() {
        let solved = solve(inputs, &short, &capacity, alpha)?;
        for (order, &place) in short.iter().enumerate() {
            by_node[place].clone_from(&solved.allocation.0[order]);
        }
        solution = Some(solved);
    }
    let taken =
        |by_node: &[Vec<u32>], node: usize| -> u32 { by_node.iter().map(|a| a[node]).sum() };
    for place in serial {
        // From the last node backwards, as NuPoCo does.
        let free = |n: &usize| inputs.nodes[*n].cpus > taken(&by_node, *n);
        if let Some(node) = (0..inputs.nodes.len()).rfind(free) {
            by_node[place][node] = 1;
        }
    }
    let rest: u32 = (0..inputs.nodes.len())
        .map(|n| inputs.nodes[n].cpus - taken(&by_node, n))
        .sum();
    let claims: Vec<Claim> = computing
        .iter()
        .map(|&i| Claim {
            weight: inputs.candidates[i].weight,
            min: inputs.candidates[i].limits.min,
            max: inputs.candidates[i].limits.max,
        })
        .collect();
    let mut counts = shares::bounded_shares(rest, &claims);
    shares::hand_out_remainder(rest, &claims, &mut counts);
    for (&place, &count) in computing.iter().zip(&counts) {
        let mut left = count;
        for node in 0..inputs.nodes.len() {
            let free = inputs.nodes[node].cpus - taken(&by_node, node);
            let part = left.min(free);
            by_node[place][node] += part;
            left -= part;
        }
    }
    let rules = parts
        .iter()
        .enumerate()
        .map(|(i, part)| match (part, &solution) {
            (Part::Serial, _) => SERIAL.to_owned(),
            (Part::ShortOfBandwidth, Some(solution)) => format!(
                "a core of it asks for {:.1} GB/s; the fewest cores for the greatest bandwidth, \
                 {:.1} GB/s in all",
                demand(i),
                solution.total_bandwidth.get()
            ),
            _ => format!(
                "a core of it asks for {:.1} GB/s, so a node of it does not fill a memory of \
                 {alpha:.1} GB/s; shares what is left",
                demand(i)
            ),
        })
        .collect();
    Ok(Division {
        counts: by_node.iter().map(|cores| cores.iter().sum()).collect(),
        by_node: Some(by_node),
        rules,
        surplus: parts
            .iter()
            .map(|part| match part {
                Part::Computes => Surplus::Taken,
                Part::Serial | Part::ShortOfBandwidth => Surplus::Declined,
            })
            .collect(),
    })
}

/// `cpus` of the nodes, in proportion to what they have.
fn spread(nodes: &[NodeCapacity], cpus: u32) -> Vec<u32> {
    let claims: Vec<Claim> = nodes
        .iter()
        .map(|node| Claim {
            weight: f64::from(node.cpus),
            min: 0,
            max: node.cpus,
        })
        .collect();
    let total: f64 = claims.iter().map(|c| c.weight).sum();
    let mut parts: Vec<u32> = claims
        .iter()
        .map(|claim| ((f64::from(cpus) * claim.weight / total) as u32).min(claim.max))
        .collect();
    shares::hand_out_remainder(cpus, &claims, &mut parts);
    parts
}

fn solve(
    inputs: &Inputs<'_>,
    short: &[usize],
    capacity: &[u32],
    alpha: f64,
) -> Result<Solution, NuCoreError> {
    let nodes = capacity.len();
    let machine = Machine::new(MachineSpec {
        name: "this machine".to_owned(),
        nodes,
        cores: capacity.to_vec(),
        physical: BTreeMap::new(),
        alpha: vec![alpha; nodes],
        beta: vec![inputs.memory.local_reserve; nodes],
        ..MachineSpec::default()
    })?;
    let weights: f64 = short.iter().map(|&i| inputs.candidates[i].weight).sum();
    let all: u32 = capacity.iter().sum();
    let mut open = all - short.len() as u32;
    let demands: Vec<Demand> = short
        .iter()
        .map(|&i| {
            let candidate = &inputs.candidates[i];
            let each = inputs.memory.gb_per_s(&candidate.measured);
            // Cores that bring its part of the bandwidth, one at least for everybody.
            let part = alpha * nodes as f64 * candidate.weight / weights;
            let cores = ((part / each).floor() as u32).min(candidate.fair).max(1);
            let beyond_one = (cores - 1).min(open);
            open -= beyond_one;
            Demand {
                local: capacity
                    .iter()
                    .map(|&cores| (0..=cores).map(|c| f64::from(c) * each).collect())
                    .collect(),
                least_cores: 1 + beyond_one,
                ..Demand::default()
            }
        })
        .collect();
    Program::new(&machine, &demands, DramCharge::default())?.solve(EFFORT)
}
