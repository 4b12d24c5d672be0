//! Another promise for an application that runs.

use mapper_model::{AppId, AppName, Qos};
use serde::{Deserialize, Serialize};

/// `Promise`: the application shall have another promise from the next decision on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PromiseRequest {
    /// Its name or its id; without one it is the application that the caller's process is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The promise: a share of its performance on its fair share of the CPUs.
    pub qos: Qos,
}

/// Reply to `Promise`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PromiseReply {
    /// [`PROTOCOL`](crate::PROTOCOL).
    pub protocol: u32,
    /// The application.
    pub app: AppId,
    /// Its name.
    pub name: AppName,
    /// The promise that it has now.
    pub qos: Qos,
    /// The promise that it had.
    pub before: Qos,
}
