//! The thread that writes the saved state.
//!
//! A disk may take seconds for a small file, and decisions and launches must not wait for it. So states go to a thread
//! through a mailbox of one: a new state replaces one that still waits, since only the newest matters. There is a single
//! writer, so an older state never replaces a newer one. If the daemon is killed, the file holds the state before.

use crate::store::directory::{StateDir, Stored};
use crate::store::saved::Unsaved;
use anyhow::Context;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

pub(crate) trait StateWriter: Send + 'static {
    /// Replaces the old state by a new one.
    fn store(&self, saved: Unsaved) -> anyhow::Result<Stored>;
}

impl StateWriter for StateDir {
    fn store(&self, saved: Unsaved) -> anyhow::Result<Stored> {
        Self::store(self, saved)
    }
}

/// Whether everything that was submitted is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flushed {
    Done,
    /// The newest state could not be written.
    Failed,
    /// The writer is still busy.
    Late,
    /// There is no place to write to.
    Nowhere,
}

/// Passes states to the thread that writes them. After this is dropped, the thread writes the last one and ends.
#[derive(Debug)]
pub(crate) struct Saver(Arc<Mailbox>);

#[derive(Debug, Default)]
struct Mailbox {
    slot: Mutex<Slot>,
    /// The slot has changed.
    changed: Condvar,
    /// A state was written, or could not be.
    tried: Notify,
}

#[derive(Debug, Default)]
struct Slot {
    waiting: Option<Box<Unsaved>>,
    /// How many were submitted, and up to which of them the thread has come.
    submitted: u64,
    begun: u64,
    tried: u64,
    /// While the thread writes.
    writing_since: Option<Instant>,
    /// The newest write failed.
    failed: bool,
    /// Nothing more will come.
    closed: bool,
}

impl Mailbox {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        // Every change of the slot is complete, so it is valid even if a thread panicked meanwhile.
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next state to write; `None` when none will come. `failed` is about the one before.
    fn next(&self, failed: bool) -> Option<Box<Unsaved>> {
        let mut slot = self.slot();
        slot.failed = failed;
        slot.tried = slot.begun;
        self.tried.notify_one();
        slot.writing_since = None;
        self.changed.notify_all();
        let empty = |slot: &mut Slot| slot.waiting.is_none() && !slot.closed;
        let waited = self.changed.wait_while(slot, empty);
        let mut slot = waited.unwrap_or_else(PoisonError::into_inner);
        let saved = slot.waiting.take()?;
        slot.begun = slot.submitted;
        slot.writing_since = Some(Instant::now());
        Some(saved)
    }
}

impl Saver {
    pub(crate) fn start(store: impl StateWriter) -> anyhow::Result<Self> {
        let mailbox = Arc::new(Mailbox::default());
        let reader = Arc::clone(&mailbox);
        std::thread::Builder::new()
            .name("save-state".to_owned())
            .spawn(move || write_all(&reader, &store))
            .context("start the thread that saves state")?;
        Ok(Self(mailbox))
    }

    /// Submits a state, in place of one that still waits. Never waits for the disk.
    pub(crate) fn submit(&self, saved: Unsaved) {
        let mut slot = self.0.slot();
        slot.waiting = Some(Box::new(saved));
        slot.submitted += 1;
        self.0.changed.notify_all();
    }

    /// The number of the newest state, or `None` if the thread has come to it, or has been busy for so long that
    /// nobody waits for it.
    pub(crate) fn unwritten(&self, patience: Duration) -> Option<u64> {
        let slot = self.0.slot();
        let since = slot.writing_since;
        let stuck = since.is_some_and(|since| since.elapsed() >= patience);
        (slot.tried < slot.submitted && !stuck).then_some(slot.submitted)
    }

    /// The number of the newest state that was submitted.
    pub(crate) fn submitted(&self) -> u64 {
        self.0.slot().submitted
    }

    /// Whether the state with this number, or a newer one, is written.
    pub(crate) fn outcome(&self, state: u64) -> Flushed {
        let slot = self.0.slot();
        match slot.tried >= state {
            false => Flushed::Late,
            true if slot.failed => Flushed::Failed,
            true => Flushed::Done,
        }
    }

    /// The number of the newest state that was written, or could not be.
    pub(crate) fn tried(&self) -> u64 {
        self.0.slot().tried
    }

    /// Waits until a further state was written, or could not be.
    pub(crate) async fn has_tried(&self) {
        self.0.tried.notified().await;
    }

