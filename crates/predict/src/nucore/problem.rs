//! The program compiled for the solver: flows, shared limits, and tables by core count.
//!
//! A *slot* is the core count of one application on one node; slots are numbered node by node, and
//! within a node application by application. Everything else follows from the slots:
//!
//! ```text
//! flow f   0 ≤ x_f ≤ cap_f[a_slot(f)]            local bandwidth, a read or a write over a pair
//! row r    Σ_{f∈r} x_f ≤ limit_r − Σ_{s∈node} drain_s[a_s]      links, memories
//! maximise Σ x_f
//! ```
//!
//! so that for fixed core counts a small packing program with coefficients 0 and 1 remains, and
//! core counts only move its bounds. Reads and writes of a pair are flows of their own, which makes
//! every bound depend on one slot alone; solutions are the same, since both have the weight 1
//! wherever they meet. The drain is eq. 11's reserve β·L_D.
//!
//! Compiling removes what cannot bind: caps are cut to the limits they run into, rows that the caps
//! alone respect are dropped, and flows without rows become a gain of their slot. What is left
//! often falls into parts that share nothing; [`Problem::parts`] separates them.
//!
//! Invariant: compiled or plain, whole or in parts, F(a) is the same for every a.

use crate::nucore::demand::Demand;
use crate::nucore::machine::Machine;
use crate::nucore::{DramCharge, Pair};

/// Core counts of one application on one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub(crate) node: usize,
    pub(crate) app: usize,
    /// Most cores.
    pub(crate) most: usize,
    /// Where its tables start: entry c is at `table + c`.
    pub(crate) table: usize,
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

