//! Talking to the service manager: ready, status, watchdog, stop.
//!
//! Outside a service the notifications go nowhere, and nobody minds.

use anyhow::Context;
use sd_notify::NotifyState;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Says that the daemon takes calls.
pub(crate) fn ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Says in a few words what the daemon does.
pub(crate) fn status(text: &str) {
    notify(&[NotifyState::Status(text)]);
}

/// Says that the daemon is about to stop.
pub(crate) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!("service manager not notified: {error}");
    }
}

/// The service manager's watchdog: it wants a sign of life now and then.
#[derive(Debug)]
pub(crate) struct Watchdog {
    period: Option<Duration>,
}

impl Watchdog {
    /// What the service manager asked for, if it did.
    pub(crate) fn from_environment() -> Self {
        // Twice as often as asked for, as sd_watchdog_enabled(3) recommends.
        Self {
            period: sd_notify::watchdog_enabled().map(|period| period / 2),
        }
    }

    /// Waits until a sign of life is due and gives it; waits forever if none is wanted.
    pub(crate) async fn sign(&self) {
        match self.period {
            Some(period) => {
                tokio::time::sleep(period).await;
                notify(&[NotifyState::Watchdog]);
            }
            None => std::future::pending().await,
        }
    }
}

/// The signals that end the daemon in order: that of the service manager, Ctrl-C, and the end of the
/// terminal it was started from.
#[derive(Debug)]
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl StopSignals {
    pub(crate) fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("watch for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("watch for SIGINT")?,
            hang_up: signal(SignalKind::hangup()).context("watch for SIGHUP")?,
        })
    }

    /// Waits for one of them and names it.
    pub(crate) async fn received(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.hang_up.recv() => "SIGHUP",
        }
    }
}
