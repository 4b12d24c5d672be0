//! How long the threads of a libgomp team spin before they sleep.
//!
//! *Problem.* The launcher has libgomp spin for 10 µs, since a program that loses CPUs must not spin for
//! long. A program that owns a CPU for each of its threads pays for that: whenever its threads wait for
//! each other longer than that, they sleep and are woken, and nobody has used their CPUs meanwhile.
//!
//! *Approach.* While there is a CPU for each thread, threads spin up to [`MOST_PATIENCE`] times as long, at most as
//! long as libgomp does by itself. How long is learnt from the waits that are measured anyway ([`mapper_shim_core::waits`]),
//! as for the carriers of virtual teams ([`mapper_shim_core::patience`]): one that is longer than all of it makes it a quarter
//! as long, one that spinning brought to its end doubles it. So threads whose CPUs are wanted by what mapper does not
//! manage soon wait as the launcher chose. What is changed are libgomp's own counts ([`crate::waiting::spin_counts`]).
//!
//! *A CPU for each* is what the page says: CPUs of the allocation, against the threads of all processes that
//! share the page and against the size of the team. The shim looks at that where it has measured a wait, with each
//! new allocation and every [`LOOK_NS`]. That suffices: as long as waits are so short that none is measured, nobody
//! spins for long.
//!
//! *Invariants.* Nothing is done for users who chose the waiting themselves, for programs that have virtual teams (in
//! which the shim's own waiting follows the same rule), without a page, or where the counts are not found. A wait that
//! is not measured costs nothing; one that is, some loads. The first wait that is measured is the first time that the
//! counts are changed, so a program begins with 10 µs.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::waiting::spin_counts::SpinCounts;
use mapper_shim_core::attachment;
use mapper_shim_core::environment;
use mapper_shim_core::logical;
use mapper_shim_core::patience::{MOST_PATIENCE, MOST_TURNS, Patience};

/// How long the launcher's turns take.
const SHORT_NS: u64 = 10_000;
/// Longest time between two looks of a program that waits.
const LOOK_NS: u64 = 10_000_000;

/// Turns that the launcher chose; 0 while no libgomp has been met whose counts are known.
static TURNS: AtomicU32 = AtomicU32::new(0);
/// The libgomps of this process.
static MET: [AtomicPtr<SpinCounts>; 16] = [const { AtomicPtr::new(null_mut()) }; 16];
/// When to look next.
static NEXT_LOOK_NS: AtomicU64 = AtomicU64::new(0);
/// CPUs at the last look.
static CPUS: AtomicU32 = AtomicU32::new(0);
/// At the last look there was a CPU for each thread.
static FITS: AtomicBool = AtomicBool::new(false);
/// What was learnt of spinning.
static PATIENCE: Patience = Patience::full();

/// Turns of a wait that is so many times as long.
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

/// A wait was measured, which took so long, and it is that time now: has threads wait as that teaches.
#[inline]
pub(crate) fn waited(waited_ns: u64, now_ns: u64) {
    adapt(now_ns, |patience| learn(patience, waited_ns));
}

/// A wait has passed from which nothing is to be learnt, and it is that time now.
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

/// Compares CPUs and threads, if it is time to.
fn look(now_ns: u64) {
    let next_ns = NEXT_LOOK_NS.load(Ordering::Relaxed);
    let cpus = attachment::cpu_count();
    if now_ns < next_ns && cpus == CPUS.load(Ordering::Relaxed) {
        return;
    }
    let is_first = NEXT_LOOK_NS
        .compare_exchange(
            next_ns,
            now_ns.saturating_add(LOOK_NS),
            Ordering::Relaxed,
            Ordering::Relaxed,
        )
        .is_ok();
    if is_first {
        let threads = attachment::threads().max(attachment::reported_team());
        FITS.store(cpus != 0 && threads <= cpus, Ordering::Relaxed);
        CPUS.store(cpus, Ordering::Relaxed);
    }
}

/// What a wait says that took so long.
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
    fn waits_that_spinning_brings_to_their_end_leave_all_of_it() {
        assert_eq!(after([500, 9_000, 30_000, 900_000]), MOST_PATIENCE);
    }

    #[test]
    fn time_slices_of_others_soon_end_it() {
        assert_eq!(after([4_000_000; 4]), 1);
        // And short waits in between do not bring it back.
        assert_eq!(after([4_000_000, 2_000].repeat(100)), 1);
    }

    #[test]
    fn serial_phases_between_waits_that_are_worth_spinning_leave_it() {
        let round = [5_000_000, 40_000, 40_000, 40_000];
        assert_eq!(after(round.repeat(100)), MOST_PATIENCE);
    }

    #[test]
    fn spinning_has_an_upper_limit() {
        assert_eq!(turns_of(400, 1), 400);
        assert_eq!(turns_of(400, 128), 40_000);
        assert_eq!(turns_of(400, 4), 1_600);
        assert_eq!(turns_of(3_000, 128), 300_000);
        assert_eq!(turns_of(1_000_000, 2), 1_000_000);
    }
}
