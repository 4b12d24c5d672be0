//! How long the threads of a libgomp team spin before they sleep.
//!
//! *Problem.* The launcher has libgomp spin for 10 µs, since a program that loses CPUs must not spin for
//! long. A program that owns a CPU for each of its threads pays for that: whenever its threads wait for
//! each other longer than that, they sleep and are woken, and nobody has used their CPUs meanwhile.
//!
//! *Approach.* While there is a CPU for each thread, and nobody takes it away, threads spin [`MOST_PATIENCE`] times
//! as long, at most as long as libgomp does by itself. The shim looks at that where it has measured a wait
//! ([`crate::waits`]): with each new allocation, and every [`LOOK_NS`]. That suffices: as long as waits are
//! so short that none is measured, nobody spins for long. What is changed are libgomp's own counts
//! ([`crate::spin_counts`]).
//!
//! *A CPU for each* is what the page says: CPUs of the allocation, against the threads of all processes that
//! share the page and against the size of the team. *Nobody takes it away* is what the kernel says: it counts
//! how often a thread had to leave its CPU while it could have run. Where that happens more often than
//! [`PREEMPTED_PER_SECOND`], others want these CPUs, whatever the page says (programs that mapper does
//! not manage, threads that are not OpenMP's), and threads are impatient for [`IMPATIENT_NS`].
//!
//! *Invariants.* Nothing is done for users who chose the waiting themselves, under `--teams virtual` (where the
//! shim's own waiting follows the same rule), without a page, or where the counts are not found. A wait that
//! is not measured costs nothing; one that is, three loads. The first look is the first time that the counts are
//! changed, so a program begins with 10 µs.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::attachment;
use crate::environment;
use crate::spin_counts::SpinCounts;
use crate::virtual_team;

/// How many times as long a thread spins that keeps no other from running. With the launcher's count,
/// which is 10 µs, a millisecond: most waits that are longer are serial phases.
pub(crate) const MOST_PATIENCE: u32 = 100;
/// Turns after which no thread is patient any longer: what libgomp spins in a program that is alone.
pub(crate) const MOST_TURNS: u32 = 300_000;

/// Longest time between two looks of a program that waits.
const LOOK_NS: u64 = 10_000_000;
/// Over how long the kernel's count is judged, at least.
const WINDOW_NS: u64 = 30_000_000;
/// How often threads lose their CPU to others, for each CPU, before they are impatient. A CPU that two threads
/// want changes hands a hundred times a second; the kernel's own threads are seen a few times.
const PREEMPTED_PER_SECOND: u64 = 40;
/// For how long threads are impatient then.
const IMPATIENT_NS: u64 = 300_000_000;

/// Turns that the launcher chose; 0 while no libgomp has been met whose counts are known.
static TURNS: AtomicU32 = AtomicU32::new(0);
/// The libgomps of this process.
static MET: [AtomicPtr<SpinCounts>; 16] = [const { AtomicPtr::new(null_mut()) }; 16];
/// When to look next.
static NEXT_LOOK_NS: AtomicU64 = AtomicU64::new(0);
/// CPUs at the last look.
static CPUS: AtomicU32 = AtomicU32::new(0);
/// What is remembered from look to look, field by field.
static PAST: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// How threads wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wait {
    /// As the launcher chose.
    Short,
    /// [`MOST_PATIENCE`] times as long.
    Patient,
}

/// Turns of a patient wait.
fn patient_turns(turns: u32) -> u32 {
    turns
        .saturating_mul(MOST_PATIENCE)
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

/// A wait was measured, and it is that time now: looks how to wait, if it is time to.
#[inline]
pub(crate) fn look(now_ns: u64) {
    let turns = TURNS.load(Ordering::Acquire);
    if turns == 0 {
        return;
    }
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
    if is_first && !virtual_team::is_wanted() {
        CPUS.store(cpus, Ordering::Relaxed);
        look_closely(now_ns, cpus, turns);
    }
}

#[cold]
fn look_closely(now_ns: u64, cpus: u32, turns: u32) {
    let seen = Seen {
        now_ns,
        cpus,
        threads: attachment::threads().max(attachment::reported_team()),
        preempted: preempted(),
    };
    let (past, wait) = Past::load().judge(seen);
    past.store();
    let patient = patient_turns(turns);
    for counts in met() {
        match wait {
            Wait::Short => counts.restore(patient),
            Wait::Patient => counts.lengthen(patient),
        }
    }
}

/// What one look shows.
#[derive(Clone, Copy, Debug)]
struct Seen {
    now_ns: u64,
    /// Of the allocation; 0 when nothing has been decided.
    cpus: u32,
    /// Of the application.
    threads: u32,
    /// How often threads of this process have lost their CPU to others.
    preempted: u64,
}

/// What is remembered from look to look. All zero before the first.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Past {
    /// Since when preemptions are counted.
    window_began_ns: u64,
    /// How many there had been by then.
    preempted_before: u64,
    /// Until when threads are impatient.
    impatient_until_ns: u64,
}

