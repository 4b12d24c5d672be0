//! Workloads on a NUMA machine: a network of queues [NuPoCo §4].
//!
//! Two layers of the finite-source queue ([`crate::nupoco::queue`]). At memory node m the customers are CPU nodes at
//! the summed rate of their cores; that gives MCTUtil_m and MRT_m (§4.1). Between CPU node i and memory node m the
//! customers are the cores of i, and the server is the link plus that response, 1/link_{i,m} + MRT_m; that gives
//! MRT_{i,m} (§4.2). A core of a workload with stalling reads ℓ_{i,m} per cycle of work works the share 1/(1 + Σ_m
//! ℓ_{i,m} MRT_{i,m}) of its time. A node's system utilisation is that share averaged over all its cores, idle ones
//! included, plus MCTUtil; NuUtil (eq. 7) is the sum over the nodes.
//!
//! Readings: sums run over the existing nodes (N5); averages are over the nodes and cores with
//! traffic, the literal average over all is [`Averaging::All`] (N6); all requests load the queues,
//! only read misses stall a core (N9). Invariants: 0 ≤ NuUtil ≤ CPU nodes + memory nodes; an idle machine
//! has NuUtil 0; no workload speeds up by more than its cores over the response that it sees alone.
//!
//! The step over all memory nodes is one loop without a branch, as Algorithm 1 evaluates the network for
//! every candidate.

use crate::error::{ModelError, check_cores, check_length};
use crate::nupoco::numa::{CoreMap, NumaMachine, NumaWorkload};
use crate::nupoco::queue::next_response;
use crate::units::{Cycles, NodeIndex, Speedup, Utilisation, WorkloadIndex};
use serde::{Deserialize, Serialize};

/// Which nodes and cores an average runs over [readings N6].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Averaging {
    /// U: those with traffic to the memory node.
    #[default]
    WithTraffic,
    /// A: all CPU nodes, and all cores of the node.
    All,
}

/// What the network says of an allocation.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NumaPrediction {
    /// MCTUtil_m: busy share of each memory controller.
    pub memory: Vec<Utilisation>,
    /// MRT_m: response time at each memory controller.
    pub memory_response: Vec<Cycles>,
    /// MRT_{i,m}: response time from CPU node i (outer) to memory node m (inner).
    pub response: Vec<Vec<Cycles>>,
    /// Share of all core time of each node that is work.
    pub node_cpu: Vec<Utilisation>,
    /// System utilisation of each node.
    pub node_system: Vec<Utilisation>,
    /// Eq. 7: their sum.
    pub nu_util: Utilisation,
    /// Each workload, in the order given.
    pub workloads: Vec<NumaWorkloadPrediction>,
}

/// What the network says of one workload.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct NumaWorkloadPrediction {
    /// Cores held.
    pub cores: u64,
    /// Mean share of their time that is work; 1 without cores.
    pub cpu: Utilisation,
    /// Speedup over itself alone on one core of the first node that it holds cores on.
    pub speedup: Speedup,
}

/// Machine and workloads, ready to evaluate any allocation.
#[derive(Clone, Debug)]
pub struct NumaModel<'m> {
    machine: &'m NumaMachine,
    averaging: Averaging,
    workloads: usize,
    cpu_nodes: f64,
    /// Requests of one core of workload w on node i to memory m, at `(w * nodes + i) * nodes + m`.
    requests: Vec<f64>,
    /// The same of stalling reads.
    stalls: Vec<f64>,
}

/// The rates between all nodes for one allocation, and the room to solve them in.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// Mean request rate of the customers between CPU node and memory node.
    rate: Vec<f64>,
    /// How many customers there are (whole numbers).
    customers: Vec<f64>,
    /// Request rate of the whole CPU node.
    node_rate: Vec<f64>,
    // Results and scratch by memory node.
    memory: Vec<f64>,
    memory_response: Vec<f64>,
    arrivals: Vec<f64>,
    sources: Vec<f64>,
    idle: Vec<f64>,
    service: Vec<f64>,
    /// MRT_{i,m} of the node evaluated last.
    response: Vec<f64>,
}

