//! What follows when the configuration is to be read again.

use super::Daemon;
use crate::config::peer::Peer;
use crate::requests::effect::{Effect, Handled};
use crate::requests::permit::{Permit, invalid};
use crate::requests::reload;
use crate::requests::reloads::{Read, When};
use crate::socket::message::Answer;
use crate::telemetry::service;
use mapper_control::Reply;
use tokio::sync::oneshot;

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
        if self.reloads.ask(client) == When::Now {
            self.begin_reload();
        }
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
        for client in self.reloads.take_asked() {
            let reply = reply.clone().map(Reply::Reload);
            let _hung_up = client.send(Handled::of(reply, Effect::None).answer);
        }
        if self.reloads.take_next() == When::Now {
            self.begin_reload();
        }
    }
}