impl Past {
    fn load() -> Self {
        let [window_began_ns, preempted_before, impatient_until_ns] =
            PAST.each_ref().map(|word| word.load(Ordering::Relaxed));
        Self {
            window_began_ns,
            preempted_before,
            impatient_until_ns,
        }
    }

    fn store(self) {
        let words = [
            self.window_began_ns,
            self.preempted_before,
            self.impatient_until_ns,
        ];
        for (word, value) in PAST.iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// How to wait, and what to remember.
    fn judge(self, seen: Seen) -> (Self, Wait) {
        let mut past = self;
        let fits = seen.cpus != 0 && seen.threads <= seen.cpus;
        let lasted_ns = seen.now_ns.saturating_sub(self.window_began_ns);
        if !fits || self == Self::default() {
            // What the program's threads take from one another says nothing about others. Before threads
            // are patient, they have kept their CPUs for a while.
            past.begin_window(seen);
            past.impatient_until_ns = seen.now_ns.saturating_add(WINDOW_NS);
        } else if lasted_ns >= WINDOW_NS {
            let times = seen.preempted.saturating_sub(self.preempted_before);
            if are_wanted(times, lasted_ns, seen.cpus) {
                past.impatient_until_ns = seen.now_ns.saturating_add(IMPATIENT_NS);
            }
            past.begin_window(seen);
        }
        match fits && seen.now_ns >= past.impatient_until_ns {
            true => (past, Wait::Patient),
            false => (past, Wait::Short),
        }
    }

    fn begin_window(&mut self, seen: Seen) {
        self.window_began_ns = seen.now_ns;
        self.preempted_before = seen.preempted;
    }
}

/// Whether others want the CPUs, judging by how often they took one within that time.
fn are_wanted(times: u64, lasted_ns: u64, cpus: u32) -> bool {
    let harmless = u128::from(lasted_ns) * u128::from(PREEMPTED_PER_SECOND) * u128::from(cpus);
    u128::from(times) * 1_000_000_000 > harmless
}

/// How often threads of this process had to leave their CPU while they could have run.
fn preempted() -> u64 {
    // SAFETY: all-zero bytes are a valid `rusage`, numbers that is.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: `usage` is a place for the answer. If the call failed, none would be counted.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    u64::try_from(usage.ru_nivcsw).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// How threads wait after each of a series of looks, ten milliseconds apart, at that many CPUs, threads
    /// and preemptions since the look before.
    fn waits(looks: impl IntoIterator<Item = (u32, u32, u64)>) -> Vec<Wait> {
        let mut past = Past::default();
        let (mut now_ns, mut preempted) = (SECOND_NS, 5_000);
        let one = |(cpus, threads, times)| {
            now_ns += LOOK_NS;
            preempted += times;
            let (next, wait) = past.judge(Seen {
                now_ns,
                cpus,
                threads,
                preempted,
            });
            past = next;
            wait
        };
        looks.into_iter().map(one).collect()
    }

    #[test]
    fn threads_are_patient_once_each_has_kept_a_cpu_for_a_while() {
        let waits = waits([(2, 2, 0); 10]);
        let (short, patient) = waits.split_at(3);
        assert!(short.iter().all(|wait| *wait == Wait::Short), "{waits:?}");
        assert!(
            patient.iter().all(|wait| *wait == Wait::Patient),
            "{waits:?}"
        );
    }

    #[test]
    fn threads_are_impatient_as_soon_as_there_are_fewer_cpus() {
        let waits = waits([[(2, 2, 0); 5], [(1, 2, 9); 5], [(2, 2, 0); 5]].concat());
        assert_eq!(waits[4], Wait::Patient);
        assert_eq!(waits[5..10], [Wait::Short; 5]);
        assert_eq!((waits[10], waits[14]), (Wait::Short, Wait::Patient));
    }

    #[test]
    fn threads_without_a_decision_are_impatient() {
        assert_eq!(waits([(0, 1, 0); 20]), [Wait::Short; 20]);
    }

    #[test]
    fn threads_whose_cpus_others_want_are_impatient() {
        // A CPU shared by two changes hands once in ten milliseconds; the program has two such.
        assert_eq!(waits([(2, 2, 2); 100]), [Wait::Short; 100]);
        // One who comes later is noticed within two windows, and not forgotten at once.
        let later = waits(
            [
                [(2, 2, 0); 20],
                [(2, 2, 2); 20],
                [(2, 2, 0); 20],
                [(2, 2, 0); 20],
            ]
            .concat(),
        );
        assert_eq!((later[19], later[26]), (Wait::Patient, Wait::Short));
        assert_eq!((later[45], later[79]), (Wait::Short, Wait::Patient));
    }

    #[test]
    fn what_the_kernel_does_now_and_then_leaves_threads_patient() {
        // Forty times a second, on eight CPUs.
        let waits = waits((0..1_000).map(|look| (8, 8, u64::from(look % 5 < 2))));
        assert!(waits[3..].iter().all(|wait| *wait == Wait::Patient));
    }

    #[test]
    fn patience_has_an_end() {
        assert_eq!(patient_turns(400), 40_000);
        assert_eq!(patient_turns(3_000), 300_000);
        assert_eq!(patient_turns(1_000_000), 1_000_000);
    }
}
