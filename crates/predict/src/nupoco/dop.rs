//! Algorithm 1: which node computes for which workload [NuPoCo §5.2].
//!
//! Nodes are handed out whole, one after the other, each to the workload with which the model
//! expects the highest NuUtil ([`crate::nupoco::network`]).
//!
//! Readings. Node k is first reserved for the k-th workload in order of arrival, then the greedy
//! goes over the remaining nodes in order (N10). NuUtil values closer than 1e-9 are equal and go to
//! the workload that arrived first (N11). A workload in a serial section gets one core, from the
//! last node backwards, and takes no part in the greedy; its requests count (N12). With more
//! workloads than nodes, cores are dealt one by one, round robin, node by node (N13).
//!
//! Invariants: every core is handed out at most once, and all of them when there is a parallel
//! workload; every workload gets at least one core.

use crate::error::{ModelError, check_length, check_workloads};
use crate::nupoco::network::{Flow, NumaModel};
use crate::nupoco::numa::CoreMap;
use crate::units::{NodeIndex, Utilisation, WorkloadIndex};
use serde::Serialize;

/// NuUtil values this close are equal [readings N11].
pub const TIE: f64 = 1e-9;

/// What a workload is executing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// A parallel section: takes part in the greedy.
    #[default]
    Parallel,
    /// A serial section: gets a single core.
    Serial,
}

/// Which rule handed out the cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DopRule {
    /// Whole nodes, reservation then greedy.
    WholeNodes,
    /// Single cores round robin, because there are more workloads than nodes.
    RoundRobinCores,
}

/// The result of Algorithm 1.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DopPlan {
    /// Which rule applied.
    pub rule: DopRule,
    /// Cores of every node for every workload.
    pub cores: CoreMap,
    /// The parallel workload of each node; none when its cores are shared out or it has none left.
    pub owner: Vec<Option<WorkloadIndex>>,
    /// The greedy's steps, in order.
    pub trace: Vec<DopStep>,
}

/// One node handed out by the greedy.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DopStep {
    /// The node.
    pub node: NodeIndex,
    /// The workloads that could have had it.
    pub candidates: Vec<WorkloadIndex>,
    /// NuUtil expected with each of them.
    pub nu_util: Vec<Utilisation>,
    /// The workload that got it.
    pub choice: WorkloadIndex,
}

/// Runs Algorithm 1; `sections[w]` says what workload w of the model is executing.
///
/// # Errors
/// For another number of sections, and without a core for each workload.
pub fn plan(model: &NumaModel<'_>, sections: &[Section]) -> Result<DopPlan, ModelError> {
    let workloads = model.workloads();
    check_length("the list of sections", sections.len(), workloads)?;
    let machine = model.machine();
    let nodes = machine.nodes();
    let mut free: Vec<u32> = (0..nodes).map(|n| machine.cores(NodeIndex(n))).collect();
    let all: u64 = free.iter().map(|&cores| u64::from(cores)).sum();
    check_workloads(workloads, all, "cores")?;

    let mut cores = CoreMap::empty(nodes, workloads);
    place_serial(&mut cores, &mut free, sections);
    let parallel: Vec<WorkloadIndex> = (0..workloads)
        .filter(|&w| sections[w] == Section::Parallel)
        .map(WorkloadIndex)
        .collect();
    let usable: Vec<usize> = (0..nodes).filter(|&n| free[n] > 0).collect();

    let mut owner = vec![None; nodes];
    let mut trace = Vec::new();
    let rule = if parallel.len() > usable.len() {
        deal_cores(&mut cores, &free, &parallel);
        DopRule::RoundRobinCores
    } else {
        if !parallel.is_empty() {
            let mut greedy = Greedy::new(model, cores);
            let (reserved, open) = usable.split_at(parallel.len());
            for (&node, &workload) in reserved.iter().zip(&parallel) {
                greedy.give(node, workload, free[node]);
                owner[node] = Some(workload);
            }
            for &node in open {
                let step = greedy.step(node, free[node], &parallel);
                owner[node] = Some(step.choice);
                trace.push(step);
            }
            cores = greedy.cores;
        }
        DopRule::WholeNodes
    };
    Ok(DopPlan {
        rule,
        cores,
        owner,
        trace,
    })
}

