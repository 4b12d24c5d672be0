//! The deferred tasks of the present team, and where its blocks meet once all are executed.
//!
//! *Approach.* As in libgomp: one queue under one lock; a thread that waits executes tasks. At a barrier, any, the oldest
//! first; elsewhere only such as the task that waits has made or has in its task group, the youngest first: OpenMP demands that
//! tied tasks are descended from it. A carrier that finds none sleeps until there is news.
//!
//! *Invariants.* Each block comes to each meeting. A meeting is over when all blocks have come and no task is unfinished;
//! only tasks make tasks then.

use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;

use mapper_shim_core::{thread_state, waits};

use super::execution::Execution;
use super::task::Task;
use crate::member::Member;
use crate::region;
use crate::waiting::{Bell, Lock};

#[derive(Default)]
struct Pool {
    ready: VecDeque<Arc<Task>>,
    /// Tasks that have been taken from there.
    begun: u64,
    /// Blocks that have come to the meeting.
    arrived: u32,
    /// Meetings that are over.
    meetings: u64,
    /// Bells to ring once the lock is free.
    news: News,
}

bitflags::bitflags! {
    #[derive(Clone, Copy, Default)]
    struct News: u8 {
        /// A task is ready, or a meeting over.
        const READY = 1;
        /// A task is ready or finished.
        const FINISHED = 2;
    }
}

struct Guarded {
    lock: Lock,
    pool: UnsafeCell<Pool>,
}

// SAFETY: the pool is touched under the lock only.
unsafe impl Sync for Guarded {}

static POOL: Guarded = Guarded {
    lock: Lock::new(),
    pool: UnsafeCell::new(Pool {
        ready: VecDeque::new(),
        begun: 0,
        arrived: 0,
        meetings: 0,
        news: News::empty(),
    }),
};
/// Changed under the lock only.
static UNFINISHED: AtomicUsize = AtomicUsize::new(0);
/// For those at a barrier.
static READY: Bell = Bell::new();
/// For those who wait for tasks elsewhere.
static FINISHED: Bell = Bell::new();
/// Tasks for each member, above which a new one is executed at once, as in libgomp.
const MOST_UNFINISHED: usize = 64;

fn with<T>(act: impl FnOnce(&mut Pool) -> T) -> T {
    POOL.lock.take();
    // SAFETY: the lock is held, and nothing in here comes back.
    let pool = unsafe { &mut *POOL.pool.get() };
    let result = act(pool);
    let news = core::mem::take(&mut pool.news);
    POOL.lock.give();
    if news.contains(News::READY) {
        READY.ring();
    }
    if news.contains(News::FINISHED) {
        FINISHED.ring();
    }
    result
}

impl Pool {
    fn end_meeting_if_complete(&mut self) {
        if UNFINISHED.load(Ordering::Relaxed) == 0 && self.arrived == region::blocks() {
            self.arrived = 0;
            self.meetings += 1;
            self.news |= News::READY;
        }
    }

    /// That task, if there is one, has been executed.
    fn finish(&mut self, task: Option<&Task>) {
        let Some(task) = task else { return };
        let left = UNFINISHED.load(Ordering::Relaxed).saturating_sub(1);
        UNFINISHED.store(left, Ordering::Release);
        self.news |= News::FINISHED;
        let successors = task.finish();
        if !successors.is_empty() {
            self.news |= News::READY;
        }
        self.ready.extend(successors);
        self.end_meeting_if_complete();
    }

    fn take_oldest(&mut self) -> Option<Arc<Task>> {
        let task = self.ready.pop_front()?;
        self.begun += 1;
        Some(task)
    }

    /// The youngest of that kind.
    fn take(&mut self, is_wanted: impl Fn(&Task) -> bool) -> Option<Arc<Task>> {
        let place = self.ready.iter().rposition(|task| is_wanted(task))?;
        self.begun += 1;
        self.ready.remove(place)
    }
}

pub(super) enum Step {
    Run(Arc<Task>),
    /// Unless there has been other news.
    Sleep(u32),
    Over,
}

/// Whether a team of that size defers so many more tasks.
pub(super) fn has_room(more: usize, size: u32) -> bool {
    UNFINISHED.load(Ordering::Relaxed).saturating_add(more) <= MOST_UNFINISHED * size as usize
}

/// Defers a task until `predecessors` are finished.
pub(super) fn add(task: Arc<Task>, predecessors: &[Arc<Task>]) {
    with(|pool| {
        UNFINISHED.fetch_add(1, Ordering::Relaxed);
        task.count();
        if task.follow(predecessors) {
            pool.ready.push_back(task);
            pool.news |= News::READY | News::FINISHED;
        }
    });
}

