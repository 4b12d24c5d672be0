//! The service manager (ready, status, watchdog) and the signals for a stop or a reload.
//!
//! Outside a service the notifications have no effect. A thread sends them, since the service manager may be slow.

use crate::telemetry::background::{Background, reporting};
use anyhow::Context;
use sd_notify::NotifyState;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
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
    submit(states, None);
}

/// Has the service manager keep a descriptor for the next daemon.
pub(crate) fn keep(name: &str, descriptor: BorrowedFd<'_>) {
    let states = [NotifyState::FdStore, NotifyState::FdName(name)];
    match descriptor.try_clone_to_owned() {
        Ok(descriptor) => submit(&states, Some(descriptor)),
        Err(error) => tracing::warn!("{name} not given to the service manager: {error}"),
    }
}

/// The service manager need not keep a descriptor any more.
pub(crate) fn forget(name: &str) {
    notify(&[NotifyState::FdStoreRemove, NotifyState::FdName(name)]);
}

/// What the service manager is to receive, and a descriptor that it is to keep.
type Notice = (String, Option<OwnedFd>);

/// Notifications that may wait: the page of every application, twice.
const WAITING: usize = 2048;

/// How long the end of the daemon waits for the service manager.
const LAST_NOTICES: Duration = Duration::from_secs(1);

static NOTICES: OnceLock<Background<Notice>> = OnceLock::new();

/// Notifying the service manager; what was notified is sent when this is dropped.
#[derive(Debug)]
pub(crate) struct Notifying(());

impl Drop for Notifying {
    fn drop(&mut self) {
        if let Some(notices) = NOTICES.get() {
            notices.flush(LAST_NOTICES);
        }
    }
}

/// Starts the thread that notifies the service manager, which may take its time.
pub(crate) fn start() -> anyhow::Result<Notifying> {
    if std::env::var_os("NOTIFY_SOCKET").is_some() {
        let dropped = || NOTICES.get().map_or(0, Background::dropped);
        let report = reporting(
            "notifications were lost: the service manager did not read; descriptors among them",
            dropped,
        );
        let _ = NOTICES.set(Background::start("notify", WAITING, send, report)?);
    }
    Ok(Notifying(()))
}

fn submit(states: &[NotifyState<'_>], descriptor: Option<OwnedFd>) {
    if let Some(notices) = NOTICES.get() {
        let lines = states.iter().map(ToString::to_string);
        notices.submit((lines.collect::<Vec<_>>().join("\n"), descriptor));
    }
}

fn send((text, descriptor): Notice) {
    let states = [NotifyState::Custom(&text)];
    let sent = match &descriptor {
        Some(descriptor) => sd_notify::notify_with_fds(&states, &[descriptor.as_fd()]),
        None => sd_notify::notify(&states),
    };
    if let Err(error) = sent {
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
