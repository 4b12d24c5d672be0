//! Taking members away from a carrier that has stayed away from the shim, by the protocol of `carrier`. Only the watcher
//! does so (`liveness`).

use core::sync::atomic::Ordering;

use super::make_context;
use crate::first_stop::{self, Outcome};
use crate::gate::Visits;
use crate::member::{Member, State};

/// How often the carrier has been in the shim; none while it is there or has no choice of members.
pub(crate) fn look_at(lead: &'static Member) -> Option<Visits> {
    let carrier = &lead.carrier;
    match carrier.len.load(Ordering::Relaxed) {
        0 | 1 => None,
        _ => carrier.gate.look(),
    }
}

/// Runs all members that could run on OS threads of their own, if the carrier is where `seen` says; returns how many.
pub(crate) fn lend_members(lead: &'static Member, seen: Visits) -> u32 {
    let carrier = &lead.carrier;
    if !carrier.gate.contest() {
        return 0;
    }
    carrier.lock.take();
    let mut lent = 0;
    if carrier.gate.is_still(seen) {
        let members = carrier.members(lead);
        // The lead has no OS thread to be parked on, and would take another's.
        let (first, others) = members.split_at(1.min(members.len()));
        let in_turn = others.iter().chain(first);
        for member in in_turn.filter(|member| carrier.could_run(member)) {
            let Some(host) = free_host(members, member) else {
                continue;
            };
            if member.state() == State::UNSTARTED {
                make_context(member);
            } else if carrier.is_shared() {
                // SAFETY: it is suspended, and its OS thread is parked or runs under the donor's thread pointer.
                unsafe { member.take_errno_along() };
            }
            let on_loan = carrier.on_loan.load(Ordering::Relaxed);
            carrier.on_loan.store(on_loan + 1, Ordering::Relaxed);
            host.receive(member);
            lent += 1;
        }
    }
    if lent > 0 {
        carrier.first_stop.is_asked();
    }
    carrier.lock.give();
    lent
}

/// An OS thread of the block, not the lead's, that hosts none (the program given up): that of `member` if possible.
fn free_host(members: &'static [Member], member: &'static Member) -> Option<&'static Member> {
    let is_free = |host: &&'static Member| {
        let is_host = |other: &Member| other.host().is_some_and(|it| core::ptr::eq(it, *host));
        !host.is_lead() && !members.iter().any(is_host)
    };
    Some(member)
        .filter(is_free)
        .or_else(|| members.iter().find(is_free))
}

/// What lending members of that carrier has shown, once. For the thread that lends them.
pub(crate) fn outcome(lead: &'static Member) -> Outcome {
    lead.carrier.first_stop.tell(first_stop::now_ns())
}
