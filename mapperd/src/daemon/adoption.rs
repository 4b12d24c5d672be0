//! Adopting what already runs, for a client or a rule.

use super::Daemon;
use crate::config::peer::Peer;
use crate::registry::LeftAlone;
use crate::registry::origin::ByRule;
use crate::requests::adopt;
use crate::requests::permit::{Permit, held_up, internal};
use crate::socket::message::{Candidate, Outcome};
use crate::store::saved::Ending;
use mapper_control::ErrorReply;
use mapper_control::schema::{AdoptReply, AdoptRequest};
use mapper_model::{AppId, Trigger};
use std::time::Instant as Clock;

impl Daemon {
    pub(crate) fn adopt(
        &mut self,
        peer: &Peer,
        request: AdoptRequest,
    ) -> Result<AdoptReply, ErrorReply> {
        let target = request.target.clone();
        let adopted = self.try_adopt(peer, request, None);
        if let Err(error) = &adopted {
            self.telemetry.tally.refused += 1;
            tracing::info!(uid = peer.uid, "{target} not adopted: {error}");
        }
        adopted
    }

    /// Adopts what a rule names, unless it is managed or was released; another life of it is another matter.
    pub(crate) fn adopt_by_rule(&mut self, candidate: Candidate) -> Outcome {
        let Candidate {
            group,
            user,
            request,
            ..
        } = candidate;
        let (target, inode) = (request.target.clone(), group.inode);
        let is_it = |left: &LeftAlone| left.target == target && left.inode == inode;
        if self.registry.left_alone.iter().any(is_it) {
            return Outcome::Nothing;
        }
        let rule = ByRule {
            inode,
            user,
            request,
        };
        if let Some(app) = self.registry.adopted(&target) {
            self.follow_rule(app, rule);
            return Outcome::Nothing;
        }
        let started = Clock::now();
        let account = self.machine.accounts.of(user);
        let peer = Peer::for_account(account);
        let permit = Permit::of(&peer, &self.config);
        let room = permit.check_room_by_rule(&self.registry, &self.machine);
        let request = rule.request.clone();
        let adopted = room.and_then(|()| self.try_adopt(&peer, request, Some(rule)));
        self.quotas.charge(user, account, started.elapsed());
        match adopted {
            Ok(_) => Outcome::Adopted,
            Err(error) => {
                self.telemetry.tally.refused += 1;
                Outcome::Refused(error)
            }
        }
    }

    /// One that a rule adopted ends with the life of its group, and gets other terms with the rule.
    fn follow_rule(&mut self, id: AppId, rule: ByRule) {
        let before = |daemon: &Self| daemon.registry.get(id)?.record.origin.rule().cloned();
        let Some(was) = before(self) else {
            if let Some(app) = self.registry.get_mut(id) {
                app.record.origin.note_fit(rule.inode);
            }
            return;
        };
        if was.inode != rule.inode {
            self.registry.may_have_ended.insert(id);
            self.end_empty();
        }
        // Where it goes on, an earlier daemon took it over after its group was made anew.
        let Some(app) = self.registry.get_mut(id).filter(|_| was != rule) else {
            return;
        };
        if was.request != rule.request {
            let (spec, request) = (&mut app.record.spec, &rule.request);
            spec.qos = request.qos.unwrap_or_default();
            spec.weight = request.weight;
            spec.cpus = request.cpus;
            spec.lending = request.lending;
            tracing::info!(app = id.0, name = %spec.name, "its rule has changed");
        }
        app.record.origin.note_rule(rule);
        self.decide(Trigger::Membership);
        self.save(Ending::Running);
    }

    fn try_adopt(
        &mut self,
        peer: &Peer,
        request: AdoptRequest,
        rule: Option<ByRule>,
    ) -> Result<AdoptReply, ErrorReply> {
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
        let prepared = adopt::prepare(peer, request, rule, config, registry, machine)?;
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
