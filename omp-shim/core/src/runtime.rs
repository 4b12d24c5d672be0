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

const SCHEDULE_DYNAMIC: c_int = 2;
const SCHEDULE_GUIDED: c_int = 3;
const MONOTONIC: c_int = c_int::MIN;

#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Queries {
    pub(super) level: Option<Query>,
    pub(super) max_threads: Option<Query>,
    pub(super) thread_num: Option<Query>,
    pub(super) team_size: Option<Query>,
    pub(super) schedule: Option<ScheduleQuery>,
}

/// The real functions, as one module sees them.
#[derive(Debug)]
pub struct Runtime {
    pub(super) functions: [*mut c_void; Symbol::ALL.len()],
    pub(super) queries: [Queries; 2],
    /// The library that offers clang's family.
    pub(super) kmpc_library: Option<Module>,
}

impl Runtime {
    /// A runtime that offers nothing.
    pub fn empty() -> Self {
        Self {
            functions: [null_mut(); Symbol::ALL.len()],
            queries: Default::default(),
            kmpc_library: None,
        }
    }

    #[inline(always)]
    fn query(&self, family: Family, select: impl Fn(&Queries) -> Option<Query>) -> u32 {
        let query = self.queries.get(family as usize).and_then(select);
        // SAFETY: these queries take nothing and return an int, in every runtime.
        query.map_or(0, |query| u32::try_from(unsafe { query() }).unwrap_or(0))
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
        self.query(family, |queries| queries.level)
    }

    /// The team that the next region would get.
    pub fn max_threads(&self, family: Family) -> u32 {
        self.query(family, |queries| queries.max_threads)
    }

    /// The calling thread's number in its team.
    #[inline]
    pub fn thread_num(&self, family: Family) -> u32 {
        self.query(family, |queries| queries.thread_num)
    }

    /// How many threads the calling thread's team has.
    #[inline]
    pub fn team_size(&self, family: Family) -> u32 {
        self.query(family, |queries| queries.team_size)
    }

    /// Whether loops with `schedule(runtime)` are dispensed in chunks now.
    pub fn dispenses_runtime_loops(&self, family: Family) -> bool {
        let queries = self.queries.get(family as usize);
        let schedule = RunSchedule::by(queries.and_then(|queries| queries.schedule));
        matches!(
            schedule.kind & !MONOTONIC,
            SCHEDULE_DYNAMIC | SCHEDULE_GUIDED
        )
    }

    /// The calling thread's setting for `schedule(runtime)`.
    pub fn run_schedule(&self) -> RunSchedule {
        let function = self.function(Symbol::omp_get_schedule);
        // SAFETY: the function of that name has this type; null becomes `None`.
        RunSchedule::by(unsafe {
            core::mem::transmute::<*mut c_void, Option<ScheduleQuery>>(function)
        })
    }

    /// What a query answers that takes nothing and returns an int; 0 if the runtime has none of that name.
    pub fn ask(&self, symbol: Symbol) -> c_int {
        // SAFETY: callers name such queries; null becomes `None`.
        let query =
            unsafe { core::mem::transmute::<*mut c_void, Option<Query>>(self.function(symbol)) };
        // SAFETY: likewise.
        query.map_or(0, |query| unsafe { query() })
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

impl RunSchedule {
    fn by(query: Option<ScheduleQuery>) -> Self {
        let mut schedule = Self { kind: 0, chunk: 0 };
        if let Some(query) = query {
            // SAFETY: both are places for an int.
            unsafe { query(&raw mut schedule.kind, &raw mut schedule.chunk) };
        }
        schedule
    }
}

/// Ends the program as the dynamic linker does: it called a function that the shim offers, without a runtime behind.
#[cold]
pub fn missing(symbol: Symbol) -> ! {
    let name = symbol.name().to_string_lossy();
    end(format_args!(
        "symbol lookup error: undefined symbol: {name}"
    ))
}

/// Ends the program: a logical thread called a function that would give it wrong results.
#[cold]
pub fn refuse(why: &str) -> ! {
    end(format_args!("{why}; use --teams fixed"))
}

fn end(message: core::fmt::Arguments<'_>) -> ! {
    let _ = shielded(|| writeln!(std::io::stderr(), "libmapper_omp: {message}").ok());
    // SAFETY: ends the process without running any code of the program.
    unsafe { libc::_exit(127) }
}
