//! What calibration measures.

use super::bandwidth;
use super::coherence;
use super::pipeline;

#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Points {
    /// Steps per second of a chain of instructions of one cycle each; `None` where none is known.
    pub(crate) clock_hz: Option<f64>,
    /// The clock that the processor is sold with; `None` where the kernel does not report it.
    pub(crate) nominal_hz: Option<f64>,
    pub(crate) bandwidth: Vec<bandwidth::Point>,
    pub(crate) coherence: Vec<coherence::Point>,
    pub(crate) pipeline: Vec<pipeline::Point>,
}
