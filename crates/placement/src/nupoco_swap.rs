//! NuPoCo's thread placement: nodes with many cache accesses exchange CPUs with nodes with few
//! [NuPoCo §5.3, Algorithm 2].
//!
//! The allocation decides how many CPUs each application gets on each node; otherwise applications fill node
//! after node. Then Algorithm 2 ([`mapper_predict::nupoco::swap`]) exchanges two cores of the hungriest
//! application of the most accessed node with two of the most modest of the least accessed one.
//!
//! Readings. The paper runs one round every 50 ms and lets the next measurement judge it. Here the rounds
//! run within one decision, on the accesses expected after each exchange, until no pair differs by more
//! than the threshold or an exchange would not bring the two closer. The CPUs held are then the start for
//! the next decision while all counts stay the same. Misses stand for cache accesses, which are not
//! counted. An exchange moves whole cores, and waits until every application has been measured.
//!
//! Invariant: an exchange leaves every count and every node's free CPUs as they are.

use crate::config::PlacementConfig;
use crate::demand::{Demand, Demands};
use crate::layout::{Layout, UNOWNED};
use crate::machine_view::MachineView;
use crate::place::keep;
use crate::policy::PlacementPolicy;
use crate::result::to_placement;
use mapper_model::{Allocation, NodeId, NodeShare, Placement, Sharing, Snapshot, Strategy};
use mapper_predict::nupoco::swap::{self, NodePressure, Resident, SwapRule};

#[derive(Clone, Debug)]
pub(crate) struct NupocoSwap {
    rule: SwapRule,
}

impl NupocoSwap {
    /// The policy with a threshold and a number of cores.
    pub(crate) fn new(config: &PlacementConfig) -> Self {
        Self {
            rule: SwapRule {
                threshold: config.swap_threshold.max(1.0),
                cores: config.swap_cores,
            },
        }
    }
}

impl PlacementPolicy for NupocoSwap {
    fn name(&self) -> &'static str {
        "nupoco_swap"
    }

    fn place(&self, snapshot: &Snapshot<'_>, allocation: &Allocation) -> Placement {
        let layout = Layout::new(snapshot.topology, snapshot.usable);
        let exclusive = |s: &mapper_model::Share| s.sharing == Sharing::Exclusive;
        let mut demands = Demands::collect(&layout, snapshot, allocation, |_, share| Demand {
            by_node: share.by_node.as_deref(),
            ..Demand::plain(share.cpus)
        });
        let order: Vec<usize> = (0..demands.list.len()).collect();
        let natures = demands.natures();

        let mut held = vec![0; demands.list.len()];
        for &demand in demands.held.iter().filter(|u| **u != UNOWNED) {
            held[demand as usize] += 1;
        }
        let settled = demands.list.iter().zip(&held).all(|(u, h)| u.want == *h);
        let decided: Vec<Option<&[NodeShare]>> = demands.list.iter().map(|u| u.by_node).collect();
        if settled {
            demands.list.iter_mut().for_each(|u| u.by_node = None);
        }
        let base = keep(&layout, &natures, &demands, &order);
        let everybody =
            allocation.shares.iter().all(exclusive) && snapshot.apps.len() == demands.list.len();
        let rates = everybody.then(|| accesses_per_cpu(snapshot)).flatten();
        let counts = rates.and_then(|rates| self.exchange(&base, &rates));
        let Some(counts) = counts else {
            return to_placement(&base, &demands, allocation, |_, id, _| {
                strategy(decided[id as usize].is_some())
            });
        };
        for (demand, shares) in demands.list.iter_mut().zip(&counts) {
            demand.by_node = Some(shares);
        }
        demands.held.clone_from(&base.owner);
        let view = keep(&layout, &natures, &demands, &order);
        to_placement(&view, &demands, allocation, |_, id, _| {
            strategy(decided[id as usize].is_some())
        })
    }
}

const fn strategy(decided: bool) -> Strategy {
    if decided {
        Strategy::ByNode
    } else {
        Strategy::LeastContention
    }
}

/// Cache accesses per second and CPU of each application; `None` until all have been measured.
fn accesses_per_cpu(snapshot: &Snapshot<'_>) -> Option<Vec<f64>> {
    let rate = |view: &mapper_model::AppView<'_>| {
        let misses = view.profile.rates?.llc_misses_per_s?;
        let cpus = view.held.len();
        (misses.is_finite() && misses >= 0.0 && cpus > 0).then(|| misses / f64::from(cpus))
    };
    snapshot.apps.iter().map(rate).collect()
}

impl NupocoSwap {
    /// The CPUs of each demand on each node after all exchanges that pay; `None` if none does.
    fn exchange(&self, view: &MachineView<'_>, per_cpu: &[f64]) -> Option<Vec<Vec<NodeShare>>> {
        let layout = view.layout;
        let mut nodes: Vec<NodeId> = layout.domains.iter().map(|r| r.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        // CPUs by node and demand.
        let mut cpus = vec![vec![0u32; per_cpu.len()]; nodes.len()];
        for (r, domain) in layout.domains.iter().enumerate() {
            let node = nodes.binary_search(&domain.node).ok()?;
            for (demand, of_demand) in cpus[node].iter_mut().enumerate() {
                *of_demand += view.counts(demand as u32)[r];
            }
        }
        let rule = SwapRule {
            cores: self.rule.cores.saturating_mul(layout.widest_core),
            ..self.rule
        };
        let load = |of_node: &[u32]| -> f64 {
            let loads = of_node.iter().zip(per_cpu).map(|(c, a)| f64::from(*c) * a);
            loads.sum()
        };
        let mut exchanged = false;
        loop {
            let pressures: Vec<NodePressure<usize, usize>> = cpus
                .iter()
                .enumerate()
                .map(|(node, of_node)| NodePressure {
                    node,
                    llc_accesses: load(of_node),
                    residents: (0..per_cpu.len())
                        .filter(|&demand| of_node[demand] > 0)
                        .map(|demand| Resident {
                            workload: demand,
                            cores: of_node[demand],
                            miss_rate: per_cpu[demand],
                            llc_accesses: f64::from(of_node[demand]) * per_cpu[demand],
                        })
                        .collect(),
                })
                .collect();
            let mut closer = false;
            for s in swap::plan(&pressures, rule).swaps {
                let gap = pressures[s.busy].llc_accesses - pressures[s.idle].llc_accesses;
                let moved =
                    f64::from(s.cores) * (per_cpu[s.busy_workload] - per_cpu[s.idle_workload]);
                // Each exchange must bring the two nodes closer, which also makes the sum of the
                // squared loads fall, so that the rounds end.
                if (gap - 2.0 * moved).abs() < gap * (1.0 - 1e-9) {
                    cpus[s.busy][s.busy_workload] -= s.cores;
                    cpus[s.idle][s.busy_workload] += s.cores;
                    cpus[s.idle][s.idle_workload] -= s.cores;
                    cpus[s.busy][s.idle_workload] += s.cores;
                    closer = true;
                }
            }
            if !closer {
                break;
            }
            exchanged = true;
        }
        exchanged.then(|| {
            (0..per_cpu.len())
                .map(|demand| {
                    nodes
                        .iter()
                        .zip(&cpus)
                        .map(|(&node, of_node)| NodeShare {
                            node,
                            cpus: of_node[demand],
                        })
                        .collect()
                })
                .collect()
        })
    }
}
