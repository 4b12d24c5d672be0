//! Thresholds of a machine: when a rate counts as a bottleneck.
//!
//! The papers measure these with micro-benchmarks; the defaults are theirs [SAM-MPH §3, readings
//! "SAM-MPH classification"].

use serde::{Deserialize, Serialize};

/// The thresholds used when applications are characterised and placed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct MachineProfile {
    /// Nominal clock rate.
    pub clock_hz: f64,
    /// Coherence events per cycle above which sharing is high.
    pub sharing_high_per_cycle: f64,
    /// Coherence events per cycle above which sharing is medium.
    pub sharing_medium_per_cycle: f64,
    /// Instructions per cycle above which a thread keeps its core busy.
    pub ipc_high: f64,
    /// Stalled cycles per coherence event above which siblings of one core should share.
    pub spc_same_core: f64,
    /// Last-level cache misses per second and node above which memory bandwidth is the bottleneck.
    pub llc_misses_per_s: f64,
    /// Intervals of history for the class.
    pub history_intervals: u32,
    /// Occurrences in the history that must be exceeded before a class is asserted.
    pub history_threshold: u32,
}

impl Default for MachineProfile {
    fn default() -> Self {
        Self {
            clock_hz: 1.9e9,
            sharing_high_per_cycle: 0.78e-3,
            // 450,000 events per second at 1.9 GHz.
            sharing_medium_per_cycle: 450_000.0 / 1.9e9,
            ipc_high: 0.9,
            spc_same_core: 550.0,
            // 60 % of 45 GB/s per node in lines of 64 bytes.
            llc_misses_per_s: 0.6 * 45.0e9 / 64.0,
            history_intervals: 10,
            history_threshold: 6,
        }
    }
}
