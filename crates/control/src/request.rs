//! Calls: what a client requests, and reading it from untrusted bytes.

use crate::PROTOCOL;
use crate::codec::{FrameError, MAX_REQUEST_BYTES, encode};
use crate::error_reply::ErrorReply;
use crate::interface::{INTERFACE, SERVICE_INTERFACE, method};
use crate::schema::{
    AdoptRequest, ExitedRequest, ExplainRequest, GetInterfaceDescription, LaunchRequest,
    PromiseRequest, ReleaseRequest, ReportRequest,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What a client requests.
#[derive(Clone, PartialEq, Debug)]
pub enum Request {
    /// A place for a process that waits to exec.
    Launch(Box<LaunchRequest>),
    /// An application has ended.
    Exited(ExitedRequest),
    /// What the daemon does now.
    Status,
    /// Why an application has its CPUs.
    Explain(ExplainRequest),
    /// The policies there are.
    Policies,
    /// What an application got, in sum.
    Report(ReportRequest),
    /// The applications that ended last.
    History,
    /// What further CPUs would bring, and which programs go well together.
    Advise,
    /// Something that runs already is to be managed.
    Adopt(Box<AdoptRequest>),
    /// What was adopted is to be managed no more.
    Release(ReleaseRequest),
    /// An application shall have another promise.
    Promise(PromiseRequest),
    /// The configuration is to be read again.
    Reload,
    /// What this service is.
    GetInfo,
    /// What an interface offers.
    GetInterfaceDescription(GetInterfaceDescription),
}

/// Whether the caller waits for a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expects {
    /// It does.
    Reply,
    /// It does not and must not get one, not even an error (`oneway`).
    Nothing,
}

/// A request, and whether a reply is expected.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// What is requested.
    pub request: Request,
    /// Whether a reply is expected.
    pub expects: Expects,
}

/// A call that cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// These are not the bytes of a Varlink call; the connection should be closed.
    #[error("not a Varlink call: {0}")]
    NotVarlink(serde_json::Error),
    /// A call that is refused; the connection can continue.
    #[error("{error}")]
    Refused {
        /// What to reply.
        error: ErrorReply,
        /// Whether a reply is expected.
        expects: Expects,
    },
}

#[derive(Deserialize)]
struct CallWire<'a> {
    method: String,
    #[serde(borrow, default)]
    parameters: Option<&'a RawValue>,
    #[serde(default)]
    oneway: bool,
}

#[derive(Deserialize)]
struct ProtocolOnly {
    protocol: u32,
}

impl Call {
    /// Reads a call from a message (without its zero byte). The error says whether to reply or to hang up.
    pub fn parse(message: &[u8]) -> Result<Self, RequestError> {
        let wire: CallWire<'_> =
            serde_json::from_slice(message).map_err(RequestError::NotVarlink)?;
        let expects = match wire.oneway {
            true => Expects::Nothing,
            false => Expects::Reply,
        };
        let parameters = wire.parameters.map_or("{}", RawValue::get);
        match Request::parse(&wire.method, parameters) {
            Ok(request) => Ok(Self { request, expects }),
            Err(error) => Err(RequestError::Refused { error, expects }),
        }
    }

    /// The message that makes this call, with its zero byte.
    pub fn encode(&self) -> Result<Vec<u8>, FrameError> {
        let oneway = self.expects == Expects::Nothing;
        match &self.request {
            Request::Launch(p) => encode_call(method::LAUNCH, Some(p), oneway),
            Request::Exited(p) => encode_call(method::EXITED, Some(p), oneway),
            Request::Status => encode_call(method::STATUS, None::<()>, oneway),
            Request::Explain(p) => encode_call(method::EXPLAIN, Some(p), oneway),
            Request::Policies => encode_call(method::POLICIES, None::<()>, oneway),
            Request::Report(p) => encode_call(method::REPORT, Some(p), oneway),
            Request::Advise => encode_call(method::ADVISE, None::<()>, oneway),
            Request::History => encode_call(method::HISTORY, None::<()>, oneway),
            Request::Adopt(p) => encode_call(method::ADOPT, Some(p), oneway),
            Request::Release(p) => encode_call(method::RELEASE, Some(p), oneway),
            Request::Promise(p) => encode_call(method::PROMISE, Some(p), oneway),
            Request::Reload => encode_call(method::RELOAD, None::<()>, oneway),
            Request::GetInfo => encode_call(method::GET_INFO, None::<()>, oneway),
            Request::GetInterfaceDescription(p) => {
                encode_call(method::GET_INTERFACE_DESCRIPTION, Some(p), oneway)
            }
        }
    }
}

impl Request {
    fn parse(name: &str, parameters: &str) -> Result<Self, ErrorReply> {
        match name {
            method::LAUNCH => Ok(Self::Launch(read_versioned(name, parameters)?)),
            method::EXITED => Ok(Self::Exited(read(name, parameters)?)),
            method::STATUS => Ok(Self::Status),
            method::EXPLAIN => Ok(Self::Explain(read(name, parameters)?)),
            method::POLICIES => Ok(Self::Policies),
            method::REPORT => Ok(Self::Report(read(name, parameters)?)),
            method::ADVISE => Ok(Self::Advise),
            method::HISTORY => Ok(Self::History),
            method::ADOPT => Ok(Self::Adopt(read_versioned(name, parameters)?)),
            method::RELEASE => Ok(Self::Release(read(name, parameters)?)),
            method::PROMISE => Ok(Self::Promise(read(name, parameters)?)),
            method::RELOAD => Ok(Self::Reload),
            method::GET_INFO => Ok(Self::GetInfo),
            method::GET_INTERFACE_DESCRIPTION => {
                Ok(Self::GetInterfaceDescription(read(name, parameters)?))
            }
            _ => Err(unknown_method(name)),
        }
    }
}

