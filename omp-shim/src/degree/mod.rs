//! How many threads a region is worth: a small one is done sooner by one thread than by eight that first have to be
//! woken.
//!
//! *Approach.* Where the number of OS threads is the shim's to choose (teams under `follow`, carriers of virtual
//! teams), it times each region (by its outlined function). As long as its calls are short (`SMALL`), it tries one
//! thread and then, where the runtime changes sizes cheaply, half as many, half of that, and so on while it helps, for
//! `WINDOW` calls each. It keeps the size with the least time, if that gains `GAIN_PERCENT` over the full team both
//! before and after. Now and then it tries again. (libgomp ends threads when a team shrinks to more than one thread,
//! and makes them anew for the next; so there it is all or one.)
//!
//! *A smaller team that is slower.* A trial is no proof: one function may do large and small work in turn (the levels
//! of a multigrid method), and data of a region that is tried beside its neighbours lies in one cache, as it does not
//! afterwards. So each call of a smaller team is compared with the full one's mean, in trials and in use; one that
//! falls behind is given up, in use for longer each time; and trials may cost the process 1/400 of its time ([`loss`]).
//! A region of which some calls are long keeps the full team, and so, for long, does one whose threads had to be helped
//! while it was timed.
//!
//! *Long regions in uneven blocks.* A member of a virtual team gives up its carrier only at constructs of OpenMP. Eight
//! members on six carriers take as long as on four: two carriers have two members each, one after the other. The kernel
//! divides six CPUs among eight threads more evenly, at a cost that long regions do not feel. So these get an OS thread
//! for each member where blocks would be uneven by more than a tenth.
//!
//! *Limits.* What is known holds for one number of threads that are allowed. Another one gets a full team that is not
//! timed. All is found out anew only for a limit that has come so many times in succession (`LASTING`).
//!
//! *Unit.* Ticks of the time stamp counter, some 0.3 to 1 ns each, compared only with one another and with generous
//! limits.
//!
//! *Invariants.* A region that nothing is tried with costs a load, a store and a comparison. What is known of a region
//! is guarded by a flag for which no thread waits.

mod loss;
pub(crate) mod region_table;
pub(crate) mod spare;
mod trials;

use core::cell::UnsafeCell;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use loss::Budget;
pub(crate) use trials::{Activity, Choice, Sizes};
use trials::{Quiet, Trials};

static BUDGET: Budget = Budget::new();

pub(crate) struct Degree {
    /// A [`Quiet`], in one word so that no number of calls is taken for that of another limit.
    quiet: AtomicU64,
    /// Calls of the region are long.
    is_long: AtomicBool,
    taken: AtomicBool,
    trials: UnsafeCell<Trials>,
}

// SAFETY: `trials` is accessed only by `Degree::with`, by one thread at a time.
unsafe impl Sync for Degree {}

impl fmt::Debug for Degree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Degree")
            .field("quiet", &Quiet::unpack(self.quiet.load(Ordering::Relaxed)))
            .finish_non_exhaustive()
    }
}

impl Degree {
    pub(crate) const fn new() -> Self {
        Self {
            quiet: AtomicU64::new(0),
            is_long: AtomicBool::new(false),
            taken: AtomicBool::new(false),
            trials: UnsafeCell::new(Trials::new()),
        }
    }

    /// Whether the region runs with the full team of `limit` threads and nothing is to be tried now.
    #[inline(always)]
    pub(crate) fn is_at_rest(&self, limit: u32) -> bool {
        let quiet = Quiet::unpack(self.quiet.load(Ordering::Relaxed));
        if quiet.limit != limit || quiet.calls == 0 {
            return false;
        }
        let calls = quiet.calls - 1;
        let left = Quiet { limit, calls };
        self.quiet.store(left.pack(), Ordering::Relaxed);
        true
    }

    pub(crate) fn choose(&self, limit: u32, sizes: Sizes) -> Choice {
        let full = Choice {
            size: limit,
            timed: false,
        };
        self.with(|trials| trials.choose(limit, sizes))
            .unwrap_or(full)
    }

    pub(crate) fn learn(&self, size: u32, began: u64, ended: u64) {
        let ticks = ended.saturating_sub(began);
        let lost = self.with(|trials| trials.learn(size, ticks, BUDGET.left(ended)));
        BUDGET.charge(lost.unwrap_or(0));
    }

