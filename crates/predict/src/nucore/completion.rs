//! The best way to hand out cores for one sum over the slots.
//!
//! Slots are coupled by the number of cores alone, so a dynamic program from the last node to the
//! first solves it, within the domain and the cores of each node:
//!
//! ```text
//! in_node[s][t]  best gain of slot s and the later ones of its node with t cores together
//! exactly[n][R]  = max_t in_node[first slot of n][t] + exactly[n+1][R − t]
//! ```

use crate::nucore::cut::Domain;
use crate::nucore::problem::Problem;

/// The tables of one dynamic program; -∞ where there is no such allocation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Completion {
    /// By table entry.
    pub(crate) in_node: Vec<f64>,
    /// By node (one more than there are) and cores.
    pub(crate) exactly: Vec<f64>,
    /// By node: any number of cores.
    pub(crate) any: Vec<f64>,
    here: Vec<f64>,
    scratch: Vec<f64>,
}

const NONE: f64 = f64::NEG_INFINITY;

impl Completion {
    /// Fills the tables for `gain` by table entry and at most `total` cores.
    pub(crate) fn run(&mut self, problem: &Problem, domain: &Domain, gain: &[f64], total: usize) {
        let stride = total + 1;
        let nodes = problem.nodes.len();
        let Self {
            in_node,
            exactly,
            any,
            here,
            scratch,
        } = self;
        for (table, len) in [
            (&mut *in_node, problem.table_len()),
            (&mut *exactly, (nodes + 1) * stride),
            (&mut *any, nodes + 1),
        ] {
            table.clear();
            table.resize(len, NONE);
        }
        exactly[nodes * stride] = 0.0;
        any[nodes] = 0.0;

        for (at, node) in problem.nodes.iter().enumerate().rev() {
            here.clear();
            here.push(0.0);
            for slot in node.slots.clone().rev() {
                let own = problem.entries(gain, slot);
                scratch.clear();
                scratch.resize(node.cores + 1, NONE);
                for cores in domain.least[slot]..=domain.most[slot] {
                    max_plus(&mut scratch[cores..], own[cores], here);
                }
                std::mem::swap(here, scratch);
                let table = problem.slots[slot].table;
                in_node[table..table + here.len()].copy_from_slice(here);
            }
            any[at] = any[at + 1] + here.iter().copied().fold(NONE, f64::max);
            let (this, later) = exactly.split_at_mut((at + 1) * stride);
            let (this, later) = (&mut this[at * stride..], &later[..stride]);
            for (cores, &value) in here.iter().enumerate().take(stride) {
                if value > NONE {
                    max_plus(&mut this[cores..], value, later);
                }
            }
        }
    }

    /// The allocation of the greatest gain with any number of cores, for the `gain` of the last
    /// run; of equal ones the one with the most cores at the first slots.
    pub(crate) fn best(&self, problem: &Problem, domain: &Domain, gain: &[f64]) -> Vec<usize> {
        let mut cores = vec![0; problem.slots.len()];
        for node in &problem.nodes {
            let in_node = problem.entries(&self.in_node, node.slots.start);
            let mut left = last_most(0..in_node.len(), |t| in_node[t]);
            for slot in node.slots.clone() {
                cores[slot] = if slot + 1 == node.slots.end {
                    left
                } else {
                    let own = problem.entries(gain, slot);
                    let rest = problem.entries(&self.in_node, slot + 1);
                    let most = domain.most[slot].min(left);
                    last_most(domain.least[slot]..most + 1, |c| own[c] + rest[left - c])
                };
                left -= cores[slot];
            }
        }
        cores
    }
}

/// The last index of the greatest value.
fn last_most(range: std::ops::Range<usize>, value: impl Fn(usize) -> f64) -> usize {
    let mut best = (range.start, NONE);
    for at in range {
        let this = value(at);
        if this >= best.1 {
            best = (at, this);
        }
    }
    best.0
}

/// `to[k] = max(to[k], with + from[k])` as far as both go.
fn max_plus(to: &mut [f64], with: f64, from: &[f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        let sum = with + from;
        *to = if sum > *to { sum } else { *to };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nucore::{Demand, DramCharge, Machine, MachineSpec};
    use proptest::prelude::*;

    /// Two applications on nodes of these cores, without any demand.
    fn problem(cores: &[u32]) -> Problem {
        let machine = Machine::new(MachineSpec {
            nodes: cores.len(),
            cores: cores.to_vec(),
            alpha: vec![1.0; cores.len()],
            beta: vec![0.0; cores.len()],
            ..MachineSpec::default()
        })
        .unwrap();
        let demand = Demand {
            local: cores.iter().map(|&n| vec![0.0; n as usize + 1]).collect(),
            ..Demand::default()
        };
        Problem::plain(&machine, &[demand.clone(), demand], DramCharge::AsPrinted)
    }

    /// Every allocation of the problem that keeps to node limits and domain.
    fn allocations(problem: &Problem, domain: &Domain) -> Vec<Vec<usize>> {
        let mut all = vec![vec![]];
        for slot in 0..problem.slots.len() {
            let node = &problem.nodes[problem.node_of_slot[slot]];
            all = all
                .into_iter()
                .flat_map(|chosen: Vec<usize>| {
                    let held: usize = chosen[node.slots.start.min(chosen.len())..].iter().sum();
                    let most = domain.most[slot].min(node.cores - held);
                    (domain.least[slot]..most + 1).map(move |c| {
                        let mut next = chosen.clone();
                        next.push(c);
                        next
                    })
                })
                .collect();
        }
        all
    }

    proptest! {
        #[test]
        fn the_tables_hold_the_best_of_all_allocations(
            cores in prop::collection::vec(0..4u32, 1..4),
            values in prop::collection::vec(-8..9i32, 32),
            least in prop::collection::vec(0..2usize, 8),
        ) {
            let problem = problem(&cores);
            let gain: Vec<f64> =
                (0..problem.table_len()).map(|at| f64::from(values[at % 32])).collect();
            let domain = Domain {
                least: problem.slots.iter().zip(&least).map(|(s, &l)| l.min(s.most / 2)).collect(),
                most: problem.slots.iter().map(|s| s.most).collect(),
            };
            let total: u32 = cores.iter().sum();
            let mut completion = Completion::default();
            completion.run(&problem, &domain, &gain, total as usize);

            let worth = |a: &[usize]| -> f64 {
                problem.slots.iter().zip(a).map(|(s, &c)| gain[s.table + c]).sum()
            };
            let all = allocations(&problem, &domain);
            for total in 0..=total as usize {
                let best = all.iter().filter(|a| a.iter().sum::<usize>() == total)
                    .map(|a| worth(a)).fold(NONE, f64::max);
                prop_assert_eq!(completion.exactly[total], best);
            }
            let best = all.iter().map(|a| worth(a)).fold(NONE, f64::max);
            prop_assert_eq!(completion.any[0], best);
            let chosen = completion.best(&problem, &domain, &gain);
            prop_assert!(all.contains(&chosen));
            prop_assert_eq!(worth(&chosen), best);
        }
    }
}
