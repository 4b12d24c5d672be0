//! Taking members away from a carrier that has not come into the shim for long.
//!
//! Done by one thread only, the watcher (see `liveness`), by the protocol that `carrier` describes.
//!
//! *What lending shows.* A carrier that waits for a member cannot come back before one that was lent has run, and those
//! that were lent run on to their next stop, while a carrier that computes is ahead of them by the time after
//! which it was helped. So whether a lent member came to a stop first ([`Outcome`]) tells one from the other,
//! whatever the clock says.

use core::sync::atomic::Ordering;

use super::{Member, State};
use crate::virtual_team::kernel;

/// What lending a carrier's members has shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::virtual_team) enum Outcome {
    /// Nothing yet: neither the carrier nor one of the members has come to a stop.
    Open,
    /// A member did first: the carrier may well have waited for it.
    Waited,
    /// The carrier did first.
    Computed,
}

pub(super) const NO_OUTCOME: u32 = 0;
pub(super) const OPEN: u32 = 1;
pub(super) const WAITED: u32 = 2;
pub(super) const COMPUTED: u32 = 3;

/// What an outsider sees of a carrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::virtual_team) struct Visits(usize);

/// How often the carrier has been in the shim, or nothing while it is there or has no choice of
/// members.
pub(in crate::virtual_team) fn look_at(lead: &'static Member) -> Option<Visits> {
    let carrier = &lead.carrier;
    let idle = carrier.busy.load(Ordering::Acquire) || carrier.len.load(Ordering::Relaxed) < 2;
    (!idle).then(|| Visits(carrier.visits.load(Ordering::Relaxed)))
}

/// Has all members that could run do so on OS threads of their own, if the carrier is still where
/// `seen` says; returns how many there were. For one thread at a time.
pub(in crate::virtual_team) fn lend_members(lead: &'static Member, seen: Visits) -> u32 {
    let carrier = &lead.carrier;
    if !carrier.contested.swap(true, Ordering::SeqCst) {
        kernel::memory_barrier_everywhere();
        if carrier.busy.load(Ordering::Acquire) {
            carrier.contested.store(false, Ordering::Relaxed);
            return 0;
        }
    }
    carrier.lock.take();
    let mut lent = 0;
    let is_stuck =
        !carrier.busy.load(Ordering::Acquire) && carrier.visits.load(Ordering::Relaxed) == seen.0;
    if is_stuck {
        let members = carrier.members(lead);
        for member in members.iter().filter(|member| carrier.could_run(member)) {
            let Some(host) = free_host(members, member) else {
                continue;
            };
            if member.state() == State::UNSTARTED {
                member.make_context();
            } else if carrier.is_shared() {
                // SAFETY: it is suspended, and its OS thread is parked or carries others under the lender's thread
                // pointer.
                unsafe { member.take_errno_along() };
            }
            let on_loan = carrier.on_loan.load(Ordering::Relaxed);
            carrier.on_loan.store(on_loan + 1, Ordering::Relaxed);
            host.receive(member);
            lent += 1;
        }
    }
    // One that is known and has not been asked for stands for these members, too.
    if lent > 0 && carrier.outcome.load(Ordering::Relaxed) == NO_OUTCOME {
        carrier.outcome.store(OPEN, Ordering::Relaxed);
    }
    carrier.lock.give();
    lent
}

/// An OS thread of the block that neither carries nor hosts: that of `member`, if it can be. The lead's
/// carries; another may host a member that has stayed there since the program was given up.
fn free_host(members: &'static [Member], member: &'static Member) -> Option<&'static Member> {
    let is_free = |host: &&'static Member| {
        let is_host = |other: &Member| other.host().is_some_and(|it| core::ptr::eq(it, *host));
        !host.is_lead() && !members.iter().any(is_host)
    };
    Some(member)
        .filter(is_free)
        .or_else(|| members.iter().find(is_free))
}

/// What lending members of that carrier has shown, after [`lend_members`] did; told once. For the thread
/// that lends them.
pub(in crate::virtual_team) fn outcome(lead: &'static Member) -> Outcome {
    let cell = &lead.carrier.outcome;
    let outcome = match cell.load(Ordering::Relaxed) {
        WAITED => Outcome::Waited,
        COMPUTED => Outcome::Computed,
        _ => return Outcome::Open,
    };
    // Nobody writes to it but after the next lending, which is this thread's.
    cell.store(NO_OUTCOME, Ordering::Relaxed);
    outcome
}
