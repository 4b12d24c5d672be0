//! What reaches the task that owns the state.

use crate::config::peer::Peer;
use mapper_control::schema::LaunchReply;
use mapper_control::{ErrorReply, Reply, Request};
use mapper_model::AppId;
use std::os::fd::OwnedFd;
use tokio::sync::{mpsc, oneshot};

/// Messages that may wait. A sender that finds the queue full waits in turn.
const QUEUE: usize = 256;

/// Something happened.
#[derive(Debug)]
pub(crate) enum Message {
    /// A client calls.
    Call {
        /// Who.
        peer: Peer,
        /// What.
        request: Request,
        /// Where the answer goes.
        reply: oneshot::Sender<Answer>,
    },
    /// The connection that was the lease of an application has closed.
    LeaseEnded {
        /// The application.
        app: AppId,
    },
    /// A scraper asks for the metrics.
    Scrape {
        /// Where they go.
        reply: oneshot::Sender<String>,
    },
    /// Processes of an application ended; perhaps all of them.
    MayHaveEnded {
        /// The application.
        app: AppId,
    },
}

/// What a client is answered.
pub(crate) type Answer = Result<Served, ErrorReply>;

/// A call that was served.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) reply: Reply,
    /// The page that goes along.
    pub(crate) page: Option<OwnedFd>,
    /// The application whose lease the connection now is.
    pub(crate) lease: Option<AppId>,
}

impl Served {
    /// An answer in words alone.
    pub(crate) const fn plain(reply: Reply) -> Self {
        Self {
            reply,
            page: None,
            lease: None,
        }
    }

    /// A place for a program.
    pub(crate) const fn place(reply: LaunchReply, page: Option<OwnedFd>) -> Self {
        let lease = Some(reply.app);
        Self {
            reply: Reply::Launch(reply),
            page,
            lease,
        }
    }
}

/// The sending end.
pub(crate) type Sender = mpsc::Sender<Message>;
/// The receiving end.
pub(crate) type Inbox = mpsc::Receiver<Message>;

pub(crate) fn channel() -> (Sender, Inbox) {
    mpsc::channel(QUEUE)
}
