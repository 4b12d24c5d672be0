//! Ctrl-C as a flag.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, ensure};

/// Set when the user presses Ctrl-C or the task is asked to end.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Turns SIGINT, SIGTERM and SIGHUP into this flag.
    pub fn on_signals() -> anyhow::Result<Self> {
        let interrupt = Self::default();
        let flag = Arc::clone(&interrupt.0);
        ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
            .context("install the handler of Ctrl-C")?;
        Ok(interrupt)
    }

    /// Whether the user wants to stop.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// What Ctrl-C does.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Fails once the user wants to stop.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.is_raised(), "interrupted");
        Ok(())
    }
}
