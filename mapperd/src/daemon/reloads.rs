//! Reading the configuration again. A thread reads and checks it: names of users may be a server's, which may take long to
//! answer.

use super::Daemon;
use crate::config::peer::Peer;
use crate::config::settings::Settings;
use crate::requests::effect::{Effect, Handled};
use crate::requests::permit::{Permit, invalid};
use crate::requests::reload;
use crate::socket::message::Answer;
use crate::telemetry::service;
use mapper_control::Reply;
use mapper_model::Topology;
use std::io;
use tokio::sync::oneshot;

/// What the thread found.
pub(super) type Read = anyhow::Result<Settings>;

/// The configuration that is being read, and who waits for it.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    reading: Option<oneshot::Receiver<Read>>,
    asked: Vec<oneshot::Sender<Answer>>,
    /// Came after it had begun, when the file may have been another: it is read once more.
    next: Vec<Option<oneshot::Sender<Answer>>>,
}

impl Reloads {
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
        read.unwrap_or_else(|_| anyhow::bail!("the thread that read the configuration has ended"))
    }

    fn begin(&mut self, settings: &Settings, topology: &Topology) -> io::Result<()> {
        let (done, reading) = oneshot::channel();
        let (sources, topology) = (settings.sources().clone(), topology.clone());
        std::thread::Builder::new()
            .name("configuration".to_owned())
            .spawn(move || {
                let _stopped = done.send(reload::read(sources, &topology));
            })?;
        self.reading = Some(reading);
        Ok(())
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
            self.reloads.next.push(client);
            return;
        }
        service::reloading();
        self.reloads.asked.extend(client);
        if let Err(error) = self.reloads.begin(&self.config, self.decider.topology()) {
            let error = anyhow::Error::new(error).context("start the thread that reads it");
            self.apply_read(Err(error));
        }
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
        for client in std::mem::take(&mut self.reloads.next) {
            self.reload_for(client);
        }
    }
}
