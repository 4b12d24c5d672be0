//! Recordings: what was observed and decided, as lines of JSON.
//!
//! The first line is a [`Header`]: what a controller needs to decide the same again. Every further line is
//! one decision: the observation and the plan. Lines are only appended, so a recording that ends in the
//! middle is readable up to its last whole line.
//!
//! Invariant: a controller made from the header, fed with the observations in their order, gives the plans
//! byte for byte ([`replay`](crate::replay)).

use crate::controller::{Controller, ControllerState, PipelineConfig};
use mapper_model::{Observation, Plan, Topology};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The version of the format that is written. Since 2, regions and waits that runtimes report are used;
/// in 1 they were only recorded, and are ignored in a replay.
pub const VERSION: u32 = 2;

/// The oldest version that is read.
pub const OLDEST_VERSION: u32 = 1;

/// The first line of a recording.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Header {
    /// Version of the format; the name of the field tells a recording from other JSON.
    pub mapper_recording: u32,
    /// Version of mapper that wrote it.
    pub mapper: String,
    /// Policies and settings.
    pub config: PipelineConfig,
    /// The machine.
    pub topology: Topology,
    /// What the controller remembered when the recording began.
    pub state: ControllerState,
}

impl Header {
    /// The header for a recording that begins now.
    pub fn of(controller: &Controller) -> Self {
        Self {
            mapper_recording: VERSION,
            mapper: env!("CARGO_PKG_VERSION").into(),
            config: controller.config().clone(),
            topology: controller.topology().clone(),
            state: controller.save(),
        }
    }

    /// The header as a line, without the line feed.
    ///
    /// # Errors
    /// When a value cannot be written as JSON.
    pub fn line(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}

#[derive(Serialize)]
struct Written<'a> {
    observation: &'a Observation,
    plan: &'a Plan,
}

/// One decision as a line, without the line feed.
///
/// # Errors
/// When a value cannot be written as JSON.
pub fn line(observation: &Observation, plan: &Plan) -> serde_json::Result<String> {
    serde_json::to_string(&Written { observation, plan })
}

/// One decision as read: the plan is kept as the text it was written as.
#[derive(Debug, Deserialize)]
pub(crate) struct Entry {
    pub(crate) observation: Observation,
    pub(crate) plan: Box<RawValue>,
}
