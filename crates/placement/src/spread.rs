//! Every application over all sockets, empty cores first: MAPPER's fair-share and hill-climbing baselines
//! [MAPPER §4.3]. An application grows where it has least, gives where it has most
//! ([`residency::spread`](crate::residency::spread)), and keeps what it holds.

use crate::demand::{Demand, Demands, Wish};
use crate::layout::Layout;
use crate::machine_view::{MachineView, Nature};
use crate::place::{afresh, keep};
use crate::policy::PlacementPolicy;
use crate::result::to_placement;
use mapper_model::{Allocation, Placement, Placing, Snapshot, Strategy};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread;

impl PlacementPolicy for Spread {
    fn name(&self) -> &'static str {
        "spread"
    }

    fn place(&self, snapshot: &Snapshot<'_>, allocation: &Allocation) -> Placement {
        spread(snapshot, allocation)
    }
}

/// Places everybody so, whichever policy asks for it: [`Placing::FairShareAfresh`] as on an empty machine,
/// everything else beginning with what is held.
pub(crate) fn spread(snapshot: &Snapshot<'_>, allocation: &Allocation) -> Placement {
    let layout = Layout::new(snapshot.topology, snapshot.usable);
    let demands = Demands::collect(&layout, snapshot, allocation, |_, share| Demand {
        wish: Wish::Spread,
        nature: Nature {
            hot: false,
            streams: true,
        },
        by_node: share.by_node.as_deref(),
        ..Demand::plain(share.cpus)
    });
    let order: Vec<usize> = (0..demands.list.len()).collect();
    let natures = demands.natures();
    let view = match allocation.placing {
        Placing::FairShareAfresh => afresh(&MachineView::new(&layout, &natures), &demands, &order),
        Placing::FairShare | Placing::Policy => keep(&layout, &natures, &demands, &order),
    };
    to_placement(&view, &demands, allocation, |_, _, demand| {
        demand.strategy(Strategy::Spread)
    })
}
