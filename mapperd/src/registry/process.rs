//! A process that can be recognised later.

use serde::{Deserialize, Serialize};

/// A process, distinguished from others that had or will have its pid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// When it started, in clock ticks since boot.
    pub(crate) started_ticks: u64,
}
