//! Reading the configuration again. A thread reads and checks it: names of users may be a server's, which may take long to
//! answer. It is started before it is needed, as the start of a thread may wait for the kernel.

use super::Daemon;
use crate::config::args::Args;
use crate::config::peer::Peer;
use crate::config::settings::Settings;
use crate::requests::effect::{Effect, Handled};
use crate::requests::permit::{Permit, invalid};
use crate::requests::reload;
use crate::socket::message::Answer;
use crate::telemetry::service;
use anyhow::Context;
use mapper_control::Reply;
use mapper_model::Topology;
use std::sync::mpsc;
use tokio::sync::oneshot;

/// What the thread found.
pub(super) type Read = anyhow::Result<Settings>;

/// What is to be read, and who waits for it.
type Order = (Args, Topology, oneshot::Sender<Read>);

/// The configuration that is being read, and who waits for it.
#[derive(Debug)]
pub(crate) struct Reloads {
    thread: mpsc::Sender<Order>,
    reading: Option<oneshot::Receiver<Read>>,
    asked: Vec<oneshot::Sender<Answer>>,
    /// Whether somebody asked after the reading began: the file may have changed since, so it is read once more, for these.
    again: bool,
    next: Vec<oneshot::Sender<Answer>>,
}

impl Reloads {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let (thread, orders) = mpsc::channel::<Order>();
        std::thread::Builder::new()
            .name("configuration".to_owned())
            .spawn(move || {
                for (sources, topology, done) in orders {
                    let _stopped = done.send(reload::read(sources, &topology));
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

    pub(super) const fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// Waits until the configuration is read; for ever if nobody asked.
    pub(super) async fn read(&mut self) -> Read {
        let Some(reading) = &mut self.reading else {
            return std::future::pending().await;
        };
        let read = reading.await;
        self.reading = None;
        read.unwrap_or_else(|_| anyhow::bail!("the thread that reads the configuration has ended"))
    }

    fn begin(&mut self, settings: &Settings, topology: &Topology) {
        let (done, reading) = oneshot::channel();
        let order = (settings.sources().clone(), topology.clone(), done);
        // If the thread has ended, that is what comes of it.
        let _ended = self.thread.send(order);
        self.reading = Some(reading);
    }
}

impl Daemon {
    /// Reads the configuration again for who may have that done.
    pub(super) fn reload(&mut self, peer: &Peer, client: oneshot::Sender<Answer>) {
        match Permit::of(peer, &self.config).check_reload() {
            Ok(()) => self.reload_for(Some(client)),
            Err(refused) => {
                let _hung_up = client.send(Handled::of(Err(refused), Effect::None).answer);
            }
        }
    }

    /// Reads the configuration again, for a client or for a signal.
    pub(super) fn reload_for(&mut self, client: Option<oneshot::Sender<Answer>>) {
        if self.reloads.is_reading() {
            self.reloads.again = true;
            self.reloads.next.extend(client);
            return;
        }
        self.reloads.asked.extend(client);
        self.begin_reload();
    }

    fn begin_reload(&mut self) {
        service::reloading();
        self.reloads.begin(&self.config, self.decider.topology());
    }

    /// Applies what was read, and answers who asked.
    pub(super) fn apply_read(&mut self, read: Read) {
        let Self {
            config,
            machine,
            decider,
            telemetry,
            ..
        } = self;
        let reloaded = reload::reload(read, config, machine, decider, telemetry);
        let rules = &config.adopt;
        self.adopt_rules.send_if_modified(|before| {
            let differs = before != rules;
            if differs {
                before.clone_from(rules);
            }
            differs
        });
        let reply = reloaded.map(|reloaded| {
            self.act(reloaded.effect);
            reloaded.reply
        });
        service::ready(match reply {
            Ok(_) => "configuration read again",
            Err(_) => "the configuration has an error and was not applied",
        });
        let reply = reply.map_err(|error| invalid(format!("{error:#}")));
        for client in std::mem::take(&mut self.reloads.asked) {
            let reply = reply.clone().map(Reply::Reload);
            let _hung_up = client.send(Handled::of(reply, Effect::None).answer);
        }
        if std::mem::take(&mut self.reloads.again) {
            self.reloads.asked = std::mem::take(&mut self.reloads.next);
            self.begin_reload();
        }
    }
}
