//! Waiting for events on a word of the page.
//!
//! Threads without a CPU sleep until the allocation grows (signalled by the daemon) or their work is done (signalled by
//! another thread of the application), and a thread can sleep on one word only. So both ring the same bell: they increment
//! a word and wake every thread that sleeps on it, which checks itself whether the ring was meant for it. The word is a
//! futex shared between processes; its value is not trusted and only has to change.
//!
//! *Invariant.* A thread that reads the bell, then finds nothing new, then waits with the value read misses no ring: a ring
//! in between has changed the word, and the wait returns immediately.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitEnd {
    /// The bell rang, or something else woke the thread.
    Rung,
    /// It did not ring for the time given.
    TimedOut,
}

/// Rings the bell.
pub fn ring(bell: &AtomicU32) {
    bell.fetch_add(1, Ordering::SeqCst);
    // Fails only if the address is not mapped or not aligned, which it is.
    let _ = futex::wake(bell, Flags::empty(), i32::MAX as u32);
}

/// The value to wait with. Has to be read before the check for news.
#[must_use]
pub fn listen(bell: &AtomicU32) -> u32 {
    bell.load(Ordering::SeqCst)
}

/// Sleeps until the bell rings or `timeout` has passed; not at all if it has rung since `heard` was read.
pub fn wait(bell: &AtomicU32, heard: u32, timeout: Duration) -> WaitEnd {
    let timeout = rustix::time::Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    match futex::wait(bell, Flags::empty(), heard, Some(&timeout)) {
        Err(Errno::TIMEDOUT) => WaitEnd::TimedOut,
        _ => WaitEnd::Rung,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    #[cfg_attr(miri, ignore = "waits with futex")]
    fn a_ring_between_listening_and_waiting_is_not_missed() {
        let bell = AtomicU32::new(u32::MAX);
        let heard = listen(&bell);
        ring(&bell);
        assert_eq!(wait(&bell, heard, LONG), WaitEnd::Rung);
    }

    #[test]
    #[cfg_attr(miri, ignore = "waits with futex")]
    fn sleeping_threads_are_woken() {
        let bell = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let sleepers: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| wait(&bell, 0, LONG)))
                .collect();
            ring(&bell);
            for sleeper in sleepers {
                assert_eq!(sleeper.join().unwrap(), WaitEnd::Rung);
            }
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "waits with futex")]
    fn a_wait_without_a_ring_ends_after_the_time_given() {
        let bell = AtomicU32::new(7);
        assert_eq!(wait(&bell, 7, Duration::from_millis(1)), WaitEnd::TimedOut);
    }
}
