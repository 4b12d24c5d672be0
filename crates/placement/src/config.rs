//! Settings of the placement policies.

use serde::{Deserialize, Serialize};

/// Settings of the placement policies.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct PlacementConfig {
    /// What moving one CPU of an application has to bring, in thousandths of the speed of one thread,
    /// before applications that could stay are placed anew. By default 60: a thread that moves to another
    /// socket loses its caches, some tens of milliseconds. With 0 it still has to bring something.
    pub move_cost: u32,
    /// NuPoCo Algorithm 2: the ratio of cache accesses above which two nodes exchange CPUs; above 1.
    pub swap_threshold: f64,
    /// NuPoCo Algorithm 2: how many cores they exchange.
    pub swap_cores: u32,
}

impl Default for PlacementConfig {
    fn default() -> Self {
        Self {
            move_cost: 60,
            swap_threshold: 2.0,
            swap_cores: 2,
        }
    }
}
