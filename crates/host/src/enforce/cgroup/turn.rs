//! What is moved or removed at once, between which others are served.

use std::time::{Duration, Instant};

/// Processes that are moved at once. The kernel moves each in a tenth of a millisecond, and longer with its threads.
pub(super) const PROCESSES: usize = 256;

/// How long others wait for a turn. Tests on plain files take what they need however busy the machine is.
const SHORT: Duration = match cfg!(test) {
    false => Duration::from_millis(100),
    true => Duration::from_secs(20),
};

/// What is moved at once.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) processes: usize,
    until: Instant,
}

impl Turn {
    /// While others wait.
    pub(super) fn short(processes: usize) -> Self {
        let until = Instant::now() + SHORT;
        Self { processes, until }
    }

    /// All, when the daemon stops: less than a service manager allows for it.
    pub(super) fn last() -> Self {
        Self {
            processes: usize::MAX,
            until: Instant::now() + Duration::from_secs(5),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        Instant::now() > self.until
    }
}
