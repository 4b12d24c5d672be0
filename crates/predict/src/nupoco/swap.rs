//! Algorithm 2: exchange cores between a busy and an idle node [NuPoCo §5.3].
//!
//! Threads of a memory-hungry workload that fill a node compete for its last-level cache. The nodes are sorted by their
//! accesses to the last-level cache since the last run; the busiest is paired with the idlest, the next with the next.
//! Each pair whose accesses differ by more than a factor swaps a few cores between the workload with the highest miss
//! rate of the busy node and the one with the fewest accesses of the idle node.
//!
//! Readings [readings N14]: nodes with equal accesses in order of their number; the ratio must be
//! strictly above the threshold, and is infinite when only the idle node has no access; a pair whose
//! chosen workloads are the same does not swap; a swap moves no more cores than either side has.
//!
//! Invariants: a node takes part in at most one swap; no workload gains or loses a core.

use serde::Serialize;

/// A node as last observed.
#[derive(Clone, PartialEq, Debug)]
pub struct NodePressure<N, W> {
    /// The node.
    pub node: N,
    /// Accesses to its last-level cache since the last run.
    pub llc_accesses: f64,
    /// The workloads that hold cores on it.
    pub residents: Vec<Resident<W>>,
}

/// A workload on a node.
#[derive(Clone, PartialEq, Debug)]
pub struct Resident<W> {
    /// The workload.
    pub workload: W,
    /// Cores that it holds on this node.
    pub cores: u32,
    /// Its last-level cache miss rate as profiled.
    pub miss_rate: f64,
    /// Its accesses to the last-level cache of this node since the last run.
    pub llc_accesses: f64,
}

/// When to swap, and how much.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SwapRule {
    /// The busy node must have more than this many times the accesses of the idle one.
    pub threshold: f64,
    /// Cores to exchange.
    pub cores: u32,
}

impl Default for SwapRule {
    /// The paper's: a factor of 2, two cores.
    fn default() -> Self {
        Self {
            threshold: 2.0,
            cores: 2,
        }
    }
}

/// The result of one run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SwapPlan<N, W> {
    /// The nodes from busiest to idlest.
    pub order: Vec<N>,
    /// The swaps, from the most to the least unequal pair.
    pub swaps: Vec<Swap<N, W>>,
}

/// `cores` of `busy_workload` move from `busy` to `idle`, as many of `idle_workload` the other way.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Swap<N, W> {
    /// The node with many accesses.
    pub busy: N,
    /// The node with few.
    pub idle: N,
    /// The workload of the busy node with the highest miss rate.
    pub busy_workload: W,
    /// The workload of the idle node with the fewest accesses.
    pub idle_workload: W,
    /// Cores exchanged.
    pub cores: u32,
}

/// Runs Algorithm 2 once.
pub fn plan<N: Copy + Ord, W: Clone + Ord>(
    nodes: &[NodePressure<N, W>],
    rule: SwapRule,
) -> SwapPlan<N, W> {
    let mut list: Vec<&NodePressure<N, W>> = nodes.iter().collect();
    list.sort_by(|a, b| {
        b.llc_accesses
            .total_cmp(&a.llc_accesses)
            .then_with(|| a.node.cmp(&b.node))
    });
    let order = list.iter().map(|n| n.node).collect();

    let pairs = list.len() / 2;
    let (front, back) = list.split_at(pairs);
    let swaps = front
        .iter()
        .zip(back.iter().rev())
        .filter_map(|(busy, idle)| swap_between(busy, idle, rule))
        .collect();
    SwapPlan { order, swaps }
}

fn swap_between<N: Copy, W: Clone + Ord>(
    busy: &NodePressure<N, W>,
    idle: &NodePressure<N, W>,
    rule: SwapRule,
) -> Option<Swap<N, W>> {
    if !exceeds(busy.llc_accesses, idle.llc_accesses, rule.threshold) {
        return None;
    }
    let leaves = first_least(&busy.residents, |r| -r.miss_rate)?;
    let comes = first_least(&idle.residents, |r| r.llc_accesses)?;
    let cores = rule.cores.min(leaves.cores).min(comes.cores);
    (leaves.workload != comes.workload && cores > 0).then(|| Swap {
        busy: busy.node,
        idle: idle.node,
        busy_workload: leaves.workload.clone(),
        idle_workload: comes.workload.clone(),
        cores,
    })
}

fn exceeds(busy: f64, idle: f64, threshold: f64) -> bool {
    if idle > 0.0 {
        busy / idle > threshold
    } else {
        busy > 0.0
    }
}

