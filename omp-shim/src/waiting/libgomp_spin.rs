//! How long the threads of a libgomp team spin before they sleep.
//!
//! *Problem.* The launcher has libgomp spin for 10 µs, since a program that loses CPUs must not spin for long. Threads
//! with a CPU each pay for that: they sleep and are woken, and their CPUs were idle meanwhile.
//!
//! *Approach.* While there is a CPU for each thread, threads spin up to [`MOST_PATIENCE`] times as long, at most as
//! long as libgomp does by itself, as learnt from measured waits ([`mapper_shim_core::patience`]). libgomp's own counts
//! are changed ([`crate::waiting::spin_counts`]). The CPUs of the allocation are compared with the threads of all
//! processes of the page and the size of the team after a measured wait, with each new allocation and every
//! [`LOOK_NS`].
//!
//! *Invariants.* Nothing is done for users who chose the waiting, for virtual teams (which follow the same rule),
//! without a page, or where the counts are not found. A wait that is not measured costs nothing. A program begins with
//! 10 µs.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use mapper_shim_core::patience::{MOST_PATIENCE, MOST_TURNS, Patience};
use mapper_shim_core::{attachment, environment, logical};

use crate::waiting::spin_counts::SpinCounts;

const SHORT_NS: u64 = 10_000;
const LOOK_NS: u64 = 10_000_000;

/// Turns that the launcher chose; 0 while no libgomp has been met whose counts are known.
static TURNS: AtomicU32 = AtomicU32::new(0);
static MET: [AtomicPtr<SpinCounts>; 16] = [const { AtomicPtr::new(null_mut()) }; 16];
static NEXT_LOOK_NS: AtomicU64 = AtomicU64::new(0);
static CPUS: AtomicU32 = AtomicU32::new(0);
/// At the last look there was a CPU for each thread.
static FITS: AtomicBool = AtomicBool::new(false);
static PATIENCE: Patience = Patience::full();

fn turns_of(turns: u32, times: u32) -> u32 {
    turns
        .saturating_mul(times.min(MOST_PATIENCE))
        .min(MOST_TURNS)
        .max(turns)
}

/// A libgomp has been met for the first time, perhaps; `address` lies in it. It is never unloaded.
pub(crate) fn meet(address: usize) {
    let Some(turns) = environment::launchers_spin_turns() else {
        return;
    };
    // SAFETY: the caller keeps the library.
    let Some(counts) = (unsafe { SpinCounts::find(address, turns) }) else {
        return;
    };
    if met().any(|known| known.is_same(&counts)) {
        return;
    }
    let counts: *mut SpinCounts = Box::into_raw(Box::new(counts));
    // When the table is full, this one stays as it is.
    let _ = MET.iter().find(|cell| {
        cell.compare_exchange(null_mut(), counts, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    });
    TURNS.store(turns, Ordering::Release);
}

fn met() -> impl Iterator<Item = &'static SpinCounts> {
    MET.iter().map_while(|cell| {
        // SAFETY: only leaked boxes are stored there.
        unsafe { cell.load(Ordering::Acquire).as_ref() }
    })
}

/// A wait was measured: its length and the time.
#[inline]
pub(crate) fn waited(waited_ns: u64, now_ns: u64) {
    adapt(now_ns, |patience| learn(patience, waited_ns));
}

/// A wait has passed from which nothing is learnt; the time.
pub(crate) fn passed(now_ns: u64) {
    adapt(now_ns, |_| {});
}

/// Has threads wait as long as is right now, and `learn` where they may be patient.
#[inline]
fn adapt(now_ns: u64, learn: impl FnOnce(&Patience)) {
    let turns = TURNS.load(Ordering::Acquire);
    if turns == 0 || logical::are_possible() {
        return;
    }
    look(now_ns);
    let times = match FITS.load(Ordering::Relaxed) {
        false => 1,
        true => {
            learn(&PATIENCE);
            PATIENCE.times()
        }
    };
    let wanted = turns_of(turns, times);
    for counts in met() {
        counts.set(wanted);
    }
}

fn look(now_ns: u64) {
    let next_ns = NEXT_LOOK_NS.load(Ordering::Relaxed);
    let cpus = attachment::cpu_count();
    if now_ns < next_ns && cpus == CPUS.load(Ordering::Relaxed) {
        return;
    }
    let (then_ns, order) = (now_ns.saturating_add(LOOK_NS), Ordering::Relaxed);
    let is_first = NEXT_LOOK_NS
        .compare_exchange(next_ns, then_ns, order, order)
        .is_ok();
    if is_first {
        let threads = attachment::threads().max(attachment::reported_team());
        FITS.store(cpus != 0 && threads <= cpus, Ordering::Relaxed);
        CPUS.store(cpus, Ordering::Relaxed);
    }
}

fn learn(patience: &Patience, waited_ns: u64) {
    let times = u64::from(patience.times().min(MOST_PATIENCE));
    if waited_ns > SHORT_NS * times {
        patience.slept(waited_ns);
    } else if waited_ns > SHORT_NS {
        patience.rewarded();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(waits_ns: impl IntoIterator<Item = u64>) -> u32 {
        let patience = Patience::full();
        waits_ns.into_iter().for_each(|ns| learn(&patience, ns));
        patience.times().min(MOST_PATIENCE)
    }

    #[test]
    fn patience_follows_what_waits_show() {
        // Spinning ends these waits.
        assert_eq!(after([500, 9_000, 30_000, 900_000]), MOST_PATIENCE);
        // Time slices of others end the patience, and short waits in between do not bring it back.
        assert_eq!(after([4_000_000; 4]), 1);
        assert_eq!(after([4_000_000, 2_000].repeat(100)), 1);
        // Serial phases between waits that are worth spinning leave it.
        let round = [5_000_000, 40_000, 40_000, 40_000];
        assert_eq!(after(round.repeat(100)), MOST_PATIENCE);
    }

    #[test]
    fn spinning_has_an_upper_limit() {
        for (turns, times, expected) in [
            (400, 1, 400),
            (400, 128, 40_000),
            (400, 4, 1_600),
            (3_000, 128, 300_000),
            (1_000_000, 2, 1_000_000),
        ] {
            assert_eq!(turns_of(turns, times), expected);
        }
    }
}
