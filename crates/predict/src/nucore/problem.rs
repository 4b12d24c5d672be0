//! The program compiled for the solver: flows, shared limits, and tables by core count.
//!
//! A *slot* is the core count of one application on one node, numbered node by node, and within a
//! node application by application:
//!
//! ```text
//! flow f   0 ≤ x_f ≤ cap_f[a_slot(f)]            local bandwidth, a read or a write over a pair
//! row r    Σ_{f∈r} x_f ≤ limit_r − Σ_{s∈node} drain_s[a_s]      links, memories
//! maximise Σ x_f
//! ```
//!
//! For fixed core counts a small packing program with coefficients 0 and 1 remains. Reads and writes of a pair are
//! separate flows, so that every bound depends on one slot. The drain is eq. 11's reserve β·L_D.
//!
//! Compiling cuts caps to the limits they meet, drops rows that the caps alone respect, and turns
//! flows without rows into a gain of their slot.
//!
//! Invariant: compiled or plain, whole or in parts, F(a) is the same for every a.

use crate::nucore::demand::Demand;
use crate::nucore::machine::DramCharge;
use crate::nucore::machine::Machine;
use crate::nucore::pair::Pair;

/// Core counts of one application on one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub(crate) node: usize,
    pub(crate) app: usize,
    pub(crate) most: usize,
    /// Where its tables start: entry c is at `table + c`.
    pub(crate) table: usize,
}

impl Slot {
    /// Its entries in a table over all slots.
    pub(crate) const fn entries(&self) -> std::ops::Range<usize> {
        self.table..self.table + self.most + 1
    }
}

/// What a flow is, for reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FlowKind {
    Local,
    Remote(Pair),
}

#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) slot: usize,
    pub(crate) kind: FlowKind,
    /// Most bandwidth by core count of the slot.
    pub(crate) cap: Vec<f64>,
    /// Whether `cap` never falls.
    pub(crate) rising: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) limit: f64,
    pub(crate) flows: Vec<usize>,
    /// The node whose drains lower the limit.
    pub(crate) drained_by: Option<usize>,
}

/// Cores of a node that its slots share.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) cores: usize,
    /// Its slots, consecutive.
    pub(crate) slots: std::ops::Range<usize>,
}

/// A condition on the core counts alone: Σ gain(a) + constant ≥ 0.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) constant: f64,
    pub(crate) gain: Vec<f64>,
}

/// The compiled program.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) slots: Vec<Slot>,
    pub(crate) nodes: Vec<Node>,
    /// The place of each slot's node in `nodes`.
    pub(crate) node_of_slot: Vec<usize>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) rows: Vec<Row>,
    /// Gain of a slot from flows that no row limits, by table entry.
    pub(crate) free_gain: Vec<f64>,
    /// β·b by table entry.
    pub(crate) drain: Vec<f64>,
    pub(crate) conditions: Vec<Condition>,
}

/// Sums are compared with this much room for rounding.
pub(crate) const ROUNDING: f64 = 1e-12;

impl Problem {
    /// The program with every flow and row.
    pub(crate) fn plain(machine: &Machine, demands: &[Demand], charge: DramCharge) -> Self {
        let mut problem = Self::with_slots(machine, demands);
        problem.add_flows(machine, demands, charge);
        problem.add_conditions(machine, demands);
        problem
    }

    /// The program without what cannot bind.
    pub(crate) fn compiled(machine: &Machine, demands: &[Demand], charge: DramCharge) -> Self {
        let mut problem = Self::plain(machine, demands, charge);
        problem.simplify();
        problem
    }

    /// Length of a table over all slots.
    pub(crate) fn table_len(&self) -> usize {
        self.free_gain.len()
    }

