//! The service manager: ready, status, watchdog, and the signals that ask for a stop or a reload.
//!
//! Outside a service the notifications have no effect.

use anyhow::Context;
use sd_notify::NotifyState;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Reports that the daemon accepts calls.
pub(crate) fn ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Reports in a few words what the daemon does.
pub(crate) fn status(text: &str) {
    notify(&[NotifyState::Status(text)]);
}

/// Reports that the daemon is about to stop.
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

/// Reports that the configuration is being read.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!("service manager not notified: {error}"),
    }
}

/// Reports that the configuration was read.
pub(crate) fn reloaded(status: &str) {
    ready(status);
}

/// What a signal asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// An orderly stop; the name of the signal.
    Stop(&'static str),
    /// To read the configuration again.
    Reload,
}

/// The signals that ask for something: SIGTERM and SIGINT for a stop; SIGHUP to read the
/// configuration again, unless it comes because the terminal is gone that the daemon was started
/// from: then it is a stop.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    terminal: Terminal,
}

/// Whether the daemon was started from a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Terminal {
    AtStart,
    Never,
}

impl Signals {
    pub(crate) fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("watch for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("watch for SIGINT")?,
            hang_up: signal(SignalKind::hangup()).context("watch for SIGHUP")?,
            terminal: if has_terminal() {
                Terminal::AtStart
            } else {
                Terminal::Never
            },
        })
    }

    /// Waits for one of them.
    pub(crate) async fn received(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Stop("SIGTERM"),
            _ = self.interrupt.recv() => Asked::Stop("SIGINT"),
            _ = self.hang_up.recv() => {
                if self.terminal == Terminal::AtStart && !has_terminal() {
                    Asked::Stop("SIGHUP of the terminal")
                } else {
                    Asked::Reload
                }
            }
        }
    }
}

/// Whether this process has a controlling terminal that is still there.
fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}
