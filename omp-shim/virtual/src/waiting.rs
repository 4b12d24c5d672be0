//! Waiting of OS threads for one another: spinning for a while, then sleeping in the kernel.
//!
//! *Approach.* As in libgomp: `GOMP_SPINCOUNT` turns of spinning (none under `OMP_WAIT_POLICY=passive`), then a futex.
//! But the shim knows how many CPUs the program owns: while there is one for each carrier it spins up to
//! [`MOST_PATIENCE`] times as long, as learnt (`patience`), since what mapper does not manage may be on those CPUs;
//! otherwise it sleeps. Of a program of several processes (MPI ranks, joblib) none knows which CPUs the others use, so
//! they spin only for about as long as a sleep and a wake-up take. Waking costs a system call only if a thread sleeps.

use core::sync::atomic::{AtomicU32, Ordering};

use mapper_shim_core::patience::{MOST_PATIENCE, MOST_TURNS, Patience};
use mapper_shim_core::{attachment, clock};

use super::kernel;

static SPIN_COUNT: AtomicU32 = AtomicU32::new(3_000);
/// CPUs that the machine has; no allocation gives more.
static MACHINE: AtomicU32 = AtomicU32::new(u32::MAX);
static CARRIERS: AtomicU32 = AtomicU32::new(1);

static PATIENCE: Patience = Patience::full();

pub(super) fn prepare(spin_count: u32, machine_cpus: u32) {
    SPIN_COUNT.store(spin_count, Ordering::Relaxed);
    MACHINE.store(machine_cpus, Ordering::Relaxed);
}