/// One core each for the serial workloads, from the last node backwards [readings N12].
fn place_serial(cores: &mut CoreMap, free: &mut [u32], sections: &[Section]) {
    let mut node = free.len();
    for (workload, _) in sections
        .iter()
        .enumerate()
        .filter(|(_, s)| **s == Section::Serial)
    {
        while node > 0 && free[node - 1] == 0 {
            node -= 1;
        }
        if node > 0 {
            free[node - 1] -= 1;
            cores.set(NodeIndex(node - 1), WorkloadIndex(workload), 1);
        }
    }
}

/// Cores one by one, round robin [readings N13].
fn deal_cores(cores: &mut CoreMap, free: &[u32], parallel: &[WorkloadIndex]) {
    let mut turn = parallel.iter().cycle();
    for (node, &count) in free.iter().enumerate() {
        for &workload in turn.by_ref().take(count as usize) {
            let node = NodeIndex(node);
            cores.set(node, workload, cores.get(node, workload) + 1);
        }
    }
}

/// The allocation under construction: a candidate costs one node's rates, one evaluation and no memory.
struct Greedy<'a, 'm> {
    model: &'a NumaModel<'m>,
    cores: CoreMap,
    flow: Flow,
}

impl<'a, 'm> Greedy<'a, 'm> {
    fn new(model: &'a NumaModel<'m>, cores: CoreMap) -> Self {
        let mut flow = model.flow();
        for node in 0..model.machine().nodes() {
            model.set_node(&mut flow, node, cores.node(NodeIndex(node)));
        }
        Self { model, cores, flow }
    }

    fn give(&mut self, node: usize, workload: WorkloadIndex, cores: u32) {
        self.cores.set(NodeIndex(node), workload, cores);
        self.model
            .set_node(&mut self.flow, node, self.cores.node(NodeIndex(node)));
    }

