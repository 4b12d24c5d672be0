//! How readings are judged. Defaults are the papers' or are explained here.

use crate::history::Strictness;
use mapper_model::Confidence;
use serde::{Deserialize, Serialize};

/// Settings of the characteriser.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct CharacteriserConfig {
    /// Weight of the newest sample in the running mean of a curve point once many are known, above 0
    /// and up to 1. With 1/16 a point forgets half of its past in 11 intervals.
    pub fading: f64,
    /// Relative change of performance per CPU that counts as a new phase [MAPPER §3.3: 5 %].
    pub phase_threshold: f64,
    /// How a new phase is distinguished from noise.
    pub phase_test: PhaseTest,
    /// Whether occurrences must exceed the threshold or only reach it [SAM-MPH §4.3; readings].
    pub history: Strictness,
    /// Consecutive intervals in which a bottleneck must show before it is believed.
    pub bottleneck_intervals: u32,
    /// Consecutive intervals after which a better source of performance replaces the one in use.
    pub source_upgrade_intervals: u32,
    /// Consecutive intervals in which the source in use may be silent before a lesser one replaces
    /// it: long enough for parallel regions of several intervals.
    pub source_patience_intervals: u32,
    /// How the regions and waits that OpenMP runtimes report are used.
    pub runtime_hints: RuntimeHints,
}

/// How the regions and waits that OpenMP runtimes report are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RuntimeHints {
    /// Phases are recognised by their regions, and instructions of spinning do not count.
    #[default]
    Used,
    /// Not at all, as before recordings of version 2.
    Ignored,
}

/// How a new phase is distinguished from noise.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PhaseTest {
    /// One reading beyond the threshold is a new phase: the rule as MAPPER prints it.
    Plain,
    /// The change must also be significant against the scatter of the readings.
    Significant {
        /// How sure the test must be in each interval.
        confidence: Confidence,
    },
}

impl Default for CharacteriserConfig {
    fn default() -> Self {
        Self {
            fading: 1.0 / 16.0,
            phase_threshold: 0.05,
            phase_test: PhaseTest::Significant {
                confidence: Confidence::VERY_HIGH,
            },
            history: Strictness::Exceeds,
            bottleneck_intervals: 3,
            source_upgrade_intervals: 3,
            source_patience_intervals: 10,
            runtime_hints: RuntimeHints::Used,
        }
    }
}
