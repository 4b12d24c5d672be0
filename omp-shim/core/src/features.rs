//! What the core calls of the features above it, as one table. It is there before any constructor runs, for the linker
//! binds it: the root puts its address under a hidden symbol ([`define_features!`]).

use core::ffi::c_void;

use crate::construct::{Body, Chunk, Loop, Start};
use crate::thread_state::ThreadState;

/// The functions of the features.
pub struct Features {
    /// The settings are known: whether teams are to be of logical threads. May be called again.
    pub mode_is_known: fn(TeamsWanted),
    /// The calling thread ends.
    pub thread_ends: fn(&ThreadState),
    /// The process is the child of a fork, with the calling thread alone.
    pub forked: fn(&ThreadState),
    /// The first team under a new allocation has been reported.
    pub allocation_applied: fn(),
    /// The coarse clock has ticked since the last region of a thread; the time.
    pub clock_ticked: fn(&ThreadState, u64),
    /// A wait was measured: its length and the time.
    pub waited: fn(u64, u64),
    /// A wait has passed of which nothing is known; the time.
    pub wait_passed: fn(u64),
    /// A libgomp contains that address. It is never unloaded.
    pub libgomp_found: fn(usize),
    /// The program has looked up a function that logical threads must not call.
    pub team_function_looked_up: fn(),
    /// The teams of logical threads.
    pub teams: TeamService,
}

/// Whether the user asked for teams of logical threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TeamsWanted {
    /// The runtime's.
    Real,
    /// Of logical threads.
    Logical,
}

/// What runs regions with logical threads in place of the runtime's team.
pub struct TeamService {
    /// Begins a region, in which the calling thread becomes a logical one, if that may be.
    pub begin: fn(&mut Request<'_>) -> Begun,
    /// Ends the region that the calling thread began.
    pub end: fn(&ThreadState),
    /// Has the calling logical thread enter the next loop; the function describes it to the first.
    pub enter_loop: fn(&dyn Fn() -> Loop) -> Option<Chunk>,
    /// Its next chunk of that loop.
    pub next_chunk: fn(&ThreadState) -> Option<Chunk>,
    /// The calling thread is about to change a setting.
    pub setting_changes: fn(&ThreadState),
}

/// A region that might be run with logical threads.
pub struct Request<'a> {
    /// As the program starts it.
    pub start: &'a Start<'a>,
    /// What it runs.
    pub body: Body,
    /// The loop or sections in which it begins.
    pub work: Option<Loop>,
    /// The best number of OS threads for so many members and CPUs: as many as members, or no more than CPUs.
    pub os_threads: &'a mut dyn FnMut(u32, u32) -> u32,
}

/// Whether a region has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begun {
    /// It has.
    Yes,
    /// The runtime has to run it.
    No,
}

/// The table of a library without features.
pub const NONE: Features = Features {
    mode_is_known: |_| {},
    thread_ends: |_| {},
    forked: |_| {},
    allocation_applied: || {},
    clock_ticked: |_, _| {},
    waited: |_, _| {},
    wait_passed: |_| {},
    libgomp_found: |_| {},
    team_function_looked_up: || {},
    teams: TeamService {
        begin: |_| Begun::No,
        end: |_| {},
        enter_loop: |_| None,
        next_chunk: |_| None,
        setting_changes: |_| {},
    },
};

unsafe extern "C" {
    #[link_name = "mapper_omp_features"]
    static FEATURES: *const c_void;
}

/// The table.
#[inline]
pub fn features() -> &'static Features {
    // SAFETY: `define_features!` has the linker put the address of a table there, which nobody changes.
    unsafe { &*FEATURES.cast::<Features>() }
}

/// Binds the table: once in a library, at its root.
#[macro_export]
macro_rules! define_features {
    ($table:ident) => {
        ::core::arch::global_asm!(
            ".pushsection .data.rel.ro.mapper_omp_features,\"aw\",@progbits",
            ".balign 8",
            ".globl mapper_omp_features",
            ".hidden mapper_omp_features",
            ".type mapper_omp_features,@object",
            ".size mapper_omp_features,8",
            "mapper_omp_features: .quad {table}",
            ".popsection",
            table = sym $table,
        );
    };
}
pub use define_features;
