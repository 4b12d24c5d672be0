//! What a copy of libomp tells through OMPT, counted as if it had been called through the shim.
//!
//! *Iterations.* OMPT tells each thread how many iterations a loop has, not how many the thread got. Each thread counts
//! an even share when it leaves the loop (or begins a region in it). Static loops count too.
//!
//! *Invariants.* Callbacks run on the thread that they are about. A region that came through the shim after all (two
//! modules share a copy, and one is hidden) is counted there. Notes of a region lie in the runtime's word beside it;
//! the words beside tasks stay zero, else libomp 14 stops programs with `taskwait depend`.

use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::Ordering;
use std::sync::OnceLock;

use mapper_abi::{ReportFlags, Runtimes};
use mapper_shim_core::elf::Module;
use mapper_shim_core::progress::{self, Began};
use mapper_shim_core::thread_state::{self, ThreadState};
use mapper_shim_core::{attachment, waits};

use crate::degree::region_table;
use crate::ompt::abi::{
    AnyFunction, Data, Event, PARALLEL_LEAGUE, SCOPE_BEGIN, SCOPE_END, TASK_INITIAL, is_barrier,
    is_loop,
};
use crate::ompt::copies::{Copy, copy};

/// Where the shim lies: regions that come through it are counted there.
pub(crate) static SHIM: OnceLock<Module> = OnceLock::new();

fn is_own(address: usize) -> bool {
    SHIM.get().is_some_and(|shim| shim.contains(address))
}

pub(crate) struct Callbacks {
    /// Those without which there is nothing to count.
    pub(crate) regions: [(Event, AnyFunction); 2],
    pub(crate) others: [(Event, AnyFunction); 3],
}

pub(crate) fn callbacks<const N: usize>() -> Callbacks {
    Callbacks {
        regions: [
            (Event::ParallelBegin, parallel_begin::<N> as *mut c_void),
            (Event::ParallelEnd, parallel_end::<N> as *mut c_void),
        ],
        others: [
            (Event::ImplicitTask, implicit_task::<N> as *mut c_void),
            (Event::SyncRegionWait, sync_region_wait as *mut c_void),
            (Event::Work, work::<N> as *mut c_void),
        ],
    }
}

/// What is noted of a region. A word of zeros is a region that was not seen to begin: a thread alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct RegionNote {
    /// Threads; 0 until one of them has begun its part.
    team: u32,
    /// The setting to be put back, if it was lowered.
    lowered_from: Option<u32>,
    outermost: bool,
    /// The shim counts it, or it is a league of teams, of which each has regions of its own.
    uncounted: bool,
}

impl RegionNote {
    const UNCOUNTED: u64 = 1 << 63;
    const OUTERMOST: u64 = 1 << 62;
    /// More threads than any runtime has; what is above is lost.
    const SETTING: u64 = (1 << 30) - 1;

    const fn from_word(word: u64) -> Self {
        let setting = (word >> 32) & Self::SETTING;
        Self {
            team: word as u32,
            lowered_from: match setting {
                0 => None,
                setting => Some(setting as u32),
            },
            outermost: word & Self::OUTERMOST != 0,
            uncounted: word & Self::UNCOUNTED != 0,
        }
    }

    const fn to_word(self) -> u64 {
        let setting = match self.lowered_from {
            None => 0,
            Some(setting) => (setting as u64 & Self::SETTING) << 32,
        };
        let outermost = if self.outermost { Self::OUTERMOST } else { 0 };
        let uncounted = if self.uncounted { Self::UNCOUNTED } else { 0 };
        self.team as u64 | setting | outermost | uncounted
    }

    /// Reads the word. Safety: `data` is null or what the runtime keeps beside a region.
    unsafe fn read(data: *const Data) -> Self {
        // SAFETY: the caller vouches for it.
        unsafe { data.as_ref() }.map_or_else(Self::default, |data| {
            Self::from_word(data.load(Ordering::Relaxed))
        })
    }
}

/// The even share of a loop that falls to the thread with number `index` of `team`.
const fn share(iterations: u64, team: u32, index: u32) -> u64 {
    let team = if team == 0 { 1 } else { team as u64 };
    let rest = iterations % team;
    iterations / team + if (index as u64) < rest { 1 } else { 0 }
}

unsafe extern "C" fn parallel_begin<const N: usize>(
    _task: *mut Data,
    _frame: *const c_void,
    region: *mut Data,
    requested: c_uint,
    flags: c_int,
    place: *const c_void,
) {
    // SAFETY: the runtime passes the word beside the region.
    let Some(region) = (unsafe { region.as_ref() }) else {
        return;
    };
    let note = match flags & PARALLEL_LEAGUE != 0 || is_own(place as usize) {
        true => RegionNote {
            uncounted: true,
            ..RegionNote::default()
        },
        false => begin(copy::<N>(), requested, place as usize),
    };
    region.store(note.to_word(), Ordering::Relaxed);
}

