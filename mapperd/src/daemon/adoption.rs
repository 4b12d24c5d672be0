//! Adopting what already runs, for a client or a rule.

use super::Daemon;
use crate::config::peer::Peer;
use crate::requests::adopt;
use crate::requests::permit::{held_up, internal};
use crate::store::saved::Ending;
use mapper_control::ErrorReply;
use mapper_control::schema::{AdoptReply, AdoptRequest};

impl Daemon {
    pub(crate) fn adopt(
        &mut self,
        peer: &Peer,
        request: AdoptRequest,
    ) -> Result<AdoptReply, ErrorReply> {
        let target = request.target.clone();
        let adopted = self.try_adopt(peer, request);
        if let Err(error) = &adopted {
            self.telemetry.tally.refused += 1;
            tracing::info!(uid = peer.uid, "{target} not adopted: {error}");
        }
        adopted
    }

    /// What an earlier daemon adopted, or root, is not adopted again.
    pub(crate) fn adopt_by_rule(&mut self, request: AdoptRequest) -> Result<(), ErrorReply> {
        // The one that was adopted may have ended, and this be its successor.
        let before = self.registry.adopted(&request.target);
        self.registry.may_have_ended.extend(before);
        self.end_empty();
        match self.registry.adopted(&request.target) {
            Some(_) => Ok(()),
            None => self.try_adopt(&Peer::this_daemon(), request).map(drop),
        }
    }

    fn try_adopt(&mut self, peer: &Peer, request: AdoptRequest) -> Result<AdoptReply, ErrorReply> {
        let Self {
            config,
            registry,
            machine,
            ..
        } = self;
        if let Some(held) = machine.moves_held_up() {
            return Err(held_up(&held));
        }
        let target = request.target.clone();
        let prepared = adopt::prepare(peer, request, config, registry, machine)?;
        let app = prepared.adoptee.app;
        self.save(Ending::Running);
        let saved = self.store.flush(adopt::SAVED_FIRST);
        if let Err(error) = adopt::bring_in(&prepared, saved, &mut self.machine) {
            adopt::withdraw(
                &prepared,
                &mut self.registry,
                &mut self.machine,
                &self.decider,
            );
            self.save(Ending::Running);
            return Err(error);
        }
        tracing::info!(app = app.0, by = peer.uid, "adopted {target}");
        self.telemetry.tally.adoptions += 1;
        self.membership_changed();
        if let Some(reply) = adopt::reply(&prepared, &self.registry, &mut self.machine) {
            return Ok(reply);
        }
        self.forget(app);
        self.membership_changed();
        Err(internal(
            "it ended or could not be confined; see the daemon's log".to_owned(),
        ))
    }
}
