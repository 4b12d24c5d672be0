//! Chunks of loops as the program gets them, from what runs logical threads.

use core::ffi::{c_long, c_ulonglong};

use crate::construct::{Chunk, Division, Loop};
use crate::features::features;
use crate::progress;
use crate::thread_state::{self, ThreadState};

/// The type of a loop's variable, whose values are kept as bits.
pub trait Bound: Copy {
    /// The value whose bits these are.
    fn from_bits(bits: i64) -> Self;
    /// Its bits.
    fn bits(self) -> i64;
    /// A loop over such a variable; `up` says which way an unsigned one goes.
    fn work(up: bool, bounds: [Self; 2], increment: Self, division: Division) -> Loop;
}

impl Bound for c_long {
    #[inline(always)]
    fn from_bits(bits: i64) -> Self {
        bits
    }

    #[inline(always)]
    fn bits(self) -> i64 {
        self
    }

    fn work(_: bool, [from, to]: [Self; 2], increment: Self, division: Division) -> Loop {
        Loop::signed(from, to, increment, division)
    }
}

impl Bound for c_ulonglong {
    #[inline(always)]
    fn from_bits(bits: i64) -> Self {
        bits as u64
    }

    #[inline(always)]
    fn bits(self) -> i64 {
        self as i64
    }

    fn work(up: bool, bounds: [Self; 2], increment: Self, division: Division) -> Loop {
        Loop::unsigned(up, bounds, increment, division)
    }
}

/// Where to put a chunk's bounds.
#[derive(Clone, Copy)]
pub struct Bounds<T> {
    /// For the value to start with.
    pub first: *mut T,
    /// For the bound not to reach.
    pub end: *mut T,
}

/// Hands a chunk to the program; returns whether there was one.
///
/// # Safety
/// The bounds can be written.
#[inline]
pub unsafe fn hand_out<T: Bound>(
    thread: &ThreadState,
    chunk: Option<Chunk>,
    bounds: Bounds<T>,
) -> bool {
    let Some(chunk) = chunk else {
        progress::loop_done(thread);
        return false;
    };
    thread.pending.set(chunk.iterations);
    // SAFETY: the caller vouches for the places.
    unsafe {
        bounds.first.write(T::from_bits(chunk.first));
        bounds.end.write(T::from_bits(chunk.end));
    }
    true
}

/// Hands out the next chunk of the loop that the calling logical thread is in.
///
/// # Safety
/// The bounds can be written.
#[inline]
pub unsafe fn next<T: Bound>(thread: &ThreadState, bounds: Bounds<T>) -> bool {
    progress::chunk_done(thread);
    // SAFETY: as the caller promises.
    unsafe { hand_out(thread, (features().teams.next_chunk)(thread), bounds) }
}

/// Has the calling logical thread begin a loop; hands out its first chunk.
///
/// # Safety
/// The bounds can be written.
#[inline]
pub unsafe fn start<T: Bound>(describe: &dyn Fn() -> Loop, bounds: Bounds<T>) -> bool {
    let chunk = (features().teams.enter_loop)(describe);
    // The thread that entered may have been suspended meanwhile.
    // SAFETY: as the caller promises.
    unsafe { hand_out(thread_state::current(), chunk, bounds) }
}
