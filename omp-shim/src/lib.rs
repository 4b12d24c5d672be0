//! `libmapper_omp.so`: lets unmodified OpenMP programs follow their allocation at the next parallel region, and reports
//! their progress.
//!
//! *Approach.* The launcher puts this library into `LD_PRELOAD`. It exports the entry points that compilers emit for
//! parallel regions and loops dispensed in chunks, under the names of GCC's libgomp and LLVM's libomp; each counts, may
//! lower the number of threads, and calls the real one.
//!
//! ARCHITECTURE.md says what each folder holds.
//!
//! *Modes.* Under `fixed` teams are never changed. Under `follow` an outermost region of unspecified size
//! gets as many threads as the program has CPUs, with the exceptions that `team_size` lists. Under `virtual` (the default where libgomp may be used) outermost
//! regions of libgomp have virtual teams, where [`mapper_virtual_team`] admits them. Without a valid page every call
//! passes through.
//!
//! *Invariants.* A program that never calls OpenMP runs nothing of the library but its constructor, which looks the C
//! library's functions up (in the child of a fork it would be too late), and the stubs of what it exports of these. The
//! page is mapped at the first OpenMP call; the environment and `/proc` are still there then. After a thread's first call the shim neither allocates nor locks nor makes a system
//! call (the clock is read in the vDSO). C++ exceptions and cancellation pass through: the exported functions are
//! `extern "C-unwind"`. The values that the program can query (`omp_get_max_threads` and its like) are never altered.
//!
//! *Panics.* What allocates, parses or reads `/proc` runs under [`mapper_shim_core::shield::shielded`]. The rest cannot,
//! since catching what the program's code further up the stack throws would end the process. So it must not panic:
//! indexing, unwrapping and panicking macros are errors here (see the lints); divisors are constants or at least one;
//! overflow wraps in release builds. Callbacks of the C library that are `extern "C"` end the process on a panic.

#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::get_unwrap,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used,
    )
)]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("libmapper_omp supports x86_64 Linux only: its entry stubs are written in assembly");

mod degree;
mod gomp;
mod kmpc;
mod ompt;
mod region;
mod waiting;

use degree::spare;
use mapper_shim_core::features::{Features, TeamsWanted};
use mapper_shim_core::thread_state::ThreadState;
use mapper_shim_core::{attachment, loaded, lookup, shield};
use waiting::libgomp_spin;

static FEATURES: Features = Features {
    mode_is_known,
    thread_ends: mapper_virtual_team::thread_ends,
    forked,
    allocation_applied: spare::forget,
    clock_ticked: mapper_virtual_team::clock_ticked,
    waited: libgomp_spin::waited,
    wait_passed: libgomp_spin::passed,
    libgomp_found: libgomp_spin::meet,
    team_function_looked_up: mapper_virtual_team::looked_up,
    teams: mapper_virtual_team::SERVICE,
};

mapper_shim_core::features::define_features!(FEATURES);

/// What the linker calls when it has loaded the library, before the program's own code.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    let _ = shield::shielded(|| {
        loaded::note_process();
        attachment::register_handlers();
        lookup::next();
        mapper_virtual_team::look_up();
        Some(())
    });
}

fn mode_is_known(teams: TeamsWanted) {
    if mapper_shim_core::environment::wants_adaptive_loops() {
        mapper_shim_core::shared_loop::turn_on();
    }
    if teams == TeamsWanted::Logical {
        mapper_virtual_team::want();
    }
}

fn forked(thread: &ThreadState) {
    // The team record is with the thread that began the region, which is not here.
    let _ = thread.take_part();
    mapper_virtual_team::forked(thread);
}
