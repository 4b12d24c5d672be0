//! Explicit tasks: `task`, `taskloop`, `taskwait`, `taskgroup`, as members of a virtual team meet them.
//!
//! *Approach.* A task is deferred, and executed by a carrier that would wait otherwise ([`pool`]), in the context of the
//! member that it last ran: thread number, stack and thread-local storage are that one's. It is executed at once where
//! OpenMP or libgomp does so: `if(0)`, within final tasks, and while too many are deferred. Regions have to know from their
//! beginning that tasks may come, as their blocks meet otherwise. A process in which no module imports what makes tasks has
//! regions that do not; tasks that come nevertheless are executed at once.
//!
//! *Bounds.* Priorities are not heeded, as without `OMP_MAX_TASK_PRIORITY`. Settings such as `omp_set_num_threads` that a
//! task changes stay changed for its member until the region ends. A carrier sleeps while its member in `taskwait` has no task
//! left, though others of its block wait at a barrier: one of these would be suspended within a task while the block meets.
//! Reductions over tasks, cancellation and detached tasks are refused by `admission`.

mod dependences;
mod execution;
mod pool;
mod task;
mod taskloop;

use core::ffi::{CStr, c_int, c_long, c_uint, c_ulong, c_ulonglong, c_void};
use core::sync::atomic::{AtomicBool, Ordering};
use std::alloc::Layout;
use std::sync::Arc;

use mapper_shim_core::construct::{Loop, Outlined, Schedule};
use mapper_shim_core::symbols::Symbol;
use mapper_shim_core::{thread_state, waits};

use super::member::{Member, OfMember, for_members};
use super::unserved::refuse;
use super::{carrier, region};

pub(super) use execution::Execution;
use pool::Step;
pub(super) use pool::{after_fork_in_child, meet, tell_workers, waiting, work};
use task::{Argument, CopyData, Group, Task};
use taskloop::{Parts, Wish};

bitflags::bitflags! {
    /// What gcc says of a task or `taskloop`.
    #[derive(Clone, Copy)]
    struct Flags: c_uint {
        const FINAL = 1 << 1;
        const DEPENDS = 1 << 3;
        const UP = 1 << 8;
        const GRAIN = 1 << 9;
        const IF = 1 << 10;
        const NO_GROUP = 1 << 11;
        const REDUCTION = 1 << 12;
        const DETACH = 1 << 13;
        const STRICT = 1 << 14;
    }
}

/// A module imports a function that makes tasks.
static MAY_COME: AtomicBool = AtomicBool::new(false);

pub(super) fn note_import(name: &CStr) {
    if [c"GOMP_task", c"GOMP_taskloop", c"GOMP_taskloop_ull"].contains(&name) {
        MAY_COME.store(true, Ordering::Relaxed);
    }
}

/// Whether regions that begin now have to expect tasks.
pub(super) fn may_come() -> bool {
    MAY_COME.load(Ordering::Relaxed)
}

/// The task that `member` executes.
fn execution_of(member: &Member) -> &Execution {
    let mut now = member.execution.load(Ordering::Relaxed);
    if now.is_null() {
        // The implicit one, of every region.
        now = Box::leak(Box::default());
        member.execution.store(now, Ordering::Relaxed);
    }
    // SAFETY: that one lives as long as the pool; others lie on the member's stack, below the caller.
    unsafe { &*now }
}

/// Turns of letting other members run, after which one that has nothing to do sleeps for a while.
const TURNS: u32 = 32;
/// How long, if there is no news.
const NAP_NS: i64 = 1_000_000;

