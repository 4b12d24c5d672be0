//! Chunks of loops as the program gets them, from those who run logical threads.

use core::ffi::{c_long, c_ulonglong};

use crate::construct::{Chunk, Loop};
use crate::features::features;
use crate::progress;
use crate::thread_state::{self, ThreadState};

/// A loop bound, as bits.
pub trait Bound: Copy {
    /// The value whose bits these are.
    fn from_bits(bits: i64) -> Self;
}

impl Bound for c_long {
    #[inline(always)]
    fn from_bits(bits: i64) -> Self {
        bits
    }
}

impl Bound for c_ulonglong {
    #[inline(always)]
    fn from_bits(bits: i64) -> Self {
        bits as u64
    }
}

/// Where to put a chunk's bounds.
#[derive(Clone, Copy)]
pub struct Bounds<T> {
    /// For the first value.
    pub first: *mut T,
    /// For the bound.
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

/// The next chunk of the loop that the thread is in, which is a logical one.
///
/// # Safety
/// The bounds can be written.
#[inline]
pub unsafe fn next<T: Bound>(thread: &ThreadState, bounds: Bounds<T>) -> bool {
    progress::chunk_done(thread);
    // SAFETY: as the caller promises.
    unsafe { hand_out(thread, (features().teams.next_chunk)(thread), bounds) }
}

/// Has the calling thread, a logical one, begin a loop; hands out its first chunk.
///
/// # Safety
/// The bounds can be written.
#[inline]
pub unsafe fn start<T: Bound>(describe: &dyn Fn() -> Loop, bounds: Bounds<T>) -> bool {
    let chunk = (features().teams.enter_loop)(describe);
    // The thread that entered may have given way meanwhile.
    // SAFETY: as the caller promises.
    unsafe { hand_out(thread_state::current(), chunk, bounds) }
}
