//! The best allocation near a given one: as long as one core more or fewer on one node is faster, it is
//! taken, the fastest of these first [NuCore §7.2, eq. 20].

use super::allocation::CoresByNode;
use crate::judge::{Aim, Judge};
use crate::scenario::Scenario;

/// What counts as faster. The model has no noise, but its fixed point has a tolerance.
const FASTER: f64 = 1.0 + 1e-6;

/// The best allocation that is reached from `start`.
pub(super) fn best(scenario: &Scenario, start: CoresByNode) -> CoresByNode {
    let mut judge = Judge::new(scenario, Aim::Geometric);
    climb(start, scenario.machine.spec.cores_per_socket, |cores| {
        judge.value(&[cores.cpus(&scenario.machine)])
    })
}

fn climb(start: CoresByNode, most: u32, mut speed: impl FnMut(&CoresByNode) -> f64) -> CoresByNode {
    let mut best = start;
    let mut fastest = speed(&best);
    loop {
        let found = adjacent(&best, most)
            .into_iter()
            .map(|cores| (speed(&cores), cores))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        match found {
            Some((speed, cores)) if speed > fastest * FASTER => (fastest, best) = (speed, cores),
            _ => return best,
        }
    }
}

/// All that differ by one core, and leave one at least.
fn adjacent(cores: &CoresByNode, most: u32) -> Vec<CoresByNode> {
    let changed = |node: usize, count: u32| {
        let mut changed = cores.clone();
        changed.0[node] = count;
        changed
    };
    let mut found = Vec::new();
    for (node, &count) in cores.0.iter().enumerate() {
        if count < most {
            found.push(changed(node, count + 1));
        }
        if count > 0 && cores.0.iter().sum::<u32>() > 1 {
            found.push(changed(node, count - 1));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_allocations_differ_by_one_core_of_one_node() {
        let found = adjacent(&CoresByNode(vec![0, 2, 1]), 2);
        let expected = [[1, 2, 1], [0, 1, 1], [0, 2, 2], [0, 2, 0]];
        assert_eq!(found, expected.map(|cores| CoresByNode(cores.to_vec())));
        assert_eq!(adjacent(&CoresByNode(vec![1]), 1), [], "one core stays");
    }

    #[test]
    fn the_climb_ends_where_no_single_core_pays() {
        let wanted = [3.0, 0.0, 5.0];
        let speed = |cores: &CoresByNode| {
            let off = cores.0.iter().zip(wanted);
            100.0 - off.map(|(&c, w)| (f64::from(c) - w).powi(2)).sum::<f64>()
        };
        let found = climb(CoresByNode(vec![6, 6, 6]), 6, speed);
        assert_eq!(found, CoresByNode(vec![3, 0, 5]));
    }
}
