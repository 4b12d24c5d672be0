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
    pub(crate) const fn reply(reply: Reply, effect: Effect) -> Self {
        Self {
            answer: Ok(Served::plain(reply)),
            effect,
        }
    }
}

/// A reply or a refusal that changed nothing.
impl From<Result<Reply, ErrorReply>> for Handled {
    fn from(answer: Result<Reply, ErrorReply>) -> Self {
        Self {
            answer: answer.map(Served::plain),
            effect: Effect::None,
        }
    }
}