/// Executes tasks of that kind in the context of `member` until `is_over`, which only finished tasks bring about.
fn wait_until(
    member: &'static Member,
    is_over: impl Fn() -> bool,
    may_run: impl Fn(&Task) -> bool,
) {
    let mut turns = 0;
    let mut executed: Option<Arc<Task>> = None;
    loop {
        let finished = executed.take();
        match pool::next(finished.as_deref(), &is_over, &may_run) {
            Step::Over => return,
            Step::Run(task) => {
                turns = 0;
                pool::run(member, &task);
                executed = Some(task);
                carrier::give_way_in_time(member);
            }
            Step::Sleep(seen) => {
                if !carrier::give_way(member) {
                    pool::wait_for_news(seen, None);
                } else if turns < TURNS {
                    turns += 1;
                } else {
                    // The others of the block have nothing to do either.
                    turns = 0;
                    pool::wait_for_news(seen, Some(NAP_NS));
                }
            }
        }
    }
}

/// What gcc's code passes for a task.
#[derive(Clone, Copy)]
struct TaskCall {
    body: Outlined,
    data: *mut c_void,
    copy: Option<CopyData>,
    layout: Layout,
    is_final: bool,
}

/// Of a task's data. No compiler makes one that does not exist.
fn layout(size: c_long, alignment: c_long) -> Layout {
    let (size, alignment) = (size.max(0) as usize, alignment.max(1) as usize);
    Layout::from_size_align(size, alignment).unwrap_or_else(|_| std::process::abort())
}

impl TaskCall {
    fn of(
        body: Outlined,
        data: *mut c_void,
        copy: Option<CopyData>,
        layout: Layout,
        flags: Flags,
    ) -> Self {
        Self {
            body,
            data,
            copy,
            layout,
            is_final: flags.contains(Flags::FINAL),
        }
    }

    /// Safety: its fields are a caller's arguments.
    unsafe fn argument(&self) -> Argument {
        // SAFETY: as the caller promises.
        unsafe { Argument::copied(self.data, self.copy, self.layout) }
    }

    /// Safety: likewise; `data` as the task's body expects them.
    unsafe fn execute_at_once(
        &self,
        member: &'static Member,
        maker: &Execution,
        data: *mut c_void,
    ) {
        let execution = Execution::within(maker, self.is_final);
        // SAFETY: as the caller promises.
        pool::execute(member, &execution, || unsafe { (self.body)(data) });
        if region::expects_tasks() && !is_child_of_fork() {
            carrier::give_way_in_time(member);
        }
    }

