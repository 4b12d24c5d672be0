//! Where an application gives CPUs when its share shrinks [MAPPER §3.4].
//!
//! One that wants to be together gives from the domain where it has least, in the socket where it has least;
//! one that spreads gives from where it has most. A hot one first gives threads beside another hot thread.

use crate::demand::{Demand, Wish};
use crate::free_cpus::release_one;
use crate::layout::ThreadIndex;
use crate::machine_view::MachineView;
use mapper_model::NodeId;
use std::cmp::Reverse;

/// Releases threads until the demand has no more than it wants, on each node and in total.
pub(crate) fn trim(view: &mut MachineView<'_>, id: u32, demand: &Demand<'_>) {
    let layout = view.layout;
    for node in layout.domains.iter().map(|domain| domain.node) {
        if let Some(wanted) = demand.wanted_on(node) {
            let excess = view.on_node(id, node).saturating_sub(wanted);
            trim_within(view, id, demand, excess, Some(node));
        }
    }
    let excess = view.total(id).saturating_sub(demand.want);
    trim_within(view, id, demand, excess, None);
}

fn trim_within(
    view: &mut MachineView<'_>,
    id: u32,
    demand: &Demand<'_>,
    mut excess: u32,
    node: Option<NodeId>,
) {
    let layout = view.layout;
    while excess > 0 && demand.nature.hot {
        let Some(thread) = beside_hot(view, id, node) else {
            break;
        };
        view.release(thread);
        excess -= 1;
    }
    while excess > 0 {
        let counts = view.counts(id);
        let mut on_socket = vec![0; layout.sockets as usize];
        let mut on_node = vec![0; layout.node_threads.len()];
        for (domain, count) in layout.domains.iter().zip(counts) {
            on_socket[domain.socket as usize] += count;
            on_node[domain.node_index as usize] += count;
        }
        let held = (0..counts.len())
            .filter(|&r| counts[r] > 0)
            .filter(|&r| node.is_none_or(|n| n == layout.domains[r].node));
        let place = |r: usize| &layout.domains[r];
        let from = if demand.wish == Wish::Spread {
            held.max_by_key(|&r| (on_node[place(r).node_index as usize], counts[r], r))
        } else {
            held.min_by_key(|&r| (on_socket[place(r).socket as usize], counts[r], Reverse(r)))
        };
        let Some(r) = from else {
            return;
        };
        // One that spreads chooses anew after each thread; the others leave the domain as far as needed.
        let part = if demand.wish == Wish::Spread {
            1
        } else {
            excess.min(counts[r])
        };
        let after = counts[r] - part;
        for _ in 0..part {
            release_one(view, id, demand, r as u32, after);
        }
        excess -= part;
    }
}

/// The last thread of the demand that shares a core with a hot thread.
fn beside_hot(view: &MachineView<'_>, id: u32, node: Option<NodeId>) -> Option<ThreadIndex> {
    let layout = view.layout;
    (0..layout.cores.len())
        .rev()
        .filter(|&core| view.cores[core].hot >= 2)
        .filter(|&core| {
            node.is_none_or(|n| layout.domains[layout.cores[core].domain as usize].node == n)
        })
        .flat_map(|core| layout.cores[core].range().rev())
        .find(|&thread| view.owner[thread as usize] == id)
}
