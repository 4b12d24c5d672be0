//! Virtual teams: the program keeps the team it expects, the machine sees the CPUs it owns.
//!
//! *Problem.* A program divides its work by the size of its team, and may remember that size for
//! ever. Changing the size under it is right only for programs that expect it; keeping it makes
//! every barrier cost context switches as soon as there are fewer CPUs than threads.
//!
//! *Approach.* The team has *n* logical threads for as long as the program likes, and *k* OS threads
//! carry them, one for each CPU that the program owns. A logical thread that comes to a barrier lets
//! the next one on the same CPU run, which takes nanoseconds (`context`, `carrier`). Each has its own
//! stack and thread-local storage (`member`), unless the program cannot tell (`storage`, `blindness`). Loops, sections and `single` are dispensed to logical
//! threads (`share`, `team`), `omp_get_thread_num` and its like answer for them (`queries`). Locks
//! and critical sections let others run rather than block the CPU (`exclusion`).
//!
//! *What it is not for.* Ordered and doacross loops, tasks, cancellation, teams and target regions,
//! and reductions over tasks: a program that uses them keeps real teams (`admission`). Threads that
//! wait for one another without OpenMP are helped out by `liveness`.
//!
//! *Unit.* A *region* is one parallel construct; a *member* one logical thread; a *block* the members
//! that one OS thread carries.
//!
//! *Other runtimes.* To another runtime than that of the region a member is a thread of its own, in no
//! region: calls meant for it, and its regions, go there as they are (`pass_on::member_for`).
//!
//! *Invariants.* One virtual region runs at a time; regions of other threads, and regions within
//! regions, are the runtime's. *k* changes only between regions. Nothing here allocates, locks or
//! makes a system call on the way through a barrier or a loop, unless OS threads have to wait for one
//! another.

mod admission;
mod blindness;
mod carrier;
mod context;
pub(crate) mod control_variables;
mod credentials;
mod errno;
pub(crate) mod exclusion;
mod generic_starts;
mod kernel;
mod kernel_state;
mod liveness;
mod member;
mod preserved;
pub(crate) mod queries;
mod quiet_thread;
pub(crate) mod share;
mod shared_memory;
mod storage;
mod team;
mod thread_names;
mod thread_pointer;
mod unserved;
mod waiting;
pub(crate) mod worksharing;

use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering};

pub(crate) use admission::{is_unserved, note_lookup};
pub(crate) use credentials::look_up as look_up_credentials;
pub(crate) use liveness::{Preemptions, preemptions};
pub(crate) use member::Member;
pub(crate) use storage::Storage;
use team::Life;
pub(crate) use team::{Region, after_fork_in_child, begin, count_parked, end, owner_ends};
pub(crate) use thread_names::look_up as look_up_thread_names;
pub(crate) use unserved::refuse_lookup;

use crate::core::attachment;
use crate::core::by_handle;
use crate::core::runtime::{Family, Runtime};
use crate::core::symbols::Symbol;
use crate::core::thread_state::ThreadState;
use crate::gomp::regions::Body;
use crate::region::{self, OpenRegion, Start};
use mapper_abi::TeamsOff;

/// The user asked for virtual teams, and the page's daemon is there.
static WANTED: AtomicBool = AtomicBool::new(false);

/// The process has attached to a page under `--teams virtual`.
pub(crate) fn want() {
    // SAFETY: takes a number.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
    waiting::prepare(control_variables::spin_count(), cpus);
    WANTED.store(true, Ordering::Release);
}

/// Whether the user asked for virtual teams.
#[inline(always)]
pub(crate) fn is_wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// Whether regions of this process may still be virtual: the user asked for it, and nothing has been found that
/// speaks against it. Where something has been, all regions are the runtime's, as under `fixed`.
#[inline(always)]
pub(crate) fn are_possible() -> bool {
    is_wanted() && !admission::is_refused()
}

/// Whether a region that the thread begins without a size of its own may have to do with virtual teams. It has
/// not where the thread's teams are of one thread anyway.
#[inline(always)]
pub(crate) fn may_serve(thread: &ThreadState) -> bool {
    let is_alone = || {
        thread.initial_max_threads.get() == 1
            && !thread.has_set_num_threads.get()
            && !by_handle::may_set()
            && !is_within(thread)
    };
    are_possible() && !is_alone()
}

/// How a region would run virtually.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    /// Logical threads.
    pub(crate) size: u32,
    /// CPUs.
    pub(crate) blocks: u32,
    /// What thread-local storage its members have.
    pub(crate) storage: Storage,
}

/// Whether the thread is in a virtual region, or in a real one of the same runtime within.
#[inline(always)]
pub(crate) fn is_within(thread: &ThreadState) -> bool {
    thread.member.get().or(thread.outer.get()).is_some()
}

/// Whether `function` is what the present region's runtime has for `symbol`.
pub(crate) fn is_function_of_teams(symbol: Symbol, function: *mut c_void) -> bool {
    team::runtime().is_some_and(|teams| teams.function(symbol) == function)
}

/// Whether a call of `symbol` that goes to `runtime` goes where the present region would have run.
pub(crate) fn is_of_runtime(runtime: &Runtime, symbol: Symbol) -> bool {
    team::runtime().is_some_and(|teams| {
        let function = runtime.function(symbol);
        // One runtime may have been found through several modules.
        core::ptr::eq(teams, runtime) || (!function.is_null() && function == teams.function(symbol))
    })
}

