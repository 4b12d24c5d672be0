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
//! time, so that a program that computes for some time between barriers is soon left alone. One that
//! has needed help at all chances is sent back to real teams for good: as many carriers as members,
//! each on its own OS thread, from the next region on; in the region that runs, members that are lent
//! to OS threads stay there.
//!
//! *Numbers.* 10 ms at first, six chances: 10 + 20 + … + 320 ms, so that a program that cannot do
//! without real threads has them within two thirds of a second of waiting. Help is forgotten after
//! ten seconds.
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
const FIRST_PATIENCE_NS: u64 = 10_000_000;
/// How often a program may need help in a row.
const CHANCES: u32 = 6;
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
    since: Instant,
}

/// The help that the program has needed lately.
#[derive(Clone, Copy)]
struct Help {
    times: u32,
    last: Instant,
}

fn look_for_ever() {
    let mut sightings: Vec<Option<Sighting>> = vec![None; MOST_MEMBERS as usize];
    let mut help = Help {
        times: 0,
        last: Instant::now(),
    };
    let mut idle_looks = 0;
    loop {
        kernel::futex_wait_for(&WATCHER, AWAKE, INTERVAL_NS);
        let mut ran = false;
        for lead in team::leads() {
            ran = true;
            if let Some(sighting) = sightings.get_mut(lead.id as usize) {
                look(lead, sighting, &mut help);
            }
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
        }
    }
}

/// Looks at one carrier and helps if it has been away for too long.
fn look(lead: &'static Member, sighting: &mut Option<Sighting>, help: &mut Help) {
    let Some(visits) = carrier::look_at(lead) else {
        *sighting = None;
        return;
    };
    let now = Instant::now();
    let Some(before) = sighting.filter(|before| before.visits == visits) else {
        *sighting = Some(Sighting { visits, since: now });
        return;
    };
    let away_ns = now.saturating_duration_since(before.since).as_nanos() as u64;
    if now.saturating_duration_since(help.last) > MEMORY {
        help.times = 0;
    }
    let patience_ns = match has_given_up() {
        false => FIRST_PATIENCE_NS << help.times.min(CHANCES),
        true => FIRST_PATIENCE_NS,
    };
    if away_ns < patience_ns {
        return;
    }
    if carrier::lend_members(lead, visits) > 0 {
        help.times += 1;
        help.last = now;
        if help.times >= CHANCES && !GAVE_UP.swap(true, Ordering::Relaxed) {
            attachment::report_teams_off(TeamsOff::Stalled);
        }
    }
}
