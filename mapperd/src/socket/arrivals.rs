//! Clients that have connected and may be about to launch a program.
//!
//! Programs that are started together are to share the CPUs from the beginning: the team of one is as large as what it
//! got. So a newcomer waits while others arrive, and for nobody where there are none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A client that has made no call for so long after it connected launches nothing that others wait for.
pub(crate) const ARRIVES_WITHIN: Duration = Duration::from_millis(4);

/// How many clients arrive at present. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrivals(Arc<AtomicUsize>);

impl Arrivals {
    pub(crate) fn begin(&self) -> Arrival {
        self.0.fetch_add(1, Ordering::Relaxed);
        Arrival(self.clone())
    }

    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// A client that arrives. It has arrived when this is dropped: once the daemon has its first call, or it made none in time.
#[derive(Debug)]
pub(crate) struct Arrival(Arrivals);

impl Drop for Arrival {
    fn drop(&mut self) {
        let Arrivals(count) = &self.0;
        count.fetch_sub(1, Ordering::Relaxed);
    }
}
