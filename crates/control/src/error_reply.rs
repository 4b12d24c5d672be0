//! The errors a daemon replies with.

use mapper_model::AppName;
use serde::{Deserialize, Serialize};

/// An error as a reply. Displays as its message, for people.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "error", content = "parameters")]
#[non_exhaustive]
pub enum ErrorReply {
    /// A parameter is missing, of the wrong type or out of its range.
    #[serde(rename = "org.mapper.Control.InvalidParameter")]
    #[error("{message}")]
    InvalidParameter {
        /// Names the parameter, the value and the fix.
        message: String,
    },
    /// The caller may not do this with that process.
    #[serde(rename = "org.mapper.Control.NotPermitted")]
    #[error("{message}")]
    NotPermitted {
        /// What is not permitted, and why.
        message: String,
    },
    /// No application of that name runs.
    #[serde(rename = "org.mapper.Control.UnknownApplication")]
    #[error("{message}")]
    UnknownApplication {
        /// Names what was asked for.
        message: String,
        /// The applications that run.
        running: Vec<AppName>,
    },
    /// Caller and daemon speak different versions of the protocol.
    #[serde(rename = "org.mapper.Control.WrongProtocol")]
    #[error("{message}")]
    WrongProtocol {
        /// Says which.
        message: String,
        /// The daemon's version.
        protocol: u32,
    },
    /// The daemon cannot do this now.
    #[serde(rename = "org.mapper.Control.Unavailable")]
    #[error("{message}")]
    Unavailable {
        /// Why not.
        message: String,
    },
    /// The daemon failed.
    #[serde(rename = "org.mapper.Control.Internal")]
    #[error("{message}")]
    Internal {
        /// What failed.
        message: String,
    },
    /// There is no such interface.
    #[serde(rename = "org.varlink.service.InterfaceNotFound")]
    #[error("no interface {interface:?} here")]
    InterfaceNotFound {
        /// The interface asked for.
        interface: String,
    },
    /// The interface has no such method.
    #[serde(rename = "org.varlink.service.MethodNotFound")]
    #[error("no method {method:?} here")]
    MethodNotFound {
        /// The method asked for.
        method: String,
    },
    /// An error that this version does not know.
    #[serde(skip)]
    #[error("{name}: {parameters}")]
    Other {
        /// Its full name.
        name: String,
        /// Its parameters as they came.
        parameters: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_its_name_and_its_parameters() {
        let error = ErrorReply::UnknownApplication {
            message: "no application \"x\"".into(),
            running: vec![AppName::new("fft").unwrap()],
        };
        let text = serde_json::to_string(&error).unwrap();
        assert_eq!(
            text,
            r#"{"error":"org.mapper.Control.UnknownApplication","parameters":{"message":"no application \"x\"","running":["fft"]}}"#
        );
        assert_eq!(serde_json::from_str::<ErrorReply>(&text).unwrap(), error);
    }
}
