//! Loops that libgomp dispenses in chunks: the `_start` and `_next` functions, called once for every chunk.
//!
//! The caller is known by its return address, noted by a stub: the result is tested, so the call is never turned into a
//! jump. Ordered loops and `GOMP_loop_start` are for virtual teams only.

use core::ffi::{c_long, c_ulonglong};

use mapper_shim_core::chunks::{self, Bound, Bounds};
use mapper_shim_core::construct::{Chunk, Division, Schedule};
use mapper_shim_core::pass_on::{member_for, real};
use mapper_shim_core::runtime::{self, Runtime};
use mapper_shim_core::shared_loop::SharedLoop;
use mapper_shim_core::symbols::Symbol;
use mapper_shim_core::thread_state::{self, ThreadState, note_caller};
use mapper_shim_core::{adaptive_schedule, caller, logical, progress};

use crate::waiting::parking::{self, Dispensed};

#[inline(always)]
fn runtime_of_caller(thread: &ThreadState, symbol: Symbol) -> &'static Runtime {
    caller::of_caller(thread, thread.caller.get()).unwrap_or_else(|| runtime::missing(symbol))
}

/// Remembers the thread's chunk or that there was none. Safety: if there is `more`, `first` and `end` hold bounds.
#[inline(always)]
unsafe fn note_chunk<T: Bound>(thread: &ThreadState, more: bool, first: *const T, end: *const T) {
    if more {
        // SAFETY: the runtime has just written the bounds there.
        let (first, end) = unsafe { (first.read().bits(), end.read().bits()) };
        let size = progress::chunk_size(first, end, thread.stride_less_one.get());
        thread.pending.set(size);
    } else {
        progress::loop_done(thread);
    }
}

/// Hands out the next chunk of a loop whose chunks grow. Safety: the bounds can be written.
#[cold]
unsafe fn next_adaptive<T: Bound>(
    thread: &ThreadState,
    shared: &'static SharedLoop,
    bounds: Bounds<T>,
) -> bool {
    let chunk = adaptive_schedule::next(thread, shared).map(Chunk::from);
    // SAFETY: the caller vouches for them.
    unsafe { chunks::hand_out(thread, chunk, bounds) }
}

macro_rules! next {
    ($type:ty: $($name:ident)*) => {$(
        /// Hands out the next chunk by the real function of the same name. Safety: as gcc calls it.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn $name(first: *mut $type, end: *mut $type) -> bool {
            unsafe extern "C-unwind" fn next(first: *mut $type, end: *mut $type) -> bool {
                let thread = thread_state::current();
                if thread.has_loops_of_its_own() {
                    if member_for(thread, Symbol::$name).is_some() {
                        // SAFETY: the places are the caller's.
                        return unsafe { chunks::next(thread, Bounds { first, end }) };
                    }
                    if let Some(shared) = thread.shared_loop() {
                        progress::chunk_done(thread);
                        parking::before_chunk(thread);
                        // SAFETY: the places are the caller's.
                        return unsafe { next_adaptive(thread, shared, Bounds { first, end }) };
                    }
                }
                let runtime = runtime_of_caller(thread, Symbol::$name);
                let run = real!(runtime, Symbol::$name, fn(*mut $type, *mut $type) -> bool);
                progress::chunk_done(thread);
                parking::before_chunk(thread);
                // SAFETY: the arguments are the caller's.
                let more = unsafe { run(first, end) };
                // SAFETY: the runtime filled in the bounds.
                unsafe { note_chunk(thread, more, first, end) };
                more
            }
            core::arch::naked_asm!(note_caller!(), "jmp {next}", next = sym next)
        }
    )*};
}