/// Decides whether a region is to be a virtual one, and on how many CPUs. Has it timed where it is to
/// be found out how many pay.
#[inline]
pub(crate) fn plan(start: &Start<'_>, open: &mut OpenRegion) -> Option<Plan> {
    let Start {
        thread,
        runtime,
        asked,
        ..
    } = *start;
    if asked == 1 || admission::is_refused() || is_within(thread) {
        return None;
    }
    let is_outermost = runtime.level(Family::Gomp) == 0;
    if !is_outermost || !team::own_pool(thread) || !admission::is_granted() {
        return None;
    }
    let sizes = control_variables::sizes(runtime);
    let size = if asked == 0 { sizes.usual } else { asked };
    if sizes.are_dynamic {
        attachment::report_teams_off(TeamsOff::Dynamic);
        return None;
    }
    if size < 2 {
        return None;
    }
    if size > sizes.limit || !team::has_members(size) {
        attachment::report_teams_off(TeamsOff::TooLarge);
        return None;
    }
    let gave_up = liveness::has_given_up();
    let most_carriers = |size: u32| match gave_up {
        true => size,
        false => attachment::carrier_limit().clamp(1, size.max(1)),
    };
    let most = most_carriers(size);
    // What the program's usual team gets, so that clauses of many sizes are not news each time.
    let usual = most_carriers(sizes.usual);
    if attachment::is_news(usual) {
        attachment::report_team(usual);
    }
    let blocks = match gave_up {
        true => size,
        false => region::carriers(start.function, most, open),
    };
    // Without a watcher there is no net.
    let blocks = match blocks < size && !liveness::stands_by() {
        true => size,
        false => blocks,
    };
    let storage = storage::of_region(runtime, size, blocks);
    Some(Plan {
        size,
        blocks,
        storage,
    })
}

/// Runs a virtual region that [`plan`] has planned.
#[inline]
pub(crate) fn run(thread: &ThreadState, runtime: &'static Runtime, region: &Region) {
    // A crew around it is of another runtime, in whose region this one was begun.
    let (crew, life) = (thread.crew.take(), Life::now());
    begin(thread, runtime, region);
    // SAFETY: the arguments are those of the program's call, as the runtime would pass them.
    unsafe { (region.body.function)(region.body.data) };
    end(thread);
    thread.crew.set(crew.filter(|_| life == Life::now()));
}

/// What the threads of a region within a virtual one get.
struct Nested {
    body: Body,
    outer: &'static Member,
}

unsafe extern "C-unwind" fn run_nested(nested: *mut c_void) {
    // SAFETY: `nested` lies where the member that began the region keeps it until that has ended, and is
    // not written meanwhile.
    let Nested { body, outer } = unsafe { nested.cast::<Nested>().read() };
    let thread = crate::core::thread_state::current();
    let left = Left::now(thread, outer);
    // SAFETY: as the runtime would have called it.
    unsafe { (body.function)(body.data) };
    left.put_back(thread);
}

/// What a thread leaves for a real region within a virtual one.
#[derive(Clone, Copy)]
struct Left {
    member: Option<&'static Member>,
    outer: Option<&'static Member>,
    life: Life,
}

impl Left {
    /// The calling thread enters a real region that `outer` began.
    fn now(thread: &ThreadState, outer: &'static Member) -> Self {
        Self {
            member: thread.member.take(),
            outer: thread.outer.replace(Some(outer)),
            life: Life::now(),
        }
    }

    /// It is back. In the child of a fork within the region there is no team to come back to.
    fn put_back(self, thread: &ThreadState) {
        let same = self.life == Life::now();
        thread.member.set(self.member.filter(|_| same));
        thread.outer.set(self.outer.filter(|_| same));
    }
}

/// A real region within a virtual one that is begun by one call and ended by another.
pub(crate) struct OpenNested {
    nested: Nested,
    left: Cell<Option<Left>>,
}

impl OpenNested {
    /// With this body, if the calling thread is in a virtual region of that runtime's.
    pub(crate) fn within(thread: &ThreadState, runtime: &Runtime, body: Body) -> Option<Self> {
        let outer = thread.member.get().or(thread.outer.get())?;
        if !is_of_runtime(runtime, Symbol::GOMP_parallel) {
            return None;
        }
        let nested = Nested { body, outer };
        let left = Cell::new(None);
        Some(Self { nested, left })
    }

    /// The team size to hand to the runtime.
    pub(crate) fn team(runtime: &Runtime, asked: u32) -> u32 {
        // The virtual region is an active level that the runtime does not know of.
        let levels = control_variables::active_level(runtime) + 1;
        if levels >= control_variables::active_levels(runtime) {
            1
        } else {
            asked
        }
    }

    /// What to start the threads with. It must not move from here on until the region has ended.
    pub(crate) fn body(&self) -> Body {
        Body {
            function: run_nested,
            data: (&raw const self.nested).cast_mut().cast(),
        }
    }

    /// The thread that began the region runs its own share, without [`body`](Self::body).
    pub(crate) fn enter(&self, thread: &ThreadState) {
        self.left.set(Some(Left::now(thread, self.nested.outer)));
    }

    /// The region has ended.
    pub(crate) fn leave(&self, thread: &ThreadState) {
        if let Some(left) = self.left.get() {
            left.put_back(thread);
        }
    }
}

/// Runs a region within a virtual one as a real one: `run` gets the team size to hand to the runtime
/// and what to start.
pub(crate) fn nest<T>(
    thread: &ThreadState,
    runtime: &Runtime,
    body: Body,
    asked: u32,
    run: impl FnOnce(u32, Body) -> T,
) -> T {
    match OpenNested::within(thread, runtime, body) {
        Some(nested) => run(OpenNested::team(runtime, asked), nested.body()),
        None => run(asked, body),
    }
}
