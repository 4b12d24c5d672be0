//! CPUs in the order of their numbers, without a look at the machine: the plainest baseline.
//!
//! Every application keeps what it holds; who has too much gives its highest CPUs, who has too
//! little takes the lowest free ones, in order of arrival. CPUs per node that the allocation decided
//! are taken in order of their numbers within the node.

use crate::board::Board;
use crate::layout::{Layout, NOBODY};
use crate::policy::MappingPolicy;
use crate::result::to_placement;
use crate::unit::{Unit, Units};
use mapper_model::{Allocation, CpuId, NodeId, Placement, Snapshot, Strategy};

/// The policy. See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct Linear;

impl MappingPolicy for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn place(&self, snapshot: &Snapshot<'_>, allocation: &Allocation) -> Placement {
        let layout = Layout::new(snapshot.topology, snapshot.usable);
        let units = Units::collect(&layout, snapshot, allocation, |_, share| Unit {
            by_node: share.by_node.as_deref(),
            ..Unit::plain(share.cpus)
        });
        let natures = units.natures();
        let mut board = Board::new(&layout, &natures);
        let mut numbered: Vec<(CpuId, u32)> = layout.cpu.iter().copied().zip(0..).collect();
        numbered.sort_unstable();

        // Held seats in order of their numbers, so that the highest are given first.
        for &(_, seat) in &numbered {
            let id = units.held[seat as usize];
            if id == NOBODY {
                continue;
            }
            let unit = &units.list[id as usize];
            let node = layout.regions[layout.region_of(seat) as usize].node;
            if total(&board, id) < unit.want && node_has_room(&board, id, unit, node) {
                board.take(id, seat);
            }
        }
        for pass in [Pass::DecidedNodes, Pass::Anywhere] {
            for (unit, id) in units.list.iter().zip(0..) {
                let mut need = unit.want - total(&board, id);
                for &(_, seat) in &numbered {
                    if need == 0 {
                        break;
                    }
                    let node = layout.regions[layout.region_of(seat) as usize].node;
                    if board.owner[seat as usize] == NOBODY
                        && (pass == Pass::Anywhere
                            || (unit.by_node.is_some() && node_has_room(&board, id, unit, node)))
                    {
                        board.take(id, seat);
                        need -= 1;
                    }
                }
            }
        }
        to_placement(&board, &units, allocation, strategy)
    }
}

/// First those whose CPUs per node are decided, then everybody.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    DecidedNodes,
    Anywhere,
}

fn total(board: &Board<'_>, id: u32) -> u32 {
    board.counts(id).iter().sum()
}

/// Whether the unit may have one more CPU on a node.
fn node_has_room(board: &Board<'_>, id: u32, unit: &Unit<'_>, node: NodeId) -> bool {
    let Some(shares) = unit.by_node else {
        return true;
    };
    let wanted = shares.iter().find(|s| s.node == node).map_or(0, |s| s.cpus);
    let regions = board.layout.regions.iter().zip(board.counts(id));
    let here: u32 = regions
        .filter(|(region, _)| region.node == node)
        .map(|(_, count)| *count)
        .sum();
    here < wanted
}

fn strategy(_: &Board<'_>, _: u32, unit: &Unit<'_>) -> Strategy {
    if unit.by_node.is_some() {
        Strategy::ByNode
    } else {
        Strategy::Linear
    }
}
