//! Noticing immediately that an application ends.
//!
//! Two events show it: a descriptor of the first process (pidfd) becomes readable when that process ends, and the
//! `cgroup.events` file of the group changes when the last process has left. The enforcer decides whether the
//! application has ended.

use crate::socket::message::{Message, Sender};
use mapper_model::AppId;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::AbortHandle;

/// The watches of one application. Dropping it ends them.
#[derive(Debug, Default)]
pub(crate) struct Watches(Vec<AbortHandle>);

impl Drop for Watches {
    fn drop(&mut self) {
        for watch in &self.0 {
            watch.abort();
        }
    }
}

impl Watches {
    /// Watches a process; reports once.
    pub(crate) fn process(&mut self, app: AppId, pidfd: OwnedFd, sender: Sender) {
        let task = tokio::spawn(async move {
            let Some(pidfd) = watched(pidfd, Interest::READABLE) else {
                return;
            };
            let _ = pidfd.readable().await;
            // Sending fails while the daemon stops.
            let _ = sender.send(Message::MayHaveEnded { app }).await;
        });
        self.0.push(task.abort_handle());
    }

    /// Watches a group; reports each time it becomes populated or empty.
    pub(crate) fn group(&mut self, app: AppId, events: OwnedFd, sender: Sender) {
        let task = tokio::spawn(async move {
            let Some(events) = watched(events, Interest::PRIORITY) else {
                return;
            };
            let mut text = [0u8; 256];
            loop {
                let Ok(mut ready) = events.ready(Interest::PRIORITY).await else {
                    return;
                };
                ready.clear_ready();
                // The kernel reports the next change only after this one has been read.
                if rustix::io::pread(events.get_ref(), &mut text, 0).is_err()
                    || sender.send(Message::MayHaveEnded { app }).await.is_err()
                {
                    return;
                }
            }
        });
        self.0.push(task.abort_handle());
    }
}

fn watched(descriptor: OwnedFd, interest: Interest) -> Option<AsyncFd<OwnedFd>> {
    // SAFETY: the `AsyncFd` owns the descriptor, which is open, always the same, and closed only when the `AsyncFd` is
    // dropped.
    match unsafe { AsyncFd::register_with_interest(descriptor, interest) } {
        Ok(watched) => Some(watched),
        Err(error) => {
            // The end is noticed at the next interval or when the lease ends.
            tracing::debug!("not watched: {error}");
            None
        }
    }
}
