//! CPUs in the order of their numbers: the plainest baseline.
//!
//! Every application keeps its CPUs; one with too many gives the highest, one with too few takes the lowest
//! free ones, in order of arrival, within the nodes that the allocation decided.

use crate::demand::{Demand, Demands};
use crate::layout::{Layout, UNOWNED};
use crate::machine_view::MachineView;
use crate::policy::PlacementPolicy;
use crate::result::to_placement;
use mapper_model::{Allocation, CpuId, NodeId, Placement, Snapshot, Strategy};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Linear;

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
            if view.total(id) < demand.want && node_has_room(&view, id, demand, node) {
                view.take(id, thread);
            }
        }
        for pass in [Pass::DecidedNodes, Pass::Anywhere] {
            for (demand, id) in demands.list.iter().zip(0..) {
                let mut need = demand.want - view.total(id);
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
        to_placement(&view, &demands, allocation, |_, _, demand| {
            demand.strategy(Strategy::Linear)
        })
    }
}

/// First those whose CPUs per node are decided, then everybody.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    DecidedNodes,
    Anywhere,
}

/// Whether the demand may have one more CPU on a node.
fn node_has_room(view: &MachineView<'_>, id: u32, demand: &Demand<'_>, node: NodeId) -> bool {
    let wanted = demand.wanted_on(node);
    wanted.is_none_or(|wanted| view.on_node(id, node) < wanted)
}
