//! The memory of a burst goes back to the system.
//!
//! The allocator keeps what many connections and applications took. So a thread has it give free memory back some time
//! after many of them have ended; it sleeps otherwise.

use anyhow::Context;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// As many connections and applications as this that have ended.
const MANY: usize = 64;

/// How long after them: most that end together have ended by then, and it is not done all the time.
const LATER: Duration = Duration::from_secs(2);

static ENDED: AtomicUsize = AtomicUsize::new(0);
static THREAD: OnceLock<Thread> = OnceLock::new();

/// Starts the thread.
pub(crate) fn start() -> anyhow::Result<()> {
    let thread = std::thread::Builder::new().name("memory".to_owned());
    let work = || loop {
        std::thread::park();
        std::thread::sleep(LATER);
        mapper_host::give_back_free_memory();
    };
    let handle = thread.spawn(work).context("start the memory's thread")?;
    let _ = THREAD.set(handle.thread().clone());
    Ok(())
}

/// A connection or an application has ended.
pub(crate) fn one_ended() {
    let before = ENDED.fetch_add(1, Ordering::Relaxed);
    if before % MANY == MANY - 1
        && let Some(thread) = THREAD.get()
    {
        thread.unpark();
    }
}
