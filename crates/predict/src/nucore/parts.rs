//! Separates a problem into parts that share nothing.
//!
//! Slots belong together when they share a row, a condition, or the cores of a node. The maximum of
//! the whole is the sum of the maxima of the parts.
//!
//! Invariant: every slot, flow, row and condition is in exactly one part, in its order.

use crate::nucore::problem::{Condition, Node, Problem, Row, Slot};

impl Problem {
    /// The parts that share no row, no condition and no cores, each a problem of its own.
    pub(crate) fn parts(self) -> Vec<Self> {
        let part_of = self.part_of_slots();
        let count = part_of.iter().max().map_or(0, |last| last + 1);
        if count <= 1 {
            return vec![self];
        }
        (0..count).map(|part| self.part(&part_of, part)).collect()
    }

    /// Numbers the slots by connected part, in order of their first slot.
    fn part_of_slots(&self) -> Vec<usize> {
        let mut parent: Vec<usize> = (0..self.slots.len()).collect();
        fn root(parent: &mut [usize], mut slot: usize) -> usize {
            while parent[slot] != slot {
                parent[slot] = parent[parent[slot]];
                slot = parent[slot];
            }
            slot
        }
        let mut join = |slots: &mut dyn Iterator<Item = usize>| {
            if let Some(first) = slots.next() {
                for other in slots {
                    let (a, b) = (root(&mut parent, first), root(&mut parent, other));
                    parent[a.max(b)] = a.min(b);
                }
            }
        };
        for row in &self.rows {
            let drained = row
                .drained_by
                .map_or(0..0, |node| self.nodes[node].slots.clone());
            join(&mut row.flows.iter().map(|&f| self.flows[f].slot).chain(drained));
        }
        for node in &self.nodes {
            join(&mut node.slots.clone());
        }
        for condition in &self.conditions {
            join(&mut (0..self.slots.len()).filter(|&s| {
                self.entries(&condition.gain, s)
                    .iter()
                    .any(|&gain| gain != 0.0)
            }));
        }

        let mut number = vec![usize::MAX; self.slots.len()];
        let mut next = 0;
        (0..self.slots.len())
            .map(|slot| {
                let root = root(&mut parent, slot);
                if number[root] == usize::MAX {
                    number[root] = next;
                    next += 1;
                }
                number[root]
            })
            .collect()
    }

    fn part(&self, part_of: &[usize], part: usize) -> Self {
        let inside = |slot: usize| part_of[slot] == part;
        let mut table = 0;
        let mut slots = Vec::new();
        let mut nodes = Vec::new();
        // Nodes of the machine → nodes of the part. A node's slots are all in one part.
        let mut node_number = vec![usize::MAX; self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate() {
            if node.slots.is_empty() || !inside(node.slots.start) {
                continue;
            }
            node_number[at] = nodes.len();
            let first = slots.len();
            for &slot in &self.slots[node.slots.clone()] {
                slots.push(Slot { table, ..slot });
                table += slot.most + 1;
            }
            nodes.push(Node {
                cores: node.cores,
                slots: first..slots.len(),
            });
        }
        let node_of_slot = (0..nodes.len())
            .flat_map(|n: usize| nodes[n].slots.clone().map(move |_| n))
            .collect();
        let mut slot_number = vec![usize::MAX; self.slots.len()];
        for (number, slot) in (0..self.slots.len()).filter(|&s| inside(s)).enumerate() {
            slot_number[slot] = number;
        }
        let gather = |table: &[f64]| -> Vec<f64> {
            (0..self.slots.len())
                .filter(|&s| inside(s))
                .flat_map(|s| self.entries(table, s).iter().copied())
                .collect()
        };
        let keep: Vec<bool> = self.flows.iter().map(|f| inside(f.slot)).collect();
        let mut problem = Self {
            free_gain: gather(&self.free_gain),
            drain: gather(&self.drain),
            conditions: self
                .conditions
                .iter()
                .map(|c| Condition {
                    constant: c.constant,
                    gain: gather(&c.gain),
                })
                .filter(|c| c.gain.iter().any(|&gain| gain != 0.0))
                .collect(),
            rows: self
                .rows
                .iter()
                .filter(|row| keep[row.flows[0]])
                .map(|row| Row {
                    drained_by: row.drained_by.map(|n| node_number[n]),
                    ..row.clone()
                })
                .collect(),
            flows: self.flows.clone(),
            slots,
            nodes,
            node_of_slot,
        };
        problem.keep_flows(&keep);
        for flow in &mut problem.flows {
            flow.slot = slot_number[flow.slot];
        }
        problem
    }
}
