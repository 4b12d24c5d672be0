//! What a program asks of which memory, from a moment on one core of each node [NuCore §5.2].

use super::allocation::CoresByNode;
use crate::application::Behaviour;
use crate::constants::Constants;
use crate::machine::{LINE_BYTES, Machine};
use crate::occupancy::Occupancy;
use crate::performance::solve;
use mapper_predict::nucore::{Demand, Pair};
use std::collections::BTreeMap;

/// Traffic of a program on these cores, in GB/s: from the node of the row's cores to that of the
/// column's data.
pub(super) fn traffic(
    machine: &Machine,
    constants: &Constants,
    app: &Behaviour,
    cores: &CoresByNode,
) -> Vec<Vec<f64>> {
    let nodes = machine.nodes();
    let cpus = cores.cpus(machine);
    let mut occupancy = Occupancy::idle(machine, 1);
    occupancy.spread(machine, 0, f64::from(cpus.len()), &cpus);
    let solution = solve(machine, constants, &[*app], &occupancy);
    let of = |socket: usize| {
        let misses_per_s = solution.misses_on_socket.get(socket).copied();
        let gb_per_s = misses_per_s.unwrap_or(0.0) * LINE_BYTES / 1e9;
        (0..nodes)
            .map(|node| gb_per_s * app.share_of_misses(nodes, socket, node))
            .collect()
    };
    (0..nodes).map(of).collect()
}

/// The demand that the integer program takes. What goes between nodes counts as read, of the node where
/// it is: the model knows of a miss where its line is, not whether it is written.
pub(super) fn demand(machine: &Machine, constants: &Constants, app: &Behaviour) -> Demand {
    let nodes = machine.nodes();
    let one_of_each = CoresByNode(vec![1; nodes]);
    let traffic = traffic(machine, constants, app, &one_of_each);
    let mut reads = BTreeMap::new();
    for (to, asked) in traffic.iter().enumerate() {
        for (from, &gb_per_s) in asked.iter().enumerate() {
            if from != to && gb_per_s > 0.0 {
                reads.insert(Pair::new(from, to), gb_per_s);
            }
        }
    }
    let cores = machine.spec.cores_per_socket;
    let table = |node: usize| {
        let each = traffic[node][node];
        (0..=cores).map(|count| f64::from(count) * each).collect()
    };
    Demand {
        local: (0..nodes).map(table).collect(),
        reads,
        least_cores: 1,
        ..Demand::default()
    }
}

/// Whether there is nothing to allocate bandwidth for.
pub(super) fn asks_nothing(demand: &Demand) -> bool {
    let local = demand.local.iter().flatten().all(|asked| *asked <= 0.0);
    local && demand.reads.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    fn of(name: &str) -> Demand {
        let machine = presets::machine("x7550").unwrap();
        let app = presets::app(name).unwrap();
        demand(&machine, &Constants::default(), &app.behaviour())
    }

    #[test]
    fn data_on_one_node_are_local_there_and_read_by_all_others_more_slowly() {
        let found = of("streamcluster-roi");
        let local: Vec<f64> = found.local.iter().map(|table| table[1]).collect();
        assert!(local[0] > 0.0 && local[1..] == [0.0; 3], "{local:?}");
        let pairs: Vec<Pair> = found.reads.keys().copied().collect();
        assert_eq!(pairs, [1, 2, 3].map(|to| Pair::new(0, to)));
        assert!(found.reads.values().all(|read| *read < local[0]));
        assert!((found.local[0][8] - 8.0 * local[0]).abs() < 1e-9);
    }

    #[test]
    fn a_ring_is_read_from_the_next_node_and_private_data_from_none() {
        let ring: Vec<Pair> = of("mg-rprj3").reads.keys().copied().collect();
        assert_eq!(
            ring,
            [(0, 3), (1, 0), (2, 1), (3, 2)].map(|(from, to)| Pair::new(from, to))
        );
        assert!(of("mg-resid").reads.is_empty());
    }
}