#[inline(always)]
pub(super) fn expect(carriers: u32) {
    CARRIERS.store(carriers, Ordering::Relaxed);
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Room {
    Enough,
    TooLittle,
    /// Nobody has said how many CPUs there are.
    Unknown,
}

/// As far as the allocation in force says.
#[inline]
fn room() -> Room {
    let owned = attachment::cpu_count();
    if owned == 0 {
        return Room::Unknown;
    }
    match CARRIERS.load(Ordering::Relaxed) <= owned.min(MACHINE.load(Ordering::Relaxed)) {
        true => Room::Enough,
        false => Room::TooLittle,
    }
}

/// Spins until `done` or for so many turns; returns whether it is done.
#[inline]
fn spin_for(turns: u32, done: impl Fn() -> bool) -> bool {
    for _ in 0..turns {
        if done() {
            return true;
        }
        core::hint::spin_loop();
    }
    done()
}

/// Spins until `done` or for as long as that is the thing to do; returns whether it is done.
#[inline]
fn spin(done: impl Fn() -> bool) -> bool {
    let turns = SPIN_COUNT.load(Ordering::Relaxed);
    match room() {
        Room::TooLittle => done(),
        Room::Unknown => spin_for(turns, done),
        Room::Enough => spin_for(turns, &done) || spin_patiently(turns, done),
    }
}

#[cold]
fn spin_patiently(turns: u32, done: impl Fn() -> bool) -> bool {
    if attachment::shares_cpus() {
        return done();
    }
    let most = MOST_PATIENCE.min(MOST_TURNS.checked_div(turns).unwrap_or(0));
    let rounds = PATIENCE.times().min(most);
    if rounds <= 1 {
        return done();
    }
    for _ in 1..rounds {
        if room() != Room::Enough {
            return done();
        }
        if spin_for(turns, &done) {
            PATIENCE.rewarded();
            return true;
        }
    }
    done()
}

/// Sleeps until the word is changed from that value, or for no reason, after spinning.
#[cold]
fn sleep(word: &AtomicU32, value: u32) {
    if room() != Room::Enough {
        kernel::futex_wait(word, value);
        return;
    }
    let since_ns = clock::now_ns();
    kernel::futex_wait(word, value);
    PATIENCE.slept(clock::now_ns().saturating_sub(since_ns));
}

/// A mailbox of one OS thread: others put an order in, it takes the order out.
#[derive(Default)]
#[repr(transparent)]
pub(super) struct Mailbox(AtomicU32);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Expected {
    /// With the next region: it carried a block of the last one.
    Soon,
    /// Who knows: it is parked.
    Hardly,
}

const EMPTY: u32 = 0;
const ASLEEP: u32 = 1;

impl Mailbox {
    /// Puts an order (a number above 1) in. There must be none in it.
    #[inline]
    pub(super) fn post(&self, order: u32) {
        if self.0.swap(order, Ordering::AcqRel) == ASLEEP {
            kernel::futex_wake(&self.0, 1);
        }
    }

    /// Waits for an order and takes it out. Spins as long as one is expected soon.
    pub(super) fn take(&self, expected: impl Fn() -> Expected) -> u32 {
        let arrived = || self.0.load(Ordering::Relaxed) > ASLEEP;
        while !arrived() {
            if spin(|| arrived() || expected() == Expected::Hardly) && arrived() {
                break;
            }
            let fell_asleep =
                self.0
                    .compare_exchange(EMPTY, ASLEEP, Ordering::Relaxed, Ordering::Relaxed);
            if fell_asleep == Ok(EMPTY) || fell_asleep == Err(ASLEEP) {
                match expected() {
                    Expected::Soon => sleep(&self.0, ASLEEP),
                    Expected::Hardly => kernel::futex_wait(&self.0, ASLEEP),
                }
            }
        }
        self.0.swap(EMPTY, Ordering::AcqRel)
    }
}

/// Counts down to zero; one thread waits for that.
pub(super) struct Countdown(AtomicU32);

const WAITER_SLEEPS: u32 = 1 << 31;

impl Countdown {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Sets the number, while nobody waits or counts.
    #[inline]
    pub(super) fn set(&self, count: u32) {
        self.0.store(count, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn count(&self) {
        if self.0.fetch_sub(1, Ordering::AcqRel) == WAITER_SLEEPS | 1 {
            kernel::futex_wake(&self.0, 1);
        }
    }

    #[inline]
    pub(super) fn wait(&self) {
        let left = || self.0.load(Ordering::Acquire) & !WAITER_SLEEPS;
        while !spin(|| left() == 0) {
            let value = self.0.fetch_or(WAITER_SLEEPS, Ordering::AcqRel) | WAITER_SLEEPS;
            if value != WAITER_SLEEPS {
                sleep(&self.0, value);
            }
        }
    }
}

/// Where all of a number of OS threads meet before any goes on.
#[repr(align(128))]
pub(super) struct Rendezvous {
    arrived: AtomicU32,
    /// Twice the number of meetings; odd while a member sleeps.
    phase: AtomicU32,
}

impl Rendezvous {
    pub(super) const fn new() -> Self {
        Self {
            arrived: AtomicU32::new(0),
            phase: AtomicU32::new(0),
        }
    }

    /// Nobody has come, in a process in which nobody is left who could have.
    pub(super) fn clear(&self) {
        self.arrived.store(0, Ordering::Relaxed);
        self.phase.store(0, Ordering::Relaxed);
    }

    pub(super) fn meet(&self, count: u32) {
        let phase = self.phase.load(Ordering::Acquire) & !1;
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == count {
            self.arrived.store(0, Ordering::Relaxed);
            if self.phase.swap(phase.wrapping_add(2), Ordering::AcqRel) & 1 != 0 {
                kernel::futex_wake(&self.phase, u32::MAX >> 1);
            }
            return;
        }
        let is_over = || self.phase.load(Ordering::Acquire) & !1 != phase;
        while !spin(is_over) {
            // Setting the bit of a later phase only costs a useless wake-up.
            if self.phase.fetch_or(1, Ordering::AcqRel) & !1 == phase {
                sleep(&self.phase, phase | 1);
            }
        }
    }
}

/// Tells OS threads that wait for news of any kind: a number that goes up by two, odd while one sleeps.
pub(super) struct Bell(AtomicU32);

impl Bell {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// The news so far, for [`Self::wait`].
    pub(super) fn seen(&self) -> u32 {
        self.0.load(Ordering::Acquire) & !1
    }

    pub(super) fn ring(&self) {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            let next = (now & !1).wrapping_add(2);
            match self
                .0
                .compare_exchange_weak(now, next, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(changed) => now = changed,
            }
        }
        if now & 1 != 0 {
            kernel::futex_wake(&self.0, u32::MAX >> 1);
        }
    }

    /// Waits until there is other news than `seen`.
    pub(super) fn wait(&self, seen: u32) {
        while !spin(|| self.seen() != seen) {
            if self.0.fetch_or(1, Ordering::AcqRel) & !1 == seen {
                sleep(&self.0, seen | 1);
            }
        }
    }

    /// Sleeps until there is other news than `seen`, for so long at most.
    pub(super) fn doze(&self, seen: u32, at_most_ns: i64) {
        if self.0.fetch_or(1, Ordering::AcqRel) & !1 == seen {
            kernel::futex_wait_for(&self.0, seen | 1, at_most_ns);
        }
    }
}

/// A lock in a word that starts as zero, by libgomp's protocol: 1 when held, -1 when others may sleep.
#[derive(Default)]
#[repr(transparent)]
pub(super) struct Lock(AtomicU32);

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = u32::MAX;

impl Lock {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(FREE))
    }

    /// libgomp's lock in a word of the program. Safety: the word is for nothing else, and outlives the reference.
    pub(super) unsafe fn in_word<'a>(word: *mut u32) -> &'a Self {
        // SAFETY: `Lock` is a transparent atomic word; the caller vouches for the rest.
        unsafe { &*word.cast::<Self>() }
    }

    #[inline]
    pub(super) fn try_take(&self) -> bool {
        self.0
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    #[inline]
    pub(super) fn take(&self) {
        if !self.try_take() {
            self.take_slowly();
        }
    }

    #[cold]
    fn take_slowly(&self) {
        // As a rule the holder gives it back in a moment, whether or not there is a CPU for each carrier.
        let turns = SPIN_COUNT.load(Ordering::Relaxed);
        if spin_for(turns, || self.0.load(Ordering::Relaxed) == FREE) && self.try_take() {
            return;
        }
        while self.0.swap(CONTENDED, Ordering::Acquire) != FREE {
            kernel::futex_wait(&self.0, CONTENDED);
        }
    }

    #[inline]
    pub(super) fn give(&self) {
        if self.0.swap(FREE, Ordering::Release) == CONTENDED {
            kernel::futex_wake(&self.0, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn nobody_leaves_a_meeting_before_all_have_come() {
        static MEETING: Rendezvous = Rendezvous::new();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 1..=200 {
                        COUNT.fetch_add(1, Ordering::Relaxed);
                        MEETING.meet(3);
                        assert_eq!(COUNT.load(Ordering::Relaxed), 3 * round);
                        MEETING.meet(3);
                    }
                });
            }
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "has inline assembly")]
    fn a_lock_lets_one_in_at_a_time() {
        static LOCK: Lock = Lock::new();
        static SUM: AtomicU64 = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        LOCK.take();
                        let sum = SUM.load(Ordering::Relaxed);
                        SUM.store(sum + 1, Ordering::Relaxed);
                        LOCK.give();
                    }
                });
            }
        });
        assert_eq!(SUM.load(Ordering::Relaxed), 6000);
    }

    #[test]
    #[cfg_attr(miri, ignore = "has inline assembly")]
    fn orders_and_countdowns_reach_the_waiting_thread() {
        static BOX: Mailbox = Mailbox(AtomicU32::new(EMPTY));
        static LEFT: Countdown = Countdown::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for order in 2..200 {
                    let expected = || match order % 2 {
                        0 => Expected::Soon,
                        _ => Expected::Hardly,
                    };
                    assert_eq!(BOX.take(expected), order);
                    LEFT.count();
                }
            });
            for order in 2..200 {
                LEFT.set(1);
                BOX.post(order);
                LEFT.wait();
            }
        });
    }
}
