//! What is done in turns, between which others are served: moves of adoptions, there and back, and what waits for moves or
//! for systemd.

use super::gathering::LOOK_AGAIN;
use super::{Daemon, First, Handled, Timing};
use crate::registry::pending::{Joining, Promising, Releasing};
use crate::requests::permit::has_waited;
use crate::socket::message::Answer;
use crate::store::saved::Ending;
use mapper_control::Request;
use mapper_host::enforce::Unfinished;
use mapper_model::AppId;
use std::time::{Duration, Instant as Clock};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// How long others are served between two turns, at least.
const NEXT_TURN: Duration = Duration::from_millis(10);

/// How long a release is not answered while something is on its way back.
const RELEASED_WITHIN: Duration = Duration::from_secs(1);

impl Daemon {
    pub(super) fn schedule_turn(&mut self) {
        let wait = match self.machine.moves_held_up() {
            None => NEXT_TURN,
            Some(_) => LOOK_AGAIN,
        };
        let due = Instant::now() + wait;
        self.timing.next_turn.get_or_insert(due);
    }

    /// What waits for a move is due, once others have been served for as long as the last turn took.
    pub(super) fn continue_after_move(&mut self) {
        // Values that waited for what has finished are written.
        let _held = self.machine.enforcer.held_up();
        let now = Some(Instant::now());
        let Timing {
            gathered,
            gather_until,
            next_turn,
            turn_until,
            ..
        } = &mut self.timing;
        if !self.registry.pending.is_empty() {
            *gathered = now.max(*gather_until);
        }
        if next_turn.is_some() {
            *next_turn = now.max(*turn_until);
        }
    }

    /// Schedules a turn if the enforcer has work left that is done so.
    pub(super) fn schedule_unfinished(&mut self) {
        if self.timing.next_turn.is_none() && self.is_moving() {
            self.schedule_turn();
        }
    }

    fn has_moves(&self) -> bool {
        self.is_moving() || self.registry.joining.iter().any(Joining::moves)
    }

    fn waits_for_move(&self) -> bool {
        let calls = self.registry.asking.len() + self.registry.promising.len();
        (self.has_moves() || calls > 0) && self.machine.moves_held_up().is_some()
    }

    /// Where launches follow each other, each of which makes a move, other moves have every second one.
    pub(super) fn take_turn_that_waits(&mut self) {
        if self.timing.turn_waits && self.machine.moves_held_up().is_none() {
            self.take_turn();
        }
    }

    fn is_moving(&self) -> bool {
        self.machine.enforcer.unfinished() == Unfinished::Moving
    }

    /// Does some of what waits. Others are served for as long before the next turn.
    pub(crate) fn take_turn(&mut self) {
        self.timing.next_turn = None;
        self.ask_again();
        self.promise_again();
        self.timing.turn_waits = self.waits_for_move();
        let started = Clock::now();
        // Where each move is held up, one of the two is made in a turn.
        self.timing.first = match self.timing.first {
            First::Returning => {
                self.continue_moving();
                self.bring_in_next();
                First::Joining
            }
            First::Joining => {
                self.bring_in_next();
                self.continue_moving();
                First::Returning
            }
        };
        self.answer_releases(RELEASED_WITHIN);
        if self.has_moves() {
            self.schedule_turn();
            self.timing.turn_until = Some(Instant::now() + started.elapsed());
            self.timing.next_turn = self.timing.next_turn.max(self.timing.turn_until);
        }
    }

    /// Answers the release of an application once its processes are back and its group is gone.
    pub(super) fn answer_when_moved(
        &mut self,
        app: AppId,
        answer: Answer,
        reply: oneshot::Sender<Answer>,
    ) {
        let since = Instant::now();
        self.registry.releasing.push(Releasing {
            app,
            answer,
            reply,
            since,
        });
        self.answer_releases(RELEASED_WITHIN);
        if !self.registry.releasing.is_empty() {
            self.schedule_turn();
        }
    }

    /// Those that have waited this long in any case.
    pub(super) fn answer_releases(&mut self, at_most: Duration) {
        let enforcer = self.machine.enforcer.as_ref();
        let releasing = std::mem::take(&mut self.registry.releasing).into_iter();
        let waits = |one: &Releasing| enforcer.is_moving(one.app) && one.since.elapsed() < at_most;
        let (waiting, done): (Vec<_>, Vec<_>) = releasing.partition(waits);
        self.registry.releasing = waiting;
        for Releasing { answer, reply, .. } in done {
            let _hung_up = reply.send(answer);
        }
    }

    fn continue_moving(&mut self) {
        if !self.is_moving() {
            return;
        }
        self.machine.enforcer.continue_moving();
        if !self.is_moving() {
            self.save(Ending::Running);
        }
    }

    pub(super) fn promise(&mut self, call: Promising) {
        let by_process = call.request.name.is_none();
        if by_process
            && let Some(held) = self.machine.moves_held_up()
            && !has_waited(call.since, &held)
        {
            self.registry.promising.push(call);
            self.schedule_turn();
            return;
        }
        let Promising {
            peer,
            request,
            reply,
            ..
        } = call;
        let Handled { answer, effect } = self.answer(&peer, Request::Promise(request));
        self.act(effect);
        let _hung_up = reply.send(answer);
    }

    fn promise_again(&mut self) {
        for call in std::mem::take(&mut self.registry.promising) {
            // Its process may have ended.
            if call.reply.is_closed() {
                continue;
            }
            let (uid, account, started) = (call.peer.uid, call.peer.account, Clock::now());
            self.promise(call);
            self.quotas.charge(uid, account, started.elapsed());
        }
    }
}
