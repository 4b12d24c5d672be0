//! Replies, as a daemon sends them.

use crate::codec::{FrameError, MAX_REPLY_BYTES, encode};
use crate::error_reply::ErrorReply;
use crate::interface::{INTERFACE, INTERFACE_DESCRIPTION, SERVICE_DESCRIPTION, SERVICE_INTERFACE};
use crate::request::Request;
use crate::schema::{
    AdoptReply, AdviseReply, ExplainReply, HistoryReply, InterfaceDescription, LaunchReply,
    PoliciesReply, PromiseReply, ReleaseReply, ReloadReply, ReportReply, ServiceInfo, Status,
};
use serde::Serialize;

/// The reply to a request that was served.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum Reply {
    /// To `Launch`. With a token the page goes along as a descriptor.
    Launch(LaunchReply),
    /// To `Exited`.
    Exited {},
    /// To `Status`.
    Status(Box<Status>),
    /// To `Explain`.
    Explain(Box<ExplainReply>),
    /// To `Policies`.
    Policies(PoliciesReply),
    /// To `Report`.
    Report(Box<ReportReply>),
    /// To `History`.
    History(HistoryReply),
    /// To `Advise`.
    Advise(AdviseReply),
    /// To `Adopt`.
    Adopt(AdoptReply),
    /// To `Release`.
    Release(ReleaseReply),
    /// To `Promise`.
    Promise(PromiseReply),
    /// To `Reload`.
    Reload(ReloadReply),
    /// To `GetInfo`.
    Info(ServiceInfo),
    /// To `GetInterfaceDescription`.
    Description(InterfaceDescription),
}

#[derive(Serialize)]
struct ReplyWire<'a> {
    parameters: &'a Reply,
}

impl Reply {
    /// The message, with its zero byte. A status that would be too long is sent [in brief](Status::brief): whatever
    /// users chose for their applications, the status of all can be read.
    pub fn encode(&self) -> Result<Vec<u8>, FrameError> {
        let whole = encode(&ReplyWire { parameters: self }, MAX_REPLY_BYTES);
        match (whole, self) {
            (Err(FrameError::TooLong(_)), Self::Status(status)) => {
                let parameters = &Self::Status(Box::new(status.brief()));
                encode(&ReplyWire { parameters }, MAX_REPLY_BYTES)
            }
            (whole, _) => whole,
        }
    }

    /// The reply to the calls of every Varlink service; `None` for those of `org.mapper.Control`. `version` is the
    /// daemon's.
    #[must_use]
    pub fn about_service(request: &Request, version: &str) -> Option<Result<Self, ErrorReply>> {
        match request {
            Request::GetInfo => Some(Ok(Self::Info(ServiceInfo::of_daemon(version)))),
            Request::GetInterfaceDescription(asked) => {
                let description = match asked.interface.as_str() {
                    INTERFACE => INTERFACE_DESCRIPTION,
                    SERVICE_INTERFACE => SERVICE_DESCRIPTION,
                    other => {
                        return Some(Err(ErrorReply::InterfaceNotFound {
                            interface: other.to_owned(),
                        }));
                    }
                };
                Some(Ok(Self::Description(InterfaceDescription {
                    description: description.to_owned(),
                })))
            }
            _ => None,
        }
    }
}

impl ErrorReply {
    /// The message, with its zero byte.
    pub fn encode(&self) -> Result<Vec<u8>, FrameError> {
        encode(self, MAX_REPLY_BYTES)
    }
}
