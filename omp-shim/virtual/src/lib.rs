//! Virtual teams: the program keeps the team it expects, the machine sees the CPUs it owns. Changing the size of a team
//! is right only for programs that expect it; keeping it costs context switches at every barrier once CPUs are fewer
//! than threads.
//!
//! *Approach.* The team has *n* logical threads, and *k* OS threads carry them, one for each CPU of the program. A
//! logical thread that comes to a barrier lets the next one on its CPU run, which takes nanoseconds (`context`,
//! `carrier`). Each has its own stack and thread-local storage (`member`), unless the program cannot tell (`storage`,
//! `storage_use`). Loops, sections and `single` are dispensed to logical threads (`share`, `team`), queries answered
//! for them (`queries`). Locks and critical sections let others run rather than block the CPU (`exclusion`). Programs
//! with other constructs keep real teams (`admission`). Threads that wait for one another without OpenMP are helped by
//! `liveness`.
//!
//! *Unit.* A *region* is one parallel construct; a *member* one logical thread; a *block* the members of one OS thread.
//!
//! *Invariants.* One virtual region runs at a time; regions of other threads, of other runtimes and within regions are
//! the runtime's (`pass_on::member_for`). *k* changes only between regions. A barrier or loop neither allocates nor
//! locks nor makes a system call, unless OS threads have to wait for one another.

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
mod attendants;
mod block;
mod c_library;
mod carrier;
mod context;
mod control_variables;
mod credentials;
mod errno_address;
mod exclusion;
mod first_stop;
mod gate;
mod generic_starts;
mod kernel;
mod kernel_settings;
mod kernel_state;
mod liveness;
mod member;
mod mkl;
mod ordered;
mod os_thread;
mod owner;
mod pool;
mod preserved;
mod proxy_call;
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
mod tasks;
mod team;
mod thread_names;
mod thread_pointer;
mod turns;
mod unserved;
mod waiting;
mod words;
mod worksharing;

pub use admission::note_lookup as looked_up;
pub use owner::{
    after_fork_in_child as forked, count_parked as clock_ticked, owner_ends as thread_ends,
};
pub use service::{SERVICE, look_up, want};

#[cfg(test)]
static FEATURES: mapper_shim_core::features::Features = mapper_shim_core::features::NONE;
#[cfg(test)]
mapper_shim_core::define_features!(FEATURES);
