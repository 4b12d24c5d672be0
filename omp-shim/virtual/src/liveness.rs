//! The safety net of virtual teams: no program hangs because a member spins or sleeps until a suspended member of its
//! block has done something, by means that the shim does not see.
//!
//! *Approach.* A watcher thread examines the carriers every few milliseconds. One that has stayed away from the shim
//! for a while although members of its block could run is taken to be stuck: those members get OS threads of their own
//! (see `carrier`), and return to the carrier at the next barrier. What happens then shows whether the carrier waited
//! ([`Outcome`]). Its patience doubles each time that one waited, and twice for those that computed. The time for which
//! carriers waited is added up; a program that has used up its [`Budget`] gets real teams for good from the next region
//! on.
//!
//! *Limits of the outcome.* A carrier that sleeps is woken as soon as it may continue, often before the member that
//! woke it has stopped; but one that sleeps does not compute, so these count as waiting. A member may compute on after
//! it has released the others; then the carrier seems to have computed. Such times count for a tenth, which bounds the
//! loss. With very unequal work a short member stops before the carrier, which then seems to have waited.
//!
//! *Tasks.* A task may wait for another that no carrier begins, as each executes one. While tasks are ready and none is
//! begun, one member after another that waits at a barrier executes tasks beside its carrier. No time is counted for these.
//!
//! *Numbers.* 10 ms at first, then 20, 40 and so on, half a second in all, by the clock, so that a late watcher does
//! not prolong it. One part in twenty of all time is forgiven. A carrier that computes and is helped has used at most
//! half of the time when it comes back, of which a tenth is what is forgiven.
//!
//! *Invariants.* Only the watcher takes members away. It sleeps without waking while no virtual region runs. If it
//! panics, the program gets real teams for good, and a new watch sees the running region through.

use core::sync::atomic::{AtomicU32, Ordering, compiler_fence};
use std::time::{Duration, Instant};

use mapper_abi::TeamsOff;
use mapper_shim_core::{attachment, logical};

use super::first_stop::Outcome;
use super::gate::Visits;
use super::member::Member;
use super::pool::MOST_MEMBERS;
use super::region::{self, has_given_up};
use super::turns::{Pace, Seen, Turns};
use super::{attendants, carrier, kernel, quiet_thread, tasks};

const INTERVAL: Duration = Duration::from_millis(5);
/// How long a carrier may stay away the first time.
const FIRST_PATIENCE: Duration = Duration::from_millis(10);
/// How often that is doubled at most.
const MOST_DOUBLINGS: u32 = 6;
/// How often it is doubled for carriers that seem to have computed.
const DOUBLINGS_FOR_COMPUTING: u32 = 2;
/// For how long carriers may wait in all.
const BUDGET: Duration = Duration::from_millis(500);
/// One part in so many of the time that passes is forgiven.
const FORGIVEN: u32 = 20;
/// One part in so many of the time counts for which a carrier seems to have computed.
const COMPUTING_COUNTS: u32 = 10;
/// How long members that were lent run beside their carriers before they get turns: the time may be needed for computing.
const WITHOUT_TURNS: Duration = Duration::from_millis(50);
/// Of so many carriers it is asked whether they sleep before the others get turns.
const ASKED: usize = 4;
/// How long tasks may be ready without any being begun before one more member executes tasks beside its carrier.
const PATIENCE_WITH_TASKS: Duration = Duration::from_millis(50);
/// The watcher goes to sleep after so many looks at which no virtual region ran.
const IDLE_LOOKS: u32 = 40;
/// How often the watcher begins at most: each panic costs the program a message.
const WATCHES: u32 = 3;

/// How many regions were to be watched.
static REGIONS: AtomicU32 = AtomicU32::new(0);

static WATCHER: AtomicU32 = AtomicU32::new(ABSENT);
const ABSENT: u32 = 0;
const AWAKE: u32 = 1;
const ASLEEP: u32 = 2;
const ENDING: u32 = 3;

/// The watcher's thread runs. In a child made by a bare system call, `setuid` would wait for ever for a thread that was
/// only being started.
static BEGUN: AtomicU32 = AtomicU32::new(0);

/// Whether there is a watcher, starting it if not. Before a region gets fewer carriers than members.
#[inline(always)]
pub(super) fn stands_by() -> bool {
    WATCHER.load(Ordering::Relaxed) != ABSENT || {
        rouse();
        !has_given_up()
    }
}

