//! The net under virtual teams: no program hangs because its threads wait for one another by means
//! that the shim does not see.
//!
//! *Problem.* Members change at barriers and the like. A member that spins on a flag which a
//! suspended member of its block would set waits for ever; so does one that sleeps on a condition
//! variable. It cannot be told from one that computes for long.
//!
//! *Approach.* A watcher thread looks at the carriers every few milliseconds. One that has not been
//! in the shim for a while although members of its block could run is taken to be stuck: those
//! members get OS threads of their own (see `carrier`), and go back to the carrier at the next
//! barrier. So the program goes on, in small steps. How long a carrier may stay away doubles each
//! time, so that a program that computes for some time between barriers is soon left alone. The time
//! for which carriers were stuck is added up; a program that has used up its [`Budget`] is sent back
//! to real teams for good: as many carriers as members, each on its own OS thread, from the next
//! region on; in the region that runs, members that are lent to OS threads stay there.
//!
//! *Numbers.* 10 ms at first, then 20, 40 and so on, half a second in all: measured by the clock, so
//! that on a busy machine, where the watcher itself comes late, a program has real threads no later.
//! What is left of a second is for the watcher to get a CPU. Time that lies ten seconds back is
//! forgotten.
//!
//! *Invariants.* The watcher alone takes members away from carriers. It sleeps without waking while
//! no virtual region runs.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use mapper_abi::TeamsOff;

use super::carrier::{self, Visits};
use super::team::{self, MOST_MEMBERS};
use super::{kernel, member::Member};
use crate::attachment;

/// How often the watcher looks.
const INTERVAL_NS: i64 = 5_000_000;
/// How long a carrier may stay away the first time.
const FIRST_PATIENCE: Duration = Duration::from_millis(10);
/// For how long carriers may be stuck in all.
const BUDGET: Duration = Duration::from_millis(500);
/// Help that lies so far back is forgotten: a long computation now and then is no waiting.
const MEMORY: Duration = Duration::from_secs(10);
/// The watcher goes to sleep after so many looks at which no virtual region ran.
const IDLE_LOOKS: u32 = 40;

/// What the watcher does.
static WATCHER: AtomicU32 = AtomicU32::new(ABSENT);
const ABSENT: u32 = 0;
const AWAKE: u32 = 1;
const ASLEEP: u32 = 2;

/// The program has gone back to real teams for good.
static GAVE_UP: AtomicBool = AtomicBool::new(false);

/// Whether the program needs as many OS threads as it has logical ones.
#[inline(always)]
pub(super) fn has_given_up() -> bool {
    GAVE_UP.load(Ordering::Relaxed)
}

/// A region with more members than carriers begins.
#[inline(always)]
pub(super) fn watch() {
    if WATCHER.load(Ordering::Relaxed) != AWAKE {
        rouse();
    }
}

#[cold]
fn rouse() {
    match WATCHER.swap(AWAKE, Ordering::AcqRel) {
        // Without a watcher there is no net.
        ABSENT if !start() => GAVE_UP.store(true, Ordering::Relaxed),
        ASLEEP => kernel::futex_wake(&WATCHER, 1),
        _ => {}
    }
}

/// Starts the watcher with all signals blocked, so that the program's handlers do not run there.
fn start() -> bool {
    extern "C" fn run(_: *mut core::ffi::c_void) -> *mut core::ffi::c_void {
        let _ = crate::shield::shielded(|| {
            look_for_ever();
            None::<()>
        });
        core::ptr::null_mut()
    }
    let mut all = core::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = core::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut thread = core::mem::MaybeUninit::<libc::pthread_t>::uninit();
    // SAFETY: the sets are filled before they are read; the thread needs no argument and is detached.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let failed = libc::pthread_create(
            thread.as_mut_ptr(),
            core::ptr::null(),
            run,
            core::ptr::null_mut(),
        );
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), core::ptr::null_mut());
        if failed == 0 {
            libc::pthread_detach(thread.assume_init());
        }
        failed == 0
    }
}

/// In the child of a fork, which has no watcher.
pub(super) fn after_fork_in_child() {
    WATCHER.store(ABSENT, Ordering::Relaxed);
}

/// What the watcher remembers of a carrier.
#[derive(Clone, Copy)]
struct Sighting {
    visits: Visits,
    /// Since when it has been known to be away.
    since: Instant,
    /// The look before, when it was elsewhere: it may have been away since then.
    after: Instant,
}

/// What the program has left of the time for which its carriers may be stuck: a pure decision.
#[derive(Clone, Copy, Debug)]
struct Budget {
    /// How often help was given.
    times: u32,
    /// For how long carriers were stuck.
    spent: Duration,
    /// When help was given last.
    last: Instant,
}

/// What is to become of a program that has been helped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Prospect {
    /// It goes on in its virtual team.
    GoOn,
    /// It gets real teams.
    RealTeams,
}

impl Budget {
    fn new(now: Instant) -> Self {
        Self {
            times: 0,
            spent: Duration::ZERO,
            last: now,
        }
    }