    /// The entries of `table` for one slot.
    pub(crate) fn entries<'t>(&self, table: &'t [f64], slot: usize) -> &'t [f64] {
        let Slot {
            table: at, most, ..
        } = self.slots[slot];
        &table[at..=at + most]
    }

    fn with_slots(machine: &Machine, demands: &[Demand]) -> Self {
        let mut slots = Vec::with_capacity(machine.nodes() * demands.len());
        let mut nodes = Vec::with_capacity(machine.nodes());
        let mut table = 0;
        for (node, &cores) in machine.cores().iter().enumerate() {
            let most = cores as usize;
            let first = slots.len();
            for app in 0..demands.len() {
                slots.push(Slot {
                    node,
                    app,
                    most,
                    table,
                });
                table += most + 1;
            }
            nodes.push(Node {
                cores: most,
                slots: first..slots.len(),
            });
        }
        let mut drain = Vec::with_capacity(table);
        for slot in &slots {
            let beta = machine.spec().beta[slot.node];
            drain.extend(demands[slot.app].local[slot.node].iter().map(|b| beta * b));
        }
        Self {
            node_of_slot: slots.iter().map(|slot| slot.node).collect(),
            slots,
            nodes,
            flows: Vec::new(),
            rows: Vec::new(),
            free_gain: vec![0.0; table],
            drain,
            conditions: Vec::new(),
        }
    }

    /// Removes what cannot bind.
    fn simplify(&mut self) {
        for row in &self.rows {
            for &flow in &row.flows {
                let flow = &mut self.flows[flow];
                let slot = self.slots[flow.slot];
                for (cores, cap) in flow.cap.iter_mut().enumerate() {
                    let drained = match row.drained_by {
                        Some(node) if node == slot.node => self.drain[slot.table + cores],
                        _ => 0.0,
                    };
                    *cap = cap.min((row.limit - drained).max(0.0));
                }
            }
        }
        let most: Vec<f64> = self
            .flows
            .iter()
            .map(|f| f.cap.iter().copied().fold(0.0, f64::max))
            .collect();
        let mut rows = std::mem::take(&mut self.rows);
        rows.retain(|row| self.can_bind(row, &most));
        self.rows = rows;

        let mut limited = vec![false; self.flows.len()];
        for &flow in self.rows.iter().flat_map(|row| &row.flows) {
            limited[flow] = true;
        }
        for (flow, _) in self
            .flows
            .iter()
            .zip(&limited)
            .filter(|(_, limited)| !**limited)
        {
            let table = self.slots[flow.slot].table;
            for (gain, cap) in self.free_gain[table..].iter_mut().zip(&flow.cap) {
                *gain += cap;
            }
        }
        self.keep_flows(&limited);
        for flow in &mut self.flows {
            flow.rising = flow.cap.is_sorted();
        }
    }

    fn can_bind(&self, row: &Row, most: &[f64]) -> bool {
        let load: f64 = row.flows.iter().map(|&flow| most[flow]).sum();
        let Some(node) = row.drained_by else {
            return load > row.limit;
        };
        let slots = self.nodes[node].slots.clone();
        // A single flow of the only slot that drains is limited by its cap already.
        if let &[flow] = row.flows.as_slice()
            && slots.len() == 1
            && slots.start == self.flows[flow].slot
        {
            return false;
        }
        let drained: f64 = slots
            .map(|s| {
                self.entries(&self.drain, s)
                    .iter()
                    .copied()
                    .fold(0.0, f64::max)
            })
            .sum();
        load > row.limit - drained
    }

    /// Keeps the marked flows; rows must name no other.
    pub(crate) fn keep_flows(&mut self, keep: &[bool]) {
        let mut number = vec![usize::MAX; keep.len()];
        for (next, flow) in (0..keep.len()).filter(|&flow| keep[flow]).enumerate() {
            number[flow] = next;
        }
        let mut at = 0;
        self.flows.retain(|_| {
            at += 1;
            keep[at - 1]
        });
        for flow in self.rows.iter_mut().flat_map(|row| &mut row.flows) {
            *flow = number[*flow];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nucore::MachineSpec;
    use std::collections::BTreeMap;

    /// Four nodes in two linked pairs, all demand within a pair.
    fn two_pairs() -> (Machine, Demand) {
        let links: BTreeMap<Pair, f64> = [(0, 1), (1, 0), (2, 3), (3, 2)]
            .map(|(a, b)| (Pair::new(a, b), 1.0))
            .into();
        let machine = Machine::new(MachineSpec {
            nodes: 4,
            cores: vec![2; 4],
            physical: links.clone(),
            alpha: vec![4.0; 4],
            beta: vec![0.25; 4],
            ..MachineSpec::default()
        })
        .unwrap();
        let demand = Demand {
            local: vec![vec![0.0, 3.0, 6.0]; 4],
            reads: links,
            ..Demand::default()
        };
        (machine, demand)
    }

    /// The nodes of the slots, part by part.
    fn parts(machine: &Machine, demands: &[Demand]) -> Vec<Vec<usize>> {
        Problem::compiled(machine, demands, DramCharge::AsPrinted)
            .parts()
            .iter()
            .map(|part| part.slots.iter().map(|slot| slot.node).collect())
            .collect()
    }

    #[test]
    fn parts_share_neither_links_nor_cores_nor_conditions() {
        let (machine, mut demand) = two_pairs();
        let demands = std::slice::from_ref(&demand);
        assert_eq!(parts(&machine, demands), [[0, 1], [2, 3]]);
        demand.least_cores = 1;
        let demands = std::slice::from_ref(&demand);
        assert_eq!(parts(&machine, demands), [[0, 1, 2, 3]]);
        // Applications on the same cores stay together.
        demand.least_cores = 0;
        demand.reads.clear();
        let demands = [demand.clone(), demand];
        assert_eq!(parts(&machine, &demands), [[0, 0], [1, 1], [2, 2], [3, 3]]);
    }

    #[test]
    fn flows_are_capped_by_the_limits_they_run_into() {
        let (machine, demand) = two_pairs();
        let problem = Problem::compiled(&machine, &[demand], DramCharge::AsPrinted);
        // A read of rate 1 over a link of 1 is full with one core.
        let reads = problem
            .flows
            .iter()
            .filter(|f| f.kind == FlowKind::Remote(Pair::new(0, 1)));
        assert_eq!(
            reads.map(|f| f.cap.clone()).collect::<Vec<_>>(),
            [[0.0, 1.0, 1.0]]
        );
        // Then no link can bind any more; the memories still do.
        assert!(problem.rows.iter().all(|row| row.limit == 4.0));
    }

    #[test]
    fn a_private_demand_leaves_no_program_to_solve() {
        let (machine, mut demand) = two_pairs();
        demand.reads.clear();
        let problem = Problem::compiled(&machine, &[demand], DramCharge::AsPrinted);
        assert!(problem.rows.is_empty() && problem.flows.is_empty());
        assert_eq!(problem.entries(&problem.free_gain, 0), [0.0, 3.0, 4.0]);
    }
}
