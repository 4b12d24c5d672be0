//! CPUs in the order of their numbers, without a look at the machine: the plainest baseline.
//!
//! Every application keeps what it holds; who has too much gives its highest CPUs, who has too
//! little takes the lowest free ones, in order of arrival. CPUs per node that the allocation decided
//! are taken in order of their numbers within the node.

use crate::demand::{Demand, Demands};
use crate::layout::{Layout, UNOWNED};
use crate::machine_view::MachineView;
use crate::policy::PlacementPolicy;
use crate::result::to_placement;
use mapper_model::{Allocation, CpuId, NodeId, Placement, Snapshot, Strategy};

/// The policy. See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct Linear;

impl PlacementPolicy for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn place(&self, snapshot: &Snapshot<'_>, allocation: &Allocation) -> Placement {
        let layout = Layout::new(snapshot.topology, snapshot.usable);
        let demands = Demands::collect(&layout, snapshot, allocation, |_, share| Demand {
            by_node: share.by_node.as_deref(),
            ..Demand::plain(share.cpus)
        });
        let natures = demands.natures();
        let mut view = MachineView::new(&layout, &natures);
        let mut numbered: Vec<(CpuId, u32)> = layout.cpu.iter().copied().zip(0..).collect();
        numbered.sort_unstable();

        // Held threads in order of their numbers, so that the highest are given first.
        for &(_, thread) in &numbered {
            let id = demands.held[thread as usize];
            if id == UNOWNED {
                continue;
            }
            let demand = &demands.list[id as usize];
            let node = layout.domains[layout.domain_of(thread) as usize].node;
            if total(&view, id) < demand.want && node_has_room(&view, id, demand, node) {
                view.take(id, thread);
            }
        }
        for pass in [Pass::DecidedNodes, Pass::Anywhere] {
            for (demand, id) in demands.list.iter().zip(0..) {
                let mut need = demand.want - total(&view, id);
                for &(_, thread) in &numbered {
                    if need == 0 {
                        break;
                    }
                    let node = layout.domains[layout.domain_of(thread) as usize].node;
                    if view.owner[thread as usize] == UNOWNED
                        && (pass == Pass::Anywhere
                            || (demand.by_node.is_some() && node_has_room(&view, id, demand, node)))
                    {
                        view.take(id, thread);
                        need -= 1;
                    }
                }
            }
        }
        to_placement(&view, &demands, allocation, strategy)
    }
}

/// First those whose CPUs per node are decided, then everybody.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    DecidedNodes,
    Anywhere,
}

fn total(view: &MachineView<'_>, id: u32) -> u32 {
    view.counts(id).iter().sum()
}

/// Whether the demand may have one more CPU on a node.
fn node_has_room(view: &MachineView<'_>, id: u32, demand: &Demand<'_>, node: NodeId) -> bool {
    let Some(shares) = demand.by_node else {
        return true;
    };
    let wanted = shares.iter().find(|s| s.node == node).map_or(0, |s| s.cpus);
    let domains = view.layout.domains.iter().zip(view.counts(id));
    let here: u32 = domains
        .filter(|(domain, _)| domain.node == node)
        .map(|(_, count)| *count)
        .sum();
    here < wanted
}

fn strategy(_: &MachineView<'_>, _: u32, demand: &Demand<'_>) -> Strategy {
    if demand.by_node.is_some() {
        Strategy::ByNode
    } else {
        Strategy::Linear
    }
}