    /// For how long a carrier may be away from the shim, as seen at `now`.
    fn patience(&mut self, now: Instant) -> Duration {
        if now.saturating_duration_since(self.last) > MEMORY {
            *self = Self::new(now);
        }
        let doubled = FIRST_PATIENCE * (1 << self.times.min(6));
        doubled
            .min(BUDGET.saturating_sub(self.spent))
            .max(FIRST_PATIENCE)
    }

    /// Carriers that had been stuck `since` then were helped `now`. Time in which several were stuck,
    /// or that was counted before, counts once.
    fn spend(&mut self, since: Instant, now: Instant) -> Prospect {
        let uncounted = match self.times {
            0 => since,
            _ => since.max(self.last),
        };
        self.spent += now.saturating_duration_since(uncounted);
        self.times += 1;
        self.last = now;
        match self.spent >= BUDGET {
            true => Prospect::RealTeams,
            false => Prospect::GoOn,
        }
    }
}

fn look_for_ever() {
    let mut sightings: Vec<Option<Sighting>> = vec![None; MOST_MEMBERS as usize];
    let mut budget = Budget::new(Instant::now());
    let mut idle_looks = 0;
    let mut now = Instant::now();
    loop {
        let before = now;
        kernel::futex_wait_for(&WATCHER, AWAKE, INTERVAL_NS);
        now = Instant::now();
        let patience = match has_given_up() {
            false => budget.patience(now),
            true => FIRST_PATIENCE,
        };
        let mut ran = false;
        let mut stuck_since = None;
        for lead in team::leads() {
            ran = true;
            if let Some(sighting) = sightings.get_mut(lead.id as usize)
                && let Some(since) = look(lead, sighting, [before, now], patience)
            {
                stuck_since =
                    Some(stuck_since.map_or(since, |earlier: Instant| earlier.min(since)));
            }
        }
        if let Some(since) = stuck_since
            && budget.spend(since, now) == Prospect::RealTeams
            && !GAVE_UP.swap(true, Ordering::Relaxed)
        {
            attachment::report_teams_off(TeamsOff::Stalled);
        }
        idle_looks = if ran { 0 } else { idle_looks + 1 };
        if idle_looks > IDLE_LOOKS
            && WATCHER
                .compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        {
            while WATCHER.load(Ordering::Acquire) == ASLEEP {
                kernel::futex_wait(&WATCHER, ASLEEP);
            }
            idle_looks = 0;
            now = Instant::now();
        }
    }
}

/// Looks at one carrier, `now` and once `before`, and helps if it has been away for too long. Returns
/// since when it may have been, if there was somebody to help.
fn look(
    lead: &'static Member,
    sighting: &mut Option<Sighting>,
    [before, now]: [Instant; 2],
    patience: Duration,
) -> Option<Instant> {
    let Some(visits) = carrier::look_at(lead) else {
        *sighting = None;
        return None;
    };
    let Some(seen) = sighting.filter(|seen| seen.visits == visits) else {
        *sighting = Some(Sighting {
            visits,
            since: now,
            after: before,
        });
        return None;
    };
    if now.saturating_duration_since(seen.since) < patience {
        return None;
    }
    if carrier::lend_members(lead, visits) == 0 {
        return None;
    }
    attachment::report_preemption();
    Some(seen.after)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has a program that always waits by hand watched, every `interval`; returns after how long it
    /// has real teams, and how often it was helped.
    fn time_to_real_teams(interval: Duration) -> (Duration, u32) {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        let (mut now, mut since) = (start, start);
        loop {
            now += interval;
            if now.saturating_duration_since(since) < budget.patience(now) {
                continue;
            }
            if budget.spend(since, now) == Prospect::RealTeams {
                return (now.saturating_duration_since(start), budget.times);
            }
            since = now;
        }
    }

    #[test]
    fn a_program_that_always_waits_has_real_teams_within_its_budget_and_one_look() {
        for interval_ms in [1, 5, 17, 60, 250] {
            let interval = Duration::from_millis(interval_ms);
            let (time, helped) = time_to_real_teams(interval);
            assert!(time >= BUDGET && time <= BUDGET + 2 * interval, "{time:?}");
            assert!(helped <= 8, "{helped}");
        }
    }

    #[test]
    fn waiting_that_lies_far_back_is_forgotten() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        let stuck = Duration::from_millis(400);
        for round in 0..10 {
            let since = start + round * (MEMORY + Duration::from_secs(1));
            assert_eq!(budget.patience(since), FIRST_PATIENCE);
            assert_eq!(
                budget.spend(since, since + stuck),
                Prospect::GoOn,
                "{round}"
            );
        }
    }

    #[test]
    fn carriers_that_are_stuck_at_the_same_time_spend_it_once() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        let stuck = Duration::from_millis(300);
        assert_eq!(budget.spend(start, start + stuck), Prospect::GoOn);
        assert_eq!(budget.spend(start, start + stuck), Prospect::GoOn);
        assert_eq!(budget.spent, stuck);
    }
}
