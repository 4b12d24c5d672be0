//! The cost of a placement, so that two can be compared.
//!
//! MAPPER places where the least contention is when no strategy fits, and keeps the differences between
//! successive placements small [MAPPER §3.4]. The unit is a *point*: a thousandth of the speed of one
//! thread. The weights are rough losses of a thread after the papers' measurements: gathering threads that
//! share much brings 1.5 to 2.4 times their speed [SAM-MPH §3.1], two busy threads on a core run at about
//! 60 % each, streaming threads divide the bandwidth of a controller. They rank placements only.
//!
//! Invariant: the cost depends on wishes and positions only, so that noise does not change it.

use crate::demand::{Demand, Siblings, Wish};
use crate::layout::UNOWNED;
use crate::machine_view::MachineView;

/// For each thread of a demand whose partners are all in other sockets.
const fn apart(wish: Wish) -> u64 {
    match wish {
        Wish::Paired => 500,
        Wish::Together => 400,
        Wish::Near => 150,
        Wish::NearAndCool => 80,
        Wish::Compact => 20,
        Wish::OwnCores => 10,
        Wish::Spread => 0,
    }
}

/// For each thread that is not on the node that the allocation decided: more than everything else.
const WRONG_NODE: u64 = 10_000;
/// For each streaming thread whose node is full of streaming threads.
const STREAMS: u64 = 300;
/// For each thread whose domain is full of threads of others.
const CROWD: u64 = 30;
/// For each thread that is not the first on its core.
const SIBLING: u64 = 120;
/// The same if threads that share much are paired on purpose.
const PAIRED: u64 = 20;
/// For each core that demands share.
const SHARED_CORE: u64 = 40;
/// For each hot thread beside another.
const HOT_SIBLING: u64 = 180;
/// For each step of speed that a core is below the fastest, for threads that need the core.
const SLOW: u64 = 50;

/// The points that a placement costs.
pub(crate) fn points(view: &MachineView<'_>, demands: &[Demand<'_>]) -> u64 {
    let layout = view.layout;
    let mut total = 0;
    let mut on_socket = vec![0u64; layout.sockets as usize];
    for (demand, id) in demands.iter().zip(0..) {
        let counts = view.counts(id);
        let count: u64 = counts.iter().map(|c| u64::from(*c)).sum();
        if count == 0 {
            continue;
        }
        let weight = apart(demand.wish);
        let mut together = 0;
        for (r, domain) in layout.domains.iter().enumerate() {
            let here = u64::from(counts[r]);
            if here == 0 {
                continue;
            }
            together += here * here;
            on_socket[domain.socket as usize] += here;
            let others = u64::from(domain.threads - view.domains[r].free) - here;
            total += CROWD * here * others / u64::from(domain.threads);
            if demand.nature.streams {
                let node = domain.node_index as usize;
                total += STREAMS * here * u64::from(view.node_streams[node])
                    / u64::from(layout.node_threads[node]);
            }
        }
        for (r, domain) in layout.domains.iter().enumerate() {
            if counts[r] > 0 {
                let here = std::mem::take(&mut on_socket[domain.socket as usize]);
                together += here * here;
            }
        }
        // Half for leaving the domain, half for leaving the socket.
        total += weight * (2 * count * count - together) / (2 * count);
        for share in demand.by_node.unwrap_or_default() {
            let here = view.on_node(id, share.node);
            total += WRONG_NODE * u64::from(share.cpus.saturating_sub(here));
        }
    }
    if demands.iter().any(|u| u.siblings == Siblings::Ignored) {
        return total;
    }
    for (core, state) in layout.cores.iter().zip(&view.cores) {
        if state.used > 1 {
            let first = core
                .range()
                .map(|s| view.owner[s as usize])
                .find(|o| *o != UNOWNED);
            let paired =
                first.is_some_and(|o| state.owner == o && demands[o as usize].wish == Wish::Paired);
            let beside = u64::from(state.used - 1);
            total += beside * if paired { PAIRED } else { SIBLING };
            if first != Some(state.owner) {
                total += SHARED_CORE;
            }
            if state.hot > 1 {
                total += HOT_SIBLING * u64::from(state.hot);
            }
        }
        if core.slowness > 0 {
            let needs = |o: &u32| *o != UNOWNED && demands[*o as usize].wish != Wish::Spread;
            let threads = core
                .range()
                .map(|s| view.owner[s as usize])
                .filter(needs)
                .count();
            total += SLOW * u64::from(core.slowness.min(2)) * threads as u64;
        }
    }
    total
}
