//! Parallel regions as gcc emits them: `GOMP_parallel` and its combined forms. (For what it emitted
//! before 4.9 see [`crate::gomp::legacy`].)
//!
//! `num_threads` is 0 when the program leaves it open, 1 for a false `if` clause, else the value of
//! the clause. The caller is known by the outlined function, which lies in the calling module; the
//! return address would not do, since gcc may turn the call into a jump.
//!
//! *Combined loops* (`GOMP_parallel_loop_dynamic` and others) start the threads inside the loop, which
//! then call only `GOMP_loop_*_next` and never say what the loop's increment is. The threads start
//! through a small function that notes it, and which team record they are part of ([`mapper_shim_core::team record`]).

use core::ffi::{c_long, c_uint, c_void};

use crate::region::kept_records::{Place, Similar};
use crate::region::{self, OpenRegion};
use crate::waiting::parking::{self, Dispensed};
use mapper_shim_core::adaptive_schedule;
use mapper_shim_core::caller;
use mapper_shim_core::construct::{Body, Division, Form, Loop, Outlined, Schedule, Start};
use mapper_shim_core::features::{Begun, Request, features};
use mapper_shim_core::logical::{self, Life};
use mapper_shim_core::membership;
use mapper_shim_core::nested;
use mapper_shim_core::pass_on::real;
use mapper_shim_core::runtime::{self, Family, Runtime};
use mapper_shim_core::shared_loop::{self, Span};
use mapper_shim_core::symbols::Symbol;
use mapper_shim_core::team_record::{Beginning, TeamRecord};
use mapper_shim_core::thread_state::{self, ThreadState};

/// Where a region runs.
#[inline(always)]
pub(crate) fn runtime_of(
    thread: &ThreadState,
    function: Outlined,
    symbol: Symbol,
) -> &'static Runtime {
    match caller::of_caller(thread, function as usize) {
        Some(runtime) => runtime,
        None => runtime::missing(symbol),
    }
}

/// What a region's threads are started with, to be part of its team record.
#[inline(always)]
fn member(record: *const TeamRecord) -> Body {
    Body {
        function: membership::run_member,
        data: record.cast_mut().cast(),
    }
}

/// Runs a region by `run`, which gets the size of the team to ask for and what to start it with; or by
/// a virtual team, as `form` says.
///
/// Most regions are of a function that the thread has begun before. Those need nothing but what is here, in one
/// stretch of code; all others are left to [`run_region_anew`].
#[inline(always)]
fn run_region<T: Default>(
    thread: &ThreadState,
    runtime: &'static Runtime,
    body: Body,
    beginning: Beginning,
    form: impl Fn() -> Form,
    asked: c_uint,
    run: impl Fn(c_uint, Body) -> T,
) -> T {
    let address = body.function as usize;
    let record = TeamRecord::without_loops(address, body.data, runtime, Family::Gomp, beginning);
    if !logical::may_serve(thread)
        && !shared_loop::is_on()
        && let Some(mut similar) = Similar::to(&record)
        && let Some(routine) = region::resume_routine(thread, runtime, similar.known(), asked)
    {
        let result = run(asked, member(similar.occupy(body.data)));
        region::end_routine(thread, routine);
        similar.release();
        return result;
    }
    run_region_anew(thread, runtime, body, beginning, form, asked, run)
}

/// The same for a region whose function is new to the thread, or that is not routine.
#[inline(never)]
fn run_region_anew<T: Default>(
    thread: &ThreadState,
    runtime: &'static Runtime,
    body: Body,
    beginning: Beginning,
    form: impl Fn() -> Form,
    asked: c_uint,
    run: impl Fn(c_uint, Body) -> T,
) -> T {
    let address = body.function as usize;
    // Only once the region has begun it is certain what the user asked for.
    let record = || TeamRecord::new(address, body.data, runtime, Family::Gomp, beginning);
    let mut place = Place::empty();
    if !logical::may_serve(thread)
        && let Some(routine) = region::begin_routine(thread, runtime, address, asked)
    {
        let result = run(asked, member(place.keep(record())));
        region::end_routine(thread, routine);
        place.clear();
        return result;
    }
    let start = Start {
        thread,
        runtime,
        family: Family::Gomp,
        function: address,
        asked,
    };
    let mut started = region::begin(&start);
    let member = member(place.put(record()));
    let result = if logical::is_wanted() {
        run_perhaps_virtual(&start, &mut started.open, body, member, form, run)
    } else {
        run(started.num_threads, member)
    };
    region::end(thread, &started.open);
    place.clear();
    result
}

