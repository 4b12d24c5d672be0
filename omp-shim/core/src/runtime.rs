//! The functions of one OpenMP runtime, and where they are looked up.
//!
//! *Invariants.* A [`Runtime`] is never freed, and the modules it was found through are never unloaded.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use std::io::Write as _;

use mapper_abi::Runtimes;

use crate::elf::Module;
use crate::shield::shielded;
use crate::symbols::Symbol;

/// The two interfaces between compilers and runtimes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// What gcc emits. libomp offers it too.
    Gomp,
    /// What clang emits.
    Kmpc,
}

impl Family {
    /// A function by which a runtime that offers the family is recognised.
    pub const fn mark(self) -> Symbol {
        match self {
            Self::Gomp => Symbol::GOMP_parallel,
            Self::Kmpc => Symbol::__kmpc_fork_call,
        }
    }

    /// Its entry where there is one for each family, in the order of their numbers.
    pub(super) fn entry<T>(self, [gomp, kmpc]: &mut [T; 2]) -> &mut T {
        match self {
            Self::Gomp => gomp,
            Self::Kmpc => kmpc,
        }
    }

    /// The runtime it is the native interface of.
    pub const fn runtimes(self) -> Runtimes {
        match self {
            Self::Gomp => Runtimes::LIBGOMP,
            Self::Kmpc => Runtimes::LIBOMP,
        }
    }
}

pub(super) type Query = unsafe extern "C-unwind" fn() -> c_int;
pub(super) type ScheduleQuery = unsafe extern "C-unwind" fn(*mut c_int, *mut c_int);

/// Values of `omp_sched_t`.
const SCHEDULE_DYNAMIC: c_int = 2;
const SCHEDULE_GUIDED: c_int = 3;
const MONOTONIC: c_int = c_int::MIN;

/// The real functions, as one module sees them.
#[derive(Debug)]
pub struct Runtime {
    pub(super) functions: [*mut c_void; Symbol::ALL.len()],
    /// `omp_get_level` of the library that offers each family.
    pub(super) levels: [Option<Query>; 2],
    /// `omp_get_max_threads`, likewise.
    pub(super) max_threads: [Option<Query>; 2],
    /// `omp_get_thread_num`, likewise.
    pub(super) thread_nums: [Option<Query>; 2],
    /// `omp_get_num_threads`, likewise.
    pub(super) team_sizes: [Option<Query>; 2],
    /// `omp_get_schedule`, likewise.
    pub(super) schedules: [Option<ScheduleQuery>; 2],
    /// Where the library lies that offers clang's family.
    pub(super) kmpc_library: Option<Module>,
}

impl Runtime {
    /// One that offers nothing.
    pub const fn empty() -> Self {
        Self {
            functions: [null_mut(); Symbol::ALL.len()],
            levels: [None; 2],
            max_threads: [None; 2],
            thread_nums: [None; 2],
            team_sizes: [None; 2],
            schedules: [None; 2],
            kmpc_library: None,
        }
    }

    /// The real function; null if this runtime has none.
    #[inline(always)]
    pub fn function(&self, symbol: Symbol) -> *mut c_void {
        self.functions
            .get(symbol as usize)
            .copied()
            .unwrap_or(null_mut())
    }

    /// How many regions the calling thread is inside of.
    #[inline]
    pub fn level(&self, family: Family) -> u32 {
        query(&self.levels, family)
    }

    /// The team that the next region would get.
    pub fn max_threads(&self, family: Family) -> u32 {
        query(&self.max_threads, family)
    }

    /// The calling thread's number in its team.
    #[inline]
    pub fn thread_num(&self, family: Family) -> u32 {
        query(&self.thread_nums, family)
    }

    /// How many threads the calling thread's team has.
    #[inline]
    pub fn team_size(&self, family: Family) -> u32 {
        query(&self.team_sizes, family)
    }