macro_rules! start {
    ($type:ty: $($name:ident($($before:ident: $flag:ty)?; $($chunk:ident)?) $kind:ident $schedule:ident;)*) => {$(
        /// Begins a loop by the real function of the same name. Safety: as gcc calls it.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn $name(
            $($before: $flag,)?
            from: $type,
            to: $type,
            increment: $type,
            $($chunk: $type,)?
            first: *mut $type,
            end: *mut $type,
        ) -> bool {
            unsafe extern "C-unwind" fn start(
                $($before: $flag,)?
                from: $type,
                to: $type,
                increment: $type,
                $($chunk: $type,)?
                first: *mut $type,
                end: *mut $type,
            ) -> bool {
                let thread = thread_state::current();
                let work = || {
                    let division = division!($schedule, $($chunk)?);
                    <$type>::work(up!($($before)?), [from, to], increment, division)
                };
                if member_for(thread, Symbol::$name).is_some() {
                    let bounds = Bounds { first, end };
                    // SAFETY: the places are the caller's.
                    return unsafe { chunks::start(&|| work().as_wanted(), bounds) };
                }
                let runtime = runtime_of_caller(thread, Symbol::$name);
                let run = real!(
                    runtime, Symbol::$name,
                    fn($($flag,)? $type, $type, $type, $(same!($chunk, $type),)?
                       *mut $type, *mut $type) -> bool
                );
                thread.stride_less_one.set(increment.bits().wrapping_sub(1));
                let dispensed = parking::before_loop(thread, runtime, Dispensed::$kind);
                let span = || work().span;
                if dispensed == Dispensed::Always && adaptive_schedule::begin(thread, span) {
                    // SAFETY: the places are the caller's. The loop has no iterations.
                    unsafe {
                        run($(yes!($before),)? 0, 0, 1, $(one!($chunk),)? first, end);
                        return match thread.shared_loop() {
                            Some(shared) => next_adaptive(thread, shared, Bounds { first, end }),
                            None => false,
                        };
                    }
                }
                // SAFETY: the arguments are the caller's.
                let more = unsafe {
                    run($($before,)? from, to, increment, $($chunk,)? first, end)
                };
                // SAFETY: the runtime filled in the bounds.
                unsafe { note_chunk(thread, more, first, end) };
                more
            }
            core::arch::naked_asm!(note_caller!(), "jmp {start}", start = sym start)
        }
    )*};
}

/// Whether a loop goes up: only unsigned ones say so.
macro_rules! up {
    () => {
        true
    };
    ($up:ident) => {
        $up
    };
}

macro_rules! yes {
    ($flag:ident) => {
        true
    };
}

macro_rules! one {
    ($chunk:ident) => {
        1
    };
}

macro_rules! same {
    ($name:ident, $type:ty) => {
        $type
    };
}

/// How a loop of that schedule is divided by the shim.
macro_rules! division {
    (Runtime,) => {
        Division::of_settings(logical::runtime())
    };
    ($schedule:ident, $chunk:ident) => {
        Schedule::$schedule.by($chunk as i64)
    };
}

next! { c_long:
    GOMP_loop_dynamic_next
    GOMP_loop_guided_next
    GOMP_loop_nonmonotonic_dynamic_next
    GOMP_loop_nonmonotonic_guided_next
    GOMP_loop_runtime_next
    GOMP_loop_nonmonotonic_runtime_next
    GOMP_loop_maybe_nonmonotonic_runtime_next
}

next! { c_ulonglong:
    GOMP_loop_ull_dynamic_next
    GOMP_loop_ull_guided_next
    GOMP_loop_ull_nonmonotonic_dynamic_next
    GOMP_loop_ull_nonmonotonic_guided_next
    GOMP_loop_ull_runtime_next
    GOMP_loop_ull_nonmonotonic_runtime_next
    GOMP_loop_ull_maybe_nonmonotonic_runtime_next
}

start! { c_long:
    GOMP_loop_dynamic_start(; chunk) Always Dynamic;
    GOMP_loop_guided_start(; chunk) Always Guided;
    GOMP_loop_nonmonotonic_dynamic_start(; chunk) Always Dynamic;
    GOMP_loop_nonmonotonic_guided_start(; chunk) Always Guided;
    GOMP_loop_runtime_start(;) IfScheduled Runtime;
    GOMP_loop_nonmonotonic_runtime_start(;) IfScheduled Runtime;
    GOMP_loop_maybe_nonmonotonic_runtime_start(;) IfScheduled Runtime;
}

start! { c_ulonglong:
    GOMP_loop_ull_dynamic_start(up: bool; chunk) Always Dynamic;
    GOMP_loop_ull_guided_start(up: bool; chunk) Always Guided;
    GOMP_loop_ull_nonmonotonic_dynamic_start(up: bool; chunk) Always Dynamic;
    GOMP_loop_ull_nonmonotonic_guided_start(up: bool; chunk) Always Guided;
    GOMP_loop_ull_runtime_start(up: bool;) IfScheduled Runtime;
    GOMP_loop_ull_nonmonotonic_runtime_start(up: bool;) IfScheduled Runtime;
    GOMP_loop_ull_maybe_nonmonotonic_runtime_start(up: bool;) IfScheduled Runtime;
}
