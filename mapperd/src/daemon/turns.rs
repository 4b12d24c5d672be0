//! What is done in turns, between which others are served: moves of adoptions, there and back, and what waits for moves or
//! for systemd.

use super::{Daemon, Handled};
use crate::registry::pending::{Joining, Promising};
use crate::requests::permit::HELD_UP_AT_MOST;
use crate::store::saved::Ending;
use mapper_control::Request;
use mapper_host::enforce::Unfinished;
use std::time::{Duration, Instant as Clock};
use tokio::time::Instant;

/// How long others are served between two turns, at least.
const NEXT_TURN: Duration = Duration::from_millis(10);

impl Daemon {
    pub(super) fn next_turn_comes(&mut self) {
        let due = Instant::now() + NEXT_TURN;
        self.timing.next_turn.get_or_insert(due);
    }

    /// Has turns for what the last step of the loop has left to them.
    pub(super) fn go_on_if_unfinished(&mut self) {
        if self.timing.next_turn.is_none()
            && self.machine.enforcer.unfinished() == Unfinished::Moving
        {
            self.next_turn_comes();
        }
    }

    /// Does some of what is waiting. Others are served for as long before the next turn.
    pub(crate) fn take_turn(&mut self) {
        self.timing.next_turn = None;
        self.ask_again();
        for call in std::mem::take(&mut self.registry.promising) {
            let (uid, account, started) = (call.peer.uid, call.peer.account, Clock::now());
            self.promise(call);
            self.quotas.charge(uid, account, started.elapsed());
        }
        let started = Clock::now();
        self.go_on_moving();
        self.bring_in_next();
        let waits = self.registry.joining.iter().any(Joining::moves);
        if waits || self.machine.enforcer.unfinished() == Unfinished::Moving {
            let wait = started.elapsed().max(NEXT_TURN);
            self.timing.next_turn = Some(Instant::now() + wait);
        }
    }

    fn go_on_moving(&mut self) {
        let enforcer = &mut self.machine.enforcer;
        if enforcer.unfinished() != Unfinished::Moving {
            return;
        }
        enforcer.go_on();
        if enforcer.unfinished() != Unfinished::Moving {
            self.save(Ending::Running);
        }
    }

    pub(super) fn promise(&mut self, call: Promising) {
        let by_process = call.request.name.is_none();
        if by_process
            && call.since.elapsed() < HELD_UP_AT_MOST
            && self.machine.moves_held_up().is_some()
        {
            self.registry.promising.push(call);
            self.next_turn_comes();
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
}
