//! The nodes of applications whose threads wait for each other's data, as far as each fits into one. The
//! placement policies find them in time; an application that comes again is known here earlier.

use mapper_model::{AppView, CpuSet, NodeShare, Snapshot};

/// CPUs that share a last-level cache, where most are.
pub(crate) fn size(snapshot: &Snapshot<'_>) -> u32 {
    let caches = snapshot.topology.caches().iter();
    let usable = caches.map(|cache| cache.overlap(snapshot.usable));
    usable.max().unwrap_or(1).max(1)
}

/// The node for each application that belongs together, given its CPUs; those that are mostly on a node
/// already come first. None is put where there is no room.
pub(crate) fn nodes(snapshot: &Snapshot<'_>, wants: &[Option<u32>]) -> Vec<Option<Vec<NodeShare>>> {
    let nodes = snapshot.topology.nodes();
    let mut room: Vec<u32> = nodes
        .iter()
        .map(|node| node.cpus.overlap(snapshot.usable))
        .collect();
    let held_by_others = |app: &AppView<'_>, cpus: &CpuSet| -> u32 {
        let others = snapshot.apps.iter().filter(|a| a.app != app.app);
        others.map(|a| a.held.overlap(cpus)).sum()
    };
    let mut order: Vec<(u32, usize)> = wants
        .iter()
        .enumerate()
        .filter(|(_, want)| want.is_some())
        .map(|(place, _)| {
            let held = snapshot.apps[place].held;
            let most = nodes.iter().map(|n| n.cpus.overlap(held)).max();
            (most.unwrap_or(0), place)
        })
        .collect();
    order.sort_by_key(|&(most, place)| (std::cmp::Reverse(most), place));
    let mut shares = vec![None; wants.len()];
    for (_, place) in order {
        let (Some(want), app) = (wants[place], &snapshot.apps[place]) else {
            continue;
        };
        let best = (0..nodes.len())
            .filter(|&n| room[n] >= want)
            .max_by_key(|&n| {
                let here = nodes[n].cpus.overlap(app.held);
                let others = held_by_others(app, &nodes[n].cpus);
                (here, std::cmp::Reverse(others), std::cmp::Reverse(n))
            });
        if let Some(n) = best {
            room[n] -= want;
            shares[place] = Some(vec![NodeShare {
                node: nodes[n].id,
                cpus: want,
            }]);
        }
    }
    shares
}
