//! Calls by which a program asks for exact team sizes: observed and passed on. Fortran's forms take addresses; the `_8_`
//! forms are for 8-byte default integers.

use core::ffi::c_int;

use mapper_shim_core::exactness;
use mapper_shim_core::features::features;
use mapper_shim_core::pass_on::{pass_on, real, runtime_of_caller};
use mapper_shim_core::runtime::{Family, Runtime};
use mapper_shim_core::symbols::Symbol;
use mapper_shim_core::thread_state::{self, ThreadState, note_caller};

/// The depth of regions that the calling thread is in, in whichever interface the runtime has.
fn level(runtime: &Runtime) -> u32 {
    runtime.level(Family::Gomp).max(runtime.level(Family::Kmpc))
}

/// An argument by value or, from Fortran, by address.
trait Argument: Copy {
    /// Its value. Safety: an address must lead to the value.
    unsafe fn value(self) -> i64;
}

impl Argument for c_int {
    unsafe fn value(self) -> i64 {
        self.into()
    }
}

impl<T: Copy + Into<i64>> Argument for *const T {
    unsafe fn value(self) -> i64 {
        // SAFETY: the caller vouches for the address.
        unsafe { self.read() }.into()
    }
}

/// Notes the call and passes it on. Without a runtime (weak references find the shim's functions) nothing is set.
macro_rules! setting {
    ($note:ident: $($name:ident($type:ty);)*) => {$(
        /// Notes a setting and calls the real function of the same name. Safety: as OpenMP calls it.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn $name(argument: $type) {
            unsafe extern "C-unwind" fn set(argument: $type) {
                let thread = thread_state::current();
                let Some(runtime) = runtime_of_caller(thread) else { return };
                // SAFETY: the argument is the caller's.
                $note(thread, runtime, unsafe { argument.value() });
                (features().teams.setting_changes)(thread);
                let run = real!(runtime, Symbol::$name, fn($type));
                // SAFETY: as above.
                unsafe { run(argument) };
            }
            core::arch::naked_asm!(note_caller!(), "jmp {set}", set = sym set)
        }
    )*};
}

fn num_threads(thread: &ThreadState, runtime: &Runtime, _: i64) {
    exactness::note_set_num_threads(thread, level(runtime));
}

fn dynamic(_: &ThreadState, _: &Runtime, value: i64) {
    exactness::note_set_dynamic(value);
}

setting! { num_threads:
    omp_set_num_threads(c_int);
    omp_set_num_threads_(*const i32);
    omp_set_num_threads_8_(*const i64);
}

setting! { dynamic:
    omp_set_dynamic(c_int);
    omp_set_dynamic_(*const i32);
    omp_set_dynamic_8_(*const i64);
}

/// Settings that only members of virtual teams must hear of.
macro_rules! other_setting {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        pass_on! {
            $name($($argument: $type),*): |thread, real| {
                (features().teams.setting_changes)(thread);
                real($($argument),*);
            };
        }
    )*};
}

other_setting! {
    omp_set_schedule(kind: c_int, chunk: c_int);
    omp_set_schedule_(kind: *const i32, chunk: *const i32);
    omp_set_schedule_8_(kind: *const i32, chunk: *const i64);
    omp_set_nested(nested: c_int);
    omp_set_nested_(nested: *const i32);
    omp_set_nested_8_(nested: *const i64);
    omp_set_max_active_levels(levels: c_int);
    omp_set_max_active_levels_(levels: *const i32);
    omp_set_max_active_levels_8_(levels: *const i64);
}
