//! The calls every Varlink service answers: `org.varlink.service`.

use crate::interface::{INTERFACE, SERVICE_INTERFACE};
use serde::{Deserialize, Serialize};

/// Reply to `GetInfo`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServiceInfo {
    /// Who makes it.
    pub vendor: String,
    /// What it is.
    pub product: String,
    /// Its version.
    pub version: String,
    /// Where to read about it.
    pub url: String,
    /// The interfaces it serves.
    pub interfaces: Vec<String>,
}

impl ServiceInfo {
    /// What the daemon of this version says.
    #[must_use]
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
