//! Counts of what the daemon does.

use prometheus_client::metrics::histogram::Histogram;
use strum::{EnumCount, VariantArray};

/// What failed that should not.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, strum::EnumCount, strum::VariantArray, strum::IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum Trouble {
    /// CPUs that could not be put in force.
    Enforce,
    /// Memory that could not be bound.
    Memory,
    /// A plan that a policy must not make.
    Plan,
    /// Processes of applications that could not be read.
    Processes,
    /// An application that could not be given its CPUs back.
    Release,
}

#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) decision_s: Histogram,
    /// Decisions at the end of an interval.
    pub(crate) intervals: u64,
    /// From a launch that was read to its answer.
    pub(crate) launch_s: Histogram,
    errors: [u64; Trouble::COUNT],
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
            errors: [0; Trouble::COUNT],
            launches: 0,
            refused: 0,
            adoptions: 0,
        }
    }
}

impl Tally {
    pub(crate) fn error(&mut self, what: Trouble) {
        self.errors[what as usize] += 1;
    }

    /// How often each failed, those included that never did.
    pub(crate) fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = Trouble::VARIANTS.iter().zip(self.errors);
        counts.map(|(what, count)| (what.into(), count))
    }
}