    /// Whether loops with `schedule(runtime)` are dispensed in chunks now.
    pub fn dispenses_runtime_loops(&self, family: Family) -> bool {
        let Some(Some(schedule)) = self.schedules.get(family as usize) else {
            return false;
        };
        let (mut kind, mut chunk) = (0, 0);
        // SAFETY: the function fills in both.
        unsafe { schedule(&raw mut kind, &raw mut chunk) };
        matches!(kind & !MONOTONIC, SCHEDULE_DYNAMIC | SCHEDULE_GUIDED)
    }

    /// The calling thread's schedule for loops that leave it to the environment.
    pub fn run_schedule(&self) -> RunSchedule {
        let mut schedule = RunSchedule { kind: 0, chunk: 0 };
        let function = self.function(Symbol::omp_get_schedule);
        // SAFETY: the function of that name has this type; null becomes `None`.
        let query = unsafe { core::mem::transmute::<*mut c_void, Option<ScheduleQuery>>(function) };
        if let Some(query) = query {
            // SAFETY: both are places for an int.
            unsafe { query(&raw mut schedule.kind, &raw mut schedule.chunk) };
        }
        schedule
    }

    /// What a query answers that takes nothing and returns an int; 0 if the runtime has none of that name.
    pub fn ask(&self, symbol: Symbol) -> c_int {
        // SAFETY: callers name such queries; null becomes `None`.
        let query =
            unsafe { core::mem::transmute::<*mut c_void, Option<Query>>(self.function(symbol)) };
        // SAFETY: likewise.
        query.map_or(0, |query| unsafe { query() })
    }

    /// How many levels of regions may have more than one thread, for the calling thread.
    pub fn active_levels(&self) -> u32 {
        u32::try_from(self.ask(Symbol::omp_get_max_active_levels)).unwrap_or(0)
    }

    /// How many such levels the thread is in, by the runtime's account.
    pub fn active_level(&self) -> u32 {
        u32::try_from(self.ask(Symbol::omp_get_active_level)).unwrap_or(0)
    }

    /// Whether a call with this location or return address comes from libomp itself.
    #[inline]
    pub fn calls_itself(&self, location: usize) -> bool {
        self.kmpc_library
            .as_ref()
            .is_some_and(|library| library.contains(location))
    }

    /// Whether it has what either compiler's code needs, so that no module brings another one.
    pub fn is_complete(&self) -> bool {
        [Family::Gomp, Family::Kmpc]
            .iter()
            .all(|family| !self.function(family.mark()).is_null())
    }
}

/// A schedule as `omp_get_schedule` returns it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunSchedule {
    /// What kind, with the bit for monotonic ones.
    pub kind: c_int,
    /// The size of chunks.
    pub chunk: c_int,
}

fn query(functions: &[Option<Query>; 2], family: Family) -> u32 {
    let Some(Some(function)) = functions.get(family as usize) else {
        return 0;
    };
    // SAFETY: both queries take nothing and return an int, in every runtime.
    u32::try_from(unsafe { function() }).unwrap_or(0)
}

/// Ends the program as the dynamic linker does when a function is missing: the program called a
/// function of an OpenMP runtime, the shim offers it, and there is no runtime behind it.
#[cold]
pub fn missing(symbol: Symbol) -> ! {
    let _ = shielded(|| {
        let name = symbol.name().to_string_lossy();
        writeln!(
            std::io::stderr(),
            "libmapper_omp: symbol lookup error: undefined symbol: {name}"
        )
        .ok()
    });
    // SAFETY: ends the process at once, without running anything of the program's.
    unsafe { libc::_exit(127) }
}

/// Ends the program: a logical thread has come to a function that would do wrong for it.
#[cold]
pub fn refuse(why: &str) -> ! {
    let _ =
        shielded(|| writeln!(std::io::stderr(), "libmapper_omp: {why}; use --teams fixed").ok());
    // SAFETY: ends the process at once, without running anything of the program's.
    unsafe { libc::_exit(127) }
}