/// A condition on the core counts alone: Σ gain[a] + constant ≥ 0.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) constant: f64,
    /// By slot table entry.
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
        let Slot { table: at, most, .. } = self.slots[slot];
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
                slots.push(Slot { node, app, most, table });
                table += most + 1;
            }
            nodes.push(Node { cores: most, slots: first..slots.len() });
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

    fn add_flows(&mut self, machine: &Machine, demands: &[Demand], charge: DramCharge) {
        let spec = machine.spec();
        let nodes = machine.nodes();
        let apps = demands.len();
        // Flows that a limit meets: eq. 11 counts remote flows, eq. 12 local ones as well.
        let mut served_remote = vec![Vec::new(); nodes];
        let mut served_local = vec![Vec::new(); nodes];
        let mut over = vec![Vec::new(); nodes * nodes];

        for (app, demand) in demands.iter().enumerate() {
            for node in 0..nodes {
                let table = &demand.local[node];
                if table.iter().any(|&b| b > 0.0) {
                    served_local[node].push(self.flows.len());
                    self.flows.push(Flow {
                        slot: node * apps + app,
                        kind: FlowKind::Local,
                        cap: table.clone(),
                        rising: false,
                    });
                }
            }
            let reads = demand.reads.iter().map(|(&pair, &rate)| (pair, rate, pair.to, pair.from));
            let writes = demand.writes.iter().map(|(&pair, &rate)| {
                let memory = match charge {
                    DramCharge::AsPrinted => pair.from,
                    DramCharge::AtTheTarget => pair.to,
                };
                (pair, rate, pair.from, memory)
            });
            for (pair, rate, core_node, memory) in reads.chain(writes) {
                let cores = machine.cores()[core_node];
                if rate == 0.0 || cores == 0 {
                    continue;
                }
                served_remote[memory].push(self.flows.len());
                over[pair.from * nodes + pair.to].push(self.flows.len());
                self.flows.push(Flow {
                    slot: core_node * apps + app,
                    kind: FlowKind::Remote(pair),
                    cap: (0..=cores).map(|c| f64::from(c) * rate).collect(),
                    rising: true,
                });
            }
        }

        for node in 0..nodes {
            let alpha = spec.alpha[node];
            if !served_remote[node].is_empty() {
                let flows = served_remote[node].clone();
                self.rows.push(Row { limit: alpha, flows, drained_by: Some(node) });
            }
            let mut flows = std::mem::take(&mut served_remote[node]);
            flows.append(&mut served_local[node]);
            self.rows.push(Row { limit: alpha, flows, drained_by: None });
        }
        self.add_links(machine, &over);
    }

    fn add_links(&mut self, machine: &Machine, over: &[Vec<usize>]) {
        let spec = machine.spec();
        let nodes = machine.nodes();
        let own = |pair: Pair| over[pair.from * nodes + pair.to].as_slice();

        // Load of a physical link: the pair's own flows and those of the routes over it (eq. 13,
        // with the load kept apart from the pair's own traffic [readings, issue 4]).
        let mut load = vec![Vec::new(); nodes * nodes];
        for &pair in spec.physical.keys() {
            load[pair.from * nodes + pair.to].extend_from_slice(own(pair));
        }
        for (&pair, route) in &spec.route {
            if spec.physical.contains_key(&pair) {
                continue;
            }
            for hop in route.windows(2) {
                load[hop[0] * nodes + hop[1]].extend_from_slice(own(pair));
            }
            if let Some(&limit) = spec.virtual_one_way.get(&pair) {
                self.push_link(limit, own(pair).to_vec());
            }
            // Once for the two directions: where the other one is no route, or comes later.
            let other = pair.reversed();
            let first = pair.from < pair.to || !spec.route.contains_key(&other);
            if let (true, Some(&limit)) = (first, spec.virtual_both_ways.get(&pair.unordered())) {
                self.push_link(limit, [own(pair), own(other)].concat());
            }
        }
        let load = |pair: Pair| load[pair.from * nodes + pair.to].as_slice();
        for (&pair, &limit) in &spec.physical {
            self.push_link(limit, load(pair).to_vec());
        }
        for (&pair, &limit) in &spec.physical_both_ways {
            self.push_link(limit, [load(pair), load(pair.reversed())].concat());
        }
    }

    fn push_link(&mut self, limit: f64, flows: Vec<usize>) {
        if !flows.is_empty() {
            self.rows.push(Row { limit, flows, drained_by: None });
        }
    }

    fn add_conditions(&mut self, machine: &Machine, demands: &[Demand]) {
        // Eq. 11 without remote traffic: β·L_D ≤ α, or the program has no solution at all.
        for (node, &alpha) in self.nodes.iter().zip(&machine.spec().alpha) {
            let worst: f64 = node
                .slots
                .clone()
                .map(|s| self.entries(&self.drain, s).iter().copied().fold(0.0, f64::max))
                .sum();
            if worst > alpha {
                let mut gain = vec![0.0; self.table_len()];
                for slot in &self.slots[node.slots.clone()] {
                    for entry in slot.table..=slot.table + slot.most {
                        gain[entry] = -self.drain[entry];
                    }
                }
                self.conditions.push(Condition { constant: alpha, gain });
            }
        }
        for (app, demand) in demands.iter().enumerate().filter(|(_, d)| d.least_cores > 0) {
            let mut gain = vec![0.0; self.table_len()];
            for slot in self.slots.iter().filter(|slot| slot.app == app) {
                for cores in 0..=slot.most {
                    gain[slot.table + cores] = cores as f64;
                }
            }
            self.conditions.push(Condition { constant: -f64::from(demand.least_cores), gain });
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
        let most: Vec<f64> =
            self.flows.iter().map(|f| f.cap.iter().copied().fold(0.0, f64::max)).collect();
        let mut rows = std::mem::take(&mut self.rows);
        rows.retain(|row| self.can_bind(row, &most));
        self.rows = rows;

        let mut limited = vec![false; self.flows.len()];
        for &flow in self.rows.iter().flat_map(|row| &row.flows) {
            limited[flow] = true;
        }
        for (flow, _) in self.flows.iter().zip(&limited).filter(|(_, limited)| !**limited) {
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
            .map(|s| self.entries(&self.drain, s).iter().copied().fold(0.0, f64::max))
            .sum();
        load > row.limit - drained
    }

    /// Keeps the flows marked; rows must name no other.
    fn keep_flows(&mut self, keep: &[bool]) {
        let mut number = vec![usize::MAX; keep.len()];
        let mut next = 0;
        for (flow, _) in keep.iter().enumerate().filter(|(_, keep)| **keep) {
            number[flow] = next;
            next += 1;
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
            let drained = row.drained_by.map_or(0..0, |node| self.nodes[node].slots.clone());
            join(&mut row.flows.iter().map(|&f| self.flows[f].slot).chain(drained));
        }
        for node in &self.nodes {
            join(&mut node.slots.clone());
        }
        for condition in &self.conditions {
            join(&mut (0..self.slots.len()).filter(|&s| {
                self.entries(&condition.gain, s).iter().any(|&gain| gain != 0.0)
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
            nodes.push(Node { cores: node.cores, slots: first..slots.len() });
        }
        let node_of_slot = (0..nodes.len()).flat_map(|n: usize| nodes[n].slots.clone().map(move |_| n)).collect();
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
                .map(|c| Condition { constant: c.constant, gain: gather(&c.gain) })
                .filter(|c| c.gain.iter().any(|&gain| gain != 0.0))
                .collect(),
            rows: self
                .rows
                .iter()
                .filter(|row| keep[row.flows[0]])
                .map(|row| Row { drained_by: row.drained_by.map(|n| node_number[n]), ..row.clone() })
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
