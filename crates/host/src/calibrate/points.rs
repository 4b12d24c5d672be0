//! What calibration measures.

use super::bandwidth;
use super::coherence;
use super::pipeline;

/// Everything measured, before anything is concluded.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Points {
    /// Steps per second of a chain of instructions of one cycle each; `None` where none is known.
    pub clock_hz: Option<f64>,
    /// The clock that the processor is sold with; `None` where the kernel does not report it.
    pub nominal_hz: Option<f64>,
    /// Memory bandwidth.
    pub bandwidth: Vec<bandwidth::Point>,
    /// Shared counters.
    pub coherence: Vec<coherence::Point>,
    /// Two threads on one core.
    pub pipeline: Vec<pipeline::Point>,
}
