//! Ways to lay applications out on a machine, as candidates for a search.

use crate::machine::Machine;
use mapper_model::{CpuId, CpuSet};

/// How the contexts of a socket are filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filling {
    /// Both contexts of a core before the next core.
    Pairs,
    /// All cores before second contexts.
    Cores,
}

/// The contexts of a socket in the order in which they are filled.
fn order(machine: &Machine, socket: u32, filling: Filling) -> Vec<CpuId> {
    let (cores, threads) = (machine.spec.cores_per_socket, machine.spec.threads_per_core);
    let places: Vec<(u32, u32)> = match filling {
        Filling::Pairs => (0..cores)
            .flat_map(|core| (0..threads).map(move |thread| (core, thread)))
            .collect(),
        Filling::Cores => (0..threads)
            .flat_map(|thread| (0..cores).map(move |core| (core, thread)))
            .collect(),
    };
    places
        .into_iter()
        .filter_map(|(core, thread)| machine.context_at([socket, core, thread]))
        .collect()
}

/// All layouts of one application with this many threads: over any number of sockets evenly, in
/// either filling.
#[must_use]
pub fn alone(machine: &Machine, threads: u32) -> Vec<CpuSet> {
    let sockets = machine.spec.sockets;
    let per_socket = machine.contexts() / sockets;
    let threads = threads.min(machine.contexts());
    let mut layouts = Vec::new();
    for used in 1..=sockets {
        if threads > used * per_socket || threads < used {
            continue;
        }
        for filling in [Filling::Pairs, Filling::Cores] {
            let set: CpuSet = (0..used)
                .flat_map(|socket| {
                    let here = threads / used + u32::from(socket < threads % used);
                    order(machine, socket, filling)
                        .into_iter()
                        .take(here as usize)
                })
                .collect();
            if !layouts.contains(&set) {
                layouts.push(set);
            }
        }
    }
    layouts
}

/// Applications one after the other, socket by socket, cores whole.
#[must_use]
pub fn packed(machine: &Machine, counts: &[u32]) -> Vec<CpuSet> {
    let mut contexts =
        (0..machine.spec.sockets).flat_map(|socket| order(machine, socket, Filling::Pairs));
    counts
        .iter()
        .map(|count| contexts.by_ref().take(*count as usize).collect())
        .collect()
}

/// Every application over all sockets, cores whole where they can be.
#[must_use]
pub fn spread(machine: &Machine, counts: &[u32]) -> Vec<CpuSet> {
    let sockets: Vec<Vec<CpuId>> = (0..machine.spec.sockets)
        .map(|socket| order(machine, socket, Filling::Pairs))
        .collect();
    let width = machine.spec.threads_per_core as usize;
    let cores = machine.spec.cores_per_socket as usize;
    let mut contexts = (0..cores).flat_map(|core| {
        sockets
            .iter()
            .flat_map(move |order| order[core * width..(core + 1) * width].iter().copied())
    });
    counts
        .iter()
        .map(|count| contexts.by_ref().take(*count as usize).collect())
        .collect()
}

/// Every application over all sockets, first contexts of all cores before second ones: programs meet in
/// cores rather than have half as many.
#[must_use]
pub fn interleaved(machine: &Machine, counts: &[u32]) -> Vec<CpuSet> {
    let sockets: Vec<Vec<CpuId>> = (0..machine.spec.sockets)
        .map(|socket| order(machine, socket, Filling::Cores))
        .collect();
    let per_socket = (machine.contexts() / machine.spec.sockets) as usize;
    let mut contexts = (0..per_socket).flat_map(|at| sockets.iter().map(move |order| order[at]));
    counts
        .iter()
        .map(|count| contexts.by_ref().take(*count as usize).collect())
        .collect()
}

/// Every way to divide `units` among `apps` so that each has at least one; some may be left over
/// when `slack`.
#[must_use]
pub fn divisions(units: u32, apps: usize, slack: bool) -> Vec<Vec<u32>> {
    fn extend(left: u32, apps: usize, slack: bool, head: &mut Vec<u32>, all: &mut Vec<Vec<u32>>) {
        if apps == 0 {
            if left == 0 || slack {
                all.push(head.clone());
            }
            return;
        }
        let most = left.saturating_sub(apps as u32 - 1);
        let least = if apps == 1 && !slack { most.max(1) } else { 1 };
        for own in least..=most {
            head.push(own);
            extend(left - own, apps - 1, slack, head, all);
            head.pop();
        }
    }
    let mut all = Vec::new();
    extend(units, apps, slack, &mut Vec::new(), &mut all);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    #[test]
    fn layouts_are_disjoint_and_of_the_size_asked_for() {
        let machine = presets::machine("hsw80").unwrap();
        for sets in [
            packed(&machine, &[12, 30, 38]),
            spread(&machine, &[12, 30, 38]),
            interleaved(&machine, &[12, 30, 38]),
        ] {
            let sizes: Vec<u32> = sets.iter().map(CpuSet::len).collect();
            assert_eq!(sizes, [12, 30, 38]);
            assert!(sets[0].is_disjoint(&sets[1]) && sets[1].is_disjoint(&sets[2]));
        }
    }

    #[test]
    fn one_application_is_tried_on_any_number_of_sockets() {
        let machine = presets::machine("hsw80").unwrap();
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
    fn divisions_are_counted_right() {
        assert_eq!(divisions(20, 2, false).len(), 19);
        assert_eq!(divisions(10, 4, false).len(), 84);
        assert_eq!(divisions(4, 2, true).len(), 6);
    }
}
