//! Placing where some applications may use only some CPUs.
//!
//! A policy places counts on CPUs that every application may use, so those that may use only some are placed
//! first. An [`Assignment`] of their counts reserves CPUs for each: those that it holds, then free ones,
//! then others. One that has its count stays; one that lacks CPUs is placed by the policy, alone, on its
//! reserved and the free CPUs of its set. The policy then places the others on the rest of the machine;
//! counts by node that the allocation decided hold if the rest has them.
//!
//! Invariants: every application lies within what it may use, whenever the counts fit at all; when nothing
//! changed, none moves.

use crate::policy::PlacementPolicy;
use mapper_model::{
    Allocation, AppId, AppPlacement, AppView, Assignment, CpuSet, NodeId, Placement, Share,
    Sharing, Snapshot, Strategy,
};
use std::collections::{BTreeMap, BTreeSet};

/// Places every share by a policy, within what its application may use.
pub fn place(
    policy: &dyn PlacementPolicy,
    snapshot: &Snapshot<'_>,
    allocation: &Allocation,
) -> Placement {
    let confined: Vec<Confined<'_>> = snapshot
        .apps
        .iter()
        .zip(&allocation.shares)
        .filter(|(app, share)| app.app == share.app && share.sharing == Sharing::Exclusive)
        .filter_map(|(app, share)| {
            Some(Confined {
                app,
                share,
                allowed: app.allowed?,
            })
        })
        .collect();
    if confined.is_empty() {
        return policy.place(snapshot, allocation);
    }
    let mut placed = place_confined(policy, snapshot, allocation, &confined);
    let mut rest = snapshot.usable.clone();
    for place in &placed {
        rest.remove_all(&place.cpus);
    }
    let placed_apps: BTreeSet<AppId> = confined.iter().map(|c| c.app.app).collect();
    let is_placed = |app| placed_apps.contains(&app);
    let others = snapshot.apps.iter().filter(|app| !is_placed(app.app));
    let apps: Vec<AppView<'_>> = others.copied().collect();
    let shares = allocation.shares.iter().filter(|s| !is_placed(s.app));
    let mut remaining = Allocation {
        shares: shares.cloned().collect(),
        ..without_shares(allocation)
    };
    if !nodes_suffice(snapshot, &rest, &remaining) {
        remaining.shares.iter_mut().for_each(|s| s.by_node = None);
    }
    if !apps.is_empty() {
        let snapshot_of_rest = Snapshot {
            usable: &rest,
            apps: &apps,
            ..*snapshot
        };
        placed.extend(policy.place(&snapshot_of_rest, &remaining).apps);
    }
    let shares = allocation.shares.iter().zip(0..);
    let order: BTreeMap<AppId, usize> = shares.map(|(share, at)| (share.app, at)).collect();
    placed.sort_by_key(|place| order.get(&place.app));
    Placement { apps: placed }
}

struct Confined<'a> {
    app: &'a AppView<'a>,
    share: &'a Share,
    allowed: &'a CpuSet,
}

fn place_confined(
    policy: &dyn PlacementPolicy,
    snapshot: &Snapshot<'_>,
    allocation: &Allocation,
    confined: &[Confined<'_>],
) -> Vec<AppPlacement> {
    let mut unheld = snapshot.usable.clone();
    for app in snapshot.apps {
        unheld.remove_all(app.held);
    }
    let sets = confined.iter().map(|c| c.allowed).collect();
    let mut assignment = Assignment::new(snapshot.usable, sets);
    for (i, c) in confined.iter().enumerate() {
        assignment.keep(i, c.app.held, c.share.cpus);
    }
    for (i, c) in confined.iter().enumerate() {
        while assignment.given(i).len() < c.share.cpus && assignment.grow(i, &unheld).is_ok() {}
    }
    let mut given: Vec<CpuSet> = (0..confined.len())
        .map(|i| assignment.given(i).clone())
        .collect();
    let mut placed: Vec<AppPlacement> = Vec::with_capacity(confined.len());
    for (i, c) in confined.iter().enumerate() {
        let mut reserved = CpuSet::new();
        for (other, cpus) in given.iter().enumerate() {
            if other != i {
                reserved.insert_all(cpus);
            }
        }
        let mut kept = c.app.held.intersection(c.allowed);
        kept.remove_all(&reserved);
        let mut room = kept.clone();
        if kept.len() < c.share.cpus {
            room.insert_all(&given[i]);
            room.insert_all(&unheld.intersection(c.allowed));
            room.remove_all(&reserved);
        }
        let share = Share {
            by_node: None,
            ..c.share.clone()
        };
        let alone = Allocation {
            shares: vec![share],
            ..without_shares(allocation)
        };
        let snapshot_of_room = Snapshot {
            usable: &room,
            apps: std::slice::from_ref(c.app),
            ..*snapshot
        };
        for place in policy.place(&snapshot_of_room, &alone).apps {
            given[i].clone_from(&place.cpus);
            // How the policy calls it depends on the room, which differs from decision to decision.
            placed.push(AppPlacement {
                strategy: Strategy::Allowed,
                ..place
            });
        }
    }
    placed
}

/// Whether what the allocation decided for each node is there.
fn nodes_suffice(snapshot: &Snapshot<'_>, rest: &CpuSet, allocation: &Allocation) -> bool {
    let decided = allocation.shares.iter().filter_map(|s| s.by_node.as_ref());
    let mut left: Vec<(NodeId, u32)> = (snapshot.topology.nodes().iter())
        .map(|node| (node.id, node.cpus.overlap(rest)))
        .collect();
    decided.flatten().all(|part| {
        let node = left.iter_mut().find(|(id, _)| *id == part.node);
        node.is_some_and(|(_, cpus)| {
            let suffices = part.cpus <= *cpus;
            *cpus = cpus.saturating_sub(part.cpus);
            suffices
        })
    })
}

fn without_shares(allocation: &Allocation) -> Allocation {
    Allocation {
        shares: Vec::new(),
        transfers: Vec::new(),
        free: allocation.free,
        placing: allocation.placing,
    }
}
