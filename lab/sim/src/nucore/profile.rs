//! What a program asks of which memory, from a profile on one core of each node [NuCore §5.2].

use super::allocation::cpus;
use crate::application::Behaviour;
use crate::constants::Constants;
use crate::machine::{LINE_BYTES, Machine};
use crate::performance::solve_spread;
use mapper_predict::nucore::{Demand, Pair};
use std::collections::BTreeMap;

/// Traffic of a program on these cores, in GB/s: from the row's cores to the column's data.
pub(super) fn traffic(
    machine: &Machine,
    constants: &Constants,
    app: &Behaviour,
    cores: &[u32],
) -> Vec<Vec<f64>> {
    let nodes = machine.nodes();
    let solution = solve_spread(machine, constants, &[(*app, cpus(machine, cores))]);
    let of = |socket: usize| {
        let misses_per_s = solution.misses_on_socket.get(socket).copied();
        let gb_per_s = misses_per_s.unwrap_or(0.0) * LINE_BYTES / 1e9;
        let share = |node| app.share_of_misses(nodes, socket, node);
        (0..nodes).map(|node| gb_per_s * share(node)).collect()
    };
    (0..nodes).map(of).collect()
}

/// The demand for the integer program. Traffic between nodes counts as read from the node of the data: the model does not
/// know which misses are writes.
pub(super) fn demand(machine: &Machine, constants: &Constants, app: &Behaviour) -> Demand {
    let traffic = traffic(machine, constants, app, &vec![1; machine.nodes()]);
    let mut reads = BTreeMap::new();
    for (to, asked) in traffic.iter().enumerate() {
        for (from, &gb_per_s) in asked.iter().enumerate() {
            if from != to && gb_per_s > 0.0 {
                reads.insert(Pair::new(from, to), gb_per_s);
            }
        }
    }
    let cores = machine.spec.cores_per_socket;
    let table = |(node, asked): (usize, &Vec<f64>)| {
        let counts = (0..=cores).map(f64::from);
        counts.map(|count| count * asked[node]).collect()
    };
    Demand {
        local: traffic.iter().enumerate().map(table).collect(),
        reads,
        least_cores: 1,
        ..Demand::default()
    }
}

/// Whether there is no traffic to allocate bandwidth for.
pub(super) fn asks_nothing(demand: &Demand) -> bool {
    let local = demand.local.iter().flatten().all(|asked| *asked <= 0.0);
    local && demand.reads.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{app, machine};

    fn of(name: &str) -> Demand {
        let behaviour = app(name).behaviour();
        demand(&machine("x7550"), &Constants::default(), &behaviour)
    }

    #[test]
    fn data_on_one_node_are_local_there_and_read_by_all_others_more_slowly() {
        let found = of("streamcluster-roi");
        let local: Vec<f64> = found.local.iter().map(|table| table[1]).collect();
        assert!(local[0] > 0.0 && local[1..] == [0.0; 3], "{local:?}");
        let others = [1, 2, 3].map(|to| Pair::new(0, to));
        assert!(found.reads.keys().copied().eq(others));
        assert!(found.reads.values().all(|read| *read < local[0]));
        assert!((found.local[0][8] - 8.0 * local[0]).abs() < 1e-9);
    }

    #[test]
    fn a_ring_is_read_from_the_next_node_and_private_data_from_none() {
        let ring = [(0, 3), (1, 0), (2, 1), (3, 2)].map(|(from, to)| Pair::new(from, to));
        assert!(of("mg-rprj3").reads.keys().copied().eq(ring));
        assert!(of("mg-resid").reads.is_empty());
    }
}
