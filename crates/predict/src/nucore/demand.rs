//! The demand of an application on the memories, by core.
//!
//! One core on node i that *reads* node j moves r_{ji} GB/s from j to i (eq. 2), one on node j that
//! *writes* to node i moves w_{ji} from j to i (eq. 3) [NuCore §5.2]. The local demand of c cores on
//! node i is a table b_{c,i}, as row-buffer conflicts make it non-linear (eq. 6); for data on one
//! node only that node's table is not zero [readings, issue 9].

use crate::nucore::error::NuCoreError;
use crate::nucore::machine::{Machine, check_cores, check_length, check_number, check_pair};
use crate::nucore::pair::Pair;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The demand of one application.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Demand {
    /// `local[i][c]`: demand of c cores on node i for the memory of node i; `local[i][0]` = 0.
    #[serde(rename = "b")]
    pub local: Vec<Vec<f64>>,
    /// By pair j→i: what one core on node i reads from node j.
    #[serde(rename = "read_solo", default)]
    pub reads: BTreeMap<Pair, f64>,
    /// By pair j→i: what one core on node j writes to node i.
    #[serde(rename = "write_solo", default)]
    pub writes: BTreeMap<Pair, f64>,
    /// Fewest cores on the whole machine.
    #[serde(default)]
    pub least_cores: u32,
}

impl Demand {
    /// Checks the demand of application `app` against the machine.
    pub(crate) fn check(&self, machine: &Machine, app: usize) -> Result<(), NuCoreError> {
        let nodes = machine.nodes();
        check_length(&format!("b of application {app}"), self.local.len(), nodes)?;
        for (node, (table, &cores)) in self.local.iter().zip(machine.cores()).enumerate() {
            let place = || format!("b of application {app} on node {node}");
            check_length(&place(), table.len(), cores as usize + 1)?;
            for (count, &value) in table.iter().enumerate() {
                check_number(value, || format!("{} for {count} cores", place()))?;
            }
            if table[0] != 0.0 {
                return Err(NuCoreError::Invalid(format!(
                    "{} starts with {}: no core asks for nothing, start with 0",
                    place(),
                    table[0]
                )));
            }
        }
        for (what, demands) in [("read_solo", &self.reads), ("write_solo", &self.writes)] {
            let place = || format!("{what} of application {app}");
            for (&pair, &value) in demands {
                check_pair(pair, nodes, &place())?;
                check_number(value, || format!("{} over {pair}", place()))?;
                if value > 0.0 && !machine.connects(pair) {
                    return Err(NuCoreError::Invalid(format!(
                        "{} asks for {pair}, which has neither a physical link nor a route: add one",
                        place()
                    )));
                }
            }
        }
        let available = machine.cores().iter().map(|&cores| u64::from(cores)).sum();
        check_cores(
            &format!("application {app}"),
            self.least_cores.into(),
            available,
        )
    }
}
