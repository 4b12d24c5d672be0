//! Loops that libomp dispenses in chunks: `__kmpc_dispatch_init_*` and `__kmpc_dispatch_next_*`.
//!
//! The bounds of a chunk are inclusive, and come with the increment. Loops whose schedule gives each
//! thread a part of its own, and ordered ones, are counted, but nobody is parked in them.

use core::ffi::{c_int, c_void};

use mapper_shim_core::pass_on::{jump_on, real, real_of_caller};
use mapper_shim_core::runtime::{Family, Runtime};
use mapper_shim_core::shared_loop::Span;
use mapper_shim_core::symbols::Symbol;
use mapper_shim_core::{adaptive_schedule, progress, thread_state};

use crate::kmpc::location::runtime_of;
use crate::waiting::parking;

/// Bits of a schedule that say whether chunks must come in ascending order.
const MODIFIERS: c_int = 1 << 29 | 1 << 30;
/// Schedules of `enum sched_type` that hand out chunks to whoever asks.
const DYNAMIC_CHUNKED: c_int = 35;
const GUIDED_CHUNKED: c_int = 36;
const RUNTIME: c_int = 37;
const TRAPEZOIDAL: c_int = 39;
const GUIDED_ITERATIVE_CHUNKED: c_int = 42;
const GUIDED_ANALYTICAL_CHUNKED: c_int = 43;
const STATIC_STEAL: c_int = 44;
const GUIDED_SIMD: c_int = 46;
const RUNTIME_SIMD: c_int = 47;

/// Whether iterations that one thread does not take are taken by others.
fn is_dispensed(schedule: c_int, runtime: &Runtime) -> bool {
    match schedule & !MODIFIERS {
        DYNAMIC_CHUNKED
        | GUIDED_CHUNKED
        | TRAPEZOIDAL
        | GUIDED_ITERATIVE_CHUNKED
        | GUIDED_ANALYTICAL_CHUNKED
        | STATIC_STEAL
        | GUIDED_SIMD => true,
        RUNTIME | RUNTIME_SIMD => runtime.dispenses_runtime_loops(Family::Kmpc),
        _ => false,
    }
}

/// Notes that the iterations of the next loop wait for one another; the real function of that number.
unsafe extern "C" fn doacross(number: usize) -> *mut c_void {
    real_of_caller(number, |thread, _| thread.loop_is_doacross.set(true))
}

jump_on! { doacross: __kmpc_doacross_init }

macro_rules! dispatch_init {
    ($($name:ident($bound:ty, $stride:ty);)*) => {$(
        /// Begins a loop by the real function of the same name. Safety: as clang calls it.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            location: *mut c_void,
            thread_number: c_int,
            schedule: c_int,
            lower: $bound,
            upper: $bound,
            stride: $stride,
            chunk: $stride,
        ) {
            let thread = thread_state::current();
            let runtime = runtime_of(thread, location, Symbol::$name);
            let run = real!(
                runtime, Symbol::$name,
                fn(*mut c_void, c_int, c_int, $bound, $bound, $stride, $stride)
            );
            if !runtime.calls_itself(location as usize) {
                let doacross = thread.loop_is_doacross.replace(false);
                let is_dispensed = !doacross && is_dispensed(schedule, runtime);
                parking::note_loop(thread, is_dispensed);
                let span = || {
                    let runs = if stride > 0 { lower <= upper } else { lower >= upper };
                    let end = (upper as i64).wrapping_add(i64::from(stride.signum()));
                    Span::until(lower as i64, end, stride.into(), runs)
                };
                if is_dispensed && adaptive_schedule::begin(thread, span) {
                    // SAFETY: as below; the loop has no iterations.
                    unsafe { run(location, thread_number, schedule, 1, 0, 1, 1) };
                    return;
                }
            }
            // The runtime learns of the loop now, so that others can take the thread's share where the schedule deals out
            // shares; the thread parks when it asks for its first chunk.
            // SAFETY: the arguments are the caller's.
            unsafe { run(location, thread_number, schedule, lower, upper, stride, chunk) };
        }
    )*};
}

dispatch_init! {
    __kmpc_dispatch_init_4(i32, i32);
    __kmpc_dispatch_init_4u(u32, i32);
    __kmpc_dispatch_init_8(i64, i64);
    __kmpc_dispatch_init_8u(u64, i64);
}

macro_rules! dispatch_next {
    ($($name:ident($bound:ty, $stride:ty);)*) => {$(
        /// Hands out the next chunk by the real function of the same name. Safety: as clang calls it.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            location: *mut c_void,
            thread_number: c_int,
            last: *mut c_int,
            lower: *mut $bound,
            upper: *mut $bound,
            stride: *mut $stride,
        ) -> c_int {
            let thread = thread_state::current();
            let runtime = runtime_of(thread, location, Symbol::$name);
            let run = real!(
                runtime, Symbol::$name,
                fn(*mut c_void, c_int, *mut c_int, *mut $bound, *mut $bound, *mut $stride) -> c_int
            );
            let counted_above = runtime.calls_itself(location as usize);
            if !counted_above {
                progress::chunk_done(thread);
                parking::before_chunk(thread);
                if let Some(shared) = thread.shared_loop()
                    && let Some(chunk) = adaptive_schedule::next(thread, shared)
                {
                    thread.pending.set(chunk.count);
                    // SAFETY: the places are the caller's; all but the last are always there.
                    unsafe {
                        lower.write(chunk.first as $bound);
                        upper.write(chunk.last as $bound);
                        if !stride.is_null() {
                            stride.write(shared.increment() as $stride);
                        }
                        if !last.is_null() && chunk.ends_loop {
                            last.write(1);
                        }
                    }
                    return 1;
                }
            }
            // SAFETY: the arguments are the caller's.
            let more = unsafe { run(location, thread_number, last, lower, upper, stride) };
            if counted_above {
                return more;
            }
            if more == 0 || lower.is_null() || upper.is_null() {
                progress::loop_done(thread);
                return more;
            }
            // SAFETY: the runtime has filled in the bounds, and the increment if asked to.
            let (lower, upper, stride) = unsafe {
                (lower.read(), upper.read(), if stride.is_null() { 1 } else { stride.read() })
            };
            let (lower, upper, stride) = (lower as i64, upper as i64, i64::from(stride));
            // The bounds include `upper`.
            let end = upper.wrapping_add(stride.signum());
            let stride_less_one = stride.wrapping_sub(1);
            thread.pending.set(progress::chunk_size(lower, end, stride_less_one));
            more
        }
    )*};
}

dispatch_next! {
    __kmpc_dispatch_next_4(i32, i32);
    __kmpc_dispatch_next_4u(u32, i32);
    __kmpc_dispatch_next_8(i64, i64);
    __kmpc_dispatch_next_8u(u64, i64);
}
