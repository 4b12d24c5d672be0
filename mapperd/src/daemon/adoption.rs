//! Adopting what already runs, for a client or a rule.

use super::Daemon;
use crate::config::peer::Peer;
use crate::registry::LeftAlone;
use crate::registry::origin::ByRule;
use crate::registry::pending::{AdoptionAsked, Asking, Joining, Step};
use crate::requests::adopt::{self, ASKED_FOR, NotPrepared, Prepared, SAVED_FIRST};
use crate::requests::permit::{Permit, has_waited, held_up, internal};
use crate::socket::message::{Answer, Candidate, Outcome, Served};
use crate::store::saved::Ending;
use crate::store::saver::Flushed;
use mapper_control::schema::{AdoptRequest, AdoptTarget};
use mapper_control::{ErrorReply, Reply};
use mapper_host::enforce::Moved;
use mapper_model::{AppId, Trigger};
use std::cmp::Reverse;
use std::time::Instant as Clock;
use tokio::sync::oneshot;
use tokio::time::Instant;

impl Daemon {
    pub(crate) fn adopt(
        &mut self,
        peer: &Peer,
        request: AdoptRequest,
        reply: oneshot::Sender<Answer>,
    ) {
        let asked = AdoptionAsked::ByClient(reply);
        self.begin_to_adopt(Asking::new(peer.clone(), request, asked));
    }

