//! Parallel regions as gcc emits them since 4.9: `GOMP_parallel` and its combined forms.
//!
//! `num_threads` is 0 when the program leaves it open, 1 for a false `if` clause, else the value of the clause. The
//! caller is known by the outlined function, which lies in the calling module; the call itself may be a jump. The
//! threads of *combined loops* (`GOMP_parallel_loop_dynamic` and others) start inside the loop and call only
//! `GOMP_loop_*_next`.

use core::ffi::{c_long, c_uint, c_void};

use mapper_shim_core::construct::{Body, Division, Form, Loop, Outlined, Schedule, Start};
use mapper_shim_core::features::{Begun, Request, features};
use mapper_shim_core::logical::{self, Life};
use mapper_shim_core::pass_on::real;
use mapper_shim_core::runtime::{self, Family, Runtime};
use mapper_shim_core::symbols::Symbol;
use mapper_shim_core::team_record::{Beginning, TeamRecord};
use mapper_shim_core::thread_state::{self, ThreadState};
use mapper_shim_core::{adaptive_schedule, caller, membership, nested, shared_loop};

use crate::region::kept_records::{Known, Place, Similar};
use crate::region::{self, OpenRegion};
use crate::waiting::parking::{self, Dispensed};

#[inline(always)]
pub(crate) fn runtime_of(
    thread: &ThreadState,
    function: Outlined,
    symbol: Symbol,
) -> &'static Runtime {
    caller::of_caller(thread, function as usize).unwrap_or_else(|| runtime::missing(symbol))
}

#[inline(always)]
fn member(record: *const TeamRecord) -> Body {
    Body {
        function: membership::run_member,
        data: record.cast_mut().cast(),
    }
}

/// Runs a region by `run`, which gets the team size and what to start, or by a virtual team, as `form` says. Regions
/// of a function that the thread has begun before need only what is here.
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
    let record = TeamRecord::new(address, body.data, runtime, Family::Gomp, beginning);
    if !logical::may_serve(thread)
        && !shared_loop::is_on()
        && let Some(mut similar) = Similar::to(&record)
        && let Some(routine) = region::begin_routine(thread, runtime, asked, || similar.known())
    {
        let result = run(asked, member(similar.occupy(body.data)));
        region::end_routine(thread, routine);
        similar.release();
        return result;
    }
    run_region_anew(thread, runtime, body, beginning, form, asked, run)
}

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
    // The settings are certain only once the region has begun.
    let record = || {
        TeamRecord::new(address, body.data, runtime, Family::Gomp, beginning).with_growing_loops()
    };
    let mut place = Place::empty();
    if !logical::may_serve(thread)
        && let Some(routine) = region::begin_routine(thread, runtime, asked, || Known::of(address))
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

pub(crate) fn begin_virtual(
    start: &Start<'_>,
    open: &mut OpenRegion,
    body: Body,
    form: Form,
) -> Begun {
    let work = match form {
        Form::Real => return Begun::No,
        Form::Body => None,
        Form::Within(work) => Some(work),
    };
    (features().teams.begin)(&mut Request {
        start,
        body,
        work,
        os_threads: &mut |members, most| region::os_threads(start.function, members, most, open),
    })
}

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
    // What the thread is part of belongs to another runtime, in whose region this one begins.
    let (around, life) = (thread.record.take(), Life::now());
    let begun = begin_virtual(start, open, body, form());
    if begun == Begun::Yes {
        // SAFETY: the arguments are those of the program's call, as the runtime would pass them.
        unsafe { (body.function)(body.data) };
        (features().teams.end)(thread);
    }
    thread.record.set(around.filter(|_| life == Life::now()));
    match begun {
        Begun::Yes => T::default(),
        Begun::No => run(asked, member),
    }
}

macro_rules! regions {
    ($($name:ident($($argument:ident: $type:ty),*) $form:expr;)*) => {$(
        /// Runs a region by the real function of the same name. Safety: as gcc calls it.
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
                // SAFETY: the arguments are the caller's, but for the team size, which the interface leaves to the
                // runtime where it was changed, and the function, which calls the caller's.
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
    ) Form::Within(Loop::signed(start, end, increment, Schedule::Static.by(chunk)));
}

/// The data of a region with task reductions: libgomp reads the first word, the description of the reductions.
#[repr(C)]
struct WithReductions {
    reductions: *mut c_void,
    record: *mut c_void,
}

unsafe extern "C-unwind" fn run_member_with_reductions(data: *mut c_void) {
    // SAFETY: libgomp got this data in `GOMP_parallel_reductions` below, and it outlives the region.
    let record = unsafe { (*data.cast::<WithReductions>()).record };
    // SAFETY: it is the team record that `run_region` made for this region.
    unsafe { membership::run_member(record) };
}

/// Runs a region with task reductions by the real function of the same name. Safety: as gcc calls it.
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
    // SAFETY: the first word of the caller's data points to the description of its reductions.
    let reductions = unsafe { *data.cast::<*mut c_void>() };
    let body = Body { function, data };
    let (form, run) = (
        || Form::Real,
        |team, body: Body| {
            let record = body.data;
            let mut member = WithReductions { reductions, record };
            let (function, data) = (run_member_with_reductions, (&raw mut member).cast());
            // SAFETY: as for the plain regions.
            unsafe { run(function, data, team, flags) }
        },
    );
    run_region(
        thread,
        runtime,
        body,
        Beginning::Body,
        form,
        num_threads,
        run,
    )
}

/// How a loop of that schedule is divided among members of a virtual team.
macro_rules! division {
    (Runtime, $runtime:ident,) => {
        Division::by($runtime)
    };
    ($schedule:ident, $runtime:ident, $chunk:ident) => {
        Schedule::$schedule.by($chunk)
    };
}

macro_rules! loop_regions {
    ($($name:ident($($chunk:ident: $type:ty)?) $kind:ident $schedule:ident;)*) => {$(
        /// Runs a combined region and loop by the real function of the same name. Safety: as gcc calls it.
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
            let work = || {
                let division = division!($schedule, runtime, $($chunk)?);
                Loop::signed(start, end, increment, division)
            };
            let form = || Form::Within(work().as_wanted());
            let span = || work().span;
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
