//! What happens at the start and at the end of a parallel region, on the thread that meets the construct.
//!
//! *The routine path.* Nearly all regions are begun by a thread that has begun others, outside any dispensed loop,
//! without a size of their own, under an unchanged allocation that suffices for the full team. Then [`begin_routine`]
//! and [`end_routine`] name and count the region, and without a page do nothing.

pub(crate) mod kept_records;
mod settings;
pub(crate) mod team_size;

use core::sync::atomic::Ordering;

use mapper_abi::layout::ThreadSlot;
use mapper_abi::{SlotClaim, SlotSharing};
use mapper_shim_core::construct::Start;
use mapper_shim_core::logical::{self, Preemptions};
use mapper_shim_core::progress::Began;
use mapper_shim_core::runtime::{Family, Runtime};
use mapper_shim_core::thread_state::{LoopState, ThreadState};
use mapper_shim_core::{attachment, exactness, progress, waits};
use team_size::{Request, Verdict};

use crate::degree::{Sizes, region_table, spare};
use crate::region::kept_records::Known;

#[repr(C)]
pub(crate) struct OpenRegion {
    outer_loop: LoopState,
    timing: Option<Timing>,
    began: Began,
}

#[derive(Clone, Copy)]
struct Timing {
    region: &'static region_table::Entry,
    size: u32,
    limit: u32,
    began: u64,
    preemptions: Preemptions,
}

pub(crate) struct Started {
    pub(crate) num_threads: u32,
    pub(crate) open: OpenRegion,
}