/// The resident with the least score; of equals the one whose workload sorts first.
fn first_least<W: Ord>(
    residents: &[Resident<W>],
    score: impl Fn(&Resident<W>) -> f64,
) -> Option<&Resident<W>> {
    residents.iter().min_by(|a, b| {
        score(a)
            .total_cmp(&score(b))
            .then_with(|| a.workload.cmp(&b.workload))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Entry = (&'static str, u32, f64, f64);

    /// Nodes of these accesses and residents (workload, cores, miss rate, accesses).
    fn run(nodes: &[(f64, &[Entry])]) -> SwapPlan<usize, &'static str> {
        let resident = |&(workload, cores, miss_rate, llc_accesses): &Entry| Resident {
            workload,
            cores,
            miss_rate,
            llc_accesses,
        };
        let nodes: Vec<_> = nodes
            .iter()
            .enumerate()
            .map(|(node, &(llc_accesses, residents))| NodePressure {
                node,
                llc_accesses,
                residents: residents.iter().map(resident).collect(),
            })
            .collect();
        plan(&nodes, SwapRule::default())
    }

    #[test]
    fn only_a_ratio_above_the_threshold_swaps() {
        for (busy, idle, swaps) in [
            (20.0, 10.0, 0),
            (20.1, 10.0, 1),
            // An idle node without accesses swaps with any busy one.
            (1.0, 0.0, 1),
            (0.0, 0.0, 0),
        ] {
            let plan = run(&[
                (busy, &[("f", 8, 0.5, busy)]),
                (idle, &[("e", 8, 0.1, idle)]),
            ]);
            assert_eq!(plan.swaps.len(), swaps, "{busy} to {idle}");
        }
    }

    #[test]
    fn the_same_workload_on_both_sides_is_left_alone() {
        let f = ("f", 8, 0.5, 9.0);
        assert!(run(&[(9.0, &[f]), (1.0, &[f])]).swaps.is_empty());
    }

    #[test]
    fn the_middle_of_an_odd_list_has_no_partner() {
        let plan = run(&[
            (9.0, &[("f", 8, 0.5, 9.0)]),
            (5.0, &[("g", 8, 0.5, 5.0)]),
            (1.0, &[("e", 8, 0.1, 1.0)]),
        ]);
        assert_eq!(plan.order, [0, 1, 2]);
        assert_eq!(plan.swaps.len(), 1);
        assert_eq!((plan.swaps[0].busy, plan.swaps[0].idle), (0, 2));
    }

    #[test]
    fn a_side_with_one_core_swaps_one() {
        let plan = run(&[(9.0, &[("f", 1, 0.5, 9.0)]), (1.0, &[("e", 8, 0.1, 1.0)])]);
        assert_eq!(plan.swaps[0].cores, 1);
    }

    #[test]
    fn equal_workloads_are_taken_in_their_order() {
        let plan = run(&[
            (9.0, &[("g", 4, 0.5, 5.0), ("f", 4, 0.5, 4.0)]),
            (2.0, &[("e", 4, 0.1, 1.0), ("d", 4, 0.1, 1.0)]),
        ]);
        let swap = &plan.swaps[0];
        assert_eq!((swap.busy_workload, swap.idle_workload), ("f", "d"));
    }

    proptest! {
        #[test]
        fn a_node_takes_part_once_and_no_application_gains_a_core(
            raw in prop::collection::vec(
                (0.0..100.0f64, prop::collection::vec((0u8..5, 0u32..9, 0.0..1.0f64, 0.0..50.0f64), 0..4)),
                0..10,
            ),
        ) {
            let nodes: Vec<NodePressure<usize, u8>> = raw.into_iter().enumerate()
                .map(|(node, (llc_accesses, residents))| NodePressure {
                    node,
                    llc_accesses,
                    residents: residents.into_iter()
                        .map(|(workload, cores, miss_rate, llc_accesses)| Resident {
                            workload, cores, miss_rate, llc_accesses,
                        })
                        .collect(),
                })
                .collect();
            let plan = plan(&nodes, SwapRule::default());
            prop_assert_eq!(plan.order.len(), nodes.len());
            let mut seen = vec![false; nodes.len()];
            for swap in &plan.swaps {
                for node in [swap.busy, swap.idle] {
                    prop_assert!(!seen[node]);
                    seen[node] = true;
                }
                prop_assert!(swap.cores >= 1 && swap.cores <= 2);
                prop_assert!(swap.busy_workload != swap.idle_workload);
                prop_assert!(nodes[swap.busy].llc_accesses > 2.0 * nodes[swap.idle].llc_accesses);
            }
        }
    }
}
