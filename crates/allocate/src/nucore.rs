//! NuCore: on each node as many cores as its memory can feed, and no more [NuCore §5, §6].
//!
//! An integer program finds the core counts per node with the most memory bandwidth, and of those the
//! fewest cores ([`mapper_predict::nucore`]). It serves applications short of bandwidth, so only those of
//! which a node full of threads would exceed its memory go into it, on what the fair shares of the others
//! leave; the others share what remains.
//!
//! Demands: one core needs the bandwidth that was measured, c cores of a node c times that. The paper predicts the
//! table with DraMon, and profiles with one core per node
//! ([`ProfiledOn::OneCpuOfEachNode`](crate::config::ProfiledOn)). Where the processor reports the traffic of each
//! node's CPUs, the program knows on which nodes the data are ([`Locality`]) and takes all of it as reads; else data
//! are private to each node [readings, NuCore, issue 9]. Each application is held to as many cores as bring its
//! weighted part of the bandwidth, else the tie rule would give the first one everything.

use crate::model_driven::locality::Locality;
use crate::model_driven::nodes::{Division, NodeCapacity, Surplus};
use crate::model_driven::{Inputs, SERIAL};
use crate::section::Section;
use crate::shares::{self, Claim};
use mapper_predict::nucore::{
    Demand, DramCharge, EffortLimit, Machine, MachineSpec, NuCoreError, Pair, Program, Solution,
};
use std::collections::BTreeMap;
use std::error::Error;

pub(crate) const NAME: &str = "nucore";

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

