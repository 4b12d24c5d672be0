//! The service manager (ready, status, watchdog) and the signals for a stop or a reload.
//!
//! Outside a service the notifications have no effect. A thread sends them, since the service manager may be slow.

use crate::telemetry::background::{Background, reporting};
use anyhow::Context;
use sd_notify::NotifyState;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A descriptor that the service manager opened or kept for this process.
#[derive(Debug)]
pub(crate) struct Passed {
    pub(crate) name: String,
    pub(crate) descriptor: OwnedFd,
}

/// Takes what the service manager passed to this process. May be called once.
pub(crate) fn passed() -> Vec<Passed> {
    let Ok(passed) = sd_notify::listen_fds_with_names() else {
        return Vec::new();
    };
    let take = |(number, name)| {
        // SAFETY: the service manager opened the descriptor for this process, as the environment says; no other code
        // here uses its number, and this function runs once.
        let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
        Passed { name, descriptor }
    };
    passed.map(take).collect()
}

pub(crate) fn ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

pub(crate) fn status(text: &str) {
    submit(&[NotifyState::Status(text)], None, Worth::Passing);
}

pub(crate) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

fn notify(states: &[NotifyState<'_>]) {
    submit(states, None, Worth::Lasting);
}

/// Has the service manager keep a descriptor for the next daemon.
pub(crate) fn keep(name: &str, descriptor: BorrowedFd<'_>) {
    let states = [NotifyState::FdStore, NotifyState::FdName(name)];
    match descriptor.try_clone_to_owned() {
        Ok(descriptor) => submit(&states, Some(descriptor), Worth::Lasting),
        Err(error) => tracing::warn!("{name} not given to the service manager: {error}"),
    }
}

/// The service manager need not keep a descriptor any more.
pub(crate) fn forget(name: &str) {
    notify(&[NotifyState::FdStoreRemove, NotifyState::FdName(name)]);
}

/// What the service manager is to receive, and a descriptor that it is to keep.
#[derive(Debug)]
struct Notice {
    text: String,
    descriptor: Option<OwnedFd>,
    worth: Worth,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Worth {
    /// The next of its kind takes its place.
    Passing,
    Lasting,
}

/// Notifications that may wait: the page of every application, twice.
const WAITING: usize = 2048;

/// Of these, those that another follows anyway.
const PASSING: usize = 16;

/// Notifications on their way.
#[derive(Debug)]
struct Notices {
    queue: Background<Notice>,
    passing: Arc<AtomicUsize>,
}

impl Notices {
    fn start(
        send: impl Fn(&Notice) + Send + 'static,
        idle: impl FnMut() + Send + 'static,
    ) -> anyhow::Result<Self> {
        let passing = Arc::new(AtomicUsize::new(0));
        let waiting = Arc::clone(&passing);
        let work = move |notice: Notice| {
            send(&notice);
            if notice.worth == Worth::Passing {
                waiting.fetch_sub(1, Ordering::Relaxed);
            }
        };
        let queue = Background::start("notify", WAITING, work, idle)?;
        Ok(Self { queue, passing })
    }

    /// What is passing takes no place from descriptors.
    fn submit(&self, notice: Notice) {
        if notice.worth == Worth::Passing {
            if self.passing.load(Ordering::Relaxed) >= PASSING {
                return;
            }
            self.passing.fetch_add(1, Ordering::Relaxed);
        }
        self.queue.submit(notice);
    }
}

/// How long the end of the daemon waits for the service manager.
const LAST_NOTICES: Duration = Duration::from_secs(1);

static NOTICES: OnceLock<Notices> = OnceLock::new();

/// Notifying the service manager; what was notified is sent when this is dropped.
#[derive(Debug)]
pub(crate) struct Notifying(());

impl Drop for Notifying {
    fn drop(&mut self) {
        if let Some(notices) = NOTICES.get() {
            notices.queue.flush(LAST_NOTICES);
        }
    }
}

/// Starts the thread that notifies the service manager, which may take its time.
pub(crate) fn start() -> anyhow::Result<Notifying> {
    if std::env::var_os("NOTIFY_SOCKET").is_some() {
        let dropped = || NOTICES.get().map_or(0, |notices| notices.queue.dropped());
        let report = reporting(
            "notifications were lost: the service manager did not read; descriptors among them",
            dropped,
        );
        let _ = NOTICES.set(Notices::start(send, report)?);
    }
    Ok(Notifying(()))
}

fn submit(states: &[NotifyState<'_>], descriptor: Option<OwnedFd>, worth: Worth) {
    if let Some(notices) = NOTICES.get() {
        let lines = states.iter().map(ToString::to_string);
        notices.submit(Notice {
            text: lines.collect::<Vec<_>>().join("\n"),
            descriptor,
            worth,
        });
    }
}

fn send(notice: &Notice) {
    let states = [NotifyState::Custom(&notice.text)];
    let sent = match &notice.descriptor {
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
                submit(&[NotifyState::Watchdog], None, Worth::Passing);
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
        Self::listen_to([
            SignalKind::terminate(),
            SignalKind::interrupt(),
            SignalKind::hangup(),
        ])
    }

    /// Takes these for SIGTERM, SIGINT and SIGHUP.
    pub(crate) fn listen_to(
        [terminate, interrupt, hang_up]: [SignalKind; 3],
    ) -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(terminate).context("watch for SIGTERM")?,
            interrupt: signal(interrupt).context("watch for SIGINT")?,
            hang_up: signal(hang_up).context("watch for SIGHUP")?,
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn notices_of_status_take_no_place_from_descriptors_and_are_sent_again_once_those_before_were()
    {
        let ((open, gate), (sent, received)) = (mpsc::channel::<()>(), mpsc::channel());
        let send = move |notice: &Notice| {
            let _ = gate.recv();
            let _ = sent.send(notice.text.clone());
        };
        let notices = Notices::start(send, || ()).unwrap();
        let submit = |text: &str, worth| {
            let (text, descriptor) = (text.to_owned(), None);
            notices.submit(Notice {
                text,
                descriptor,
                worth,
            });
        };
        // The service manager reads nothing.
        for _ in 0..2 * WAITING {
            submit("status", Worth::Passing);
        }
        for _ in 0..WAITING - PASSING {
            submit("descriptor", Worth::Lasting);
        }
        assert_eq!(notices.queue.dropped(), 0);
        drop(open);
        notices.queue.flush(Duration::from_secs(20));
        let count =
            |wanted: &str, all: &[String]| all.iter().filter(|text| *text == wanted).count();
        let all: Vec<String> = received.try_iter().collect();
        assert_eq!(count("descriptor", &all), WAITING - PASSING);
        assert_eq!(count("status", &all), PASSING);
        submit("status", Worth::Passing);
        notices.queue.flush(Duration::from_secs(20));
        assert_eq!(received.try_iter().count(), 1);
    }
}
