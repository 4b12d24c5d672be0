//! Turns for OS threads that wait for one another by spinning, where there are fewer CPUs than threads.
//!
//! The kernel lets a thread that spins run until its slice ends or the timer ticks, for some milliseconds, however short
//! what it waits for is. Whenever a thread wakes or leaves on that CPU the kernel chooses anew, and it chooses the one that
//! has run less. So the watcher visits each CPU every 50 µs. Two threads that hand 20 µs of work to each other on one CPU
//! take 2 to 3 times as long as one thread then, and 100 to 200 times without.
//!
//! Threads that compute lose up to a tenth by such turns, and nothing tells them apart but that their regions do not end
//! sooner. So the longer a region lasts, the longer the watcher rests ([`Pace`]).

use core::sync::atomic::{AtomicBool, Ordering};

use super::kernel;

/// How long the watcher rests between visits at first. Its timers come in time: see [`kernel::wake_in_time`].
const FIRST_REST_NS: i64 = 50_000;
/// How often that is doubled at most: by then the kernel's own turns are as short.
const MOST_DOUBLINGS: u32 = 6;
/// The same for a program that has been seen to wait.
const MOST_IF_SEEN_TO_WAIT: u32 = 2;
/// After so many looks at the same region it is doubled.
const LOOKS: u32 = 4;

/// What the threads of a program have been seen to do.
#[derive(Clone, Copy)]
pub(super) enum Seen {
    Nothing,
    /// They waited for one another, so that virtual teams were given up.
    Waiting,
}

/// How long the watcher rests between visits: the longer, the longer the present region lasts.
#[derive(Default)]
pub(super) struct Pace {
    region: u32,
    looks: u32,
}

impl Pace {
    /// For the time until the next look, while this region runs.
    pub(super) fn rest_ns(&mut self, region: u32, seen: Seen) -> i64 {
        if region != self.region {
            *self = Self { region, looks: 0 };
        }
        let most = match seen {
            Seen::Waiting => MOST_IF_SEEN_TO_WAIT,
            Seen::Nothing => MOST_DOUBLINGS,
        };
        let doublings = (self.looks / LOOKS).min(most);
        self.looks = self.looks.saturating_add(1);
        FIRST_REST_NS << doublings
    }
}

/// The program is confined by a mask of each thread, as far as is known; else by a control group, within which a thread
/// that asks for all CPUs gets those of the program, and follows when they change.
static BY_MASKS: AtomicBool = AtomicBool::new(false);

/// The CPUs of a program that needs turns.
pub(super) struct Turns {
    cpus: libc::cpu_set_t,
    count: usize,
    /// One of its OS threads.
    thread: libc::pid_t,
}

impl Turns {
    /// Those of so many OS threads, of which `thread` is one, if they have fewer CPUs; none where the kernel does not say.
    pub(super) fn of(threads: u32, thread: libc::pid_t) -> Option<Self> {
        let cpus = kernel::affinity(thread)?;
        // SAFETY: reads the set.
        let count = unsafe { libc::CPU_COUNT(&cpus) } as usize;
        (count < threads as usize).then_some(Self {
            cpus,
            count,
            thread,
        })
    }

    /// Visits each CPU. Where there is one the calling thread is there already.
    pub(super) fn visit(&self) {
        let is_set = |cpu: &usize| {
            // SAFETY: it is within the set.
            unsafe { libc::CPU_ISSET(*cpu, &self.cpus) }
        };
        if self.count < 2 {
            return;
        }
        for cpu in (0..libc::CPU_SETSIZE as usize)
            .filter(is_set)
            .take(self.count)
        {
            let mut one = kernel::no_cpus();
            // SAFETY: as above.
            unsafe { libc::CPU_SET(cpu, &mut one) };
            kernel::set_own_affinity(&one);
        }
    }
}

impl Drop for Turns {
    /// The calling thread may run on the program's CPUs again.
    fn drop(&mut self) {
        if self.count < 2 {
            return;
        }
        let cpus = kernel::affinity(self.thread).unwrap_or(self.cpus);
        if !BY_MASKS.load(Ordering::Relaxed) {
            kernel::set_own_affinity(&kernel::every_cpu());
            // SAFETY: reads both sets.
            let is_right = |own| unsafe { libc::CPU_EQUAL(&own, &cpus) };
            if kernel::affinity(0).is_some_and(is_right) {
                return;
            }
            BY_MASKS.store(true, Ordering::Relaxed);
        }
        kernel::set_own_affinity(&cpus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_longer_the_longer_a_region_lasts_and_short_again_in_the_next_one() {
        let mut pace = Pace::default();
        let rests: Vec<i64> = (0..40).map(|_| pace.rest_ns(7, Seen::Nothing)).collect();
        assert!(rests.is_sorted());
        assert_eq!(
            [rests[0], rests[3], rests[4], rests[39]],
            [50_000, 50_000, 100_000, 3_200_000]
        );
        assert_eq!(pace.rest_ns(8, Seen::Waiting), FIRST_REST_NS);
        assert_eq!(
            (0..40).map(|_| pace.rest_ns(8, Seen::Waiting)).max(),
            Some(200_000)
        );
    }
}
