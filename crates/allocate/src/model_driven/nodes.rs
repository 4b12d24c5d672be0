//! The CPUs that nodes can give, and divisions of them.

use mapper_model::{CpuSet, NodeId, NodeShare, Snapshot};
use serde::{Deserialize, Serialize};

/// A node and its CPUs that may be divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeCapacity {
    pub(crate) id: NodeId,
    pub(crate) cpus: u32,
}

/// The nodes with usable CPUs that are not `fixed`.
pub(crate) fn capacities(snapshot: &Snapshot<'_>, fixed: &CpuSet) -> Vec<NodeCapacity> {
    let open = snapshot.usable.difference(fixed);
    snapshot
        .topology
        .nodes()
        .iter()
        .map(|node| NodeCapacity {
            id: node.id,
            cpus: node.cpus.overlap(&open),
        })
        .filter(|node| node.cpus > 0)
        .collect()
}

/// A division of CPUs; each list is by application.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Division {
    pub(crate) counts: Vec<u32>,
    /// CPUs on each node, in the order of the nodes.
    pub(crate) by_node: Option<Vec<Vec<u32>>>,
    pub(crate) rules: Vec<String>,
    pub(crate) surplus: Vec<Surplus>,
}

/// Whether an application can use CPUs beyond those the model gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Surplus {
    Taken,
    Declined,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    pub(crate) min: u32,
    pub(crate) max: u32,
}

impl Division {
    /// Brings every count within its limits. What is missing is taken from the free CPUs, then from the one
    /// with most beyond its own lower limit; what is too much goes to the largest that can use it, else
    /// it is free.
    pub(crate) fn limit(&mut self, limits: &[Limits], nodes: &[NodeCapacity]) {
        let total: u32 = nodes.iter().map(|n| n.cpus).sum();
        let mut cut = 0;
        for (app, limit) in limits.iter().enumerate() {
            while self.counts[app] > limit.max.max(1) {
                self.drop_one(app);
                cut += 1;
            }
        }
        for (app, limit) in limits.iter().enumerate() {
            while self.counts[app] < limit.min.max(1) {
                if self.counts.iter().sum::<u32>() >= total {
                    let above = |i: &usize| self.counts[*i].saturating_sub(limits[*i].min.max(1));
                    let richest = (0..limits.len())
                        .filter(|i| *i != app && above(i) > 0)
                        .max_by_key(|i| (above(i), std::cmp::Reverse(*i)));
                    let Some(richest) = richest else {
                        break;
                    };
                    self.drop_one(richest);
                }
                self.add_one(app, nodes);
            }
        }
        let free = total.saturating_sub(self.counts.iter().sum());
        for _ in 0..cut.min(free) {
            let takes = |i: &usize| {
                self.surplus.get(*i) == Some(&Surplus::Taken) && self.counts[*i] < limits[*i].max
            };
            let most = (0..limits.len())
                .filter(takes)
                .max_by_key(|i| (self.counts[*i], std::cmp::Reverse(*i)));
            let Some(most) = most else { return };
            self.add_one(most, nodes);
        }
    }

    /// Removes a CPU where the application has fewest.
    fn drop_one(&mut self, app: usize) {
        self.counts[app] -= 1;
        if let Some(by_node) = &mut self.by_node
            && let Some(fewest) = by_node[app].iter_mut().filter(|c| **c > 0).min()
        {
            *fewest -= 1;
        }
    }

    /// Adds a CPU where the application has most, as far as there are free ones.
    fn add_one(&mut self, app: usize, nodes: &[NodeCapacity]) {
        self.counts[app] += 1;
        if let Some(by_node) = &mut self.by_node {
            let free = |n: &usize| nodes[*n].cpus > by_node.iter().map(|app| app[*n]).sum::<u32>();
            let best = (0..nodes.len())
                .filter(free)
                .max_by_key(|n| (by_node[app][*n], std::cmp::Reverse(*n)));
            if let Some(node) = best {
                by_node[app][node] += 1;
            }
        }
    }

    /// The CPUs of an application by node, without the nodes where it has none.
    pub(crate) fn node_shares(&self, app: usize, nodes: &[NodeCapacity]) -> Option<Vec<NodeShare>> {
        let by_node = self.by_node.as_ref()?;
        Some(
            nodes
                .iter()
                .zip(&by_node[app])
                .filter(|(_, cpus)| **cpus > 0)
                .map(|(node, &cpus)| NodeShare {
                    node: node.id,
                    cpus,
                })
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(
        counts: &[u32],
        by_node: Option<&[[u32; 2]]>,
        limits: &[(u32, u32)],
        nodes: &[u32],
    ) -> Division {
        use Surplus::{Declined, Taken};
        let mut division = Division {
            counts: counts.to_vec(),
            by_node: by_node.map(|apps| apps.iter().map(|app| app.to_vec()).collect()),
            surplus: vec![Taken, Declined, Taken],
            ..Division::default()
        };
        let limits: Vec<Limits> = limits
            .iter()
            .map(|&(min, max)| Limits { min, max })
            .collect();
        let nodes: Vec<NodeCapacity> = (nodes.iter().zip(0..))
            .map(|(&cpus, id)| NodeCapacity {
                id: NodeId(id),
                cpus,
            })
            .collect();
        division.limit(&limits, &nodes);
        division
    }

    #[test]
    fn limits_are_met_node_by_node() {
        let division = limited(&[8, 4], Some(&[[8, 0], [0, 4]]), &[(1, 6), (6, 9)], &[8, 4]);
        assert_eq!(division.counts, [6, 6]);
        assert_eq!(division.by_node, Some(vec![vec![6, 0], vec![2, 4]]));
    }

    #[test]
    fn an_application_below_its_limit_takes_from_the_richest() {
        let division = limited(&[7, 1, 4], None, &[(1, 99), (3, 99), (1, 99)], &[12]);
        assert_eq!(division.counts, [5, 3, 4]);
    }

    #[test]
    fn what_one_must_not_have_goes_to_another_that_can_use_it() {
        let by_node = [[8, 0], [0, 4], [0, 4]];
        let limits = [(1, 2), (1, 99), (1, 9)];
        let division = limited(&[8, 4, 4], Some(&by_node), &limits, &[8, 8]);
        assert_eq!(division.counts, [2, 4, 9]);
        let expected = [[2, 0], [0, 4], [5, 4]].map(|app| app.to_vec());
        assert_eq!(division.by_node, Some(expected.to_vec()));
    }
}