impl<'m> NumaModel<'m> {
    /// Prepares `workloads` on `machine`.
    ///
    /// # Errors
    /// For a locality whose shares are invalid.
    pub fn new(
        machine: &'m NumaMachine,
        workloads: &[NumaWorkload],
        averaging: Averaging,
    ) -> Result<Self, ModelError> {
        let nodes = machine.nodes();
        let mut requests = Vec::with_capacity(workloads.len() * nodes * nodes);
        let mut stalls = Vec::with_capacity(requests.capacity());
        for workload in workloads {
            workload.locality.check(nodes)?;
            for from in 0..nodes {
                for to in 0..nodes {
                    let share = workload.locality.share(nodes, from, to);
                    requests.push(workload.requests.get() * share);
                    stalls.push(workload.stalling_reads.get() * share);
                }
            }
        }
        Ok(Self {
            machine,
            averaging,
            workloads: workloads.len(),
            cpu_nodes: machine.cores.iter().filter(|&&cores| cores > 0).count() as f64,
            requests,
            stalls,
        })
    }

    /// Workloads of the model.
    pub const fn workloads(&self) -> usize {
        self.workloads
    }

    /// The machine of the model.
    pub const fn machine(&self) -> &NumaMachine {
        self.machine
    }

    /// Predicts utilisation and speedup of an allocation.
    ///
    /// # Errors
    /// For a map of another model, or with more cores than there are.
    pub fn predict(&self, map: &CoreMap) -> Result<NumaPrediction, ModelError> {
        self.check(map)?;
        let nodes = self.machine.nodes();
        let mut flow = self.flow();
        for node in 0..nodes {
            self.set_node(&mut flow, node, map.node(NodeIndex(node)));
        }
        self.solve_memory(&mut flow);

        let mut response = Vec::with_capacity(nodes);
        let mut node_cpu = Vec::with_capacity(nodes);
        let mut working = vec![0.0; self.workloads];
        for node in 0..nodes {
            self.solve_node(&mut flow, node);
            let mut work = 0.0;
            for (workload, &cores) in map.node(NodeIndex(node)).iter().enumerate() {
                if cores > 0 {
                    let share = f64::from(cores) * self.core_utilisation(&flow, workload, node);
                    work += share;
                    working[workload] += share;
                }
            }
            node_cpu.push(Utilisation(
                work / f64::from(self.machine.cores[node].max(1)),
            ));
            response.push(flow.response.iter().map(|&r| Cycles::known(r)).collect());
        }

        let node_system: Vec<Utilisation> = node_cpu
            .iter()
            .zip(&flow.memory)
            .map(|(cpu, m)| Utilisation(cpu.get() + m))
            .collect();
        let workloads = (0..self.workloads)
            .map(|w| self.workload_prediction(map, WorkloadIndex(w), working[w]))
            .collect();
        Ok(NumaPrediction {
            memory: flow.memory.iter().map(|&m| Utilisation(m)).collect(),
            memory_response: flow
                .memory_response
                .iter()
                .map(|&r| Cycles::known(r))
                .collect(),
            response,
            node_cpu,
            nu_util: Utilisation(node_system.iter().map(|u| u.get()).sum()),
            node_system,
            workloads,
        })
    }

    fn workload_prediction(
        &self,
        map: &CoreMap,
        workload: WorkloadIndex,
        working: f64,
    ) -> NumaWorkloadPrediction {
        let cores = map.total(workload);
        let home = (0..self.machine.nodes()).find(|&n| map.get(NodeIndex(n), workload) > 0);
        let Some(home) = home else {
            return NumaWorkloadPrediction {
                cores,
                cpu: Utilisation(1.0),
                speedup: Speedup(0.0),
            };
        };
        NumaWorkloadPrediction {
            cores,
            cpu: Utilisation(working / cores as f64),
            speedup: Speedup(working / self.alone_on_one_core(workload.0, home)),
        }
    }

    /// CPU utilisation of one core of `workload` on `node` when every queue is empty.
    fn alone_on_one_core(&self, workload: usize, node: usize) -> f64 {
        let nodes = self.machine.nodes();
        let link = &self.machine.link[node * nodes..][..nodes];
        let stalls = &self.stalls[(workload * nodes + node) * nodes..][..nodes];
        let wait: f64 = stalls
            .iter()
            .zip(link)
            .zip(&self.machine.memory_service)
            .map(|((stall, link), memory)| stall * (link + memory))
            .sum();
        1.0 / (1.0 + wait)
    }

    fn check(&self, map: &CoreMap) -> Result<(), ModelError> {
        check_length("the core map", map.workloads(), self.workloads)?;
        if self.workloads > 0 {
            check_length("the core map", map.nodes(), self.machine.nodes())?;
        }
        for (node, &available) in self.machine.cores.iter().enumerate() {
            let got: u64 = map
                .node(NodeIndex(node))
                .iter()
                .map(|&c| u64::from(c))
                .sum();
            check_cores(&format!("node {node}"), got, available)?;
        }
        Ok(())
    }

