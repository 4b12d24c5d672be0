//! Where an application gives CPUs when its share shrinks [MAPPER §3.4].
//!
//! An application that wants to be together gives from the region where it has least, starting with
//! the socket where it has least; one that spreads gives from where it has most. A hot one first
//! gives the seats that are beside another hot thread.

use crate::board::Board;
use crate::layout::Seat;
use crate::seats::release_one;
use crate::unit::{Unit, Wish};
use mapper_model::NodeId;
use std::cmp::Reverse;

/// Releases seats until the unit has no more than it wants, on each node and in total.
pub(crate) fn trim(board: &mut Board<'_>, id: u32, unit: &Unit<'_>) {
    if let Some(shares) = unit.by_node {
        let layout = board.layout;
        for region in &layout.regions {
            let node = region.node;
            let wanted = shares.iter().find(|s| s.node == node).map_or(0, |s| s.cpus);
            let here: u32 = (layout.regions.iter().zip(board.counts(id)))
                .filter(|(r, _)| r.node == node)
                .map(|(_, count)| *count)
                .sum();
            trim_within(board, id, unit, here.saturating_sub(wanted), Some(node));
        }
    }
    let total: u32 = board.counts(id).iter().sum();
    trim_within(board, id, unit, total.saturating_sub(unit.want), None);
}

fn trim_within(
    board: &mut Board<'_>,
    id: u32,
    unit: &Unit<'_>,
    mut excess: u32,
    node: Option<NodeId>,
) {
    let layout = board.layout;
    while excess > 0 && unit.nature.hot {
        let Some(seat) = beside_hot(board, id, node) else {
            break;
        };
        board.release(seat);
        excess -= 1;
    }
    while excess > 0 {
        let counts = board.counts(id);
        let mut on_socket = vec![0; layout.sockets as usize];
        let mut on_node = vec![0; layout.node_seats.len()];
        for (region, count) in layout.regions.iter().zip(counts) {
            on_socket[region.socket as usize] += count;
            on_node[region.node_index as usize] += count;
        }
        let held = (0..counts.len())
            .filter(|&r| counts[r] > 0)
            .filter(|&r| node.is_none_or(|n| n == layout.regions[r].node));
        let place = |r: usize| &layout.regions[r];
        let from = if unit.wish == Wish::Spread {
            held.max_by_key(|&r| (on_node[place(r).node_index as usize], counts[r], r))
        } else {
            held.min_by_key(|&r| (on_socket[place(r).socket as usize], counts[r], Reverse(r)))
        };
        let Some(r) = from else {
            return;
        };
        // One that spreads looks again after each seat; the others leave the region as far as
        // needed.
        let part = if unit.wish == Wish::Spread {
            1
        } else {
            excess.min(counts[r])
        };
        let after = counts[r] - part;
        for _ in 0..part {
            release_one(board, id, unit, r as u32, after);
        }
        excess -= part;
    }
}

/// The last seat of the unit that shares a core with a hot thread.
fn beside_hot(board: &Board<'_>, id: u32, node: Option<NodeId>) -> Option<Seat> {
    let layout = board.layout;
    (0..layout.cores.len())
        .rev()
        .filter(|&core| board.cores[core].hot >= 2)
        .filter(|&core| {
            node.is_none_or(|n| layout.regions[layout.cores[core].region as usize].node == n)
        })
        .flat_map(|core| layout.cores[core].range().rev())
        .find(|&seat| board.owner[seat as usize] == id)
}
