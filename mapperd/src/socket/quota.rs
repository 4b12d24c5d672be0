//! Quotas of each user on the socket.
//!
//! One user must not use up connections and decisions for all others, by mistake (a script that launches in a loop)
//! or on purpose. So each user has a number of connections and a rate of calls. Faster calls are delayed, not
//! refused, so that a burst of launches is only slower. Root, and whoever runs the daemon, is bounded only by the totals.
//!
//! Memory is bounded by the connections: a user without any is forgotten when the delay has passed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Connections that one user may have open at a time.
const CONNECTIONS: usize = 256;

/// Calls that a user may make in a row.
const BURST: f64 = 200.0;

/// Calls per second that a user may make continuously.
const CALLS_PER_S: f64 = 100.0;

/// An adoption counts as much as this many calls: all others wait up to 200 ms while the state is saved, so that
/// one user's adoptions take at most half of their time.
const ADOPTION: f64 = 40.0;

/// The kind of call, by how long it keeps others waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// Anything but an adoption.
    Call,
    Adoption,
}

/// So many users are remembered before those without connections are removed.
const REMEMBERED: usize = 1024;

#[derive(Clone, Debug, Default)]
pub(crate) struct Quotas(Arc<Mutex<HashMap<u32, Used>>>);

#[derive(Clone, Copy, Debug)]
struct Used {
    connections: usize,
    /// Calls that can still be made without waiting.
    calls: f64,
    until: Instant,
}

impl Used {
    fn fresh(now: Instant) -> Self {
        Self {
            connections: 0,
            calls: BURST,
            until: now,
        }
    }

    fn fill_up(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.until);
        self.calls = (self.calls + passed.as_secs_f64() * CALLS_PER_S).min(BURST);
        self.until = now;
    }
}

/// One connection of a user. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Place {
    quotas: Quotas,
    uid: u32,
}

/// Whether a user is root or runs this daemon, who could stop it anyway.
fn is_exempt(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

impl Quotas {
    /// One more connection; `None` when the user has as many as permitted.
    pub(crate) fn connect(&self, uid: u32, now: Instant) -> Option<Place> {
        let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if users.len() >= REMEMBERED {
            users.retain(|_, used| {
                used.fill_up(now);
                used.connections > 0 || used.calls < BURST
            });
        }
        let used = users.entry(uid).or_insert_with(|| Used::fresh(now));
        if !is_exempt(uid) && used.connections >= CONNECTIONS {
            return None;
        }
        used.connections += 1;
        Some(Place {
            quotas: self.clone(),
            uid,
        })
    }
}

impl Place {
    /// Counts a call. Returns how long it has to wait.
    pub(crate) fn call(&self, asked: Asked, now: Instant) -> Duration {
        if is_exempt(self.uid) {
            return Duration::ZERO;
        }
        let mut users = self.quotas.0.lock().unwrap_or_else(PoisonError::into_inner);
        let used = users.entry(self.uid).or_insert_with(|| Used::fresh(now));
        used.fill_up(now);
        used.calls -= match asked {
            Asked::Call => 1.0,
            Asked::Adoption => ADOPTION,
        };
        // Each connection has one call under way, so that the debt is bounded by the connections.
        Duration::from_secs_f64((-used.calls).max(0.0) / CALLS_PER_S)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut users = self.quotas.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = users.get_mut(&self.uid) {
            used.connections = used.connections.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user who does not run this test.
    fn other_user() -> u32 {
        rustix::process::geteuid().as_raw() + 1000
    }

    #[test]
    fn connections_are_limited_per_user_but_for_root_and_who_runs_the_daemon() {
        let (quotas, now) = (Quotas::default(), Instant::now());
        let mut held: Vec<_> = (0..CONNECTIONS)
            .map(|_| quotas.connect(other_user(), now).unwrap())
            .collect();
        assert!(quotas.connect(other_user(), now).is_none());
        assert!(quotas.connect(other_user() + 1, now).is_some());
        held.pop();
        assert!(quotas.connect(other_user(), now).is_some());
        for exempt in [0, rustix::process::geteuid().as_raw()] {
            let connect = |_| quotas.connect(exempt, now).unwrap();
            let held: Vec<_> = (0..2 * CONNECTIONS).map(connect).collect();
            let calls = (0..2 * BURST as u32).map(|_| held[0].call(Asked::Call, now));
            assert_eq!(calls.max(), Some(Duration::ZERO));
        }
    }

    #[test]
    fn a_burst_is_free_and_further_calls_wait() {
        let (quotas, start) = (Quotas::default(), Instant::now());
        let place = quotas.connect(other_user(), start).unwrap();
        for _ in 0..BURST as u32 {
            assert_eq!(place.call(Asked::Call, start), Duration::ZERO);
        }
        assert_eq!(
            place.call(Asked::Call, start),
            Duration::from_secs_f64(1.0 / CALLS_PER_S)
        );
        // Another connection of the same user uses the same quota.
        let other = quotas.connect(other_user(), start).unwrap();
        assert!(other.call(Asked::Call, start) > Duration::ZERO);
        let later = start + Duration::from_secs(10);
        assert_eq!(other.call(Asked::Call, later), Duration::ZERO);
    }

    #[test]
    fn an_adoption_counts_for_as_many_calls_as_it_may_keep_others_waiting() {
        let (quotas, mut now) = (Quotas::default(), Instant::now());
        let (place, start) = (quotas.connect(other_user(), now).unwrap(), now);
        let mut adoptions = 0;
        while now - start < Duration::from_secs(60) {
            now += place.call(Asked::Adoption, now);
            adoptions += 1;
        }
        // A burst of five, then five in two seconds; the last may fall on either side of the minute.
        assert!((155..=156).contains(&adoptions), "{adoptions}");
    }

    #[test]
    fn users_without_connections_are_forgotten() {
        let (quotas, now) = (Quotas::default(), Instant::now());
        for uid in 0..10 * REMEMBERED as u32 {
            drop(quotas.connect(uid, now));
        }
        assert!(quotas.0.lock().unwrap().len() <= REMEMBERED);
    }
}