    /// Adopts what a rule names, unless it is managed or was released; another life of it is another matter.
    pub(crate) fn adopt_by_rule(&mut self, candidate: Candidate, reply: oneshot::Sender<Outcome>) {
        let Candidate {
            group,
            user,
            request,
            ..
        } = candidate;
        let (target, inode) = (request.target.clone(), group.inode);
        let is_it = |left: &LeftAlone| left.target == target && left.inode == inode;
        if self.registry.left_alone.iter().any(is_it) {
            let _ended = reply.send(Outcome::Nothing);
            return;
        }
        let rule = ByRule {
            inode,
            user,
            request,
        };
        if let Some(app) = self.registry.adopted(&target) {
            self.follow_rule(app, rule);
            let _ended = reply.send(Outcome::Nothing);
            return;
        }
        let started = Clock::now();
        let account = self.machine.accounts.of(user);
        let peer = Peer::for_account(account);
        let permit = Permit::of(&peer, &self.config);
        let room = permit.check_room_by_rule(&self.registry, &self.machine);
        let request = rule.request.clone();
        let asked = AdoptionAsked::ByRule(reply);
        match room {
            Ok(()) => self.begin_to_adopt(Asking {
                rule: Some(rule),
                ..Asking::new(peer, request, asked)
            }),
            Err(error) => self.not_adopted(&target, user, asked, error),
        }
        self.quotas.charge(user, account, started.elapsed());
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

    /// Nothing is moved before the state is saved. Others are served meanwhile, and while it cannot be prepared yet.
    fn begin_to_adopt(&mut self, mut asking: Asking) {
        let prepared = self.prepare(&asking);
        let now = Instant::now();
        let refused = match prepared {
            Ok(prepared) => return self.save_and_adopt(asking, prepared),
            Err(NotPrepared::Refused(error)) => Some(error),
            Err(NotPrepared::Unanswered(app, error)) => {
                let since = *asking.unanswered.get_or_insert(now);
                asking.app = Some(app);
                Some(error).filter(|_| now - since >= ASKED_FOR)
            }
            Err(NotPrepared::HeldUp(app, held)) => {
                asking.app = app.or(asking.app);
                let held = held.filter(|held| has_waited(asking.since, held));
                held.map(|held| held_up(&held))
            }
        };
        if let Some(error) = refused {
            return self.not_prepared(asking, error);
        }
        self.registry.asking.push(asking);
        self.schedule_turn();
    }

    fn not_prepared(&mut self, asking: Asking, error: ErrorReply) {
        self.give_up(asking.app);
        let uid = asking.uid();
        self.not_adopted(&asking.request.target, uid, asking.asked, error);
    }

    fn save_and_adopt(&mut self, asking: Asking, prepared: Prepared) {
        let uid = asking.uid();
        let Asking { request, asked, .. } = asking;
        let Prepared {
            adoptee,
            process,
            app,
        } = prepared;
        let due = Instant::now() + SAVED_FIRST;
        let state = self.store.next();
        self.registry.joining.push(Joining {
            target: request.target,
            adoptee,
            process,
            app,
            asked,
            uid,
            step: Step::Saving { state, due },
        });
        self.save(Ending::Running);
        if self.store.saver.is_none() {
            // At once, as nothing can be saved.
            self.adopt_saved(due);
            return;
        }
        self.timing.answer_by(due);
    }

    fn prepare(&mut self, asking: &Asking) -> Result<Prepared, NotPrepared> {
        let Self {
            config,
            registry,
            machine,
            ..
        } = self;
        if let Some(held) = machine.moves_held_up() {
            return Err(NotPrepared::HeldUp(None, Some(held)));
        }
        adopt::prepare(asking, config, registry, machine)
    }

    /// Goes on with the adoptions that are not prepared yet.
    pub(super) fn ask_again(&mut self) {
        for asking in std::mem::take(&mut self.registry.asking) {
            if asking.asked.is_closed() {
                self.give_up(asking.app);
                continue;
            }
            let (uid, account, started) = (asking.uid(), asking.peer.account, Clock::now());
            self.begin_to_adopt(asking);
            self.quotas.charge(uid, account, started.elapsed());
        }
    }

    /// Has moved what is saved by now, and refuses what is not and has waited until this moment.
    pub(super) fn adopt_saved(&mut self, until: Instant) {
        let mut place = 0;
        // Those that wait stay in every state that is saved meanwhile.
        while let Some(joining) = self.registry.joining.get_mut(place) {
            place += 1;
            let Step::Saving { state, due } = joining.step else {
                continue;
            };
            let saved = self.store.outcome(state);
            if saved == Flushed::Late && due > until {
                continue;
            }
            match adopt::check_saved(&joining.adoptee.target, saved) {
                Ok(()) => {
                    joining.step = Step::Moving { since: None };
                    self.timing.next_turn.get_or_insert_with(Instant::now);
                }
                Err(error) => {
                    place -= 1;
                    let joining = self.registry.joining.remove(place);
                    let (uid, account) = (joining.uid, joining.adoptee.account);
                    let started = Clock::now();
                    self.withdraw(joining, error);
                    self.quotas.charge(uid, account, started.elapsed());
                }
            }
        }
    }

    /// Moves one adoption, or more of it: that whose user has most time left, and of these which has waited longest.
    pub(super) fn bring_in_next(&mut self) {
        let started = Clock::now();
        let left = |joining: &Joining| {
            let account = joining.adoptee.account;
            Reverse(self.quotas.left_us(joining.uid, account, started))
        };
        let joining = self.registry.joining.iter().enumerate();
        let moving = joining.filter(|(_, joining)| joining.moves());
        let next = moving.min_by_key(|(_, joining)| left(joining));
        let Some((place, _)) = next else {
            return;
        };
        let joining = self.registry.joining.remove(place);
        let (uid, account) = (joining.uid, joining.adoptee.account);
        self.bring_in(joining);
        self.quotas.charge(uid, account, started.elapsed());
    }

    fn bring_in(&mut self, mut joining: Joining) {
        let now = Instant::now();
        let since = match joining.step {
            Step::Moving { since } => since.unwrap_or(now),
            Step::Saving { .. } => now,
        };
        joining.step = Step::Moving { since: Some(since) };
        let Joining {
            adoptee, process, ..
        } = &joining;
        match adopt::bring_in(adoptee, process.as_ref(), &mut self.machine) {
            Ok(Moved::All) => self.adopted(joining),
            Ok(Moved::Part) if since.elapsed() > adopt::LONGEST => {
                let error = adopt::too_slow(&joining.target, &self.machine);
                self.withdraw(joining, error);
            }
            Ok(Moved::Part) => self.registry.joining.push(joining),
            Err(error) => self.withdraw(joining, error),
        }
    }

    /// Ends launches and adoptions that are not finished when the daemon stops.
    pub(super) fn withdraw_all(&mut self) {
        let stops = |target: &AdoptTarget| {
            let message =
                format!("{target} is not adopted: the daemon stops; try again once it runs");
            ErrorReply::Unavailable { message }
        };
        for launch in std::mem::take(&mut self.registry.pending) {
            self.give_up(launch.launch.app);
        }
        for asking in std::mem::take(&mut self.registry.asking) {
            let error = stops(&asking.request.target);
            self.not_prepared(asking, error);
        }
        for joining in std::mem::take(&mut self.registry.joining) {
            let error = stops(&joining.target);
            self.withdraw(joining, error);
        }
    }

    fn withdraw(&mut self, joining: Joining, error: ErrorReply) {
        let id = joining.adoptee.app;
        adopt::withdraw(id, &mut self.registry, &mut self.machine, &self.decider);
        self.save(Ending::Running);
        // What has not got its CPUs back is looked at in each interval.
        if self.timing.next_interval.is_none() && self.has_work() {
            self.begin_interval(Instant::now());
        }
        self.not_adopted(&joining.target, joining.uid, joining.asked, error);
    }

    fn adopted(&mut self, joining: Joining) {
        let Joining {
            target,
            app,
            asked,
            uid,
            ..
        } = joining;
        let id = app.record.id;
        self.registry.add(app);
        tracing::info!(app = id.0, by = uid, "adopted {target}");
        self.telemetry.tally.adoptions += 1;
        self.membership_changed();
        if let Some(reply) = adopt::reply(id, &self.registry, &mut self.machine) {
            match asked {
                AdoptionAsked::ByClient(asker) => {
                    let _hung_up = asker.send(Ok(Served::plain(Reply::Adopt(reply))));
                }
                AdoptionAsked::ByRule(asker) => {
                    let _ended = asker.send(Outcome::Adopted);
                }
                AdoptionAsked::OfAnEarlierDaemon => {}
            }
            return;
        }
        self.forget(id);
        self.membership_changed();
        let why = "it ended or could not be confined; see the daemon's log";
        self.not_adopted(&target, uid, asked, internal(why.to_owned()));
    }

    fn not_adopted(
        &mut self,
        target: &AdoptTarget,
        uid: u32,
        asked: AdoptionAsked,
        error: ErrorReply,
    ) {
        self.telemetry.tally.refused += 1;
        match asked {
            AdoptionAsked::ByClient(reply) => {
                tracing::info!(uid, "{target} not adopted: {error}");
                let _hung_up = reply.send(Err(error));
            }
            AdoptionAsked::ByRule(reply) => {
                let _ended = reply.send(Outcome::Refused(error));
            }
            AdoptionAsked::OfAnEarlierDaemon => {
                tracing::warn!(uid, "{target} not adopted after all: {error}");
            }
        }
    }
}
