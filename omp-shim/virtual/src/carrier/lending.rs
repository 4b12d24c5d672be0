//! Taking members away from a carrier that has not come into the shim for long.
//!
//! Done by one thread only, the watcher (see `liveness`), by the protocol that `carrier` describes.
//!
//! *What lending shows.* A carrier that waits for a member cannot come back before one that was lent has run, and those
//! that were lent run on to their next stop, while a carrier that computes is ahead of them by the time after
//! which it was helped. So whether a lent member came to a stop first ([`Outcome`]) tells one from the other.
//! A member that sets a flag and goes to a barrier, and the carrier that sees the flag and goes there too, are
//! there within less than a microsecond of each other, in either order, depending on the machine; those that
//! compute are ahead by milliseconds. So a carrier that is first by less than [`SAME_TIME_NS`] waited.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{Member, State};
use crate::kernel;
use mapper_shim_core::clock;

/// Stops that are no further apart are of threads of which one waited for the other. Much less than the patience
/// with carriers, after which members are lent, and enough for a page fault or an interrupt in between.
const SAME_TIME_NS: u64 = 200_000;

/// What lending a carrier's members has shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Nothing yet: neither the carrier nor one of the members has come to a stop.
    Open,
    /// A member did first: the carrier may well have waited for it.
    Waited,
    /// The carrier did, by more than [`SAME_TIME_NS`].
    Computed,
}

/// Who came to a stop first since members were lent: one of them, or the carrier. Written under the carrier's lock,
/// but for being cleared by the watcher once it is known.
#[repr(C)]
pub(super) struct FirstStop {
    state: AtomicU32,
    /// When the carrier came to a stop, while the state is [`CARRIER_FIRST`].
    carrier_came_ns: AtomicU64,
}

/// Nothing was lent, or it has been told.
const NOT_ASKED: u32 = 0;
const OPEN: u32 = 1;
const MEMBER_FIRST: u32 = 2;
const CARRIER_FIRST: u32 = 3;

impl FirstStop {
    pub(super) const fn new() -> Self {
        Self {
            state: AtomicU32::new(NOT_ASKED),
            carrier_came_ns: AtomicU64::new(0),
        }
    }

    /// Members are lent. What is known and has not been asked for stands for these members, too.
    fn is_asked(&self) {
        if self.state.load(Ordering::Relaxed) == NOT_ASKED {
            self.state.store(OPEN, Ordering::Relaxed);
        }
    }

    /// The carrier comes to a stop.
    pub(super) fn of_carrier(&self) {
        if self.state.load(Ordering::Relaxed) == OPEN {
            self.carrier_comes(clock::now_ns());
        }
    }

    fn carrier_comes(&self, now_ns: u64) {
        self.carrier_came_ns.store(now_ns, Ordering::Relaxed);
        self.state.store(CARRIER_FIRST, Ordering::Release);
    }

    /// A member that was lent comes to a stop.
    pub(super) fn of_lent_member(&self) {
        match self.state.load(Ordering::Relaxed) {
            OPEN => self.state.store(MEMBER_FIRST, Ordering::Relaxed),
            CARRIER_FIRST => self.member_follows(clock::now_ns()),
            _ => {}
        }
    }

    fn member_follows(&self, now_ns: u64) {
        if !self.is_long_past(now_ns) {
            // If the watcher has just cleared it, it has been told.
            let _ = self.state.compare_exchange(
                CARRIER_FIRST,
                MEMBER_FIRST,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }

    /// Whether a member that comes to a stop now does not do so with the carrier.
    fn is_long_past(&self, now_ns: u64) -> bool {
        let came_ns = self.carrier_came_ns.load(Ordering::Relaxed);
        now_ns.saturating_sub(came_ns) > SAME_TIME_NS
    }

    /// What is known; it is told once. For the thread that lends members.
    fn tell(&self, now_ns: u64) -> Outcome {
        match self.state.load(Ordering::Acquire) {
            NOT_ASKED | OPEN => return Outcome::Open,
            CARRIER_FIRST if !self.is_long_past(now_ns) => return Outcome::Open,
            _ => {}
        }
        // A member may have come to its stop since; after the next lending, which is this thread's, the state is
        // written again.
        match self.state.swap(NOT_ASKED, Ordering::Relaxed) {
            MEMBER_FIRST => Outcome::Waited,
            _ => Outcome::Computed,
        }
    }
}

/// What an outsider sees of a carrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Visits(usize);

/// How often the carrier has been in the shim, or nothing while it is there or has no choice of
/// members.
pub(crate) fn look_at(lead: &'static Member) -> Option<Visits> {
    let carrier = &lead.carrier;
    let idle = carrier.busy.load(Ordering::Acquire) || carrier.len.load(Ordering::Relaxed) < 2;
    (!idle).then(|| Visits(carrier.visits.load(Ordering::Relaxed)))
}

/// Has all members that could run do so on OS threads of their own, if the carrier is still where
/// `seen` says; returns how many there were. For one thread at a time.
pub(crate) fn lend_members(lead: &'static Member, seen: Visits) -> u32 {
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
    if lent > 0 {
        carrier.first_stop.is_asked();
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
pub(crate) fn outcome(lead: &'static Member) -> Outcome {
    lead.carrier.first_stop.tell(clock::now_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told when members were lent and the carrier came to a stop at a time, a member so much later.
    fn told_when_the_member_is_later_by(later_ns: u64) -> Outcome {
        let (stops, came_ns) = (FirstStop::new(), 5_000_000);
        stops.is_asked();
        stops.carrier_comes(came_ns);
        stops.member_follows(came_ns + later_ns);
        stops.tell(came_ns + 10 * SAME_TIME_NS)
    }

    #[test]
    fn a_carrier_that_stops_together_with_a_member_waited_for_it() {
        assert_eq!(told_when_the_member_is_later_by(0), Outcome::Waited);
        assert_eq!(
            told_when_the_member_is_later_by(SAME_TIME_NS),
            Outcome::Waited
        );
        let later = told_when_the_member_is_later_by(SAME_TIME_NS + 1);
        assert_eq!(later, Outcome::Computed);
    }

    #[test]
    fn a_carrier_that_stops_after_a_member_waited_for_it() {
        let stops = FirstStop::new();
        stops.is_asked();
        stops.of_lent_member();
        stops.of_carrier();
        assert_eq!(stops.tell(clock::now_ns()), Outcome::Waited);
    }

    #[test]
    fn it_is_not_told_that_a_carrier_was_first_while_a_member_may_stop_with_it() {
        let stops = FirstStop::new();
        assert_eq!(stops.tell(7), Outcome::Open);
        stops.is_asked();
        stops.carrier_comes(7);
        assert_eq!(stops.tell(7 + SAME_TIME_NS), Outcome::Open);
        assert_eq!(stops.tell(8 + SAME_TIME_NS), Outcome::Computed);
        assert_eq!(stops.tell(9 + SAME_TIME_NS), Outcome::Open, "told once");
    }

    #[test]
    fn stops_of_which_nothing_is_asked_are_not_told() {
        let stops = FirstStop::new();
        stops.of_carrier();
        stops.of_lent_member();
        assert_eq!(stops.tell(u64::MAX), Outcome::Open);
    }
}