/// Runs a region by a virtual team if it may be, else by `run`, which then gets `member`.
#[inline(always)]
fn run_perhaps_virtual<T: Default>(
    start: &Start<'_>,
    open: &mut OpenRegion,
    body: Body,
    member: Body,
    form: impl Fn() -> Form,
    run: impl Fn(c_uint, Body) -> T,
) -> T {
    let Start {
        thread,
        runtime,
        asked,
        ..
    } = *start;
    if logical::is_within(thread) {
        return nested::nest(thread, runtime, member, asked, run);
    }
    let work = match form() {
        Form::Real => return run(asked, member),
        Form::Body => None,
        Form::Within(work) => Some(work),
    };
    // What the thread is part of is of another runtime, in whose region this one is begun.
    let (around, life) = (thread.record.take(), Life::now());
    let request = &mut Request {
        start,
        body,
        work,
        os_threads: &mut |most| region::os_threads(start.function, most, open),
    };
    let teams = &features().teams;
    let begun = (teams.begin)(request);
    if begun == Begun::Yes {
        // SAFETY: the arguments are those of the program's call, as the runtime would pass them.
        unsafe { (body.function)(body.data) };
        (teams.end)(thread);
    }
    thread.record.set(around.filter(|_| life == Life::now()));
    match begun {
        Begun::Yes => T::default(),
        Begun::No => run(asked, member),
    }
}

macro_rules! regions {
    ($($name:ident($($argument:ident: $type:ty),*) $form:expr;)*) => {$(
        /// Runs a region by the real function of the same name.
        ///
        /// # Safety
        /// To be called as gcc does.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            function: Outlined,
            data: *mut c_void,
            num_threads: c_uint,
            $($argument: $type),*
        ) {
            let thread = thread_state::current();
            let runtime = runtime_of(thread, function, Symbol::$name);
            let run = real!(
                runtime, Symbol::$name,
                fn(Outlined, *mut c_void, c_uint $(, $type)*)
            );
            let body = Body { function, data };
            let form = || $form;
            run_region(thread, runtime, body, Beginning::Body, form, num_threads, |team, body| {
                // SAFETY: the arguments are the caller's, save for the size of the team, which the
                // interface leaves to the runtime whenever it was changed, and for the function,
                // which calls the caller's.
                unsafe { run(body.function, body.data, team $(, $argument)*) }
            })
        }
    )*};
}

regions! {
    GOMP_parallel(flags: c_uint) Form::Body;
    GOMP_parallel_sections(count: c_uint, flags: c_uint) Form::Within(Loop::sections(count));
    GOMP_parallel_loop_static(
        start: c_long, end: c_long, increment: c_long, chunk: c_long, flags: c_uint
    ) Form::Within(Loop::signed(start, end, increment, Schedule::Static, chunk));
}

/// The data of a region with task reductions, as libgomp sees it: it takes the first word for the
/// description of the reductions before it starts any thread.
#[repr(C)]
struct WithReductions {
    reductions: *mut c_void,
    record: *mut c_void,
}

unsafe extern "C-unwind" fn run_member_with_reductions(data: *mut c_void) {
    // SAFETY: libgomp calls this with the data it was given in `GOMP_parallel_reductions` below,
    // which outlives the region.
    let record = unsafe { (*data.cast::<WithReductions>()).record };
    // SAFETY: it is the team record that `run_region` made for this region.
    unsafe { membership::run_member(record) };
}

