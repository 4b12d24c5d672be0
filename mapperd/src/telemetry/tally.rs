//! Counts of what the daemon does.

use prometheus_client::metrics::histogram::Histogram;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) decision_s: Histogram,
    /// Decisions at the end of an interval.
    pub(crate) intervals: u64,
    /// From a launch that was read to its answer.
    pub(crate) launch_s: Histogram,
    pub(crate) errors: BTreeMap<&'static str, u64>,
    pub(crate) launches: u64,
    /// Of launches and adoptions.
    pub(crate) refused: u64,
    pub(crate) adoptions: u64,
}

impl Default for Tally {
    fn default() -> Self {
        // From 50 µs to 0.1 s: what a decision takes on a small and on a large machine.
        let buckets = [
            50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 100e-3,
        ];
        Self {
            decision_s: Histogram::new(buckets),
            intervals: 0,
            // Above 10 s launchers give up.
            launch_s: Histogram::new([
                5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
            ]),
            errors: BTreeMap::new(),
            launches: 0,
            refused: 0,
            adoptions: 0,
        }
    }
}

impl Tally {
    /// Something failed that should not.
    pub(crate) fn error(&mut self, what: &'static str) {
        *self.errors.entry(what).or_default() += 1;
    }
}
