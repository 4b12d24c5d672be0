//! The OS threads that serve the pool of members: those of the members, the donors, the watcher. They end with the pool's
//! owner, as a runtime's threads do, so that they keep no process alive whose own threads have ended.

use core::sync::atomic::{AtomicU32, Ordering};

use super::kernel;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// One is about to start.
pub(super) fn comes() {
    COUNT.fetch_add(1, Ordering::Relaxed);
}

/// One ends, or has not come. Nothing of the pool may be touched by it from here on.
pub(super) fn goes() {
    if COUNT.fetch_sub(1, Ordering::Release) == 1 {
        kernel::futex_wake(&COUNT, 1);
    }
}

/// Waits until all have ended. Their orders to end were sent before.
pub(super) fn wait_for_all() {
    loop {
        match COUNT.load(Ordering::Acquire) {
            0 => return,
            count => kernel::futex_wait(&COUNT, count),
        }
    }
}

pub(super) fn after_fork_in_child() {
    COUNT.store(0, Ordering::Relaxed);
}
