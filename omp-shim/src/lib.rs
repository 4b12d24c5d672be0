//! `libmapper_omp.so`: lets unmodified OpenMP programs follow their allocation.
//!
//! *Problem.* An OpenMP program decides the size of its teams once, at start. When mapper changes how
//! many CPUs it may use, the program should hear of it at its next parallel region, and mapper should
//! hear how far the program has come, without a line of the program being changed.
//!
//! *Approach.* The launcher puts this library into `LD_PRELOAD`. It exports the entry points that
//! compilers emit for parallel regions and for loops dispensed in chunks, under the names of GCC's
//! libgomp and LLVM's libomp; each counts, may lower the number of threads, and calls the real one.
//!
//! | folder | job |
//! |---|---|
//! | `core` | what all features build on: the calling thread, the shared page, the runtimes, the team of a region |
//! | `region` | what happens at the start and the end of a parallel region; how many threads it may have |
//! | `gomp`, `kmpc` | the functions that gcc and clang emit calls of |
//! | `ompt` | copies of libomp that call no exported function |
//! | `virtual_team` | regions whose logical threads share as many OS threads as there are CPUs |
//! | `waiting` | threads without a CPU leave dispensed loops to the others; how long waiting threads spin |
//! | `degree` | small regions get fewer threads; what is known of each region |
//!
//! *Modes.* Under `fixed` (the default) teams are never changed. Under `follow` an outermost region
//! of unspecified size gets as many threads as the program has CPUs, with the exceptions that `team`
//! lists. Under `virtual` outermost regions of libgomp have virtual teams, where [`virtual_team`] finds
//! nothing against it. Without a page, or with one that is not believed, every call passes through.
//!
//! *Invariants.* The library has no constructor of its own: a program that never calls OpenMP runs
//! no instruction of it but those that `dlopen`, `dlsym`, `sched_yield` and `__errno_location` take on their way to the
//! C library's. For the same reason the page is looked for at the first OpenMP call, not at
//! start; what that needs (the environment, `/proc`) is still there then. Once a thread has made its
//! first call, there is neither allocation nor lock nor system call on its way through the shim (the
//! clock is read in the vDSO). No panic leaves an exported function (see below). C++ exceptions and cancellation pass
//! through, since the exported functions are `extern "C-unwind"`. The values that the program can
//! ask for (`omp_get_max_threads` and its like) are never altered.
//!
//! *Panics.* What allocates, parses or reads `/proc` (attaching, looking for runtimes, judging modules, making
//! members, the watcher) runs under [`shield::shielded`]. The rest cannot be put under it, since the
//! program's code runs further up on the same stack, and to catch what that throws would end the process. So
//! it has to do without anything that panics: indexing, unwrapping and panicking macros are errors here, see
//! the lints below; divisors are constants or at least one by construction; overflow wraps in release
//! builds. Callbacks of the C library that are `extern "C"` end the process should they panic all the same.

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
use waiting::libgomp_spin;

/// What the core calls of the features.
static FEATURES: Features = Features {
    attached: mapper_virtual_team::attached,
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

fn mode_is_known(teams: TeamsWanted) {
    if mapper_shim_core::environment::wants_adaptive_loops() {
        mapper_shim_core::shared_loop::turn_on();
    }
    if teams == TeamsWanted::Logical {
        mapper_virtual_team::want();
    }
}

fn forked(thread: &ThreadState) {
    // The team lies where the thread that began the region had it, who is not here; nor are its fellows.
    let _ = thread.take_part();
    mapper_virtual_team::forked(thread);
}
