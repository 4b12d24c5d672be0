//! Layouts of applications on a machine, as candidates for a search.

use crate::machine::Machine;
use mapper_model::{CpuId, CpuSet};

/// Gives each application its number of contexts.
pub(crate) type Layout = fn(&Machine, &[u32]) -> Vec<CpuSet>;

#[derive(Clone, Copy)]
enum Filling {
    /// Both contexts of a core before the next core.
    Pairs,
    /// All cores before second contexts.
    Cores,
}

/// The contexts of a socket in the order in which they are filled.
fn order(machine: &Machine, socket: u32, filling: Filling) -> Vec<CpuId> {
    let (cores, threads) = (machine.spec.cores_per_socket, machine.spec.threads_per_core);
    let place = |at: u32| match filling {
        Filling::Pairs => [socket, at / threads, at % threads],
        Filling::Cores => [socket, at % cores, at / cores],
    };
    let places = (0..cores * threads).map(place);
    places
        .filter_map(|place| machine.context_at(place))
        .collect()
}

fn orders(machine: &Machine, filling: Filling) -> Vec<Vec<CpuId>> {
    let order = |socket| order(machine, socket, filling);
    (0..machine.spec.sockets).map(order).collect()
}

/// Gives each application its number of the contexts in turn.
fn dealt(mut contexts: impl Iterator<Item = CpuId>, counts: &[u32]) -> Vec<CpuSet> {
    let mut set = |count: &u32| contexts.by_ref().take(*count as usize).collect();
    counts.iter().map(&mut set).collect()
}

/// All layouts of one application with this many threads: evenly over any number of sockets, in either filling.
pub(crate) fn alone(machine: &Machine, threads: u32) -> Vec<CpuSet> {
    let sockets = machine.spec.sockets;
    let per_socket = machine.contexts() / sockets;
    let threads = threads.min(machine.contexts());
    let mut layouts = Vec::new();
    for used in (1..=sockets).filter(|used| (*used..=used * per_socket).contains(&threads)) {
        for filling in [Filling::Pairs, Filling::Cores] {
            let on = |socket: u32| {
                let here = threads / used + u32::from(socket < threads % used);
                let contexts = order(machine, socket, filling).into_iter();
                contexts.take(here as usize)
            };
            let set: CpuSet = (0..used).flat_map(on).collect();
            if !layouts.contains(&set) {
                layouts.push(set);
            }
        }
    }
    layouts
}

/// Applications one after the other, socket by socket, in whole cores.
pub fn packed(machine: &Machine, counts: &[u32]) -> Vec<CpuSet> {
    let orders = orders(machine, Filling::Pairs);
    dealt(orders.into_iter().flatten(), counts)
}

/// Every application over all sockets, in whole cores where possible.
pub fn spread(machine: &Machine, counts: &[u32]) -> Vec<CpuSet> {
    let orders = orders(machine, Filling::Pairs);
    let width = machine.spec.threads_per_core as usize;
    let cores = machine.spec.cores_per_socket as usize;
    let core = |core: usize| {
        let orders = orders.iter();
        orders.flat_map(move |order| order[core * width..(core + 1) * width].iter().copied())
    };
    dealt((0..cores).flat_map(core), counts)
}

/// Every application over all sockets, first contexts of all cores before second ones: programs share cores rather
/// than have half as many.
pub fn interleaved(machine: &Machine, counts: &[u32]) -> Vec<CpuSet> {
    let orders = orders(machine, Filling::Cores);
    let per_socket = (machine.contexts() / machine.spec.sockets) as usize;
    let contexts = (0..per_socket).flat_map(|at| orders.iter().map(move |order| order[at]));
    dealt(contexts, counts)
}

/// Every way to divide `units` among `apps` so that each has at least one; with `slack` some may be left over.
pub(crate) fn divisions(units: u32, apps: usize, slack: bool) -> Vec<Vec<u32>> {
    if apps == 0 {
        let complete = units == 0 || slack;
        return Vec::from_iter(complete.then(Vec::new));
    }
    let most = units.saturating_sub(apps as u32 - 1);
    let least = if apps == 1 && !slack { most.max(1) } else { 1 };
    let with = |own| {
        let others = divisions(units - own, apps - 1, slack).into_iter();
        others.map(move |others| [vec![own], others].concat())
    };
    (least..=most).flat_map(with).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::hsw80;

    #[test]
    fn layouts_are_disjoint_and_of_the_requested_size() {
        for layout in [packed, spread, interleaved] {
            let sets = layout(&hsw80(), &[12, 30, 38]);
            let sizes: Vec<u32> = sets.iter().map(CpuSet::len).collect();
            assert_eq!(sizes, [12, 30, 38]);
            assert!(sets[0].is_disjoint(&sets[1]) && sets[1].is_disjoint(&sets[2]));
        }
    }

    #[test]
    fn one_application_is_tried_on_any_number_of_sockets() {
        let machine = hsw80();
        let layouts = alone(&machine, 20);
        assert!(layouts.iter().all(|set| set.len() == 20));
        let sockets = |set: &CpuSet| {
            let all = machine.topology().sockets();
            all.iter().filter(|s| !s.is_disjoint(set)).count()
        };
        for used in 1..=4 {
            assert!(layouts.iter().any(|set| sockets(set) == used), "{used}");
        }
    }

    #[test]
    fn divisions_are_complete() {
        for (units, apps, slack, count) in [(20, 2, false, 19), (10, 4, false, 84), (4, 2, true, 6)]
        {
            assert_eq!(divisions(units, apps, slack).len(), count);
        }
    }
}
