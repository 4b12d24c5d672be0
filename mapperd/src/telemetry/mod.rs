//! What the daemon reports about itself and the applications.

mod background;
mod journal;
mod line;
pub(crate) mod logging;
pub(crate) mod metrics;
pub(crate) mod metrics_server;
pub(crate) mod record;
pub(crate) mod service;
pub(crate) mod status;
pub(crate) mod tally;

use record::Recorder;
use tally::Tally;

#[derive(Debug)]
pub(crate) struct Telemetry {
    pub(crate) tally: Tally,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) started_ns: u64,
}

impl Telemetry {
    /// Ends the recording, if there is one; its thread writes what it has received.
    pub(crate) fn end_recording(&mut self, why: &str) {
        if self.recorder.take().is_some() {
            tracing::warn!("recording stopped: {why}");
        }
    }
}
