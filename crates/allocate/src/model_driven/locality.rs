//! On which nodes an application's data are, by the traffic of the CPUs of each node.
//!
//! NuCore profiles reads and writes between each pair of nodes [NuCore §5.2]. Processors report less for a single
//! application: the total traffic of the CPUs of each node, and how much of it their own node served (bandwidth
//! monitoring). That suffices while its threads are alike. The share `l_i` that node i serves its own CPUs is the share
//! of the data there; their other requests go to the other nodes in proportion to what those serve their own:
//!
//! ```text
//! share(i → i) = l_i        share(i → j) = (1 − l_i) · l_j / Σ_{k ≠ i} l_k
//! ```
//!
//! Exact where all data are on one node, spread evenly over all, or private to each thread. The traffic of
//! a node's CPUs relative to the mean is kept too, as cores far from the data wait longer; that needs as
//! many of them on every node.
//!
//! Invariant: the shares of a node's requests are not negative and add up to 1.

use mapper_model::{NodeId, NodeRate};
use serde::{Deserialize, Serialize};

/// Traffic of the CPUs of a node, summed over intervals.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
struct Asked {
    node: NodeId,
    total: f64,
    own: f64,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TrafficSum(Vec<Asked>);

impl TrafficSum {
    /// Adds an interval, without nodes of which anything is missing.
    pub(crate) fn add(&mut self, rates: &[NodeRate]) {
        for of in rates {
            let (Some(total), Some(own)) = (of.rate.total_bytes_per_s, of.rate.local_bytes_per_s)
            else {
                continue;
            };
            if !(total.is_finite() && own.is_finite() && total > 0.0 && own >= 0.0) {
                continue;
            }
            let own = own.min(total);
            match self.0.iter_mut().find(|asked| asked.node == of.node) {
                Some(asked) => {
                    asked.total += total;
                    asked.own += own;
                }
                None => self.0.push(Asked {
                    node: of.node,
                    total,
                    own,
                }),
            }
        }
    }

    /// Where the data are; `None` when nothing is known.
    pub(crate) fn locality(&self) -> Option<Locality> {
        let mean = self.0.iter().map(|asked| asked.total).sum::<f64>() / self.0.len().max(1) as f64;
        let of = |asked: &Asked| NodeLocality {
            node: asked.node,
            own: asked.own / asked.total,
            intensity: asked.total / mean,
        };
        (!self.0.is_empty()).then(|| Locality(self.0.iter().map(of).collect()))
    }
}

/// The share of its traffic that a node serves itself, and the traffic relative to the mean of all nodes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
struct NodeLocality {
    node: NodeId,
    own: f64,
    intensity: f64,
}

/// On which nodes an application's data are.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Locality(Vec<NodeLocality>);

impl Locality {
    /// The share that a node serves its own CPUs; the mean of the others where nothing ran.
    fn own(&self, node: NodeId) -> f64 {
        let known = self.0.iter().find(|known| known.node == node);
        known.map_or_else(
            || self.0.iter().map(|known| known.own).sum::<f64>() / self.0.len().max(1) as f64,
            |known| known.own,
        )
    }

    /// How much a CPU of a node asks for, of the mean over all nodes.
    pub(crate) fn intensity(&self, node: NodeId) -> f64 {
        let known = self.0.iter().find(|known| known.node == node);
        known.map_or(1.0, |known| known.intensity)
    }

    /// The shares of what the CPUs of `nodes[from]` ask for, by node.
    pub(crate) fn shares(&self, from: usize, nodes: &[NodeId]) -> Vec<f64> {
        let own: Vec<f64> = nodes.iter().map(|node| self.own(*node)).collect();
        let others: f64 = own.iter().sum::<f64>() - own[from];
        let away = 1.0 - own[from];
        (0..nodes.len())
            .map(|to| {
                if nodes.len() == 1 {
                    1.0
                } else if to == from {
                    own[from]
                } else if others > 0.0 {
                    away * own[to] / others
                } else {
                    away / (nodes.len() - 1) as f64
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::MemoryRate;

    const NODES: [NodeId; 3] = [NodeId(0), NodeId(1), NodeId(2)];

    fn locality(own: [f64; 3]) -> Locality {
        let mut sum = TrafficSum::default();
        let rates = NODES.iter().zip(own).map(|(node, own)| NodeRate {
            node: *node,
            rate: MemoryRate {
                total_bytes_per_s: Some(2e9),
                local_bytes_per_s: Some(2e9 * own),
            },
        });
        sum.add(&rates.collect::<Vec<_>>());
        sum.locality().unwrap()
    }

    #[test]
    fn the_three_plain_cases_are_exact() {
        // On one node; private to each thread; interleaved.
        for from in 0..3 {
            let on_one_node = locality([1.0, 0.0, 0.0]).shares(from, &NODES);
            assert_eq!(on_one_node, [1.0, 0.0, 0.0]);
        }
        assert_eq!(locality([1.0; 3]).shares(1, &NODES), [0.0, 1.0, 0.0]);
        let even = locality([1.0 / 3.0; 3]).shares(2, &NODES);
        assert!(even.iter().all(|share| (share - 1.0 / 3.0).abs() < 1e-12));
    }

    #[test]
    fn the_shares_of_a_nodes_requests_make_one() {
        for own in [[0.9, 0.2, 0.0], [0.0; 3], [0.5, 0.5, 1.0]] {
            for from in 0..3 {
                let sum: f64 = locality(own).shares(from, &NODES).iter().sum();
                assert!((sum - 1.0).abs() < 1e-12, "{own:?} from {from}: {sum}");
            }
        }
    }

    #[test]
    fn incomplete_traffic_is_not_guessed() {
        let mut sum = TrafficSum::default();
        sum.add(&[NodeRate {
            node: NodeId(0),
            rate: MemoryRate {
                total_bytes_per_s: Some(1e9),
                local_bytes_per_s: None,
            },
        }]);
        assert_eq!(sum.locality(), None);
    }
}
