//! Which thread stopped first since members were taken away from a carrier ([`Outcome`]).
//!
//! A carrier that waits for a member cannot come back before a lent one has run, while one that computes is ahead by
//! its patience, which is milliseconds. A member that sets a flag and goes to a barrier, and a carrier that sees the
//! flag and goes there, arrive within a microsecond, in either order. So a carrier that is first by less than
//! [`SAME_TIME_NS`] waited.

use core::sync::atomic::Ordering;

use mapper_shim_core::clock;

use super::words::{Native, Word as _, Words};

/// Much less than the patience with carriers, and enough for a page fault or an interrupt in between.
const SAME_TIME_NS: usize = 200_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// Nothing yet: neither the carrier nor one of the members has come to a stop.
    Open,
    /// A member did first: the carrier may well have waited for it.
    Waited,
    /// The carrier did, by more than [`SAME_TIME_NS`].
    Computed,
}

/// Who stopped first since members were lent. Written under the carrier's lock, but cleared by the watcher.
#[repr(C)]
pub(super) struct FirstStop<W: Words = Native> {
    state: W::Number,
    /// When the carrier came to a stop, while the state is [`CARRIER_FIRST`].
    carrier_came_ns: W::Number,
}

/// Nothing was lent, or it has been reported.
const NOT_ASKED: usize = 0;
const OPEN: usize = 1;
const MEMBER_FIRST: usize = 2;
const CARRIER_FIRST: usize = 3;

impl<W: Words> Default for FirstStop<W> {
    fn default() -> Self {
        Self {
            state: NOT_ASKED.into(),
            carrier_came_ns: 0.into(),
        }
    }
}

impl<W: Words> FirstStop<W> {
    /// Members are lent. An earlier result that was not taken stands for these too.
    pub(super) fn is_asked(&self) {
        if self.state.load(Ordering::Relaxed) == NOT_ASKED {
            self.state.store(OPEN, Ordering::Relaxed);
        }
    }

    pub(super) fn of_carrier(&self) {
        if self.state.load(Ordering::Relaxed) == OPEN {
            self.carrier_comes(now_ns());
        }
    }

    fn carrier_comes(&self, now_ns: usize) {
        self.carrier_came_ns.store(now_ns, Ordering::Relaxed);
        self.state.store(CARRIER_FIRST, Ordering::Release);
    }

    pub(super) fn of_lent_member(&self) {
        match self.state.load(Ordering::Relaxed) {
            OPEN => self.state.store(MEMBER_FIRST, Ordering::Relaxed),
            CARRIER_FIRST => self.member_follows(now_ns()),
            _ => {}
        }
    }

    fn member_follows(&self, now_ns: usize) {
        if !self.is_long_past(now_ns) {
            // If the watcher has just cleared it, it has been reported.
            self.state.exchange(CARRIER_FIRST, MEMBER_FIRST);
        }
    }

    fn is_long_past(&self, now_ns: usize) -> bool {
        let came_ns = self.carrier_came_ns.load(Ordering::Relaxed);
        now_ns.saturating_sub(came_ns) > SAME_TIME_NS
    }

    /// What is known; it is reported once. For the thread that lends members.
    pub(super) fn tell(&self, now_ns: usize) -> Outcome {
        match self.state.load(Ordering::Acquire) {
            NOT_ASKED | OPEN => return Outcome::Open,
            CARRIER_FIRST if !self.is_long_past(now_ns) => return Outcome::Open,
            _ => {}
        }
        // A member may have stopped since; the state is written again after the next lending, by this thread.
        match self.state.swap(NOT_ASKED, Ordering::Relaxed) {
            MEMBER_FIRST => Outcome::Waited,
            _ => Outcome::Computed,
        }
    }
}

pub(super) fn now_ns() -> usize {
    clock::now_ns() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is reported when members were lent and the carrier came to a stop at a time, a member so much later.
    fn judged_when_the_member_is_later_by(later_ns: usize) -> Outcome {
        let (stops, came_ns) = (FirstStop::<Native>::default(), 5_000_000);
        stops.is_asked();
        stops.carrier_comes(came_ns);
        stops.member_follows(came_ns + later_ns);
        stops.tell(came_ns + 10 * SAME_TIME_NS)
    }

    #[test]
    fn a_carrier_that_stops_together_with_a_member_waited_for_it() {
        for (later_ns, expected) in [
            (0, Outcome::Waited),
            (SAME_TIME_NS, Outcome::Waited),
            (SAME_TIME_NS + 1, Outcome::Computed),
        ] {
            assert_eq!(judged_when_the_member_is_later_by(later_ns), expected);
        }
    }

    #[test]
    fn a_carrier_that_stops_after_a_member_waited_for_it() {
        let stops = FirstStop::<Native>::default();
        stops.is_asked();
        stops.of_lent_member();
        stops.of_carrier();
        assert_eq!(stops.tell(now_ns()), Outcome::Waited);
    }

    #[test]
    fn a_carrier_is_not_judged_first_while_a_member_may_stop_with_it() {
        let stops = FirstStop::<Native>::default();
        assert_eq!(stops.tell(7), Outcome::Open);
        stops.is_asked();
        stops.carrier_comes(7);
        assert_eq!(stops.tell(7 + SAME_TIME_NS), Outcome::Open);
        assert_eq!(stops.tell(8 + SAME_TIME_NS), Outcome::Computed);
        assert_eq!(stops.tell(9 + SAME_TIME_NS), Outcome::Open, "judged once");
    }

    #[test]
    fn stops_without_a_lending_are_not_judged() {
        let stops = FirstStop::<Native>::default();
        stops.of_carrier();
        stops.of_lent_member();
        assert_eq!(stops.tell(usize::MAX), Outcome::Open);
    }

    #[test]
    #[cfg_attr(miri, ignore = "loom has its own threads")]
    fn in_no_interleaving_is_one_lending_judged_twice() {
        use crate::words::model::Loom;
        use loom::sync::Arc;
        loom::model(|| {
            let stops = Arc::new(FirstStop::<Loom>::default());
            stops.is_asked();
            stops.carrier_comes(7);
            let member = {
                let stops = Arc::clone(&stops);
                loom::thread::spawn(move || stops.member_follows(7 + SAME_TIME_NS))
            };
            let late = 8 + SAME_TIME_NS;
            let first = stops.tell(late);
            member.join().unwrap();
            assert_ne!(first, Outcome::Open);
            assert_eq!(stops.tell(late), Outcome::Open, "judged once");
        });
    }
}