/// A region with more members than carriers begins; [`region::leads`] has them already.
#[inline(always)]
pub(super) fn watch() {
    // Only its owner writes it.
    let regions = REGIONS.load(Ordering::Relaxed);
    REGIONS.store(regions.wrapping_add(1), Ordering::Relaxed);
    // The watcher has a fence for both sides; see where it goes to sleep.
    compiler_fence(Ordering::SeqCst);
    if WATCHER.load(Ordering::Relaxed) != AWAKE {
        rouse();
    }
}

#[cold]
fn rouse() {
    match WATCHER.swap(AWAKE, Ordering::AcqRel) {
        ABSENT if !start() => give_up(TeamsOff::TooLarge),
        ASLEEP => kernel::futex_wake(&WATCHER, 1),
        _ => {}
    }
}

/// Without a watcher, or when it is not known what it was about to do, the program gets real teams.
fn give_up(reason: TeamsOff) {
    region::give_up();
    attachment::report_teams_off(reason);
}

/// Watches, and again each time that `watch` panics, after giving virtual teams up.
fn watch_anew(mut watch: impl FnMut(), give_up: impl Fn()) {
    for _ in 0..WATCHES {
        let watched = mapper_shim_core::shield::shielded(|| {
            watch();
            Some(())
        });
        if watched.is_some() {
            return;
        }
        give_up();
    }
}

fn start() -> bool {
    extern "C" fn run(_: *mut core::ffi::c_void) -> *mut core::ffi::c_void {
        kernel::wake_in_time();
        BEGUN.store(1, Ordering::Release);
        kernel::futex_wake(&BEGUN, 1);
        watch_anew(look_until_the_end, || give_up(TeamsOff::Unwatched));
        attendants::goes();
        core::ptr::null_mut()
    }
    attendants::comes();
    // SAFETY: it does not look at its argument.
    let has_started = unsafe { quiet_thread::start(run, core::ptr::null_mut()) };
    if !has_started {
        attendants::goes();
        return false;
    }
    while BEGUN.load(Ordering::Acquire) == 0 {
        kernel::futex_wait(&BEGUN, 0);
    }
    true
}

/// Tells the watcher to end. No region runs.
pub(super) fn end_watcher() {
    if WATCHER.load(Ordering::Relaxed) != ABSENT {
        WATCHER.store(ENDING, Ordering::Release);
        kernel::futex_wake(&WATCHER, 1);
    }
}

/// The watcher has ended, or is not in this process.
pub(super) fn watcher_is_gone() {
    BEGUN.store(0, Ordering::Relaxed);
    WATCHER.store(ABSENT, Ordering::Relaxed);
}

#[derive(Clone, Copy)]
struct Sighting {
    visits: Visits,
    /// Since when it has been known to be away.
    since: Instant,
    /// The look before, when it was elsewhere: it may have been away since then.
    after: Instant,
}

/// Time for which a carrier was away until it was helped, while it is not known whether it waited.
#[derive(Clone, Copy)]
struct Pending {
    lead: &'static Member,
    stuck: Stuck,
    slept: Slept,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slept {
    Yes,
    /// It had a CPU, or was waiting for one, or the kernel does not say.
    No,
}

impl Slept {
    fn now(os_thread: libc::pid_t) -> Self {
        let text = std::fs::read_to_string(format!("/proc/self/task/{os_thread}/stat"));
        Self::of(&text.unwrap_or_default())
    }