/// See [`Planner`](crate::model_driven::Planner).
pub(crate) fn plan(inputs: &Inputs<'_>) -> Result<Division, Box<dyn Error>> {
    let alpha = inputs.memory.node_gb_per_s;
    let largest = inputs.nodes.iter().map(|n| n.cpus).max().unwrap_or(0);
    let demand = |i: usize| inputs.memory.gb_per_s(&inputs.candidates[i].measured);
    // The most that a node would have to serve, were the application on all CPUs.
    let most_asked = |i: usize| match Asked::of(inputs, i) {
        Some(asked) => (asked
            .of_nodes(inputs.nodes.iter().map(|node| node.cpus))
            .into_iter())
        .fold(0.0, f64::max),
        None => demand(i) * f64::from(largest),
    };
    let parts: Vec<Part> = inputs
        .candidates
        .iter()
        .enumerate()
        .map(|(i, candidate)| match candidate.section {
            Section::Serial => Part::Serial,
            Section::Parallel if most_asked(i) > alpha => Part::ShortOfBandwidth,
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
    // What the program may use: all but one core for each serial section and the fair shares of those
    // that compute.
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
    let rule = |(i, part): (usize, &Part)| match (part, &solution) {
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
    };
    let surplus = |part: &Part| match part {
        Part::Computes => Surplus::Taken,
        Part::Serial | Part::ShortOfBandwidth => Surplus::Declined,
    };
    Ok(Division {
        counts: by_node.iter().map(|cores| cores.iter().sum()).collect(),
        by_node: Some(by_node),
        rules: parts.iter().enumerate().map(rule).collect(),
        surplus: parts.iter().map(surplus).collect(),
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
    let asked: Vec<Option<Asked>> = short.iter().map(|&i| Asked::of(inputs, i)).collect();
    let links = if asked.iter().any(Option::is_some) {
        let pairs = (0..nodes).flat_map(|from| (0..nodes).map(move |to| Pair::new(from, to)));
        pairs
            .filter(|pair| pair.from != pair.to)
            .map(|pair| (pair, inputs.memory.link_gb_per_s()))
            .collect()
    } else {
        BTreeMap::new()
    };
    let machine = Machine::new(MachineSpec {
        name: "this machine".to_owned(),
        nodes,
        cores: capacity.to_vec(),
        physical: links,
        alpha: vec![alpha; nodes],
        beta: vec![inputs.memory.local_reserve; nodes],
        ..MachineSpec::default()
    })?;
    let weights: f64 = short.iter().map(|&i| inputs.candidates[i].weight).sum();
    let all: u32 = capacity.iter().sum();
    let mut open = all - short.len() as u32;
    let demands: Vec<Demand> = short
        .iter()
        .zip(&asked)
        .map(|(&i, asked)| {
            let candidate = &inputs.candidates[i];
            let each = inputs.memory.gb_per_s(&candidate.measured);
            // Cores that bring its part of the bandwidth, one at least for every application.
            let (within_reach, most) = match asked {
                Some(asked) => {
                    let all = asked.of_nodes(capacity.iter().copied()).into_iter();
                    let within_reach = all.map(|gb_per_s| gb_per_s.min(alpha)).sum();
                    (within_reach, asked.most_of_a_core())
                }
                None => (alpha * nodes as f64, each),
            };
            let part: f64 = within_reach * candidate.weight / weights;
            let cores = ((part / most).floor() as u32).min(candidate.fair).max(1);
            let beyond_one = (cores - 1).min(open);
            open -= beyond_one;
            let least_cores = 1 + beyond_one;
            match asked {
                Some(asked) => asked.demand(capacity, least_cores),
                None => private(each, capacity, least_cores),
            }
        })
        .collect();
    Program::new(&machine, &demands, DramCharge::default())?.solve(EFFORT)
}

/// The demand of an application with data private to each node.
fn private(each: f64, capacity: &[u32], least_cores: u32) -> Demand {
    Demand {
        local: capacity.iter().map(|&cores| local(each, cores)).collect(),
        least_cores,
        ..Demand::default()
    }
}

/// The demand of up to `cores` equal cores on their own node.
fn local(each: f64, cores: u32) -> Vec<f64> {
    (0..=cores).map(|c| f64::from(c) * each).collect()
}

/// The demand of a core, by node of the core, then by node of the data, in GB/s.
struct Asked {
    by_core: Vec<Vec<f64>>,
}

impl Asked {
    fn of(inputs: &Inputs<'_>, candidate: usize) -> Option<Self> {
        let measured = &inputs.candidates[candidate].measured;
        let locality: &Locality = measured.locality.as_ref()?;
        let each = inputs.memory.gb_per_s(measured);
        let nodes: Vec<_> = inputs.nodes.iter().map(|node| node.id).collect();
        let of = |from: usize| {
            let asks = each * locality.intensity(nodes[from]);
            let shares = locality.shares(from, &nodes).into_iter();
            shares.map(|share| share * asks).collect()
        };
        Some(Self {
            by_core: (0..nodes.len()).map(of).collect(),
        })
    }

    /// The greatest demand of a core.
    fn most_of_a_core(&self) -> f64 {
        let all = self.by_core.iter().map(|asks| asks.iter().sum());
        all.fold(0.0, f64::max)
    }

    /// The demand on each node of so many cores on each.
    fn of_nodes(&self, cores: impl Iterator<Item = u32>) -> Vec<f64> {
        let mut all = vec![0.0; self.by_core.len()];
        for (asks, cores) in self.by_core.iter().zip(cores) {
            for (sum, gb_per_s) in all.iter_mut().zip(asks) {
                *sum += gb_per_s * f64::from(cores);
            }
        }
        all
    }

    fn demand(&self, capacity: &[u32], least_cores: u32) -> Demand {
        let mut reads = BTreeMap::new();
        for (core, asks) in self.by_core.iter().enumerate() {
            for (data, &gb_per_s) in asks.iter().enumerate() {
                if data != core && gb_per_s > 0.0 {
                    reads.insert(Pair::new(data, core), gb_per_s);
                }
            }
        }
        let own = |node: usize| self.by_core[node][node];
        Demand {
            local: (capacity.iter().enumerate())
                .map(|(node, &cores)| local(own(node), cores))
                .collect(),
            reads,
            least_cores,
            ..Demand::default()
        }
    }
}
