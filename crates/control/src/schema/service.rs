//! The calls every Varlink service answers: `org.varlink.service`.

use crate::interface::{INTERFACE, SERVICE_INTERFACE};
use serde::{Deserialize, Serialize};

/// Reply to `GetInfo`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServiceInfo {
    /// The project.
    pub vendor: String,
    /// The program.
    pub product: String,
    /// Its version.
    pub version: String,
    /// Its documentation.
    pub url: String,
    /// The interfaces it serves.
    pub interfaces: Vec<String>,
}

impl ServiceInfo {
    /// The reply of the daemon of this version.
    pub fn of_daemon(version: &str) -> Self {
        Self {
            vendor: "mapper".into(),
            product: "mapperd".into(),
            version: version.to_owned(),
            url: String::new(),
            interfaces: vec![SERVICE_INTERFACE.into(), INTERFACE.into()],
        }
    }
}

/// `GetInterfaceDescription`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GetInterfaceDescription {
    /// The interface asked about.
    pub interface: String,
}

/// Reply to `GetInterfaceDescription`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InterfaceDescription {
    /// The interface in Varlink's own language.
    pub description: String,
}