    /// Whether each of `members` is to have an OS thread although there are only so many CPUs.
    pub(crate) fn wants_all(&self, members: u32, cpus: u32) -> bool {
        let rounds = u64::from(members.div_ceil(cpus.max(1)));
        let is_uneven = 10 * rounds * u64::from(cpus) > 11 * u64::from(members);
        is_uneven && self.is_long.load(Ordering::Relaxed)
    }

    /// A call with an OS thread for each member took so long.
    pub(crate) fn learn_of_all(&self, began: u64, ended: u64) {
        let ticks = ended.saturating_sub(began);
        self.with(|trials| trials.learn_of_all(ticks));
    }

    /// Threads of a call that was timed had to be helped, for they seemed to wait for one another.
    pub(crate) fn settle(&self) {
        self.with(Trials::settle);
    }

    pub(crate) fn activity(&self) -> Option<Activity> {
        self.with(Trials::activity)
    }

    /// Has something be done with what is known, unless another thread is at it.
    fn with<T>(&self, work: impl FnOnce(&mut Trials) -> T) -> Option<T> {
        if self.taken.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: whoever set the flag is alone until it clears it.
        let trials = unsafe { &mut *self.trials.get() };
        trials.count_quiet(Quiet::unpack(self.quiet.load(Ordering::Relaxed)));
        let result = work(trials);
        self.is_long.store(trials.is_long(), Ordering::Relaxed);
        self.quiet.store(trials.quiet().pack(), Ordering::Relaxed);
        self.taken.store(false, Ordering::Release);
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::loss::{WARM_UP, WINDOW};
    use super::trials::{DOUBLINGS_FOR_HELP, MOST_DOUBLINGS, REST, SMALL};
    use super::*;

    #[test]
    fn limits_in_turn_end_with_one_that_is_judged_and_others_that_are_not_timed() {
        let degree = Degree::new();
        let mut timed_late = 0;
        for call in 0..4 * REST {
            for limit in [8, 2] {
                if degree.is_at_rest(limit) {
                    continue;
                }
                let choice = degree.choose(limit, Sizes::Any);
                if choice.timed {
                    degree.learn(choice.size, 0, 1000);
                    timed_late += u32::from(call > REST / 2);
                    assert_eq!(limit, 8);
                }
            }
        }
        // Two trials of four sizes, at most.
        assert!(timed_late <= 8 * (WARM_UP + WINDOW), "{timed_late}");
        assert!(degree.is_at_rest(8));
    }

    #[test]
    fn a_region_whose_threads_had_to_be_helped_keeps_its_team_for_long() {
        let degree = Degree::new();
        for _ in 0..WARM_UP + WINDOW {
            assert_eq!(degree.choose(4, Sizes::Any).size, 4);
            degree.learn(4, 0, 1000);
        }
        assert_eq!(degree.choose(4, Sizes::Any).size, 1, "the trial of one");
        degree.settle();
        for _ in 0..REST << DOUBLINGS_FOR_HELP {
            assert!(degree.is_at_rest(4));
        }
        degree.choose(4, Sizes::Any);
        degree.settle();
        let longer = REST << MOST_DOUBLINGS;
        assert!((0..longer).all(|_| degree.is_at_rest(4)));
    }

    #[test]
    fn a_region_at_rest_under_one_limit_is_timed_again_under_another() {
        let degree = Degree::new();
        degree.choose(1, Sizes::Any);
        assert!(degree.is_at_rest(1));
        assert!(!degree.is_at_rest(8));
    }

    #[test]
    fn calls_at_rest_count_as_activity() {
        let degree = Degree::new();
        degree.choose(8, Sizes::Any);
        degree.learn(8, 0, 2 * SMALL);
        degree.learn(8, 0, 2 * SMALL);
        degree.activity();
        for _ in 0..10 {
            assert!(degree.is_at_rest(8));
        }
        let activity = degree.activity().unwrap();
        assert_eq!((activity.ticks, activity.needs), (20 * SMALL, None));
        assert_eq!(degree.activity().unwrap().ticks, 0);
    }
}