/// Runs a region with task reductions by the real function of the same name.
///
/// # Safety
/// To be called as gcc does.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_parallel_reductions(
    function: Outlined,
    data: *mut c_void,
    num_threads: c_uint,
    flags: c_uint,
) -> c_uint {
    let thread = thread_state::current();
    let runtime = runtime_of(thread, function, Symbol::GOMP_parallel_reductions);
    let run = real!(
        runtime,
        Symbol::GOMP_parallel_reductions,
        fn(Outlined, *mut c_void, c_uint, c_uint) -> c_uint
    );
    // SAFETY: the first word of the caller's data points to the description of its reductions, which
    // libgomp fills in.
    let reductions = unsafe { *data.cast::<*mut c_void>() };
    let body = Body { function, data };
    run_region(
        thread,
        runtime,
        body,
        Beginning::Body,
        || Form::Real,
        num_threads,
        |team, body| {
            let mut member = WithReductions {
                reductions,
                record: body.data,
            };
            // SAFETY: as for the plain regions.
            unsafe {
                run(
                    run_member_with_reductions,
                    (&raw mut member).cast(),
                    team,
                    flags,
                )
            }
        },
    )
}

/// How a loop of that schedule is divided among members of a virtual team.
macro_rules! division {
    (Runtime, $runtime:ident,) => {
        Division::by($runtime)
    };
    ($schedule:ident, $runtime:ident, $chunk:ident) => {
        Division {
            schedule: Schedule::$schedule,
            chunk: $chunk,
        }
    };
}

macro_rules! loop_regions {
    ($($name:ident($($chunk:ident: $type:ty)?) $kind:ident $schedule:ident;)*) => {$(
        /// Runs a combined region and loop by the real function of the same name.
        ///
        /// # Safety
        /// To be called as gcc does.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            function: Outlined,
            data: *mut c_void,
            num_threads: c_uint,
            start: c_long,
            end: c_long,
            increment: c_long,
            $($chunk: $type,)?
            flags: c_uint,
        ) {
            let thread = thread_state::current();
            let runtime = runtime_of(thread, function, Symbol::$name);
            let run = real!(
                runtime, Symbol::$name,
                fn(Outlined, *mut c_void, c_uint, c_long, c_long, c_long, $($type,)? c_uint)
            );
            let body = Body { function, data };
            let beginning = parking::combined_loop(runtime, Dispensed::$kind, increment);
            let form = || {
                let division = division!($schedule, runtime, $($chunk)?);
                let work = Loop::signed(
                    start, end, increment, division.schedule, division.chunk
                );
                Form::Within(work.as_wanted())
            };
            let runs = if increment > 0 { start < end } else { start > end };
            let span = || Span::until(start, end, increment, runs);
            run_region(thread, runtime, body, beginning, form, num_threads, |team, body| {
                // SAFETY: `body` leads to the region's team record. It is not of a virtual team here.
                let start = match unsafe { adaptive_schedule::prepare_loop(body.data, &span) } {
                    // The runtime gets a loop without iterations.
                    true => end,
                    false => start,
                };
                // SAFETY: as for the plain regions.
                unsafe {
                    run(
                        body.function, body.data, team, start, end, increment, $($chunk,)? flags
                    );
                }
            });
        }
    )*};
}

loop_regions! {
    GOMP_parallel_loop_dynamic(chunk: c_long) Always Dynamic;
    GOMP_parallel_loop_guided(chunk: c_long) Always Guided;
    GOMP_parallel_loop_nonmonotonic_dynamic(chunk: c_long) Always Dynamic;
    GOMP_parallel_loop_nonmonotonic_guided(chunk: c_long) Always Guided;
    GOMP_parallel_loop_runtime() IfScheduled Runtime;
    GOMP_parallel_loop_nonmonotonic_runtime() IfScheduled Runtime;
    GOMP_parallel_loop_maybe_nonmonotonic_runtime() IfScheduled Runtime;
}
