//! A launch that waits for others.

use crate::config::peer::Peer;
use crate::registry::provenance::Provenance;
use crate::socket::message::Answer;
use mapper_control::schema::{LaunchRequest, Settled};
use std::os::fd::OwnedFd;
use tokio::sync::oneshot;

/// A launch that is permitted.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) peer: Peer,
    pub(crate) request: LaunchRequest,
    pub(crate) settled: Settled,
    pub(crate) provenance: Provenance,
    /// A descriptor of the process.
    pub(crate) process: OwnedFd,
}

/// A launch that waits for others.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) launch: Launch,
    pub(crate) reply: oneshot::Sender<Answer>,
}