    fn step(&mut self, node: usize, cores: u32, candidates: &[WorkloadIndex]) -> DopStep {
        let mut nu_util = Vec::with_capacity(candidates.len());
        let mut best = f64::NEG_INFINITY;
        for &candidate in candidates {
            self.give(node, candidate, cores);
            let value = self.model.nu_util(&mut self.flow, &self.cores);
            best = best.max(value);
            nu_util.push(Utilisation(value));
            self.cores.set(NodeIndex(node), candidate, 0);
        }
        let chosen = nu_util
            .iter()
            .position(|u| u.get() >= best - TIE)
            .unwrap_or(0);
        let choice = candidates[chosen];
        self.give(node, choice, cores);
        DopStep {
            node: NodeIndex(node),
            candidates: candidates.to_vec(),
            nu_util,
            choice,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nupoco::network::Averaging;
    use crate::nupoco::numa::{Locality, NumaMachine, NumaWorkload};
    use crate::units::{Cycles, RequestsPerCycle};
    use proptest::prelude::*;

    fn run(
        (nodes, cores): (usize, u32),
        rates: &[f64],
        sections: &[Section],
    ) -> Result<DopPlan, ModelError> {
        let cycles = |value| Cycles::new(value).unwrap();
        let machine = NumaMachine::uniform(nodes, cores, cycles(20.0), cycles(10.0)).unwrap();
        let rates = rates
            .iter()
            .map(|&rate| RequestsPerCycle::new(rate).unwrap());
        let workloads: Vec<NumaWorkload> = rates
            .map(|rate| NumaWorkload {
                requests: rate,
                stalling_reads: rate,
                locality: Locality::Interleaved,
            })
            .collect();
        let model = NumaModel::new(&machine, &workloads, Averaging::default()).unwrap();
        plan(&model, sections)
    }

    use Section::{Parallel, Serial};
    #[test]
    fn equal_workloads_tie_and_the_first_one_wins() {
        let plan = run((4, 4), &[0.0, 0.0], &[Parallel; 2]).unwrap();
        let owners: Vec<usize> = plan.owner.iter().map(|o| o.unwrap().0).collect();
        assert_eq!(owners, [0, 1, 0, 0]);
    }

    #[test]
    fn a_serial_workload_gets_one_core_of_the_last_node() {
        let sections = [Parallel, Serial, Parallel];
        let plan = run((4, 4), &[0.0, 0.01, 0.01], &sections).unwrap();
        assert_eq!(plan.cores.total(WorkloadIndex(1)), 1);
        assert_eq!(plan.cores.get(NodeIndex(3), WorkloadIndex(1)), 1);
        assert_eq!(plan.owner[0], Some(WorkloadIndex(0)));
        assert_eq!(plan.owner[1], Some(WorkloadIndex(2)));
        let last = plan.owner[3].unwrap();
        assert_eq!(plan.cores.get(NodeIndex(3), last), 3);
        assert_eq!(
            plan.trace[0].candidates,
            [WorkloadIndex(0), WorkloadIndex(2)]
        );
    }

    #[test]
    fn cores_go_to_serial_workloads_from_the_last_node_or_round_robin() {
        for (nodes, cores, sections, expected) in [
            (
                3,
                2,
                &[Serial, Serial, Serial, Parallel][..],
                &[&[0, 0, 0, 2][..], &[0, 0, 1, 1], &[1, 1, 0, 0]][..],
            ),
            (2, 4, &[Parallel; 3], &[&[2, 1, 1], &[1, 2, 1]]),
            // Without a parallel section the other cores stay free.
            (2, 4, &[Serial], &[&[0], &[1]]),
        ] {
            let plan = run((nodes, cores), &vec![0.01; sections.len()], sections).unwrap();
            for (node, &held) in expected.iter().enumerate() {
                assert_eq!(plan.cores.node(NodeIndex(node)), held);
            }
            let dealt = sections.iter().filter(|s| **s == Parallel).count() > nodes;
            assert_eq!(plan.rule == DopRule::RoundRobinCores, dealt);
            if !sections.contains(&Parallel) {
                assert_eq!(plan.owner, vec![None; nodes]);
            }
        }
    }

    #[test]
    fn more_workloads_than_cores_are_refused() {
        let error = run((1, 2), &[0.0; 3], &[Parallel; 3]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "3 workloads for 2 cores: share cores between workloads first"
        );
    }

    proptest! {
        #[test]
        fn every_core_is_assigned_once_and_every_application_gets_one(
            nodes in 1usize..9, cores in 1u32..9,
            rates in prop::collection::vec(0.0..0.05f64, 1..6), serial in any::<u8>(),
        ) {
            let sections: Vec<Section> = (0..rates.len())
                .map(|w| if serial >> w & 1 == 1 { Serial } else { Parallel })
                .collect();
            let all = nodes as u64 * u64::from(cores);
            match run((nodes, cores), &rates, &sections) {
                Err(_) => prop_assert!((rates.len() as u64) > all),
                Ok(plan) => {
                    let mut sum = 0;
                    for (w, section) in sections.iter().enumerate() {
                        let total = plan.cores.total(WorkloadIndex(w));
                        prop_assert!(total >= 1);
                        if *section == Serial {
                            prop_assert_eq!(total, 1);
                        }
                        sum += total;
                    }
                    if sections.contains(&Parallel) {
                        prop_assert_eq!(sum, all);
                    }
                    prop_assert_eq!(&run((nodes, cores), &rates, &sections).unwrap(), &plan);
                }
            }
        }

        #[test]
        fn every_choice_has_the_highest_nu_util(
            nodes in 2usize..9, rates in prop::collection::vec(0.0..0.05f64, 1..4),
        ) {
            let plan = run((nodes, 8), &rates, &vec![Parallel; rates.len()]).unwrap();
            for step in &plan.trace {
                let best = step.nu_util.iter().map(|u| u.get()).fold(0.0, f64::max);
                prop_assert!(step.nu_util[step.choice.0].get() >= best - TIE);
            }
        }
    }
}
