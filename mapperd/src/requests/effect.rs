//! What has to follow a request.

use crate::socket::message::{Answer, Served};
use mapper_control::{ErrorReply, Reply};

/// What the loop has to do after a request, before it handles the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    None,
    /// An application came or left: decide, save, and begin a new interval.
    Membership,
    /// The configuration changed: decide by the new one.
    Decide,
    /// The same, with a new length of the interval.
    NewPace,
}

#[derive(Debug)]
pub(crate) struct Handled {
    pub(crate) answer: Answer,
    pub(crate) effect: Effect,
}

impl Handled {
    /// A refusal has no effect.
    pub(crate) fn of(reply: Result<Reply, ErrorReply>, effect: Effect) -> Self {
        let effect = reply.as_ref().map_or(Effect::None, |_| effect);
        let answer = reply.map(Served::plain);
        Self { answer, effect }
    }
}