#[derive(Clone, Copy)]
pub(crate) enum Routine {
    Counted(&'static ThreadSlot, Began),
    /// Nobody counts, for there is no page.
    Uncounted,
}

/// Begins a region on the routine path, where it applies; `find` says what is known of it.
#[inline(always)]
pub(crate) fn begin_routine(
    thread: &ThreadState,
    runtime: &Runtime,
    asked: u32,
    find: impl FnOnce() -> Known,
) -> Option<Routine> {
    if thread.is_in_loop() {
        return None;
    }
    let Some(slot) = thread.slot.get() else {
        return attachment::is_inert().then_some(Routine::Uncounted);
    };
    let is_settled = asked == 0
        && thread
            .settled_runtime
            .get()
            .is_some_and(|settled| core::ptr::eq(settled, runtime))
        && thread.settled_sequence.get() == attachment::sequence();
    if !is_settled {
        return None;
    }
    let Known { region, identity } = find();
    if !degree_is_at_rest(thread, region) {
        return None;
    }
    slot.region.store(identity, Ordering::Relaxed);
    let sharing = SlotSharing::Own;
    let began = Began::now(thread, SlotClaim { slot, sharing });
    Some(Routine::Counted(slot, began))
}

/// Whether the region's team is to be as large as it may, and nothing is to be tried.
#[inline(always)]
fn degree_is_at_rest(thread: &ThreadState, region: Option<&region_table::Entry>) -> bool {
    !attachment::teams_follow()
        || !spare::is_reported()
            && region
                .is_none_or(|region| region.degree.is_at_rest(thread.initial_max_threads.get()))
}

#[inline(always)]
pub(crate) fn ends_at_once(thread: &ThreadState, routine: Routine) -> bool {
    waits::are_counted()
        && match routine {
            Routine::Counted(..) => progress::skips_stamp(thread),
            Routine::Uncounted => true,
        }
}

#[inline(always)]
pub(crate) fn end_routine(thread: &ThreadState, routine: Routine) {
    waits::end_region(thread);
    if let Routine::Counted(slot, began) = routine {
        let sharing = SlotSharing::Own;
        progress::region_done(thread, SlotClaim { slot, sharing }, began);
    }
}

/// Decides on the team of a region and remembers what it interrupts.
#[inline(never)]
pub(crate) fn begin(start: &Start<'_>) -> Started {
    let Start {
        thread,
        runtime,
        family,
        function,
        asked,
    } = *start;
    let mut open = OpenRegion {
        outer_loop: thread.enter_region(),
        timing: None,
        began: Began::UNTIMED,
    };
    let Some(claim) = attachment::slot(thread) else {
        return Started {
            num_threads: asked,
            open,
        };
    };
    open.began = Began::now(thread, claim);
    let identity = region_table::identity(function);
    claim.slot.region.store(identity, Ordering::Relaxed);
    let home = thread.home_runtime.get();
    let known = home.is_some_and(|home| core::ptr::eq(home, runtime));
    let first = !known && meet_runtime(thread, runtime, family);
    let initial_max = thread.initial_max_threads.get();
    let verdict = team_size::decide(Request {
        asked,
        exact: || exactness::of(thread),
        first,
        initial_max,
        limit: attachment::team_limit(),
    });
    let num_threads = match verdict {
        Verdict::Full => {
            full(start, claim.sharing);
            match initial_max {
                0 => asked,
                _ if first => asked,
                limit => worth(start, &mut open, limit).unwrap_or(asked),
            }
        }
        Verdict::Lower(size) => match lower(runtime, family, size) {
            0 => 0,
            limit => worth(start, &mut open, limit).unwrap_or(limit),
        },
        Verdict::Untouched(None) => asked,
        // What makes teams exact does not concern virtual ones.
        Verdict::Untouched(Some(_)) if logical::is_wanted() => asked,
        Verdict::Untouched(Some(reason)) => {
            attachment::report_teams_off(reason);
            asked
        }
    };
    Started { num_threads, open }
}

/// How many threads a region is worth, if fewer than `limit`. Has it timed where that is to be found out.
fn worth(start: &Start<'_>, open: &mut OpenRegion, limit: u32) -> Option<u32> {
    let Start {
        thread,
        runtime,
        family,
        function,
        ..
    } = *start;
    let may_choose =
        attachment::teams_follow() && exactness::of(thread).is_none() && runtime.level(family) == 0;
    let region = region_table::find(function).filter(|_| may_choose)?;
    let size = choose(region, limit, sizes(family), open);
    (size < limit).then_some(size)
}

const fn sizes(family: Family) -> Sizes {
    match family {
        Family::Gomp => Sizes::AllOrOne,
        Family::Kmpc => Sizes::Any,
    }
}

/// How many threads, of up to `limit`, a region gets this time. Has it timed where that is to be found out.
fn choose(
    region: &'static region_table::Entry,
    limit: u32,
    sizes: Sizes,
    open: &mut OpenRegion,
) -> u32 {
    let choice = region.degree.choose(limit, sizes);
    if spare::is_reported() {
        spare::look(limit);
    }
    if choice.timed {
        open.timing = Some(Timing {
            region,
            size: choice.size,
            limit,
            began: now_ticks(),
            preemptions: logical::preemptions(),
        });
    }
    choice.size
}

/// How many OS threads run a team of so many logical ones, for which there are `limit` CPUs.
#[inline]
pub(crate) fn os_threads(function: usize, members: u32, limit: u32, open: &mut OpenRegion) -> u32 {
    if limit < 2 {
        return limit;
    }
    match region_table::find(function) {
        Some(region) if region.degree.wants_all(members, limit) => {
            open.timing = Some(Timing {
                region,
                size: members,
                limit,
                began: now_ticks(),
                preemptions: logical::preemptions(),
            });
            members
        }
        Some(region) if spare::is_reported() || !region.degree.is_at_rest(limit) => {
            choose(region, limit, Sizes::Any, open)
        }
        _ => limit,
    }
}

#[inline(always)]
fn now_ticks() -> u64 {
    // SAFETY: every x86_64 processor has it; a program that has it forbidden (`PR_SET_TSC`) asked for the fault.
    unsafe { core::arch::x86_64::_rdtsc() }
}

fn lower(runtime: &Runtime, family: Family, size: u32) -> u32 {
    if runtime.level(family) != 0 {
        return 0;
    }
    if attachment::is_news(size) {
        attachment::report_team(size);
    }
    size
}

/// Reports a full outermost team, and lets the next regions take the routine path once there is nothing to report.
fn full(start: &Start<'_>, sharing: SlotSharing) {
    let Start {
        thread,
        runtime,
        family,
        ..
    } = *start;
    if family == Family::Gomp && logical::may_serve(thread) {
        return;
    }
    // Where the limit is not read, nothing else reads which allocation the report is about.
    attachment::note_allocation();
    let initial_max = thread.initial_max_threads.get();
    if attachment::is_news(initial_max) {
        if runtime.level(family) == 0 {
            exactness::report_real_team(thread);
        }
    } else if attachment::team_limit() >= initial_max && sharing == SlotSharing::Own {
        thread.settled_sequence.set(attachment::sequence());
        thread.settled_runtime.set(Some(runtime));
    }
}

/// Counts a region and goes back to what it interrupted.
#[inline(never)]
pub(crate) fn end(thread: &ThreadState, open: &OpenRegion) {
    if let Some(timing) = &open.timing {
        let ended = now_ticks();
        if timing.size > timing.limit {
            timing.region.degree.learn_of_all(timing.began, ended);
        } else if logical::preemptions() == timing.preemptions {
            timing.region.degree.learn(timing.size, timing.began, ended);
        } else {
            timing.region.degree.settle();
        }
        spare::look(timing.limit);
    }
    waits::end_region(thread);
    thread.leave_region(open.outer_loop);
    if let Some(claim) = attachment::slot(thread) {
        progress::region_done(thread, claim, open.began);
    }
}

/// The first region of a thread in this runtime. Says whether it is the thread's first outermost one.
#[cold]
fn meet_runtime(thread: &ThreadState, runtime: &'static Runtime, family: Family) -> bool {
    attachment::report_runtime(family.runtimes());
    thread.last_runtime.set(Some(runtime));
    if runtime.level(family) != 0 {
        // Nothing to lower: without an initial size every allocation suffices.
        return false;
    }
    let first = thread.home_runtime.replace(Some(runtime)).is_none();
    if first {
        let max_threads = runtime.max_threads(family);
        thread.initial_max_threads.set(max_threads);
        attachment::report_max_threads(max_threads);
    }
    first
}
