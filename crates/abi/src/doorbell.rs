//! Waiting for news on a word of the page.
//!
//! *Problem.* Threads that have no CPU to run on sleep until the allocation grows or until what they
//! would have worked on is done. The first is said by the daemon, the second by another thread of
//! the application, and a thread can sleep on one word only.
//!
//! *Approach.* Both ring the same bell: they count a word up and wake everybody who sleeps on it.
//! Who wakes looks for himself whether the ring was meant for him. The word is a futex shared
//! between processes; nobody believes its value, which only has to change.
//!
//! *Invariants.* Who reads the bell, then finds nothing new, then waits with the value read misses no
//! ring: a ring in between has changed the word, and the wait returns at once.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitEnd {
    /// Somebody rang, or something else woke the thread.
    Rung,
    /// Nobody did for the time given.
    TimedOut,
}

/// Rings the bell.
pub fn ring(bell: &AtomicU32) {
    bell.fetch_add(1, Ordering::SeqCst);
    // Fails only if the address were not mapped or not aligned, which it is.
    let _ = futex::wake(bell, Flags::empty(), i32::MAX as u32);
}

/// The value to wait with. To be read before looking for news.
#[must_use]
pub fn listen(bell: &AtomicU32) -> u32 {
    bell.load(Ordering::SeqCst)
}

/// Sleeps until the bell rings or `timeout` has passed; not at all if it has rung since `heard` was
/// read.
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
    fn a_ring_between_listening_and_waiting_is_not_missed() {
        let bell = AtomicU32::new(u32::MAX);
        let heard = listen(&bell);
        ring(&bell);
        assert_eq!(wait(&bell, heard, LONG), WaitEnd::Rung);
    }

    #[test]
    fn who_sleeps_is_woken() {
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
    fn a_silent_bell_is_not_waited_for_longer_than_asked() {
        let bell = AtomicU32::new(7);
        assert_eq!(wait(&bell, 7, Duration::from_millis(1)), WaitEnd::TimedOut);
    }
}