    /// Room for one allocation; no core is held yet.
    pub(crate) fn flow(&self) -> Flow {
        let nodes = self.machine.nodes();
        Flow {
            rate: vec![0.0; nodes * nodes],
            customers: vec![0.0; nodes * nodes],
            node_rate: vec![0.0; nodes * nodes],
            memory: vec![0.0; nodes],
            memory_response: self.machine.memory_service.clone(),
            arrivals: vec![0.0; nodes],
            sources: vec![0.0; nodes],
            idle: vec![0.0; nodes],
            service: vec![0.0; nodes],
            response: vec![0.0; nodes],
        }
    }

    /// Puts these cores on `node`, whatever was there before.
    pub(crate) fn set_node(&self, flow: &mut Flow, node: usize, cores: &[u32]) {
        let nodes = self.machine.nodes();
        let at = node * nodes;
        let rate = &mut flow.node_rate[at..at + nodes];
        let customers = &mut flow.customers[at..at + nodes];
        rate.fill(0.0);
        customers.fill(match self.averaging {
            Averaging::WithTraffic => 0.0,
            Averaging::All => f64::from(self.machine.cores[node]),
        });
        for (workload, &cores) in cores.iter().enumerate().filter(|(_, cores)| **cores > 0) {
            let requests = &self.requests[(workload * nodes + node) * nodes..][..nodes];
            let cores = f64::from(cores);
            for ((rate, customers), request) in
                rate.iter_mut().zip(customers.iter_mut()).zip(requests)
            {
                *rate += cores * request;
                if self.averaging == Averaging::WithTraffic && *request > 0.0 {
                    *customers += cores;
                }
            }
        }
        for ((mean, rate), customers) in flow.rate[at..at + nodes]
            .iter_mut()
            .zip(rate.iter())
            .zip(customers.iter())
        {
            *mean = if *rate > 0.0 { rate / customers } else { 0.0 };
        }
    }

    /// §4.1: utilisation and response of every memory controller.
    pub(crate) fn solve_memory(&self, flow: &mut Flow) {
        let nodes = self.machine.nodes();
        flow.arrivals.fill(0.0);
        flow.sources.fill(0.0);
        for node_rate in flow.node_rate.chunks_exact(nodes) {
            for ((sum, sources), rate) in flow
                .arrivals
                .iter_mut()
                .zip(&mut flow.sources)
                .zip(node_rate)
            {
                *sum += rate;
                *sources += if *rate > 0.0 { 1.0 } else { 0.0 };
            }
        }
        if self.averaging == Averaging::All {
            flow.sources.fill(self.cpu_nodes);
        }
        for (sum, sources) in flow.arrivals.iter_mut().zip(&flow.sources) {
            *sum /= sources.max(1.0);
        }

        flow.memory.fill(0.0);
        flow.idle.fill(1.0);
        flow.memory_response
            .copy_from_slice(&self.machine.memory_service);
        let most = flow.sources.iter().fold(0.0, |most: f64, &n| most.max(n)) as u32;
        for n in 1..=most {
            let n = f64::from(n);
            for m in 0..nodes {
                let (rate, service) = (flow.arrivals[m], self.machine.memory_service[m]);
                let offered = n * rate * service;
                let sum = flow.idle[m] + offered;
                let in_play = n <= flow.sources[m];
                flow.memory[m] = if in_play {
                    offered / sum
                } else {
                    flow.memory[m]
                };
                flow.idle[m] = if in_play {
                    flow.idle[m] / sum
                } else {
                    flow.idle[m]
                };
                let next = next_response(n, rate, service, flow.memory_response[m]);
                let in_play = n < flow.sources[m];
                flow.memory_response[m] = if in_play {
                    next
                } else {
                    flow.memory_response[m]
                };
            }
        }
    }

    /// §4.2: responses from one CPU node, into `flow.response`.
    pub(crate) fn solve_node(&self, flow: &mut Flow, node: usize) {
        let nodes = self.machine.nodes();
        let at = node * nodes;
        let rate = &flow.rate[at..at + nodes];
        let customers = &flow.customers[at..at + nodes];
        let link = &self.machine.link[at..at + nodes];
        let service = &mut flow.service[..nodes];
        let response = &mut flow.response[..nodes];
        let memory_response = &flow.memory_response[..nodes];
        let mut most = 0.0f64;
        for m in 0..nodes {
            service[m] = link[m] + memory_response[m];
            response[m] = service[m];
            most = most.max(customers[m]);
        }
        for n in 1..most as u32 {
            let n = f64::from(n);
            for m in 0..nodes {
                let next = next_response(n, rate[m], service[m], response[m]);
                response[m] = if n < customers[m] { next } else { response[m] };
            }
        }
    }

