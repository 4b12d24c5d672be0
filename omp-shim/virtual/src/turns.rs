//! Turns for OS threads that wait for one another by spinning, where there are fewer CPUs than threads.
//!
//! The kernel lets a thread that spins run until its slice ends or the timer ticks, for some milliseconds, however short
//! what it waits for is. Whenever a thread wakes or leaves on that CPU the kernel chooses anew, and it chooses the one that
//! has run less. So the watcher visits each CPU every 50 µs. Two threads that hand 20 µs of work to each other on one CPU
//! take 2 to 3 times as long as one thread then, and 100 to 200 times without.

use super::kernel;

/// How long the watcher rests between visits; timers come some 50 µs late (`prctl(PR_SET_TIMERSLACK)`).
pub(super) const REST_NS: i64 = 1_000;

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
    /// The calling thread may run on the program's CPUs again. Where a control group confines the program all CPUs are
    /// asked for, since a thread that asked for some would get no others when the group does.
    fn drop(&mut self) {
        if self.count < 2 {
            return;
        }
        kernel::set_own_affinity(&kernel::every_cpu());
        let cpus = kernel::affinity(self.thread).unwrap_or(self.cpus);
        let is_right = kernel::affinity(0).is_some_and(|own| {
            // SAFETY: reads both sets.
            unsafe { libc::CPU_EQUAL(&own, &cpus) }
        });
        if !is_right {
            kernel::set_own_affinity(&cpus);
        }
    }
}
