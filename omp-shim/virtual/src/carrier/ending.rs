//! The end of a region for a member; its OS thread continues with the others of the block, by the protocol of `carrier`.
//! The lead comes last: when all are through it continues after the region, on its own OS thread and storage.

use core::sync::atomic::Ordering;

use crate::block::Carrier;
use crate::context::HandOff;
use crate::member::{Member, State};

/// `member` is through with the region. Returns for leads only, on their OS thread, when all members are through.
pub(crate) fn finish(member: &'static Member) {
    let lead = member.lead();
    let carrier = &lead.carrier;
    if let Some(host) = member.host() {
        carrier.lock.take();
        carrier.first_stop.of_lent_member();
        note_done(carrier, member);
        carrier.take_back();
        // SAFETY: as in `wait_on_host`.
        unsafe { host.send_away(member, carrier) };
    } else {
        carrier.enter(member);
        note_done(carrier, member);
    }
    run_rest(member);
}

/// `member`, which is no lead, is through with the region. If storage is shared and the next member has not begun, that
/// one is returned, to begin on the stack of `member`. Otherwise this does not return.
#[inline]
pub(crate) fn succeed(member: &'static Member) -> &'static Member {
    let carrier = &member.lead().carrier;
    if member.host().is_some() {
        finish(member);
    } else {
        carrier.enter(member);
        note_done(carrier, member);
        let next = member.next();
        if carrier.is_shared() && next.state() == State::UNSTARTED {
            next.set(State::RUNNING);
            carrier.hand_over(next);
            next.take_turn();
            carrier.leave();
            return next;
        }
        run_rest(member);
    }
    // Only leads come back from there, and they begin on their carrier's own stack.
    std::process::abort()
}

/// Runs the others from the context of `member`, which is through. Returns for leads only, when all are through.
fn run_rest(member: &'static Member) {
    let lead = member.lead();
    let carrier = &lead.carrier;
    loop {
        // Here on the carrier's OS thread, with the lock if the block is contested.
        if carrier.are_all_done() {
            if member.is_lead() {
                break;
            }
            carrier.hand_over(lead);
            // SAFETY: the lead is done, hence suspended; it goes on behind its own switch.
            unsafe { member.switch_to(lead, carrier.base(lead), HandOff::silent()) };
        } else if let Some(next) = carrier.pick(lead, member) {
            carrier.change(member, next);
        } else if carrier.is_complete() {
            // A barrier that not all members reach: those that are done count as waiting.
            carrier.pass_barrier(lead, member);
        } else {
            carrier.wait_for_news(member);
        }
    }
    if carrier.gate.is_contested() {
        carrier.gate.set_contested(false);
    }
    if carrier.holds_lock.load(Ordering::Relaxed) {
        carrier.drop_lock();
    }
    if carrier.is_shared() {
        // SAFETY: this is the OS thread of the lead, which continues in its own storage; the donor's is not used any more.
        unsafe { lead.thread_pointer().put_in_force() };
    }
}

#[inline]
fn note_done(carrier: &Carrier, member: &'static Member) {
    member.set(State::DONE);
    carrier.count_off();
    carrier
        .done
        .store(carrier.done.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
