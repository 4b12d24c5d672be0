//! The best way to hand out cores for one sum over the slots.
//!
//! Without coupling between slots other than the number of cores, the best allocation is a dynamic
//! program from the last node to the first:
//!
//! ```text
//! in_node[s][t]  best gain of slot s and the later ones of its node with t cores together
//! exactly[n][R]  = max_t in_node[first slot of n][t] + exactly[n+1][R − t]
//! ```
//!
//! It never puts more on a node than it has, keeps to the domain, and knows that cores are whole.

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
        let Self { in_node, exactly, any, here, scratch } = self;
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
}

/// `to[k] = max(to[k], with + from[k])` as far as both go.
fn max_plus(to: &mut [f64], with: f64, from: &[f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        let sum = with + from;
        *to = if sum > *to { sum } else { *to };
    }
}
