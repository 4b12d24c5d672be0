//! Regions and loops as gcc describes them.

use core::ffi::{c_long, c_void};

use crate::runtime::{Family, Runtime};
use crate::shared_loop::{self, Span};
use crate::thread_state::ThreadState;

/// The function that gcc makes of a region's body.
pub type Outlined = unsafe extern "C-unwind" fn(*mut c_void);

/// What a region runs.
#[derive(Clone, Copy)]
pub struct Body {
    /// What every thread calls.
    pub function: Outlined,
    /// The argument.
    pub data: *mut c_void,
}

/// How a region begins in a virtual team.
#[derive(Clone, Copy)]
pub enum Form {
    /// It must not be virtual.
    Real,
    /// With its body.
    Body,
    /// Within a loop or sections.
    Within(Loop),
}

/// A region that is about to start.
pub struct Start<'a> {
    /// The thread that begins it.
    pub thread: &'a ThreadState,
    /// Where it will run.
    pub runtime: &'static Runtime,
    /// The interface that it uses.
    pub family: Family,
    /// The outlined function.
    pub function: usize,
    /// `num_threads` as the compiler passes it.
    pub asked: u32,
}

/// How iterations are divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Schedule {
    /// A contiguous part for each thread or, with a chunk size, chunks in turn.
    Static,
    /// Chunks on request.
    Dynamic,
    /// Chunks that shrink with what is left.
    Guided,
    /// Chunks that grow while they take little time ([`crate::adaptive_schedule`]).
    Adaptive,
}

impl Schedule {
    /// The schedule of a value of `omp_sched_t` or of gcc's generic starts; none for automatic or unknown ones.
    pub const fn of_kind(kind: c_long) -> Option<Self> {
        // Without the bit for monotonic ones.
        match kind & 0x7fff_ffff {
            1 => Some(Self::Static),
            2 => Some(Self::Dynamic),
            3 => Some(Self::Guided),
            _ => None,
        }
    }

    /// This schedule with chunks of that size; 0 for none given.
    pub const fn by(self, chunk: i64) -> Division {
        Division {
            schedule: self,
            chunk,
        }
    }
}

/// A loop to be divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loop {
    /// Its iterations.
    pub span: Span,
    /// How to divide them.
    pub schedule: Schedule,
    /// Size of chunks; 0 for none given.
    pub chunk: u64,
    /// Bytes of memory, zero at first, that its threads share.
    pub memory_bytes: usize,
}

impl Loop {
    /// The same with memory that its threads share.
    pub fn with_memory(self, memory_bytes: usize) -> Self {
        Self {
            memory_bytes,
            ..self
        }
    }

    /// The same in growing chunks, if it hands chunks out on request and the user wants such.
    pub fn as_wanted(self) -> Self {
        let schedule = match self.schedule {
            Schedule::Dynamic | Schedule::Guided if shared_loop::is_on() => Schedule::Adaptive,
            schedule => schedule,
        };
        Self { schedule, ..self }
    }

    /// A loop over a signed variable.
    pub fn signed(start: i64, end: i64, step: i64, division: Division) -> Self {
        let runs = if step >= 0 { start < end } else { start > end };
        Self {
            span: Span::until(start, end, step, runs),
            schedule: division.schedule,
            chunk: u64::try_from(division.chunk).unwrap_or(0),
            memory_bytes: 0,
        }
    }

    /// A loop over an unsigned variable, which goes `up` or down.
    pub fn unsigned(up: bool, [start, end]: [u64; 2], step: u64, division: Division) -> Self {
        let (distance, stride) = match up {
            true => (end.saturating_sub(start), step),
            false => (start.saturating_sub(end), step.wrapping_neg()),
        };
        Self {
            span: Span {
                from: start as i64,
                to: end as i64,
                increment: step as i64,
                count: distance.div_ceil(stride.max(1)),
            },
            schedule: division.schedule,
            chunk: division.chunk as u64,
            memory_bytes: 0,
        }
    }

    /// The sections of a construct: iterations from 1.
    pub fn sections(count: u32) -> Self {
        Self::signed(1, i64::from(count) + 1, 1, Schedule::Dynamic.by(1))
    }
}

/// A chunk as the program gets it, as bits: the value to start with and the bound not to reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// First value.
    pub first: i64,
    /// Bound.
    pub end: i64,
    /// Iterations in it.
    pub iterations: u64,
}

impl From<shared_loop::Chunk> for Chunk {
    fn from(chunk: shared_loop::Chunk) -> Self {
        Self {
            first: chunk.first,
            end: chunk.end,
            iterations: chunk.count,
        }
    }
}
/// How a loop is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Division {
    /// The kind.
    pub schedule: Schedule,
    /// Size of chunks; 0 for none given.
    pub chunk: i64,
}

impl Division {
    /// The division of `schedule(runtime)` by the calling thread's settings in that runtime; even without one.
    pub fn of_settings(runtime: Option<&Runtime>) -> Self {
        runtime.map_or(Schedule::Static.by(0), Self::by)
    }

    /// The same in a known runtime.
    pub fn by(runtime: &Runtime) -> Self {
        let schedule = runtime.run_schedule();
        match Schedule::of_kind(schedule.kind.into()) {
            Some(known) => known.by(schedule.chunk.into()),
            // libgomp divides evenly.
            None => Schedule::Static.by(0),
        }
    }
}
