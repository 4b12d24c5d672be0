//! Taking members away from a carrier that has stayed away from the shim, by the protocol of `carrier`. Only the watcher
//! does so (`liveness`).

use core::sync::atomic::Ordering;

use super::make_context;
use crate::block::Carrier;
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
        for member in in_turn(members).filter(|member| carrier.could_run(member)) {
            let Some(host) = free_host(members, member) else {
                continue;
            };
            lend(carrier, member, host);
            lent += 1;
        }
    }
    if lent > 0 {
        carrier.first_stop.is_asked();
    }
    carrier.lock.give();
    lent
}

/// Has a member of the block that waits at a barrier execute tasks on an OS thread of its own, until the barrier is passed.
/// Says whether there is one, and the carrier not in the shim.
pub(crate) fn lend_for_tasks(lead: &'static Member) -> bool {
    let carrier = &lead.carrier;
    if look_at(lead).is_none() || !carrier.gate.contest() {
        return false;
    }
    carrier.lock.take();
    let members = carrier.members(lead);
    let passed = carrier.barriers_passed.load(Ordering::Relaxed);
    let is_idle =
        |member: &&Member| member.host().is_none() && member.state() == State::waiting(passed);
    let idle = match carrier.gate.is_left() {
        true => in_turn(members).find(is_idle),
        false => None,
    };
    let found = idle.and_then(|member| Some([member, free_host(members, member)?]));
    if let Some([member, host]) = found {
        lend(carrier, member, host);
    }
    carrier.lock.give();
    found.is_some()
}

/// Has a suspended member run on the OS thread of `host`, which is parked. Under the lock.
fn lend(carrier: &Carrier, member: &'static Member, host: &'static Member) {
    if member.state() == State::UNSTARTED {
        make_context(member);
    } else if carrier.is_shared() {
        // SAFETY: it is suspended, and its OS thread is parked or runs under the donor's thread pointer.
        unsafe { member.take_errno_along() };
    }
    let on_loan = carrier.on_loan.load(Ordering::Relaxed);
    carrier.on_loan.store(on_loan + 1, Ordering::Relaxed);
    host.receive(member);
}

/// The lead last: it has no OS thread to be parked on, and would take another's.
fn in_turn(members: &'static [Member]) -> impl Iterator<Item = &'static Member> {
    let (first, others) = members.split_at(1.min(members.len()));
    others.iter().chain(first)
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
