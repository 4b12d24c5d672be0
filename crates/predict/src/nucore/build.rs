//! From machine and demands to flows, rows and conditions: eqs. 2 to 13 in the clean reading.

use crate::nucore::demand::Demand;
use crate::nucore::machine::DramCharge;
use crate::nucore::machine::Machine;
use crate::nucore::pair::Pair;
use crate::nucore::problem::{Condition, Flow, FlowKind, Problem, Row};

impl Problem {
    pub(crate) fn add_flows(&mut self, machine: &Machine, demands: &[Demand], charge: DramCharge) {
        let spec = machine.spec();
        let nodes = machine.nodes();
        let apps = demands.len();
        // Flows that a limit meets: eq. 11 counts remote flows, eq. 12 local ones as well.
        let mut served_remote = vec![Vec::new(); nodes];
        let mut served_local = vec![Vec::new(); nodes];
        let mut over = vec![Vec::new(); nodes * nodes];

        for (app, demand) in demands.iter().enumerate() {
            for (node, table) in demand.local.iter().enumerate() {
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
            let reads = demand
                .reads
                .iter()
                .map(|(&pair, &rate)| (pair, rate, pair.to, pair.from));
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
                self.rows.push(Row {
                    limit: alpha,
                    flows,
                    drained_by: Some(node),
                });
            }
            let mut flows = std::mem::take(&mut served_remote[node]);
            flows.append(&mut served_local[node]);
            self.rows.push(Row {
                limit: alpha,
                flows,
                drained_by: None,
            });
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
            self.rows.push(Row {
                limit,
                flows,
                drained_by: None,
            });
        }
    }

    pub(crate) fn add_conditions(&mut self, machine: &Machine, demands: &[Demand]) {
        // Eq. 11 without remote traffic: β·L_D ≤ α, or the program has no solution at all.
        for (node, &alpha) in self.nodes.iter().zip(&machine.spec().alpha) {
            let worst: f64 = node
                .slots
                .clone()
                .map(|s| {
                    self.entries(&self.drain, s)
                        .iter()
                        .copied()
                        .fold(0.0, f64::max)
                })
                .sum();
            if worst > alpha {
                let mut gain = vec![0.0; self.table_len()];
                for slot in &self.slots[node.slots.clone()] {
                    for entry in slot.entries() {
                        gain[entry] = -self.drain[entry];
                    }
                }
                self.conditions.push(Condition {
                    constant: alpha,
                    gain,
                });
            }
        }
        for (app, demand) in demands
            .iter()
            .enumerate()
            .filter(|(_, d)| d.least_cores > 0)
        {
            let mut gain = vec![0.0; self.table_len()];
            for slot in self.slots.iter().filter(|slot| slot.app == app) {
                for cores in 0..=slot.most {
                    gain[slot.table + cores] = cores as f64;
                }
            }
            self.conditions.push(Condition {
                constant: -f64::from(demand.least_cores),
                gain,
            });
        }
    }
}
