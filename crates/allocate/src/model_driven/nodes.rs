//! Which CPUs the nodes have to give, and divisions of them.

use mapper_model::{CpuSet, NodeId, NodeShare, Snapshot};
use serde::{Deserialize, Serialize};

/// A node as a source of CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeCapacity {
    /// The node.
    pub id: NodeId,
    /// Its CPUs that may be divided.
    pub cpus: u32,
}

/// The nodes that have CPUs to divide: usable ones that nobody holds who must not be resized.
#[must_use]
pub fn capacities(snapshot: &Snapshot<'_>, fixed: &CpuSet) -> Vec<NodeCapacity> {
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

/// How CPUs are divided: for each application its count, and on which nodes if the model says.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Division {
    /// CPUs of each application.
    pub counts: Vec<u32>,
    /// For each application its CPUs on each node, in the order of the nodes.
    pub by_node: Option<Vec<Vec<u32>>>,
    /// Why, for each application.
    pub rules: Vec<String>,
    /// For each application what it would do with CPUs that another one must not have.
    pub surplus: Vec<Surplus>,
}

/// What an application would do with CPUs beyond those the model gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Surplus {
    /// It can use them.
    Taken,
    /// The model says that they would be lost on it.
    Declined,
}

/// The limits of one application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The fewest CPUs it is to have.
    pub min: u32,
    /// The most it can use.
    pub max: u32,
}

impl Division {
    /// Brings every count within its limits. What one must have is taken from the free CPUs, then
    /// from the one that has most beyond its own lower limit; what one must not have goes to one that can
    /// use it, the one with most first, else it is free.
    pub fn limit(&mut self, limits: &[Limits], nodes: &[NodeCapacity]) {
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

    /// Takes a CPU away where the application has fewest.
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
    #[must_use]
    pub fn node_shares(&self, app: usize, nodes: &[NodeCapacity]) -> Option<Vec<NodeShare>> {
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

    fn nodes(cpus: &[u32]) -> Vec<NodeCapacity> {
        cpus.iter()
            .zip(0..)
            .map(|(&cpus, id)| NodeCapacity {
                id: NodeId(id),
                cpus,
            })
            .collect()
    }

    #[test]
    fn limits_are_met_node_by_node() {
        let mut division = Division {
            counts: vec![8, 4],
            by_node: Some(vec![vec![8, 0], vec![0, 4]]),
            ..Division::default()
        };
        let limits = [Limits { min: 1, max: 6 }, Limits { min: 6, max: 9 }];
        division.limit(&limits, &nodes(&[8, 4]));
        assert_eq!(division.counts, [6, 6]);
        assert_eq!(division.by_node, Some(vec![vec![6, 0], vec![2, 4]]));
    }

    #[test]
    fn who_must_have_more_takes_from_the_richest() {
        let mut division = Division {
            counts: vec![7, 1, 4],
            by_node: None,
            ..Division::default()
        };
        let limits = [
            Limits { min: 1, max: 99 },
            Limits { min: 3, max: 99 },
            Limits { min: 1, max: 99 },
        ];
        division.limit(&limits, &nodes(&[12]));
        assert_eq!(division.counts, [5, 3, 4]);
    }

    #[test]
    fn what_one_must_not_have_goes_to_another_that_can_use_it() {
        let mut division = Division {
            counts: vec![8, 4, 4],
            by_node: Some(vec![vec![8, 0], vec![0, 4], vec![0, 4]]),
            surplus: vec![Surplus::Taken, Surplus::Declined, Surplus::Taken],
            ..Division::default()
        };
        let limits = [
            Limits { min: 1, max: 2 },
            Limits { min: 1, max: 99 },
            Limits { min: 1, max: 9 },
        ];
        division.limit(&limits, &nodes(&[8, 8]));
        assert_eq!(division.counts, [2, 4, 9]);
        assert_eq!(
            division.by_node,
            Some(vec![vec![2, 0], vec![0, 4], vec![5, 4]])
        );
    }
}