/// Puts the task that a member executed before back, also where the program leaves the present one by an exception.
struct Restore {
    member: &'static Member,
    outer: *mut Execution,
}

impl Drop for Restore {
    fn drop(&mut self) {
        self.member.execution.store(self.outer, Ordering::Relaxed);
    }
}

/// Has `member` execute a task.
pub(super) fn execute(member: &'static Member, execution: &Execution, body: impl FnOnce()) {
    let now = NonNull::from(execution).as_ptr();
    let outer = member.execution.swap(now, Ordering::Relaxed);
    let _restore = Restore { member, outer };
    body();
}

/// Executes a task, which has been taken from the queue, in the context of `member`.
pub(super) fn run(member: &'static Member, task: &Task) {
    // SAFETY: it is in the queue once.
    execute(member, &Execution::of(task), || unsafe { task.call() });
    region::stay_in_child_of_fork();
}

/// What to do next for who waits for a bell until `is_over`, and has executed a task.
fn step(
    bell: &Bell,
    executed: Option<&Task>,
    is_over: impl FnOnce(&Pool) -> bool,
    take: impl FnOnce(&mut Pool) -> Option<Arc<Task>>,
) -> Step {
    // What is not changed under the lock may be over from here on.
    let seen = bell.seen();
    with(|pool| {
        pool.finish(executed);
        if is_over(pool) {
            return Step::Over;
        }
        take(pool).map_or(Step::Sleep(seen), Step::Run)
    })
}

/// What to do next for who waits until `is_over`, which only finished tasks bring about, and has executed one.
pub(super) fn next(
    executed: Option<&Task>,
    is_over: impl Fn() -> bool,
    may_run: impl Fn(&Task) -> bool,
) -> Step {
    let take = |pool: &mut Pool| pool.take(may_run);
    step(&FINISHED, executed, |_| is_over(), take)
}

/// Waits until there is other news than `seen`, or for so long.
pub(super) fn wait_for_news(seen: u32, at_most_ns: Option<i64>) {
    waits::for_others(thread_state::current(), || match at_most_ns {
        Some(time_ns) => FINISHED.doze(seen, time_ns),
        None => FINISHED.wait(seen),
    });
}

/// Executes tasks in the context of `member`, which waits at a barrier, each by `leave`, until `is_over`.
fn work_until(member: &'static Member, is_over: impl Fn(&Pool) -> bool, leave: impl Fn(&dyn Fn())) {
    let mut executed: Option<Arc<Task>> = None;
    loop {
        let finished = executed.take();
        match step(&READY, finished.as_deref(), &is_over, Pool::take_oldest) {
            Step::Over => return,
            Step::Run(task) => {
                leave(&|| run(member, &task));
                executed = Some(task);
            }
            Step::Sleep(seen) => {
                waits::for_others(thread_state::current(), || READY.wait(seen));
            }
        }
    }
}

/// Meets the other blocks, all members of the own one waiting, and executes tasks in the context of `member`, each by `leave`,
/// until none is left.
pub(crate) fn meet(member: &'static Member, leave: impl Fn(&dyn Fn())) {
    // Nobody else is left who could make tasks.
    if region::blocks() == 1 && UNFINISHED.load(Ordering::Acquire) == 0 {
        return;
    }
    let meeting = with(|pool| {
        let meeting = pool.meetings;
        pool.arrived += 1;
        pool.end_meeting_if_complete();
        meeting
    });
    work_until(member, |pool| pool.meetings != meeting, leave);
}

/// Executes tasks in the context of `member`, which waits at a barrier, each by `leave`, until `is_over`, which [`tell_workers`]
/// tells.
pub(crate) fn work(member: &'static Member, is_over: impl Fn() -> bool, leave: impl Fn(&dyn Fn())) {
    work_until(member, |_| is_over(), leave);
}

/// What those wait for who execute tasks at a barrier may be over.
pub(crate) fn tell_workers() {
    READY.ring();
}

/// If tasks are ready, how many have been begun. For the watcher.
pub(crate) fn waiting() -> Option<u64> {
    match UNFINISHED.load(Ordering::Relaxed) {
        0 => None,
        _ => with(|pool| Some(pool.begun).filter(|_| !pool.ready.is_empty())),
    }
}

/// In the child of a fork: nobody is left who could execute tasks or hold the lock.
pub(crate) fn after_fork_in_child() {
    // SAFETY: there is one thread.
    let pool = unsafe { &mut *POOL.pool.get() };
    // What another thread was changing may be in any state.
    core::mem::forget(core::mem::take(pool));
    UNFINISHED.store(0, Ordering::Relaxed);
    POOL.lock.give();
}