    /// From `/proc/PID/stat`: the state follows the name, which ends at the last parenthesis.
    fn of(stat: &str) -> Self {
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes());
        match state.and_then(<[u8]>::first) {
            Some(b'S') => Self::Yes,
            _ => Self::No,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Stuck {
    since: Instant,
    until: Instant,
}

#[derive(Clone, Copy, Default)]
struct Watched {
    sighting: Option<Sighting>,
    pending: Option<Pending>,
}

/// Since when tasks have been ready without any being begun.
#[derive(Default)]
struct WaitingTasks {
    begun: u64,
    since: Option<Instant>,
}

impl WaitingTasks {
    /// Whether that is too long: those that are executed may wait for them. `begun` is how many have been, if any is ready.
    fn are_stuck(&mut self, begun: Option<u64>, now: Instant) -> bool {
        let Some(begun) = begun else {
            self.since = None;
            return false;
        };
        if begun != self.begun {
            *self = Self { begun, since: None };
        }
        let since = *self.since.get_or_insert(now);
        now.saturating_duration_since(since) >= PATIENCE_WITH_TASKS
    }
}

#[derive(Clone, Copy, Debug)]
struct Budget {
    doublings: u32,
    /// What was counted and has not been forgiven.
    spent: Duration,
    /// What was counted for carriers that waited and had a CPU.
    spun: Duration,
    /// Until when time has been forgiven.
    aged: Instant,
    /// Until when time has been counted.
    counted: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Prospect {
    GoOn,
    RealTeams,
}

impl Budget {
    fn new(now: Instant) -> Self {
        Self {
            doublings: 0,
            spent: Duration::ZERO,
            spun: Duration::ZERO,
            aged: now,
            counted: None,
        }
    }

    /// Forgives what the time up to `now` is worth. When all is forgiven, patience starts over, too.
    fn age(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.aged);
        self.spent = self.spent.saturating_sub(passed / FORGIVEN);
        self.spun = self.spun.min(self.spent);
        self.aged = now;
        if self.spent.is_zero() {
            self.doublings = self.doublings.min(DOUBLINGS_FOR_COMPUTING);
        }
    }

    fn patience(&self) -> Duration {
        let doubled = FIRST_PATIENCE * (1 << self.doublings.min(MOST_DOUBLINGS));
        doubled
            .min(BUDGET.saturating_sub(self.spent))
            .max(FIRST_PATIENCE)
    }

    /// Why virtual teams are given up when it is used up.
    fn reason(&self) -> TeamsOff {
        match self.spun > BUDGET / 2 {
            true => TeamsOff::Spun,
            false => TeamsOff::Stalled,
        }
    }

    /// A carrier was away, then was helped, with this outcome. Time that was counted before counts once.
    fn spend(&mut self, stuck: Stuck, outcome: Outcome) -> Prospect {
        let since = self
            .counted
            .map_or(stuck.since, |counted| stuck.since.max(counted));
        let uncounted = stuck.until.saturating_duration_since(since);
        match outcome {
            Outcome::Open => return Prospect::GoOn,
            Outcome::Waited => {
                self.spent += uncounted;
                self.doublings = (self.doublings + 1).min(MOST_DOUBLINGS);
            }
            Outcome::Computed => {
                self.spent += uncounted / COMPUTING_COUNTS;
                self.doublings = (self.doublings + 1)
                    .min(DOUBLINGS_FOR_COMPUTING)
                    .max(self.doublings);
            }
        }
        self.counted = self.counted.max(Some(stuck.until));
        match self.spent >= BUDGET {
            true => Prospect::RealTeams,
            false => Prospect::GoOn,
        }
    }
}

fn look_until_the_end() {
    let mut watched: Vec<Watched> = vec![Watched::default(); MOST_MEMBERS as usize];
    let mut budget = Budget::new(Instant::now());
    let mut pace = Pace::default();
    let mut waiting_tasks = WaitingTasks::default();
    let mut idle_looks = 0;
    let mut now = Instant::now();
    loop {
        let before = now;
        rest(&watched, now, &mut pace);
        if WATCHER.load(Ordering::Acquire) == ENDING {
            return;
        }
        now = Instant::now();
        budget.age(now);
        for of_lead in &mut watched {
            if settle(&mut of_lead.pending, &mut budget) == Prospect::RealTeams
                && !region::give_up()
            {
                attachment::report_teams_off(budget.reason());
            }
        }
        let patience = match has_given_up() {
            false => budget.patience(),
            true => FIRST_PATIENCE,
        };
        let mut ran = false;
        for lead in region::leads() {
            ran = true;
            if let Some(of_lead) = watched.get_mut(lead.id as usize) {
                look(lead, of_lead, [before, now], patience);
            }
        }
        if waiting_tasks.are_stuck(tasks::waiting(), now) {
            region::leads().any(carrier::lend_for_tasks);
        }
        idle_looks = if ran { 0 } else { idle_looks + 1 };
        if idle_looks > IDLE_LOOKS
            && WATCHER
                .compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        {
            // The owner sets that a region runs, then reads whether the watcher is awake; the watcher sets that it is
            // not, then reads whether a region runs. This is the fence for both.
            kernel::memory_barrier_everywhere();
            if region::leads().next().is_some() {
                let _ =
                    WATCHER.compare_exchange(ASLEEP, AWAKE, Ordering::AcqRel, Ordering::Relaxed);
            }
            while WATCHER.load(Ordering::Acquire) == ASLEEP {
                kernel::futex_wait(&WATCHER, ASLEEP);
            }
            idle_looks = 0;
            now = Instant::now();
        }
    }
}

/// Waits until the next look. Meanwhile OS threads that wait for one another have turns, where they need them.
fn rest(watched: &[Watched], now: Instant, pace: &mut Pace) {
    let lent_long_ago = |of_lead: &Watched| {
        let lent = of_lead.pending.map(|pending| pending.stuck.until);
        lent.is_some_and(|lent| now.saturating_duration_since(lent) >= WITHOUT_TURNS)
    };
    let may_wait = has_given_up() || watched.iter().any(lent_long_ago);
    let is_awake = |lead: &&Member| Slept::now(lead.os_thread()) == Slept::No;
    let lead = may_wait
        .then(|| region::leads().take(ASKED).find(is_awake))
        .flatten();
    let Some(turns) = lead.and_then(|lead| Turns::of(region::size(), lead.os_thread())) else {
        kernel::futex_wait_for(&WATCHER, AWAKE, INTERVAL.as_nanos() as i64);
        return;
    };
    let seen = match has_given_up() {
        true => Seen::Waiting,
        false => Seen::Nothing,
    };
    let rest_ns = pace.rest_ns(REGIONS.load(Ordering::Relaxed), seen);
    while region::leads().next().is_some()
        && WATCHER.load(Ordering::Relaxed) == AWAKE
        && now.elapsed() < INTERVAL
    {
        turns.visit();
        kernel::futex_wait_for(&WATCHER, AWAKE, rest_ns);
    }
}

/// Counts the time of a carrier that was helped once it is known whether it waited.
fn settle(pending: &mut Option<Pending>, budget: &mut Budget) -> Prospect {
    let Some(Pending { lead, stuck, slept }) = *pending else {
        return Prospect::GoOn;
    };
    let outcome = match (carrier::outcome(lead), slept) {
        (Outcome::Computed, Slept::Yes) => Outcome::Waited,
        (outcome, _) => outcome,
    };
    if outcome != Outcome::Open {
        *pending = None;
    }
    let before = budget.spent;
    let prospect = budget.spend(stuck, outcome);
    if outcome == Outcome::Waited && slept == Slept::No {
        budget.spun += budget.spent.saturating_sub(before);
    }
    prospect
}

/// Looks at one carrier, `now` and once `before`, and helps if it has been away for too long.
fn look(
    lead: &'static Member,
    of_lead: &mut Watched,
    [before, now]: [Instant; 2],
    patience: Duration,
) {
    let Some(visits) = carrier::look_at(lead) else {
        of_lead.sighting = None;
        return;
    };
    let Some(seen) = of_lead.sighting.filter(|seen| seen.visits == visits) else {
        of_lead.sighting = Some(Sighting {
            visits,
            since: now,
            after: before,
        });
        return;
    };
    if now.saturating_duration_since(seen.since) < patience {
        return;
    }
    let slept = Slept::now(lead.os_thread());
    if carrier::lend_members(lead, visits) == 0 {
        return;
    }
    logical::note_preemption();
    attachment::report_preemption();
    let since = of_lead
        .pending
        .map_or(seen.after, |earlier| earlier.stuck.since);
    of_lead.pending = Some(Pending {
        lead,
        stuck: Stuck { since, until: now },
        slept,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_watcher_that_panics_gives_virtual_teams_up_and_watches_on() {
        for (panics, watches, given_up) in [
            (0, 1, 0),
            (1, 2, 1),
            (2, 3, 2),
            (u32::MAX, WATCHES, WATCHES),
        ] {
            let (begun, up) = (AtomicU32::new(0), AtomicU32::new(0));
            let watch = || {
                let before = begun.fetch_add(1, Ordering::Relaxed);
                assert!(before >= panics, "a panic on purpose");
            };
            watch_anew(watch, || {
                up.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!((begun.into_inner(), up.into_inner()), (watches, given_up));
        }
    }

    /// When a program, whose carriers are away for `away` if not helped and back after `back` if helped, got real teams
    /// within an hour, and how often it was helped.
    fn watch_program(
        interval: Duration,
        away: Option<Duration>,
        outcome: Outcome,
        back: impl Fn(Duration) -> Duration,
    ) -> (Option<Duration>, u32) {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        let (mut now, mut since, mut times) = (start, start, 0);
        while now < start + Duration::from_secs(3600) {
            now += interval;
            budget.age(now);
            if away.is_some_and(|away| now >= since + away) {
                since += away.unwrap_or_default();
                continue;
            }
            if now.saturating_duration_since(since) < budget.patience() {
                continue;
            }
            times += 1;
            let stuck = Stuck { since, until: now };
            if budget.spend(stuck, outcome) == Prospect::RealTeams {
                return (Some(now.saturating_duration_since(start)), times);
            }
            now += back(now.saturating_duration_since(since));
            since = now;
        }
        (None, times)
    }

    #[test]
    fn a_program_that_always_waits_has_real_teams_within_its_budget_and_two_looks() {
        for interval_ms in [1, 5, 17, 60, 250] {
            let interval = interval_ms * MS;
            let (time, helped) = watch_program(interval, None, Outcome::Waited, |_| Duration::ZERO);
            let time = time.unwrap();
            assert!(
                time >= BUDGET && time <= BUDGET * 21 / 20 + 2 * interval,
                "{time:?}"
            );
            assert!(helped <= 9, "{helped}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn a_program_that_computes_is_never_sent_back() {
        for members in [2, 3, 4, 8] {
            for work_ms in [5, 12, 41, 46, 60, 100, 150, 900] {
                let work = work_ms * MS;
                // The rest of its own work and that of the others, on one CPU.
                let back = |away: Duration| members * work - away.min(work);
                let (time, helped) = watch_program(5 * MS, Some(work), Outcome::Computed, back);
                assert_eq!(time, None, "{members} members of {work:?}, {helped} times");
            }
        }
    }

    #[test]
    fn a_program_that_waits_but_seems_to_compute_has_real_teams_in_the_end() {
        let (time, _) = watch_program(5 * MS, None, Outcome::Computed, |_| Duration::ZERO);
        assert!(time.unwrap() < Duration::from_secs(15), "{time:?}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn waiting_now_and_then_is_forgiven() {
        let back = |away: Duration| away * FORGIVEN;
        let (time, helped) = watch_program(5 * MS, None, Outcome::Waited, back);
        assert_eq!(time, None);
        assert!(helped > 100);
    }

    fn stuck_for(time: Duration) -> (Budget, Stuck) {
        let since = Instant::now();
        let until = since + time;
        (Budget::new(since), Stuck { since, until })
    }

    #[test]
    fn nothing_is_counted_until_it_is_known_whether_a_carrier_waited() {
        let (mut budget, stuck) = stuck_for(2 * BUDGET);
        assert_eq!(budget.spend(stuck, Outcome::Open), Prospect::GoOn);
        assert_eq!((budget.spent, budget.doublings), (Duration::ZERO, 0));
        assert_eq!(budget.spend(stuck, Outcome::Waited), Prospect::RealTeams);
    }

    #[test]
    fn a_sleeping_thread_is_distinguished_from_a_computing_one() {
        assert_eq!(Slept::of("7 (a) R (b) S 1 7 7"), Slept::Yes);
        for text in ["7 (a) S) R 1 7 7", "7 (a) D 1", "7 (a)", ""] {
            assert_eq!(Slept::of(text), Slept::No, "{text}");
        }
        // SAFETY: takes nothing.
        let this = unsafe { libc::gettid() };
        assert_eq!(Slept::now(this), Slept::No);
    }

    #[test]
    fn tasks_are_stuck_when_none_is_begun_for_a_while_although_some_are_ready() {
        let start = Instant::now();
        let mut tasks = WaitingTasks::default();
        for (begun, at_ms, expected) in [
            (Some(7), 0, false),
            (Some(7), 49, false),
            (Some(8), 50, false),
            (Some(8), 99, false),
            (Some(8), 100, true),
            (Some(8), 105, true),
            (Some(9), 110, false),
            (None, 151, false),
            (Some(9), 161, false),
            (Some(9), 211, true),
        ] {
            let are_stuck = tasks.are_stuck(begun, start + at_ms * MS);
            assert_eq!(are_stuck, expected, "{begun:?} after {at_ms} ms");
        }
    }

    #[test]
    fn carriers_that_are_stuck_at_the_same_time_spend_it_once() {
        let (mut budget, stuck) = stuck_for(300 * MS);
        for _ in 0..2 {
            assert_eq!(budget.spend(stuck, Outcome::Waited), Prospect::GoOn);
        }
        assert_eq!(budget.spent, 300 * MS);
    }

    #[test]
    fn computing_does_not_take_back_the_patience_that_waiting_has_earned() {
        let (mut budget, stuck) = stuck_for(Duration::ZERO);
        for _ in 0..3 {
            budget.spend(stuck, Outcome::Waited);
        }
        budget.spend(stuck, Outcome::Computed);
        assert_eq!(budget.patience(), 8 * FIRST_PATIENCE);
    }
}
