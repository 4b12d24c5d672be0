//! Parallel regions as gcc emitted them before 4.9: one call starts the other threads, another one ends the region.
//! What the end needs lies in an allocated [`OpenLegacy`]: a list for each thread, the innermost region first.
//!
//! *Combined loops* tell only the first thread their increment. In real teams the others therefore count iterations in
//! units of the loop variable, and no thread is parked.

use core::cell::Cell;
use core::ffi::{c_long, c_uint, c_void};
use core::ptr::NonNull;

use mapper_shim_core::construct::{Body, Division, Form, Loop, Outlined, Schedule, Start};
use mapper_shim_core::features::{Begun, features};
use mapper_shim_core::membership::Part;
use mapper_shim_core::nested::OpenNested;
use mapper_shim_core::pass_on::real;
use mapper_shim_core::runtime::{self, Family, Runtime};
use mapper_shim_core::symbols::Symbol;
use mapper_shim_core::thread_state::{self, note_caller, thread_block};
use mapper_shim_core::{caller, logical, waits};

use crate::gomp::regions::{begin_virtual, runtime_of};
use crate::region::{self, OpenRegion};

pub(crate) struct OpenLegacy {
    open: OpenRegion,
    runtime: &'static Runtime,
    team: Team,
    part: Part,
    around: Option<NonNull<OpenLegacy>>,
}

enum Team {
    Real,
    Nested(OpenNested),
    Logical,
}

thread_block! {
    /// The innermost region that the calling thread has begun by a `GOMP_parallel_*start` and not ended yet.
    innermost: Innermost, "mapper_omp_legacy"
}

type Innermost = Cell<Option<NonNull<OpenLegacy>>>;

fn start_region(
    start: &Start<'_>,
    body: Body,
    increment: i64,
    form: impl Fn(&'static Runtime) -> Form,
    run: impl FnOnce(c_uint, Body),
) {
    let Start {
        thread,
        runtime,
        asked,
        ..
    } = *start;
    // The pool's threads begin without further notice.
    waits::work_comes();
    let mut started = region::begin(start);
    let nested = match logical::is_wanted() {
        true => OpenNested::within(thread, runtime, body),
        false => None,
    };
    // Its loops are not to be taken for those of a region around it.
    let (part, around) = (thread.take_part(), innermost().take());
    let mut begin = || begin_virtual(start, &mut started.open, body, form(runtime));
    let team = match nested {
        Some(nested) => Team::Nested(nested),
        None if logical::is_wanted() && begin() == Begun::Yes => Team::Logical,
        None => Team::Real,
    };
    let place: *mut OpenLegacy = Box::into_raw(Box::new(OpenLegacy {
        open: started.open,
        runtime,
        team,
        part,
        around,
    }));
    // SAFETY: just made; `parallel_end` frees it. Until then it is only read.
    let open = unsafe { &*place };
    match &open.team {
        Team::Real if !logical::is_wanted() => run(started.num_threads, body),
        Team::Real => run(asked, body),
        Team::Nested(nested) => {
            run(OpenNested::team(runtime, asked), nested.body());
            nested.enter(thread);
        }
        Team::Logical => {}
    }
    innermost().set(NonNull::new(place));
    thread.stride_less_one.set(increment.wrapping_sub(1));
}

macro_rules! legacy_regions {
    ($($name:ident($($argument:ident: $type:ty),*) stride $increment:expr, $form:expr;)*) => {$(
        /// Starts the other threads of a region by the real function or a virtual team. Safety: as gcc calls it.
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
            let start = Start {
                thread,
                runtime,
                family: Family::Gomp,
                function: function as usize,
                asked: num_threads,
            };
            start_region(&start, Body { function, data }, $increment, $form, |team, body| {
                // SAFETY: the arguments are the caller's, but for the team size, which the interface leaves to the
                // runtime where it was changed, and the function, which calls the caller's.
                unsafe { run(body.function, body.data, team $(, $argument)*) }
            });
        }
    )*};
}

legacy_regions! {
    GOMP_parallel_start() stride 1_i64, |_| Form::Body;
    GOMP_parallel_sections_start(count: c_uint) stride 1_i64,
        |_| Form::Within(Loop::sections(count));
    GOMP_parallel_loop_static_start(
        start: c_long, end: c_long, increment: c_long, chunk: c_long
    ) stride increment,
        |_| Form::Within(Loop::signed(start, end, increment, Schedule::Static.by(chunk)));
    GOMP_parallel_loop_dynamic_start(
        start: c_long, end: c_long, increment: c_long, chunk: c_long
    ) stride increment,
        |_| Form::Within(Loop::signed(start, end, increment, Schedule::Dynamic.by(chunk)));
    GOMP_parallel_loop_guided_start(
        start: c_long, end: c_long, increment: c_long, chunk: c_long
    ) stride increment,
        |_| Form::Within(Loop::signed(start, end, increment, Schedule::Guided.by(chunk)));
    GOMP_parallel_loop_runtime_start(
        start: c_long, end: c_long, increment: c_long
    ) stride increment,
        |runtime| Form::Within(Loop::signed(start, end, increment, Division::by(runtime)));
}

/// Ends a region that a legacy function started, by the real function of the same name. Safety: as gcc calls it.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C-unwind" fn GOMP_parallel_end() {
    core::arch::naked_asm!(note_caller!(), "jmp {end}", end = sym parallel_end)
}

fn end_real(runtime: &Runtime) {
    let run = real!(runtime, Symbol::GOMP_parallel_end, fn());
    // SAFETY: it takes nothing.
    unsafe { run() };
}

unsafe extern "C-unwind" fn parallel_end() {
    let thread = thread_state::current();
    let address = thread.caller.get();
    let caller = caller::of_caller(thread, address);
    // Some builds of libomp end their own regions by this function, too; those are not counted here.
    let own = caller.filter(|runtime| runtime.calls_itself(address));
    if let Some(runtime) = own {
        return end_real(runtime);
    }
    let Some(open) = innermost().take() else {
        match caller.or_else(caller::any) {
            Some(runtime) => end_real(runtime),
            None => runtime::missing(Symbol::GOMP_parallel_end),
        }
        return;
    };
    // SAFETY: `start_region` made it and put it there; it was taken out and is freed below.
    let region = unsafe { open.as_ref() };
    match &region.team {
        Team::Real => end_real(region.runtime),
        Team::Nested(nested) => {
            end_real(region.runtime);
            nested.leave(thread);
        }
        Team::Logical => (features().teams.end)(thread),
    }
    thread.put_part(&region.part);
    innermost().set(region.around);
    region::end(thread, &region.open);
    // SAFETY: `start_region` made it by `Box::into_raw`. The region has ended: no other thread reads it.
    drop(unsafe { Box::from_raw(open.as_ptr()) });
}
