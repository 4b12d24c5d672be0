//! Newcomers: launches that wait for others, adoptions that wait to be saved.

use crate::config::peer::Peer;
use crate::registry::app::App;
use crate::registry::origin::ByRule;
use crate::registry::provenance::Provenance;
use crate::socket::message::{Answer, Outcome};
use mapper_control::schema::{
    AdoptRequest, AdoptTarget, LaunchRequest, Partition, PromiseRequest, RuntimeChoice, Terms,
};
use mapper_host::enforce::Adoptee;
use mapper_model::{AppId, AppSpec};
use std::os::fd::OwnedFd;
use tokio::sync::oneshot;
use tokio::time::Instant;

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Settlement {
    /// Name, promise, limits and team mode.
    pub(crate) spec: AppSpec,
    pub(crate) runtime: RuntimeChoice,
    pub(crate) partition: Partition,
    /// What the launcher applies.
    pub(crate) terms: Terms,
    pub(crate) provenance: Provenance,
}

#[derive(Debug)]
pub(crate) struct Launch {
    /// What it becomes, if the kernel has held up its admission.
    pub(crate) app: Option<AppId>,
    pub(crate) peer: Peer,
    pub(crate) request: LaunchRequest,
    pub(crate) settlement: Settlement,
    pub(crate) process: OwnedFd,
}

#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) launch: Launch,
    pub(crate) reply: oneshot::Sender<Answer>,
    pub(crate) since: Instant,
}

/// An application that was launched and placed, and whose launcher waits for the answer until it is saved.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) id: AppId,
    pub(crate) terms: Terms,
    /// On how many CPUs its own mask ever lets it run.
    pub(crate) most_cpus: u32,
}

/// A launch that is answered once the state with this number is saved.
#[derive(Debug)]
pub(crate) struct Unanswered {
    pub(crate) admitted: Admitted,
    pub(crate) reply: oneshot::Sender<Answer>,
    pub(crate) state: u64,
    /// When it is answered in any case.
    pub(crate) due: Instant,
}

/// An adoption that is not prepared yet: systemd is asked about the unit, or the kernel holds up a move.
#[derive(Debug)]
pub(crate) struct Asking {
    pub(crate) peer: Peer,
    pub(crate) request: AdoptRequest,
    pub(crate) rule: Option<ByRule>,
    pub(crate) asked: AdoptionAsked,
    pub(crate) since: Instant,
    /// Since when systemd has not answered.
    pub(crate) unanswered: Option<Instant>,
    /// What it becomes, if that is known.
    pub(crate) app: Option<AppId>,
}

impl Asking {
    pub(crate) fn new(peer: Peer, request: AdoptRequest, asked: AdoptionAsked) -> Self {
        Self {
            peer,
            request,
            rule: None,
            asked,
            since: Instant::now(),
            unanswered: None,
            app: None,
        }
    }

    /// Whom its time is charged to.
    pub(crate) fn uid(&self) -> u32 {
        self.rule.as_ref().map_or(self.peer.uid, |rule| rule.user)
    }
}

/// What is to be adopted: known to the enforcer, and not yet one of the applications.
#[derive(Debug)]
pub(crate) struct Joining {
    pub(crate) target: AdoptTarget,
    pub(crate) adoptee: Adoptee,
    /// A descriptor of its first process, if that was named.
    pub(crate) process: Option<OwnedFd>,
    /// Not yet one of the applications.
    pub(crate) app: App,
    pub(crate) asked: AdoptionAsked,
    /// Whom its time is charged to.
    pub(crate) uid: u32,
    pub(crate) step: Step,
}

impl Joining {
    pub(crate) const fn moves(&self) -> bool {
        matches!(self.step, Step::Moving { .. })
    }
}

/// Another promise for the application that its caller belongs to, while the kernel holds up a move: reading the caller's group
/// would wait, too.
#[derive(Debug)]
pub(crate) struct Promising {
    pub(crate) peer: Peer,
    pub(crate) request: PromiseRequest,
    pub(crate) reply: oneshot::Sender<Answer>,
    pub(crate) since: Instant,
}

/// The answer to a release, while something is on its way back.
#[derive(Debug)]
pub(crate) struct Releasing {
    pub(crate) app: AppId,
    pub(crate) answer: Answer,
    pub(crate) reply: oneshot::Sender<Answer>,
    pub(crate) since: Instant,
}

/// How far an adoption is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Nothing is moved before the state with this number is saved, as the next daemon could not restore what it has now. It is
    /// refused if it is not saved by this moment.
    Saving { state: u64, due: Instant },
    /// Its processes are moved in turns, of which the first was then.
    Moving { since: Option<Instant> },
}

/// Who waits for an adoption.
#[derive(Debug)]
pub(crate) enum AdoptionAsked {
    ByClient(oneshot::Sender<Answer>),
    ByRule(oneshot::Sender<Outcome>),
    /// An earlier daemon was killed before it was made: nobody waits.
    OfAnEarlierDaemon,
}

impl AdoptionAsked {
    /// Whether nobody waits any more.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::ByClient(reply) => reply.is_closed(),
            Self::ByRule(reply) => reply.is_closed(),
            Self::OfAnEarlierDaemon => false,
        }
    }
}
