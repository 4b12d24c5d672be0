//! What the kernel may take a while for, on threads of its own: processes join groups, and groups are removed.

use crate::registry::pending::{Pending, Prepared};
use crate::socket::message::Answer;
use mapper_host::enforce::KernelWork;
use mapper_host::{HostError, chain};
use std::time::{Duration, Instant as Clock};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// A launch whose process is to enter, and what that takes.
pub(crate) struct Entry {
    pub(crate) waiting: Waiting,
    pub(crate) work: KernelWork,
}

/// Who waits for the answer, since when, and what preparing the launch took.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) prepared: Prepared,
    pub(crate) reply: oneshot::Sender<Answer>,
    pub(crate) since: Instant,
    pub(crate) taken: Duration,
}

#[derive(Debug)]
pub(crate) struct Entered {
    pub(crate) waiting: Waiting,
    pub(crate) outcome: Result<(), HostError>,
}

/// What became of some launches: those that entered or could not, and those for which there was no time.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) entered: Vec<Entered>,
    pub(crate) left: Vec<Pending>,
}

#[derive(Debug)]
pub(crate) enum Done {
    Entering(Batch),
    Removing,
}

/// The work in progress, at most one of each kind.
#[derive(Debug, Default)]
pub(crate) struct Apart {
    entering: Option<JoinHandle<Batch>>,
    removing: Option<JoinHandle<()>>,
}

impl Apart {
    pub(crate) const fn is_entering(&self) -> bool {
        self.entering.is_some()
    }

    pub(crate) const fn is_removing(&self) -> bool {
        self.removing.is_some()
    }

    /// Lets processes enter, the first of them and then the next ones for so long.
    pub(crate) fn enter(&mut self, entries: Vec<Entry>, at_most: Duration) {
        self.entering = Some(tokio::task::spawn_blocking(move || enter(entries, at_most)));
    }

    pub(crate) fn remove(&mut self, work: KernelWork) {
        self.removing = Some(tokio::task::spawn_blocking(move || {
            if let Err(error) = work() {
                tracing::warn!("groups not removed: {}", chain(&error));
            }
        }));
    }

    /// Waits until something is done; for ever, if nothing is in progress.
    pub(crate) async fn done(&mut self) -> Done {
        let Self { entering, removing } = self;
        tokio::select! {
            batch = finished(entering) => Done::Entering(batch),
            () = finished(removing) => Done::Removing,
        }
    }
}

/// The result, once there is one; nothing, should it have panicked.
async fn finished<T: Default>(work: &mut Option<JoinHandle<T>>) -> T {
    let Some(working) = work else {
        return std::future::pending().await;
    };
    let result = working.await;
    *work = None;
    result.unwrap_or_else(|error| {
        tracing::error!("work apart: {error}");
        T::default()
    })
}

fn enter(entries: Vec<Entry>, at_most: Duration) -> Batch {
    let (began, mut batch) = (Clock::now(), Batch::default());
    for Entry { waiting, work } in entries {
        if batch.entered.is_empty() || began.elapsed() < at_most {
            let outcome = work();
            batch.entered.push(Entered { waiting, outcome });
        } else {
            batch.left.push(Pending {
                launch: waiting.prepared.launch,
                reply: waiting.reply,
                since: waiting.since,
            });
        }
    }
    batch
}