fn unknown_method(name: &str) -> ErrorReply {
    let interface = name.rsplit_once('.').map_or("", |(interface, _)| interface);
    if interface == INTERFACE || interface == SERVICE_INTERFACE {
        let method = name.to_owned();
        return ErrorReply::MethodNotFound { method };
    }
    let interface = interface.to_owned();
    ErrorReply::InterfaceNotFound { interface }
}

/// Another version may use the same fields differently, so the version is checked first.
fn read_versioned<T: DeserializeOwned>(name: &str, parameters: &str) -> Result<T, ErrorReply> {
    let ProtocolOnly { protocol } = read(name, parameters)?;
    if protocol == PROTOCOL {
        return read(name, parameters);
    }
    Err(ErrorReply::WrongProtocol {
        message: format!(
            "{name}: protocol {protocol} is asked for, this daemon speaks {PROTOCOL}; install mapperd and its tools in the same version"
        ),
        protocol: PROTOCOL,
    })
}

fn read<T: DeserializeOwned>(name: &str, parameters: &str) -> Result<T, ErrorReply> {
    serde_json::from_str(parameters).map_err(|error| ErrorReply::InvalidParameter {
        message: format!("{name}: {error}"),
    })
}

#[derive(Serialize)]
struct CallOut<'a, T> {
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<T>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    oneway: bool,
}

fn encode_call(
    method: &str,
    parameters: Option<impl Serialize>,
    oneway: bool,
) -> Result<Vec<u8>, FrameError> {
    let call = CallOut {
        method,
        parameters,
        oneway,
    };
    encode(&call, MAX_REQUEST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{AdoptTarget, Wishes};
    use mapper_model::{AppId, AppName, Qos};
    use proptest::prelude::*;

    fn every_request() -> Vec<Request> {
        let wishes = Wishes::named(AppName::new("fft").unwrap());
        let launch = LaunchRequest::new(7, ["fft"], wishes);
        vec![
            Request::Launch(Box::new(launch)),
            Request::Exited(ExitedRequest {
                app: AppId(3),
                status: 130,
            }),
            Request::Status,
            Request::Explain(ExplainRequest { name: "fft".into() }),
            Request::Policies,
            Request::Report(ReportRequest { app: AppId(3) }),
            Request::Advise,
            Request::History,
            Request::Adopt(Box::new(AdoptRequest::of(AdoptTarget::Pid(7)))),
            Request::Release(ReleaseRequest { name: "fft".into() }),
            Request::Promise(PromiseRequest {
                name: None,
                qos: Qos::default(),
            }),
            Request::Reload,
            Request::GetInfo,
            Request::GetInterfaceDescription(GetInterfaceDescription {
                interface: INTERFACE.into(),
            }),
        ]
    }

    fn refusal(text: &str) -> ErrorReply {
        match Call::parse(text.as_bytes()) {
            Err(RequestError::Refused { error, .. }) => error,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn every_call_survives_the_wire() {
        for request in every_request() {
            for expects in [Expects::Reply, Expects::Nothing] {
                let request = request.clone();
                let call = Call { request, expects };
                let mut message = call.encode().unwrap();
                assert_eq!(message.pop(), Some(0));
                assert_eq!(Call::parse(&message).unwrap(), call);
            }
        }
    }

    #[test]
    fn bytes_that_are_no_call_end_the_connection() {
        for text in [
            "",
            "GET / HTTP/1.1",
            "[]",
            "{}",
            r#"{"method":7}"#,
            "\u{ff}",
        ] {
            let error = Call::parse(text.as_bytes());
            assert!(matches!(error, Err(RequestError::NotVarlink(_))), "{text}");
        }
        let deep = "[".repeat(MAX_REQUEST_BYTES);
        assert!(Call::parse(deep.as_bytes()).is_err());
        let deep = format!(r#"{{"method":"{}","parameters":{}"#, method::LAUNCH, deep);
        assert!(Call::parse(deep.as_bytes()).is_err());
    }

    #[test]
    fn a_call_that_cannot_be_served_gets_an_error_that_says_why() {
        let launch = |parameters: &str| {
            format!(r#"{{"method":"org.mapper.Control.Launch","parameters":{{{parameters}}}}}"#)
        };
        let method = |name: &str| format!(r#"{{"method":"{name}"}}"#);
        for (text, says) in [
            (
                method("org.mapper.Control.Fly"),
                "no method \"org.mapper.Control.Fly\"",
            ),
            (method("org.other.Fly"), "no interface \"org.other\""),
            (method("Fly"), "no interface"),
            (method("org.mapper.Control.Explain"), "missing field `name`"),
            (
                launch(r#""protocol":2,"pid":3,"name":"a","qos":0"#),
                "qos 0: give a number above 0",
            ),
            (
                launch(r#""protocol":3,"new":true"#),
                "protocol 3 is asked for, this daemon speaks 2",
            ),
        ] {
            let message = refusal(&text).to_string();
            assert!(message.contains(says), "{text}: {message}");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(message in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Call::parse(&message);
        }

        #[test]
        fn damaged_calls_never_panic(
            which in 0..every_request().len(),
            place in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let request = every_request().swap_remove(which);
            let call = Call { request, expects: Expects::Reply };
            let mut message = call.encode().unwrap();
            let place = place.index(message.len());
            message[place] = byte;
            let _ = Call::parse(&message);
        }
    }
}