fn begin(copy: &Copy, requested: u32, place: usize) -> RegionNote {
    let thread = thread_state::current();
    end_loop(thread);
    let Some(claim) = attachment::slot(thread) else {
        return RegionNote::default();
    };
    let identity = region_table::identity(place);
    claim.slot.region.store(identity, Ordering::Relaxed);
    let outermost = copy.is_outside_regions();
    let thread_data = copy.thread_data().filter(|_| outermost);
    let lowered_from = thread_data.and_then(|data| {
        if data.load(Ordering::Relaxed) == 0 {
            attachment::report_runtime(Runtimes::LIBOMP);
            attachment::report_flag(ReportFlags::OBSERVED);
        }
        copy.sizing.lower(data, requested)
    });
    RegionNote {
        team: 0,
        lowered_from,
        outermost,
        uncounted: false,
    }
}

unsafe extern "C" fn implicit_task<const N: usize>(
    endpoint: c_int,
    region: *mut Data,
    _task: *mut Data,
    team: c_uint,
    index: c_uint,
    flags: c_int,
) {
    if flags & TASK_INITIAL != 0 {
        return;
    }
    let thread = thread_state::current();
    if endpoint == SCOPE_END {
        // It goes back to the pool. The thread that began the region goes on with the program.
        if index != 0 {
            waits::leave_region();
        }
        return;
    }
    waits::end_region(thread);
    // SAFETY: the runtime passes the word beside the region.
    let (note, region) = unsafe { (RegionNote::read(region), region.as_ref()) };
    let Some(region) = region.filter(|_| !note.uncounted) else {
        return;
    };
    thread.pending.set(0);
    let note = join(copy::<N>(), RegionNote { team, ..note });
    region.store(note.to_word(), Ordering::Relaxed);
    if index == 0 && note.outermost && attachment::is_news(team) {
        attachment::report_team(team);
    }
}

/// The calling thread becomes part of a region; returns what all of its threads note of it.
fn join(copy: &Copy, note: RegionNote) -> RegionNote {
    match note.lowered_from {
        // It was to have more, and runs where the setting of the thread that began it is out of reach.
        Some(_) if note.team == 1 => {
            copy.sizing.fail();
            RegionNote {
                lowered_from: None,
                ..note
            }
        }
        Some(setting) => {
            copy.sizing.put(setting);
            note
        }
        None => note,
    }
}

unsafe extern "C" fn parallel_end<const N: usize>(
    region: *mut Data,
    _task: *mut Data,
    _flags: c_int,
    _place: *const c_void,
) {
    // SAFETY: the runtime passes the word beside the region.
    let note = unsafe { RegionNote::read(region) };
    if note.uncounted {
        return;
    }
    if let Some(setting) = note.lowered_from {
        copy::<N>().sizing.put(setting);
    }
    let thread = thread_state::current();
    waits::end_region(thread);
    if let Some(claim) = attachment::slot(thread) {
        progress::region_done(thread, claim, Began::UNTIMED);
    }
}

unsafe extern "C" fn sync_region_wait(
    kind: c_int,
    endpoint: c_int,
    _region: *mut Data,
    _task: *mut Data,
    _place: *const c_void,
) {
    let thread = thread_state::current();
    // In a team record of the shim's it is measured there.
    if !is_barrier(kind) || thread.record.get().is_some() {
        return;
    }
    match endpoint {
        SCOPE_BEGIN => waits::leave_region(),
        SCOPE_END => waits::end_region(thread),
        _ => {}
    }
}

unsafe extern "C" fn work<const N: usize>(
    kind: c_int,
    endpoint: c_int,
    region: *mut Data,
    _task: *mut Data,
    iterations: u64,
    _place: *const c_void,
) {
    // SAFETY: the runtime passes the word beside the region.
    let note = unsafe { RegionNote::read(region) };
    if !is_loop(kind) || note.uncounted {
        return;
    }
    let thread = thread_state::current();
    match endpoint {
        SCOPE_BEGIN => {
            let index = copy::<N>().thread_num();
            thread.pending.set(share(iterations, note.team, index));
        }
        _ => end_loop(thread),
    }
}

fn end_loop(thread: &ThreadState) {
    let iterations = thread.pending.replace(0);
    if iterations != 0 {
        progress::iterations_done(thread, iterations);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_a_team_add_up_to_the_loop() {
        for (iterations, team) in [(0, 3), (1, 3), (100, 3), (7, 8), (100, 0)] {
            let shares = (0..team.max(1)).map(|index| share(iterations, team, index));
            assert_eq!(shares.sum::<u64>(), iterations, "{iterations} {team}");
        }
    }

    #[test]
    fn a_note_of_a_region_fits_into_its_word() {
        assert_eq!(RegionNote::from_word(0), RegionNote::default());
        for lowered_from in [None, Some(1), Some(480)] {
            for (outermost, uncounted) in [(false, false), (true, false), (false, true)] {
                let note = RegionNote {
                    team: 7,
                    lowered_from,
                    outermost,
                    uncounted,
                };
                assert_eq!(RegionNote::from_word(note.to_word()), note);
            }
        }
    }
}
