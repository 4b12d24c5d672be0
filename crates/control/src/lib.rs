//! How mapper's programs talk to the daemon.
//!
//! `mapper-launch` and `mapperctl` connect to a Unix stream socket and speak [Varlink](https://varlink.org): a call is
//! one JSON object `{"method": …, "parameters": {…}}`, the reply another, each ended by a zero byte. So `varlinkctl` of
//! systemd can talk to the daemon, too. The shared page travels as a file descriptor beside the reply to `Launch`.
//!
//! - [`Client`] is for programs; [`socket_path`] finds the socket;
//! - [`schema`] contains every call and reply; [`INTERFACE_DESCRIPTION`] the same in Varlink's own language;
//! - [`Request`], [`Reply`] and [`ErrorReply`] are the messages, [`codec`] their bytes and descriptors. A server needs
//!   only these and decides itself how it waits.
//!
//! **Invariant: a peer can make this crate hold at most one message of bounded size**
//! ([`codec::MAX_REQUEST_BYTES`], [`codec::MAX_REPLY_BYTES`]), and nothing a peer sends makes it panic.

mod client;
mod client_error;
pub mod codec;
mod error_reply;
#[cfg(feature = "fake-daemon")]
pub mod fake;
mod interface;
mod reply;
mod request;
pub mod schema;
pub mod socket_path;

pub use client::{Client, Launched};
pub use client_error::{ClientError, ClientErrorKind};
pub use error_reply::ErrorReply;
pub use interface::{INTERFACE, INTERFACE_DESCRIPTION, SERVICE_DESCRIPTION, SERVICE_INTERFACE};
pub use reply::Reply;
pub use request::{Call, Expects, Request, RequestError};

/// Version of the protocol. It grows when a client of the previous version would misunderstand a reply; fields that old
/// clients can ignore are added without.
pub const PROTOCOL: u32 = 2;