    /// Share of its time that a core of `workload` on `node` works, after [`Self::solve_node`].
    pub(crate) fn core_utilisation(&self, flow: &Flow, workload: usize, node: usize) -> f64 {
        let nodes = self.machine.nodes();
        let stalls = &self.stalls[(workload * nodes + node) * nodes..][..nodes];
        let wait: f64 = stalls
            .iter()
            .zip(&flow.response)
            .map(|(stall, r)| stall * r)
            .sum();
        1.0 / (1.0 + wait)
    }

    /// NuUtil of `map`, whose nodes have all been set in `flow`.
    pub(crate) fn nu_util(&self, flow: &mut Flow, map: &CoreMap) -> f64 {
        self.solve_memory(flow);
        let mut total: f64 = flow.memory.iter().sum();
        for (node, cores) in map.cores.chunks_exact(self.workloads).enumerate() {
            if cores.iter().all(|&cores| cores == 0) {
                continue;
            }
            self.solve_node(flow, node);
            let mut work = 0.0;
            for (workload, &cores) in cores.iter().enumerate().filter(|(_, cores)| **cores > 0) {
                work += f64::from(cores) * self.core_utilisation(flow, workload, node);
            }
            total += work / f64::from(self.machine.cores[node]);
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nupoco::numa::{Locality, NumaNode};
    use crate::units::RequestsPerCycle;
    use proptest::prelude::*;

    fn cycles(value: f64) -> Cycles {
        Cycles::new(value).unwrap()
    }

    /// Equal nodes; times in cycles.
    fn uniform(nodes: usize, cores: u32, memory: f64, link: f64) -> NumaMachine {
        NumaMachine::uniform(nodes, cores, cycles(memory), cycles(link)).unwrap()
    }

    fn workload(requests: f64, stalling_reads: f64, locality: Locality) -> NumaWorkload {
        NumaWorkload {
            requests: RequestsPerCycle::new(requests).unwrap(),
            stalling_reads: RequestsPerCycle::new(stalling_reads).unwrap(),
            locality,
        }
    }

    fn interleaved(machine: &NumaMachine, workloads: usize) -> NumaModel<'_> {
        let workloads = vec![workload(0.01, 0.01, Locality::Interleaved); workloads];
        NumaModel::new(machine, &workloads, Averaging::default()).unwrap()
    }

    /// Fixed to the first node, for any number of nodes, where it is empty.
    fn locality() -> impl Strategy<Value = Locality> {
        prop_oneof![
            Just(Locality::Interleaved),
            (0.0..=1.0f64).prop_map(Locality::Local),
            Just(Locality::Fixed(Vec::new())),
        ]
    }

    fn averaging() -> impl Strategy<Value = Averaging> {
        prop_oneof![Just(Averaging::WithTraffic), Just(Averaging::All)]
    }

    #[test]
    fn an_idle_machine_has_no_utilisation() {
        let machine = uniform(4, 4, 20.0, 10.0);
        let p = interleaved(&machine, 1)
            .predict(&CoreMap::empty(4, 1))
            .unwrap();
        assert_eq!(p.nu_util.get(), 0.0);
        assert_eq!(p.response[0][1].get(), 30.0);
        assert_eq!(p.response[0][0].get(), 20.0);
        assert_eq!(p.workloads[0].speedup.get(), 0.0);
    }

    #[test]
    fn the_literal_average_sees_idle_nodes_and_cores_as_customers() {
        // One core on node 0, all its requests to memory 1.
        let machine = uniform(2, 2, 10.0, 5.0);
        let mut map = CoreMap::empty(2, 1);
        map.set(NodeIndex(0), WorkloadIndex(0), 1);
        let workloads = [workload(0.1, 0.1, Locality::Fixed(vec![0.0, 1.0]))];
        let u = NumaModel::new(&machine, &workloads, Averaging::WithTraffic).unwrap();
        let u = u.predict(&map).unwrap();
        // One customer each: no request waits.
        assert!((u.memory[1].get() - 0.5).abs() < 1e-12);
        assert!((u.memory_response[1].get() - 10.0).abs() < 1e-12);
        assert!((u.response[0][1].get() - 15.0).abs() < 1e-12);
        let a = NumaModel::new(&machine, &workloads, Averaging::All).unwrap();
        let a = a.predict(&map).unwrap();
        // Two customers of rate 0.05, r = 0.5: Q = 1/3, R = 10·4/3; U = 1/(1/1.5 + 1) = 0.6.
        assert!((a.memory[1].get() - 0.6).abs() < 1e-12);
        assert!((a.memory_response[1].get() - 40.0 / 3.0).abs() < 1e-12);
        assert!(a.response[0][1] > u.response[0][1]);
    }

    #[test]
    fn a_memory_only_node_serves_and_computes_nothing() {
        let nodes = [(4, 20.0), (0, 40.0)].map(|(cores, memory)| NumaNode {
            cores,
            memory_service: cycles(memory),
        });
        let machine = NumaMachine::new(&nodes, &vec![vec![cycles(10.0); 2]; 2]).unwrap();
        let mut map = CoreMap::empty(2, 1);
        map.set(NodeIndex(0), WorkloadIndex(0), 4);
        let p = interleaved(&machine, 1).predict(&map).unwrap();
        assert!(p.memory[1] > p.memory[0]);
        assert_eq!(p.node_cpu[1].get(), 0.0);
    }

    #[test]
    fn cores_handed_out_twice_are_refused() {
        let machine = uniform(2, 2, 10.0, 5.0);
        let model = interleaved(&machine, 2);
        let mut map = CoreMap::empty(2, 2);
        map.set(NodeIndex(1), WorkloadIndex(0), 2);
        map.set(NodeIndex(1), WorkloadIndex(1), 1);
        assert_eq!(
            model.predict(&map).unwrap_err().to_string(),
            "3 cores handed out of 2 on node 1: hand out at most 2"
        );
    }

    #[test]
    fn shares_must_be_shares() {
        let machine = uniform(2, 2, 10.0, 5.0);
        for bad in [
            Locality::Local(1.5),
            Locality::Local(f64::NAN),
            Locality::Fixed(vec![1.0]),
            Locality::Fixed(vec![0.5, 0.4]),
        ] {
            let workloads = [workload(0.1, 0.1, bad)];
            assert!(NumaModel::new(&machine, &workloads, Averaging::default()).is_err());
        }
    }

    proptest! {
        #[test]
        fn utilisation_is_bounded_and_speedup_below_the_cores(
            nodes in 1usize..6, cores in 1u32..8, mem in 1.0..100.0f64, link in 0.0..100.0f64,
            requests in 0.0..0.1f64, stall_share in 0.0..=1.0f64, seed in any::<u64>(),
            averaging in averaging(), place in locality(),
        ) {
            let place = match place {
                Locality::Fixed(_) => Locality::Fixed(
                    (0..nodes).map(|n| f64::from(u8::from(n == 0))).collect()),
                other => other,
            };
            let machine = uniform(nodes, cores, mem, link);
            let workloads = [
                workload(requests, requests * stall_share, place),
                workload(0.0, 0.0, Locality::Interleaved),
            ];
            let model = NumaModel::new(&machine, &workloads, averaging).unwrap();
            let mut map = CoreMap::empty(nodes, 2);
            for n in 0..nodes {
                let own = (seed >> (4 * n)) as u32 % (cores + 1);
                map.set(NodeIndex(n), WorkloadIndex(0), own);
                map.set(NodeIndex(n), WorkloadIndex(1), cores - own);
            }
            let p = model.predict(&map).unwrap();
            for u in p.memory.iter().chain(&p.node_cpu) {
                prop_assert!((0.0..=1.0 + 1e-12).contains(&u.get()));
            }
            for (w, total) in p.workloads.iter().zip([map.total(WorkloadIndex(0)), map.total(WorkloadIndex(1))]) {
                prop_assert_eq!(w.cores, total);
            }
            // Without a link difference the home node is no better than any other.
            prop_assert!(
                p.workloads[0].speedup.get() <= p.workloads[0].cores as f64 * (1.0 + link / mem + 1e-9));
            prop_assert!((p.workloads[1].speedup.get() - p.workloads[1].cores as f64).abs() < 1e-9);

            // The allocation-free path says the same.
            let mut flow = model.flow();
            for n in 0..nodes {
                model.set_node(&mut flow, n, map.node(NodeIndex(n)));
            }
            prop_assert!((model.nu_util(&mut flow, &map) - p.nu_util.get()).abs() < 1e-9);
        }
    }
}
