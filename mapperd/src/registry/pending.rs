//! A launch that waits for others.

use crate::config::peer::Peer;
use crate::registry::provenance::Provenance;
use crate::socket::message::Answer;
use mapper_control::schema::{LaunchRequest, Partition, RuntimeChoice, Terms};
use mapper_model::{AppId, AppSpec};
use std::os::fd::OwnedFd;
use tokio::sync::oneshot;
use tokio::time::Instant;

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Settlement {
    /// Name, promise, limits and team mode.
    pub(crate) spec: AppSpec,
    pub(crate) runtime: RuntimeChoice,
    pub(crate) partition: Partition,
    /// What the launcher applies.
    pub(crate) terms: Terms,
    pub(crate) provenance: Provenance,
}

#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) peer: Peer,
    pub(crate) request: LaunchRequest,
    pub(crate) settlement: Settlement,
    pub(crate) process: OwnedFd,
}

#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) launch: Launch,
    pub(crate) reply: oneshot::Sender<Answer>,
    pub(crate) since: Instant,
}

/// An application that was launched and placed, and whose launcher waits for the answer until it is saved.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) id: AppId,
    pub(crate) terms: Terms,
    /// On how many CPUs its own mask ever lets it run.
    pub(crate) most_cpus: u32,
}

/// A launch that is answered once the state with this number is saved.
#[derive(Debug)]
pub(crate) struct Unanswered {
    pub(crate) admitted: Admitted,
    pub(crate) reply: oneshot::Sender<Answer>,
    pub(crate) state: u64,
}
