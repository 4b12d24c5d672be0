//! The configuration is to be read again.

use serde::{Deserialize, Serialize};

/// Reply to `Reload`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ReloadReply {
    /// [`PROTOCOL`](crate::PROTOCOL).
    pub protocol: u32,
    /// What is now in force, such as `interval 1s → 250ms`.
    pub changed: Vec<String>,
    /// What the file changes, but is taken over only at a start.
    pub needs_restart: Vec<String>,
}
