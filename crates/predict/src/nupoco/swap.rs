//! Algorithm 2: exchange cores between a busy and an idle node [NuPoCo §5.3].
//!
//! Threads of a memory-hungry workload that fill a node fight for its last-level cache; beside
//! threads of another workload they leave each other room. The algorithm sorts the nodes by their
//! accesses to the last-level cache since the last run, pairs the busiest with the idlest, the next
//! with the next, and for each pair whose accesses differ by more than a factor swaps a few cores
//! between the workload with the highest miss rate of the busy node and the one with the fewest
//! accesses of the idle node.
//!
//! Readings [readings N14]: nodes with equal accesses in order of their number; the ratio must be
//! strictly above the threshold, and is infinite when only the idle node has no access at all; a
//! pair whose chosen workloads are the same is left alone; a swap moves no more cores than either
//! side has. Of equal workloads the one that sorts first is taken.
//!
//! Invariants: a node takes part in at most one swap; every swap moves the same number of cores
//! both ways, so no workload gains or loses a core.

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

/// What to exchange.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SwapPlan<N, W> {
    /// The nodes from busiest to idlest.
    pub order: Vec<N>,
    /// The swaps, from the most to the least unequal pair.
    pub swaps: Vec<Swap<N, W>>,
}

/// `cores` of `busy_workload` leave `busy` for `idle`, as many of `idle_workload` go the other way.
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
#[must_use]
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

    fn node(
        number: u32,
        accesses: f64,
        residents: &[(&'static str, u32, f64, f64)],
    ) -> NodePressure<u32, &'static str> {
        NodePressure {
            node: number,
            llc_accesses: accesses,
            residents: residents
                .iter()
                .map(|&(workload, cores, miss_rate, llc_accesses)| Resident {
                    workload,
                    cores,
                    miss_rate,
                    llc_accesses,
                })
                .collect(),
        }
    }

    fn swaps(nodes: &[NodePressure<u32, &'static str>]) -> Vec<Swap<u32, &'static str>> {
        plan(nodes, SwapRule::default()).swaps
    }

    #[test]
    fn a_ratio_of_exactly_the_threshold_is_left_alone() {
        let idle = node(1, 10.0, &[("e", 8, 0.1, 10.0)]);
        assert!(swaps(&[node(0, 20.0, &[("f", 8, 0.5, 20.0)]), idle.clone()]).is_empty());
        assert_eq!(
            swaps(&[node(0, 20.1, &[("f", 8, 0.5, 20.1)]), idle]).len(),
            1
        );
    }

    #[test]
    fn an_idle_node_without_accesses_swaps_with_any_busy_one() {
        let idle = node(1, 0.0, &[("e", 8, 0.1, 0.0)]);
        assert_eq!(
            swaps(&[node(0, 1.0, &[("f", 8, 0.5, 1.0)]), idle.clone()]).len(),
            1
        );
        assert!(swaps(&[node(0, 0.0, &[("f", 8, 0.5, 0.0)]), idle]).is_empty());
    }

    #[test]
    fn the_same_workload_on_both_sides_is_left_alone() {
        let nodes = [
            node(0, 9.0, &[("f", 8, 0.5, 9.0)]),
            node(1, 1.0, &[("f", 8, 0.5, 1.0)]),
        ];
        assert!(swaps(&nodes).is_empty());
    }

    #[test]
    fn the_middle_of_an_odd_list_has_no_partner() {
        let nodes = [
            node(0, 9.0, &[("f", 8, 0.5, 9.0)]),
            node(1, 5.0, &[("g", 8, 0.5, 5.0)]),
            node(2, 1.0, &[("e", 8, 0.1, 1.0)]),
        ];
        let plan = plan(&nodes, SwapRule::default());
        assert_eq!(plan.order, [0, 1, 2]);
        assert_eq!(plan.swaps.len(), 1);
        assert_eq!((plan.swaps[0].busy, plan.swaps[0].idle), (0, 2));
    }

    #[test]
    fn a_side_with_one_core_swaps_one() {
        let nodes = [
            node(0, 9.0, &[("f", 1, 0.5, 9.0)]),
            node(1, 1.0, &[("e", 8, 0.1, 1.0)]),
        ];
        assert_eq!(swaps(&nodes)[0].cores, 1);
    }

    #[test]
    fn equal_workloads_are_taken_in_their_order() {
        let nodes = [
            node(0, 9.0, &[("g", 4, 0.5, 5.0), ("f", 4, 0.5, 4.0)]),
            node(1, 2.0, &[("e", 4, 0.1, 1.0), ("d", 4, 0.1, 1.0)]),
        ];
        let swap = &swaps(&nodes)[0];
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
