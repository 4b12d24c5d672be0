//! The machine: cores and memory of each node, and the bandwidth of the links between them, in GB/s.
//!
//! A *physical* link has a one-way limit and, with its opposite, a two-way limit [NuCore §6.4, eqs. 9, 10]. Other nodes
//! reach each other over a route of several links, a *virtual* link with limits of its own [NuCore §6.6]. The memory of
//! node i gives at most α_i, of which β_i of the local demand is kept for the local cores [NuCore §6.5, eqs. 11, 12]. A
//! missing one-way limit of a virtual link or a missing two-way limit does not bind.
//!
//! Invariants: node numbers exist, numbers are finite and not negative, a route is a path of
//! physical links that visits no node twice.

use crate::nucore::error::NuCoreError;
use crate::nucore::pair::Pair;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which memory serves a write between nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DramCharge {
    /// The one it comes from, as eqs. 11 and 12 are printed.
    #[default]
    AsPrinted,
    /// The one it goes to [readings, NuCore, issue 5].
    AtTheTarget,
}

/// A machine as specified; [`Machine::new`] checks it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct MachineSpec {
    /// A name for messages.
    #[serde(default)]
    pub name: String,
    /// Number of nodes.
    pub nodes: usize,
    /// Cores of each node.
    #[serde(rename = "n")]
    pub cores: Vec<u32>,
    /// One-way limits of the physical links.
    #[serde(rename = "phys")]
    pub physical: BTreeMap<Pair, f64>,
    /// Two-way limits of the physical links, by unordered pair.
    #[serde(rename = "bi", default)]
    pub physical_both_ways: BTreeMap<Pair, f64>,
    /// The nodes that data pass, both ends included, for pairs without a physical link.
    #[serde(default)]
    pub route: BTreeMap<Pair, Vec<usize>>,
    /// One-way limits of the routes.
    #[serde(rename = "uni_virtual", default)]
    pub virtual_one_way: BTreeMap<Pair, f64>,
    /// Two-way limits of the routes, by unordered pair.
    #[serde(rename = "bi_virtual", default)]
    pub virtual_both_ways: BTreeMap<Pair, f64>,
    /// α: bandwidth of each memory.
    pub alpha: Vec<f64>,
    /// β: share of the local demand that each memory keeps for local cores.
    pub beta: Vec<f64>,
}

/// A checked machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    spec: MachineSpec,
}

impl Machine {
    /// Checks `spec`.
    ///
    /// # Errors
    /// A [`NuCoreError`] that names the entry.
    pub fn new(mut spec: MachineSpec) -> Result<Self, NuCoreError> {
        let nodes = spec.nodes;
        check_length("n", spec.cores.len(), nodes)?;
        check_length("alpha", spec.alpha.len(), nodes)?;
        check_length("beta", spec.beta.len(), nodes)?;
        for (what, values) in [("alpha", &spec.alpha), ("beta", &spec.beta)] {
            for (node, &value) in values.iter().enumerate() {
                check_number(value, || format!("{what} of node {node}"))?;
            }
        }
        for (what, limits) in [
            ("phys", &spec.physical),
            ("bi", &spec.physical_both_ways),
            ("uni_virtual", &spec.virtual_one_way),
            ("bi_virtual", &spec.virtual_both_ways),
        ] {
            for (&pair, &limit) in limits {
                check_pair(pair, nodes, what)?;
                check_number(limit, || format!("{what} of {pair}"))?;
            }
        }
        spec.physical_both_ways = unordered("bi", &spec.physical_both_ways)?;
        spec.virtual_both_ways = unordered("bi_virtual", &spec.virtual_both_ways)?;
        for (&pair, route) in &spec.route {
            check_pair(pair, nodes, "route")?;
            if !is_path(route, pair, &spec.physical) {
                let Pair { from, to } = pair;
                return Err(NuCoreError::Invalid(format!(
                    "route {pair} is {route:?}: give a path of physical links from {from} to {to}"
                )));
            }
        }
        Ok(Self { spec })
    }

    /// The specification (two-way limits by unordered pair).
    pub const fn spec(&self) -> &MachineSpec {
        &self.spec
    }

    /// Number of nodes.
    pub const fn nodes(&self) -> usize {
        self.spec.nodes
    }

    /// Cores of each node.
    pub fn cores(&self) -> &[u32] {
        &self.spec.cores
    }

    /// Whether data can get from one node to the other.
    pub fn connects(&self, pair: Pair) -> bool {
        self.spec.physical.contains_key(&pair) || self.spec.route.contains_key(&pair)
    }
}

