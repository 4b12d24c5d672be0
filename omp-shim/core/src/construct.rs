//! Regions and loops as gcc describes them: the words that the shim's parts use for them.

use core::ffi::{c_long, c_void};

use crate::runtime::{Family, Runtime};
use crate::shared_loop::{self, Span};
use crate::thread_state::ThreadState;

/// The function that gcc makes of a region's body.
pub type Outlined = unsafe extern "C-unwind" fn(*mut c_void);

/// What a region is started with.
#[derive(Clone, Copy)]
pub struct Body {
    /// What every thread calls.
    pub function: Outlined,
    /// With what.
    pub data: *mut c_void,
}

/// How a region begins in a virtual team.
pub enum Form {
    /// It can not be virtual.
    Real,
    /// With its body.
    Body,
    /// Within a loop or sections.
    Within(Loop),
}

/// A region that is about to start.
pub struct Start<'a> {
    /// The thread that meets it.
    pub thread: &'a ThreadState,
    /// Where it will run.
    pub runtime: &'static Runtime,
    /// Which functions of that runtime the region uses.
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
    /// A contiguous part for each thread or, with a chunk, chunks dealt round.
    Static,
    /// Chunks to whoever asks.
    Dynamic,
    /// Chunks that shrink with what is left.
    Guided,
    /// Chunks that grow while they take little time ([`crate::adaptive_schedule`]).
    Adaptive,
}

/// A loop to be divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loop {
    /// First value of the variable, as bits.
    pub start: i64,
    /// The bound that is not reached, as bits.
    pub end: i64,
    /// The increment, as bits.
    pub step: i64,
    /// Iterations in all.
    pub count: u64,
    /// How to divide them.
    pub schedule: Schedule,
    /// Size of chunks; 0 for none given.
    pub chunk: u64,
    /// Bytes of memory, zero at first, that the threads share while they are in it.
    pub memory_bytes: usize,
}

impl Loop {
    /// The same, with so many bytes of memory that its threads share.
    pub fn with_memory(self, memory_bytes: usize) -> Self {
        Self {
            memory_bytes,
            ..self
        }
    }

    /// The same in growing chunks, if it is one that hands chunks to whoever asks and the user wants such.
    pub fn as_wanted(self) -> Self {
        let schedule = match self.schedule {
            Schedule::Dynamic | Schedule::Guided if shared_loop::is_on() => Schedule::Adaptive,
            schedule => schedule,
        };
        Self { schedule, ..self }
    }

    /// Its iterations.
    pub fn span(&self) -> Span {
        Span {
            from: self.start,
            to: self.end,
            increment: self.step,
            count: self.count,
        }
    }

    /// A loop over a signed variable.
    pub fn signed(start: i64, end: i64, step: i64, schedule: Schedule, chunk: i64) -> Self {
        let (from, to, stride) = if step >= 0 {
            (start, end, step.unsigned_abs())
        } else {
            (end, start, step.unsigned_abs())
        };
        let distance = if from < to {
            to.wrapping_sub(from) as u64
        } else {
            0
        };
        Self {
            start,
            end,
            step,
            count: distance.div_ceil(stride.max(1)),
            schedule,
            chunk: u64::try_from(chunk).unwrap_or(0),
            memory_bytes: 0,
        }
    }

    /// A loop over an unsigned variable, which goes `up` or down.
    pub fn unsigned(
        direction: Direction,
        bounds: [u64; 2],
        step: u64,
        schedule: Schedule,
        chunk: u64,
    ) -> Self {
        let [start, end] = bounds;
        let (distance, stride) = match direction {
            Direction::Up => (end.saturating_sub(start), step),
            Direction::Down => (start.saturating_sub(end), step.wrapping_neg()),
        };
        Self {
            start: start as i64,
            end: end as i64,
            step: step as i64,
            count: distance.div_ceil(stride.max(1)),
            schedule,
            chunk,
            memory_bytes: 0,
        }
    }

    /// The sections of a construct: iterations from 1.
    pub fn sections(count: u32) -> Self {
        let end = i64::from(count) + 1;
        Self::signed(1, end, 1, Schedule::Dynamic, 1)
    }
}

/// Which way an unsigned loop goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Towards larger values.
    Up,
    /// Towards smaller ones.
    Down,
}

/// A chunk as the program gets it: the value to start with and the bound not to reach, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// First value.
    pub first: i64,
    /// Bound.
    pub end: i64,
    /// Iterations in it.
    pub iterations: u64,
}

/// Values of `omp_sched_t`, as `omp_get_schedule` returns them.
const STATIC: c_long = 1;
const DYNAMIC: c_long = 2;
const GUIDED: c_long = 3;
/// A bit beside them.
const MONOTONIC: c_long = 0x8000_0000;

/// How a loop is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Division {
    /// The kind.
    pub schedule: Schedule,
    /// Size of chunks; 0 for none given.
    pub chunk: i64,
}

impl Division {
    fn of_kind(kind: c_long, chunk: i64) -> Self {
        match kind & !MONOTONIC {
            DYNAMIC => Self {
                schedule: Schedule::Dynamic,
                chunk,
            },
            GUIDED => Self {
                schedule: Schedule::Guided,
                chunk,
            },
            STATIC => Self {
                schedule: Schedule::Static,
                chunk,
            },
            // Automatic, or unknown: libgomp divides evenly.
            _ => Self {
                schedule: Schedule::Static,
                chunk: 0,
            },
        }
    }

    /// What the calling thread's settings in that runtime say for `schedule(runtime)`; an even one without a runtime.
    pub fn of_settings(runtime: Option<&Runtime>) -> Self {
        runtime.map_or(Self::of_kind(STATIC, 0), Self::by)
    }

    /// The same, in that runtime.
    pub fn by(runtime: &Runtime) -> Self {
        let schedule = runtime.run_schedule();
        let kind = c_long::from(schedule.kind) & 0xffff_ffff;
        Self::of_kind(kind, schedule.chunk.into())
    }
}

/// An unsigned loop as gcc describes it.
pub fn unsigned(up: bool, bounds: [u64; 2], step: u64, division: Division) -> Loop {
    let direction = if up { Direction::Up } else { Direction::Down };
    let chunk = division.chunk as u64;
    Loop::unsigned(direction, bounds, step, division.schedule, chunk)
}
