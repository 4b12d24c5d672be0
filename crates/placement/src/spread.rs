//! Every application over all sockets, empty cores first: the placing of MAPPER's fair-share and
//! hill-climbing baselines [MAPPER §4.3].
//!
//! An application grows where it has least and gives where it has most
//! ([`residency::spread`](crate::residency::spread)); what it holds it keeps.

use crate::board::{Board, Nature};
use crate::layout::Layout;
use crate::place::{afresh, keep};
use crate::policy::MappingPolicy;
use crate::result::to_placement;
use crate::unit::{Unit, Units, Wish};
use mapper_model::{Allocation, Placement, Placing, Snapshot, Strategy};

/// The policy. See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread;

impl MappingPolicy for Spread {
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
    let units = Units::collect(&layout, snapshot, allocation, |_, share| Unit {
        wish: Wish::Spread,
        nature: Nature {
            hot: false,
            streams: true,
        },
        by_node: share.by_node.as_deref(),
        ..Unit::plain(share.cpus)
    });
    let order: Vec<usize> = (0..units.list.len()).collect();
    let natures = units.natures();
    let board = match allocation.placing {
        Placing::FairShareAfresh => afresh(&Board::new(&layout, &natures), &units, &order),
        Placing::FairShare | Placing::Policy => keep(&layout, &natures, &units, &order),
    };
    to_placement(&board, &units, allocation, strategy)
}

fn strategy(_: &Board<'_>, _: u32, unit: &Unit<'_>) -> Strategy {
    if unit.by_node.is_some() {
        Strategy::ByNode
    } else {
        Strategy::Spread
    }
}