    /// Safety: likewise.
    unsafe fn defer(
        &self,
        member: &'static Member,
        maker: &Execution,
        argument: Argument,
        depend: &[dependences::Dependence],
    ) {
        let group = maker.group.borrow().clone();
        let siblings = Arc::clone(maker.children());
        let task = Task::new(siblings, group, self.body, argument, self.is_final);
        let predecessors = {
            let mut known = maker.dependences.borrow_mut();
            if !maker.has_unfinished_children() {
                known.forget();
            }
            let predecessors = known.predecessors(depend);
            known.note(depend, &task);
            predecessors
        };
        pool::add(task, &predecessors);
        carrier::give_way_in_time(member);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    Now,
    Later,
}

/// Whether tasks that `maker` makes are deferred, if they may be.
fn when(maker: &Execution, may_be_deferred: bool, tasks: u64) -> When {
    let is_deferred = may_be_deferred
        && !maker.is_final
        && region::expects_tasks()
        && pool::has_room(usize::try_from(tasks).unwrap_or(usize::MAX), region::size());
    match is_deferred {
        true => When::Later,
        false => When::Now,
    }
}

/// Has `member` wait until the tasks are finished that one with these dependences would have to wait for.
fn wait_for_predecessors(
    member: &'static Member,
    maker: &Execution,
    depend: &[dependences::Dependence],
) {
    if depend.is_empty() {
        return;
    }
    let predecessors = maker.dependences.borrow().predecessors(depend);
    let are_finished = || predecessors.iter().all(|task| task.is_finished());
    if !are_finished() {
        wait_until(member, are_finished, |task| maker.has_made(task));
    }
}

/// Safety: the arguments are the caller's, and `depend` a list of gcc's or null.
unsafe fn make(
    member: &'static Member,
    call: &TaskCall,
    may_be_deferred: bool,
    depend: *const *const c_void,
) {
    let maker = execution_of(member);
    let depend = match depend.is_null() {
        true => Vec::new(),
        // SAFETY: as the caller promises.
        false => unsafe { dependences::read(depend) },
    };
    // SAFETY: likewise, here and below.
    unsafe {
        match (when(maker, may_be_deferred, 1), call.copy) {
            (When::Later, _) => call.defer(member, maker, call.argument(), &depend),
            (When::Now, copy) => {
                wait_for_predecessors(member, maker, &depend);
                match copy {
                    Some(_) => {
                        let argument = call.argument();
                        call.execute_at_once(member, maker, argument.address());
                    }
                    None => call.execute_at_once(member, maker, call.data),
                }
            }
        }
    }
}

fn wait_for_children(member: &'static Member) {
    let maker = execution_of(member);
    if maker.has_unfinished_children() {
        let are_finished = || !maker.has_unfinished_children();
        wait_until(member, are_finished, |task| maker.has_made(task));
    }
}

fn begin_group(member: &Member) {
    let mut group = execution_of(member).group.borrow_mut();
    let outer = group.take();
    *group = Some(Group::within(outer));
}

fn end_group(member: &'static Member) {
    let maker = execution_of(member);
    let group = maker.group.borrow().clone();
    let Some(group) = group else { return };
    if !group.is_finished() {
        let is_of_group = |task: &Task| {
            let own = task.group.as_ref();
            own.is_some_and(|own| Arc::ptr_eq(own, &group))
        };
        wait_until(
            member,
            || group.is_finished(),
            |task| is_of_group(task) || maker.has_made(task),
        );
    }
    *maker.group.borrow_mut() = group.outer.clone();
}

/// A `taskloop` over that loop. Safety: the task's data begin with the bounds, and as for [`make`].
unsafe fn make_loop(
    member: &'static Member,
    symbol: Symbol,
    call: &TaskCall,
    flags: Flags,
    wanted: u64,
    work: &Loop,
) {
    if flags.contains(Flags::REDUCTION) {
        refuse(symbol);
    }
    let span = work.span;
    if span.count == 0 {
        return;
    }
    let wish = match (flags.contains(Flags::GRAIN), flags.contains(Flags::STRICT)) {
        (false, _) => Wish::Tasks(wanted),
        (true, false) => Wish::Grain(wanted),
        (true, true) => Wish::StrictGrain(wanted),
    };
    let parts = Parts::of(span.count, wish, region::size());
    let bound = |iteration: u64| match iteration == span.count {
        true => span.to,
        false => span
            .from
            .wrapping_add(span.increment.wrapping_mul(iteration as i64)),
    };
    let set_bounds = |data: *mut c_void, part: u64| {
        let bounds = [bound(parts.first(part)), bound(parts.first(part + 1))];
        // SAFETY: as the caller promises.
        unsafe { data.cast::<[i64; 2]>().write_unaligned(bounds) };
    };
    let maker = execution_of(member);
    let has_group = !flags.contains(Flags::NO_GROUP);
    if has_group {
        begin_group(member);
    }
    let when = when(maker, flags.contains(Flags::IF), parts.count);
    // SAFETY: as the caller promises, here and below.
    unsafe {
        match (when, call.copy) {
            (When::Later, _) => {
                for part in 0..parts.count {
                    let argument = call.argument();
                    set_bounds(argument.address(), part);
                    call.defer(member, maker, argument, &[]);
                }
            }
            (When::Now, None) => {
                for part in 0..parts.count {
                    set_bounds(call.data, part);
                    call.execute_at_once(member, maker, call.data);
                }
            }
            (When::Now, Some(_)) => {
                // All copies come before the first task, which may change what is copied.
                let arguments: Vec<_> = (0..parts.count).map(|_| call.argument()).collect();
                for (part, argument) in (0..).zip(&arguments) {
                    set_bounds(argument.address(), part);
                    call.execute_at_once(member, maker, argument.address());
                }
            }
        }
    }
    if has_group && !is_child_of_fork() {
        end_group(member);
    }
}

/// A task that the caller has executed forked, and this is the child, which has no team.
fn is_child_of_fork() -> bool {
    thread_state::current().member().is_none()
}

fn is_in_final(member: &Member) -> c_int {
    c_int::from(execution_of(member).is_final)
}

for_members! {
    GOMP_task(
        body: Outlined,
        data: *mut c_void,
        copy: Option<CopyData>,
        size: c_long,
        alignment: c_long,
        may_be_deferred: bool,
        flags: c_uint,
        depend: *const *const c_void,
        priority: c_int,
        detach: *mut c_void
    ): |member| {
            let flags = Flags::from_bits_truncate(flags);
            if flags.contains(Flags::DETACH) {
                refuse(Symbol::GOMP_task);
            }
            let depend = match flags.contains(Flags::DEPENDS) {
                true => depend,
                false => core::ptr::null(),
            };
            let call = TaskCall::of(body, data, copy, layout(size, alignment), flags);
            // SAFETY: the arguments are the caller's.
            unsafe { make(member, &call, may_be_deferred, depend) }
        },
        |thread, real| {
            waits::task_comes(thread);
            real(body, data, copy, size, alignment, may_be_deferred, flags, depend, priority, detach);
        };
    GOMP_taskloop(
        body: Outlined,
        data: *mut c_void,
        copy: Option<CopyData>,
        size: c_long,
        alignment: c_long,
        flags: c_uint,
        wanted: c_ulong,
        priority: c_int,
        from: c_long,
        to: c_long,
        increment: c_long
    ): |member| {
            let flags = Flags::from_bits_truncate(flags);
            let call = TaskCall::of(body, data, copy, layout(size, alignment), flags);
            let work = Loop::signed(from, to, increment, Schedule::Static.by(0));
            // SAFETY: the arguments are the caller's.
            unsafe { make_loop(member, Symbol::GOMP_taskloop, &call, flags, wanted, &work) }
        },
        |thread, real| {
            waits::task_comes(thread);
            real(body, data, copy, size, alignment, flags, wanted, priority, from, to, increment);
        };
    GOMP_taskloop_ull(
        body: Outlined,
        data: *mut c_void,
        copy: Option<CopyData>,
        size: c_long,
        alignment: c_long,
        flags: c_uint,
        wanted: c_ulong,
        priority: c_int,
        from: c_ulonglong,
        to: c_ulonglong,
        increment: c_ulonglong
    ): |member| {
            let flags = Flags::from_bits_truncate(flags);
            let call = TaskCall::of(body, data, copy, layout(size, alignment), flags);
            let is_up = flags.contains(Flags::UP);
            let work = Loop::unsigned(is_up, [from, to], increment, Schedule::Static.by(0));
            // SAFETY: the arguments are the caller's.
            unsafe { make_loop(member, Symbol::GOMP_taskloop_ull, &call, flags, wanted, &work) }
        },
        |thread, real| {
            waits::task_comes(thread);
            real(body, data, copy, size, alignment, flags, wanted, priority, from, to, increment);
        };
    GOMP_taskwait(): |member| wait_for_children(member), |thread, real| real();
    GOMP_taskwait_depend(depend: *const *const c_void): |member| {
            // SAFETY: the list is gcc's.
            let depend = unsafe { dependences::read(depend) };
            wait_for_predecessors(member, execution_of(member), &depend);
        },
        |thread, real| real(depend);
    GOMP_taskyield(): |member| {
            carrier::give_way(member);
        },
        |thread, real| real();
    GOMP_taskgroup_start(): |member| begin_group(member), |thread, real| real();
    GOMP_taskgroup_end(): |member| end_group(member), |thread, real| real();
    omp_in_final() -> c_int: |member| is_in_final(member), |thread, real| real();
    omp_in_final_() -> c_int: |member| is_in_final(member), |thread, real| real();
}