fn is_path(route: &[usize], pair: Pair, physical: &BTreeMap<Pair, f64>) -> bool {
    let ends = route.first() == Some(&pair.from) && route.last() == Some(&pair.to);
    let linked = route
        .windows(2)
        .all(|hop| physical.contains_key(&Pair::new(hop[0], hop[1])));
    let visits_once = route
        .iter()
        .enumerate()
        .all(|(i, node)| !route[..i].contains(node));
    ends && linked && visits_once
}

fn unordered(what: &str, limits: &BTreeMap<Pair, f64>) -> Result<BTreeMap<Pair, f64>, NuCoreError> {
    let mut result = BTreeMap::new();
    for (&pair, &limit) in limits {
        let pair = pair.unordered();
        match result.insert(pair, limit) {
            Some(other) if other.to_bits() != limit.to_bits() => {
                return Err(NuCoreError::Invalid(format!(
                    "{what} gives {pair} as {other} and as {limit}: give one value"
                )));
            }
            _ => {}
        }
    }
    Ok(result)
}

pub(crate) fn check_length(what: &str, got: usize, expected: usize) -> Result<(), NuCoreError> {
    if got == expected {
        Ok(())
    } else {
        Err(NuCoreError::Invalid(format!(
            "{what} has {got} entries, expected {expected}"
        )))
    }
}

pub(crate) fn check_cores(place: &str, wanted: u64, available: u64) -> Result<(), NuCoreError> {
    if wanted <= available {
        Ok(())
    } else {
        Err(NuCoreError::Invalid(format!(
            "{place} needs {wanted} cores of {available}: ask for at most {available}"
        )))
    }
}

pub(crate) fn check_number(value: f64, place: impl Fn() -> String) -> Result<(), NuCoreError> {
    if value.is_finite() && value >= 0.0 {
        Ok(())
    } else {
        Err(NuCoreError::Invalid(format!(
            "{} is {value}: give a finite number of 0 or more",
            place()
        )))
    }
}

pub(crate) fn check_pair(pair: Pair, nodes: usize, place: &str) -> Result<(), NuCoreError> {
    for node in [pair.from, pair.to] {
        if node >= nodes {
            return Err(NuCoreError::Invalid(format!(
                "{place} of {pair}: there is no node {node}, the machine has nodes 0 to {}",
                nodes.saturating_sub(1)
            )));
        }
    }
    if pair.from == pair.to {
        return Err(NuCoreError::Invalid(format!(
            "{place} names pair {pair}: a node does not reach itself over a link"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three_nodes(change: impl FnOnce(&mut MachineSpec)) -> Result<Machine, NuCoreError> {
        let mut spec = MachineSpec {
            nodes: 3,
            cores: vec![2; 3],
            physical: [(Pair::new(0, 1), 5.0), (Pair::new(1, 2), 5.0)].into(),
            alpha: vec![10.0; 3],
            beta: vec![0.2; 3],
            ..MachineSpec::default()
        };
        change(&mut spec);
        Machine::new(spec)
    }

    #[test]
    fn a_pair_reads_as_two_numbers() {
        assert_eq!(Pair::try_from("3-12".to_owned()).unwrap(), Pair::new(3, 12));
        for bad in ["3", "3-", "-1", "a-b", "1-2-3", "1--2"] {
            assert_eq!(
                Pair::try_from(bad.to_owned()).unwrap_err().to_string(),
                format!("node pair \"{bad}\": write two node numbers as in \"0-1\"")
            );
        }
    }

    #[test]
    fn a_route_is_a_path_of_links() {
        let with = |route: &[usize]| {
            three_nodes(|spec| {
                spec.route.insert(Pair::new(0, 2), route.to_vec());
            })
        };
        assert!(with(&[0, 1, 2]).unwrap().connects(Pair::new(0, 2)));
        for bad in [&[][..], &[0, 2], &[0, 1], &[1, 2], &[0, 1, 0, 1, 2]] {
            let refused = with(bad).unwrap_err().to_string();
            let fix = "give a path of physical links from 0 to 2";
            assert_eq!(refused, format!("route 0-2 is {bad:?}: {fix}"));
        }
    }

    #[test]
    fn limits_name_their_place_when_refused() {
        type Change = fn(&mut MachineSpec);
        let changes: [(Change, &str); 3] = [
            (
                |spec| spec.physical = [(Pair::new(2, 7), 1.0)].into(),
                "phys of 2-7: there is no node 7, the machine has nodes 0 to 2",
            ),
            (
                |spec| spec.alpha[1] = f64::NAN,
                "alpha of node 1 is NaN: give a finite number of 0 or more",
            ),
            (
                |spec| {
                    spec.physical_both_ways =
                        [(Pair::new(0, 1), 5.0), (Pair::new(1, 0), 6.0)].into();
                },
                "bi gives 0-1 as 5 and as 6: give one value",
            ),
        ];
        for (change, message) in changes {
            assert_eq!(three_nodes(change).unwrap_err().to_string(), message);
        }
    }
}
