//! What reaches the task that owns the state.

use crate::config::peer::Peer;
use crate::socket::arrivals::Arrival;
use mapper_control::schema::{AdoptRequest, LaunchReply};
use mapper_control::{ErrorReply, Reply, Request};
use mapper_host::enforce::cgroup::RunningGroup;
use mapper_model::{AppId, Spinning};
use std::os::fd::OwnedFd;
use tokio::sync::{mpsc, oneshot};

/// Messages that may wait. A sender that finds the queue full waits in turn.
const QUEUE: usize = 256;

#[derive(Debug)]
pub(crate) enum Message {
    Call {
        peer: Peer,
        request: Request,
        reply: oneshot::Sender<Answer>,
        /// That of its client, if this is its first call.
        arrival: Option<Arrival>,
    },
    /// A rule of the configuration says so.
    Adopt {
        candidate: Candidate,
        reply: oneshot::Sender<Outcome>,
    },
    /// The connection that was the lease of an application has closed.
    LeaseEnded {
        app: AppId,
    },
    Scrape {
        reply: oneshot::Sender<String>,
    },
    /// Processes of an application ended; perhaps all of them.
    MayHaveEnded {
        app: AppId,
    },
    /// What its threads were seen to do has changed.
    Spinning {
        app: AppId,
        spinning: Option<Spinning>,
    },
}

/// What runs and is to be adopted.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Candidate {
    pub(crate) group: RunningGroup,
    /// For whom it counts.
    pub(crate) user: u32,
    pub(crate) rule: usize,
    pub(crate) request: AdoptRequest,
}

/// What became of a candidate.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is managed, or was released.
    Nothing,
    Adopted,
    Refused(ErrorReply),
}

pub(crate) type Answer = Result<Served, ErrorReply>;

#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) reply: Reply,
    /// Passed with the reply.
    pub(crate) page: Option<OwnedFd>,
    /// The application whose lease the connection now is.
    pub(crate) lease: Option<AppId>,
}

impl Served {
    pub(crate) const fn plain(reply: Reply) -> Self {
        Self {
            reply,
            page: None,
            lease: None,
        }
    }

    pub(crate) const fn place(reply: LaunchReply, page: Option<OwnedFd>) -> Self {
        let lease = Some(reply.app);
        Self {
            reply: Reply::Launch(reply),
            page,
            lease,
        }
    }
}

pub(crate) type Sender = mpsc::Sender<Message>;
pub(crate) type Inbox = mpsc::Receiver<Message>;

pub(crate) fn channel() -> (Sender, Inbox) {
    mpsc::channel(QUEUE)
}