    /// Waits up to `patience` until everything that was submitted is written. Does not wait for a disk that has been busy
    /// for that long already, so that many callers do not wait one after the other.
    pub(crate) fn flush(&self, patience: Duration) -> Flushed {
        let busy = |slot: &mut Slot| slot.waiting.is_some() || slot.writing_since.is_some();
        let slot = self.0.slot();
        if slot
            .writing_since
            .is_some_and(|since| since.elapsed() >= patience)
        {
            return Flushed::Late;
        }
        let waited = self.0.changed.wait_timeout_while(slot, patience, busy);
        let (slot, outcome) = waited.unwrap_or_else(PoisonError::into_inner);
        match slot.failed {
            _ if outcome.timed_out() => Flushed::Late,
            true => Flushed::Failed,
            false => Flushed::Done,
        }
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        self.0.slot().closed = true;
        self.0.changed.notify_all();
    }
}

/// The thread. It logs once that state cannot be written, or not completely, until that works again.
fn write_all(mailbox: &Mailbox, store: &impl StateWriter) {
    let mut logged = None;
    while let Some(saved) = mailbox.next(logged == Some(Trouble::NotSaved)) {
        let trouble = match store.store(*saved) {
            Ok(Stored::Whole) => None,
            Ok(Stored::WithoutHistory) => Some(Trouble::NoHistory),
            Err(error) => {
                if logged == Some(Trouble::NotSaved) {
                    tracing::debug!("state not saved: {error:#}");
                } else {
                    tracing::warn!("state not saved, it would be lost in a restart: {error:#}");
                }
                Some(Trouble::NotSaved)
            }
        };
        if trouble == Some(Trouble::NoHistory) && logged != trouble {
            tracing::warn!(
                "the state would be too long to be read again: saved without what was learned about applications"
            );
        }
        logged = trouble;
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trouble {
    NotSaved,
    NoHistory,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::saved::Ending;
    use mapper_model::AppId;
    use std::sync::mpsc;

    const SOON: Duration = Duration::from_millis(50);
    const PATIENCE: Duration = Duration::from_secs(20);

    /// A disk that reports the state it begins to write and then waits for permission.
    struct Gated {
        begun: mpsc::Sender<u64>,
        go: Mutex<mpsc::Receiver<()>>,
    }

    impl StateWriter for Gated {
        fn store(&self, saved: Unsaved) -> anyhow::Result<Stored> {
            self.begun.send(saved.decisions)?;
            self.go.lock().unwrap().recv()?;
            Ok(Stored::Whole)
        }
    }

    fn state(decisions: u64) -> Unsaved {
        Unsaved::new(Ending::Running, AppId(1), decisions)
    }

    #[test]
    fn a_stuck_disk_blocks_no_caller_and_only_the_last_state_is_written() {
        let ((begun, begins), (go, gate)) = (mpsc::channel(), mpsc::channel());
        let go_on = Mutex::new(gate);
        let saver = Saver::start(Gated { begun, go: go_on }).unwrap();
        assert_eq!(saver.flush(SOON), Flushed::Done);
        saver.submit(state(0));
        assert_eq!(begins.recv_timeout(PATIENCE), Ok(0));
        let started = Instant::now();
        for decisions in 1..100 {
            saver.submit(state(decisions));
        }
        // None of them waited for the disk, which would wait for ever.
        assert!(started.elapsed() < PATIENCE);
        assert_eq!(saver.flush(SOON), Flushed::Late);
        // The disk is known to be stuck.
        let started = Instant::now();
        for _ in 0..100 {
            assert_eq!(saver.flush(SOON), Flushed::Late);
        }
        assert!(started.elapsed() < 50 * SOON);
        go.send(()).unwrap();
        assert_eq!(begins.recv_timeout(PATIENCE), Ok(99));
        assert_eq!(saver.flush(SOON), Flushed::Late);
        go.send(()).unwrap();
        assert_eq!(saver.flush(PATIENCE), Flushed::Done);
        drop(saver);
        // The thread has ended, and wrote nothing else.
        let disconnected = Err(mpsc::RecvTimeoutError::Disconnected);
        assert_eq!(begins.recv_timeout(PATIENCE), disconnected);
    }

    #[test]
    fn a_failed_write_blocks_no_caller_and_is_reported() {
        /// Full for odd states.
        struct Full;
        impl StateWriter for Full {
            fn store(&self, saved: Unsaved) -> anyhow::Result<Stored> {
                anyhow::ensure!(saved.decisions.is_multiple_of(2), "no space left on device");
                Ok(Stored::WithoutHistory)
            }
        }
        let saver = Saver::start(Full).unwrap();
        for decisions in [1, 3, 4, 5] {
            saver.submit(state(decisions));
            let expected = match decisions {
                4 => Flushed::Done,
                _ => Flushed::Failed,
            };
            assert_eq!(saver.flush(PATIENCE), expected);
        }
    }
}
