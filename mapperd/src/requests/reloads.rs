//! Reading the configuration again. A thread reads and checks it: names of users may be a server's, which may take long to
//! answer. It is started before it is needed, as the start of a thread may wait for the kernel.

use crate::config::args::Args;
use crate::config::settings::Settings;
use crate::requests::reload;
use crate::socket::message::Answer;
use anyhow::{Context, anyhow, bail};
use mapper_model::Topology;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

/// What the thread found.
pub(crate) type Read = anyhow::Result<Settings>;

/// What is to be read, and who waits for it.
type Order = (Args, Topology, oneshot::Sender<Read>);

/// The configuration that is being read, and who waits for it.
#[derive(Debug)]
pub(crate) struct Reloads {
    thread: mpsc::Sender<Order>,
    reading: Option<Reading>,
    asked: Vec<oneshot::Sender<Answer>>,
    /// Whether a request came after the reading began. The file may have changed since, so it is read once more.
    again: bool,
    /// Who waits for that.
    next: Vec<oneshot::Sender<Answer>>,
}

#[derive(Debug)]
struct Reading {
    read: oneshot::Receiver<Read>,
    /// When the log says that it takes long; `None` once it has.
    late: Option<Instant>,
}

/// After this the log says that the configuration is still being read.
const LONG: Duration = Duration::from_secs(5);

/// When the configuration is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum When {
    Now,
    /// After the present reading, or at the next request.
    Later,
}

impl Reloads {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let (thread, orders) = mpsc::channel::<Order>();
        std::thread::Builder::new()
            .name("configuration".to_owned())
            .spawn(move || {
                for (sources, topology, done) in orders {
                    // The next order finds the thread all the same.
                    let read = || reload::read(sources, &topology);
                    let read = catch_unwind(AssertUnwindSafe(read));
                    let panicked = |_| Err(anyhow!("reading the configuration panicked"));
                    let _stopped = done.send(read.unwrap_or_else(panicked));
                }
            })
            .context("start the thread that reads the configuration again")?;
        Ok(Self {
            thread,
            reading: None,
            asked: Vec::new(),
            again: false,
            next: Vec::new(),
        })
    }

    pub(crate) const fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// Waits until the configuration is read; for ever without a request.
    pub(crate) async fn read(&mut self) -> Read {
        let Some(reading) = &mut self.reading else {
            return std::future::pending().await;
        };
        let read = loop {
            let late = reading.late;
            tokio::select! {
                read = &mut reading.read => break read,
                () = until(late) => {
                    reading.late = None;
                    tracing::warn!(
                        "the configuration is still being read after {} s: its file or the server of user names does \
                         not answer; the previous one is in force",
                        LONG.as_secs()
                    );
                }
            }
        };
        self.reading = None;
        read.unwrap_or_else(|_| bail!("the thread that reads the configuration has ended"))
    }

    /// Notes the client that waits; a signal has none.
    pub(crate) fn ask(&mut self, client: Option<oneshot::Sender<Answer>>) -> When {
        match self.is_reading() {
            true => {
                self.again = true;
                self.next.extend(client);
                When::Later
            }
            false => {
                self.asked.extend(client);
                When::Now
            }
        }
    }

    /// The clients that wait for what was read.
    pub(crate) fn take_asked(&mut self) -> Vec<oneshot::Sender<Answer>> {
        std::mem::take(&mut self.asked)
    }

    /// Whether it is to be read once more.
    pub(crate) fn take_next(&mut self) -> When {
        self.asked.append(&mut self.next);
        match std::mem::take(&mut self.again) {
            true => When::Now,
            false => When::Later,
        }
    }

    /// Gives the thread the order to read it.
    pub(crate) fn begin(&mut self, settings: &Settings, topology: &Topology) {
        let (done, read) = oneshot::channel();
        let order = (settings.sources().clone(), topology.clone(), done);
        // If the thread has ended, that is what comes of it.
        let _ended = self.thread.send(order);
        self.reading = Some(Reading {
            read,
            late: Some(Instant::now() + LONG),
        });
    }
}

async fn until(late: Option<Instant>) {
    match late {
        Some(late) => sleep_until(late).await,
        None => std::future::pending().await,
    }
}
