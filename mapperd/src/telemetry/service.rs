//! The service manager (ready, status, watchdog) and the signals for a stop or a reload.
//!
//! Outside a service the notifications have no effect.

use anyhow::Context;
use sd_notify::NotifyState;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

pub(crate) fn ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

pub(crate) fn status(text: &str) {
    notify(&[NotifyState::Status(text)]);
}

pub(crate) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!("service manager not notified: {error}");
    }
}

/// The service manager's watchdog, which expects a notification now and then.
#[derive(Debug)]
pub(crate) struct Watchdog {
    period: Option<Duration>,
}

impl Watchdog {
    pub(crate) fn from_environment() -> Self {
        // Twice as often as required, as sd_watchdog_enabled(3) recommends.
        Self {
            period: sd_notify::watchdog_enabled().map(|period| period / 2),
        }
    }

    /// Waits until a notification is due and sends it; waits forever without a watchdog.
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

pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!("service manager not notified: {error}"),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// An orderly stop; the name of the signal.
    Stop(&'static str),
    Reload,
}

/// SIGTERM and SIGINT are for a stop, SIGHUP is for a reload; but SIGHUP is for a stop if it comes because the terminal is
/// gone from which the daemon was started.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    had_terminal: bool,
}

impl Signals {
    pub(crate) fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("watch for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("watch for SIGINT")?,
            hang_up: signal(SignalKind::hangup()).context("watch for SIGHUP")?,
            had_terminal: has_terminal(),
        })
    }

    pub(crate) async fn received(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Stop("SIGTERM"),
            _ = self.interrupt.recv() => Asked::Stop("SIGINT"),
            _ = self.hang_up.recv() => match self.had_terminal && !has_terminal() {
                true => Asked::Stop("SIGHUP of the terminal"),
                false => Asked::Reload,
            }
        }
    }
}

/// Whether this process has a controlling terminal that is still there.
fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}
