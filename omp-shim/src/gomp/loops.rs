//! Loops that libgomp dispenses in chunks: the `_start` and `_next` functions.
//!
//! `_start` begins a work share and hands out a first chunk, `_next` hands out another; both return
//! whether there was one, and its bounds. They are called once for every chunk, which may be a single
//! iteration, so they do nothing but count. The caller is known by its return address, noted by a stub
//! in front of each: the result is tested, so the call is never turned into a jump.
//!
//! Ordered loops are not touched, nor is the generic `GOMP_loop_start` but for virtual teams.

use core::ffi::{c_long, c_ulonglong, c_void};
use mapper_shim_core::logical;

use crate::waiting::parking::{self, Dispensed};
use mapper_shim_core::adaptive_schedule;
use mapper_shim_core::caller;
use mapper_shim_core::chunks::{self, Bounds};
use mapper_shim_core::construct::{Division, Loop, Schedule, unsigned};
use mapper_shim_core::pass_on::member_for;
use mapper_shim_core::pass_on::real;
use mapper_shim_core::progress;
use mapper_shim_core::runtime::{self, Runtime};
use mapper_shim_core::shared_loop::{SharedLoop, Span};
use mapper_shim_core::symbols::Symbol;
use mapper_shim_core::thread_state::{self, ThreadState, note_caller};

#[inline(always)]
fn runtime_of_caller(thread: &ThreadState, symbol: Symbol) -> &'static Runtime {
    match caller::of_caller(thread, thread.caller.get()) {
        Some(runtime) => runtime,
        None => runtime::missing(symbol),
    }
}

/// Remembers the chunk that the thread got, or that there was none.
///
/// # Safety
/// If there is `more`, `first` and `end` hold a chunk's bounds.
#[inline(always)]
unsafe fn note_chunk<T: Copy + Bound>(
    thread: &ThreadState,
    more: bool,
    first: *const T,
    end: *const T,
) {
    if more {
        // SAFETY: the runtime has just written the bounds there.
        let (first, end) = unsafe { (first.read().bits(), end.read().bits()) };
        let stride_less_one = thread.stride_less_one.get();
        thread
            .pending
            .set(progress::chunk_size(first, end, stride_less_one));
    } else {
        progress::loop_done(thread);
    }
}

/// Hands out the next chunk of a loop whose chunks grow.
///
/// # Safety
/// The bounds are places to be written to.
#[cold]
unsafe fn next_adaptive<T: Bound>(
    thread: &ThreadState,
    shared: &'static SharedLoop,
    bounds: &Bounds<T>,
) -> bool {
    let Some(chunk) = adaptive_schedule::next(thread, shared) else {
        progress::loop_done(thread);
        return false;
    };
    thread.pending.set(chunk.count);
    // SAFETY: the caller vouches for them.
    unsafe {
        bounds.first.write(T::from_bits(chunk.first));
        bounds.end.write(T::from_bits(chunk.end));
    }
    true
}

/// A loop bound, as bits: differences come out right for both types.
trait Bound {
    fn bits(self) -> i64;
    fn from_bits(bits: i64) -> Self;
}

impl Bound for c_long {
    #[inline(always)]
    fn from_bits(bits: i64) -> Self {
        bits
    }

    #[inline(always)]
    fn bits(self) -> i64 {
        self
    }
}

impl Bound for c_ulonglong {
    #[inline(always)]
    fn from_bits(bits: i64) -> Self {
        bits as Self
    }

    #[inline(always)]
    fn bits(self) -> i64 {
        self as i64
    }
}

macro_rules! next {
    ($type:ty: $($name:ident)*) => {$(
        /// Hands out the next chunk by the real function of the same name.
        ///
        /// # Safety
        /// To be called as gcc does.
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
                        return unsafe { next_adaptive(thread, shared, &Bounds { first, end }) };
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
        /// Begins a loop by the real function of the same name.
        ///
        /// # Safety
        /// To be called as gcc does.
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
                if member_for(thread, Symbol::$name).is_some() {
                    let describe = || {
                        let division = division!($schedule, $($chunk)?);
                        describe!(division, $($before,)? from, to, increment).as_wanted()
                    };
                    let bounds = Bounds { first, end };
                    // SAFETY: the places are the caller's.
                    return unsafe { chunks::start(&describe, bounds) };
                }
                let runtime = runtime_of_caller(thread, Symbol::$name);
                let run = real!(
                    runtime, Symbol::$name,
                    fn($($flag,)? $type, $type, $type, $(same!($chunk, $type),)?
                       *mut $type, *mut $type) -> bool
                );
                thread.stride_less_one.set(increment.bits().wrapping_sub(1));
                let dispensed = parking::before_loop(thread, runtime, Dispensed::$kind);
                let span = || span!($($before,)? from, to, increment);
                if dispensed == Dispensed::Always && adaptive_schedule::begin(thread, span) {
                    // SAFETY: the places are the caller's. The loop has no iterations.
                    unsafe {
                        run($(yes!($before),)? 0, 0, 1, $(one!($chunk),)? first, end);
                        return match thread.shared_loop() {
                            Some(shared) => {
                                next_adaptive(thread, shared, &Bounds { first, end })
                            }
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

/// The iterations of a loop. The increment of a descending one is negative, if only as bits.
macro_rules! span {
    ($from:ident, $to:ident, $increment:ident) => {
        Span::until(
            $from,
            $to,
            $increment,
            if $increment > 0 {
                $from < $to
            } else {
                $from > $to
            },
        )
    };
    ($up:ident, $from:ident, $to:ident, $increment:ident) => {
        Span::until(
            $from as i64,
            $to as i64,
            $increment as i64,
            if $up { $from < $to } else { $from > $to },
        )
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

/// The second, in the place of the first.
macro_rules! same {
    ($name:ident, $type:ty) => {
        $type
    };
}

/// How a loop of that schedule is divided among members of a virtual team.
macro_rules! division {
    (Runtime,) => {
        Division::of_settings(logical::runtime())
    };
    ($schedule:ident, $chunk:ident) => {
        Division {
            schedule: Schedule::$schedule,
            chunk: $chunk as i64,
        }
    };
}

/// The loop, for members of a virtual team.
macro_rules! describe {
    ($division:ident, $from:ident, $to:ident, $increment:ident) => {
        Loop::signed($from, $to, $increment, $division.schedule, $division.chunk)
    };
    ($division:ident, $up:ident, $from:ident, $to:ident, $increment:ident) => {
        unsigned($up, [$from, $to], $increment, $division)
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
