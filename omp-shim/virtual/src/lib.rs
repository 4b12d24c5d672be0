//! Virtual teams: the program keeps the team it expects, the machine sees the CPUs it owns.
//!
//! *Problem.* A program divides its work by the size of its team, and may remember that size for
//! ever. Changing the size under it is right only for programs that expect it; keeping it makes
//! every barrier cost context switches as soon as there are fewer CPUs than threads.
//!
//! *Approach.* The team has *n* logical threads for as long as the program likes, and *k* OS threads
//! carry them, one for each CPU that the program owns. A logical thread that comes to a barrier lets
//! the next one on the same CPU run, which takes nanoseconds (`context`, `carrier`). Each has its own
//! stack and thread-local storage (`member`), unless the program cannot tell (`storage`, `storage_use`). Loops, sections and `single` are dispensed to logical
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

mod admission;
mod block;
mod carrier;
mod context;
mod control_variables;
mod credentials;
mod errno;
mod errno_address;
mod exclusion;
mod first_stop;
mod gate;
mod generic_starts;
mod kernel;
mod kernel_state;
mod liveness;
mod member;
mod os_thread;
mod owner;
mod pool;
mod preserved;
mod queries;
mod quiet_thread;
mod region;
mod runtimes_lock;
mod service;
mod share;
mod shared_memory;
mod shares;
mod storage;
mod storage_use;
mod team;
mod thread_names;
mod thread_pointer;
mod unserved;
mod waiting;
mod words;
mod worksharing;

pub use owner::owner_ends as thread_ends;
pub use service::{SERVICE, attached, clock_ticked, forked, looked_up, want};

#[cfg(test)]
static FEATURES: mapper_shim_core::features::Features = mapper_shim_core::features::NONE;
#[cfg(test)]
mapper_shim_core::define_features!(FEATURES);
