//! Memory that the threads in a worksharing construct share (`scan`, `lastprivate(conditional:)`): each place for
//! constructs keeps the largest piece that was wanted there.
//!
//! *Invariants.* A piece is aligned to 64 bytes, as libgomp's is at most. Only the thread that sets a construct up
//! changes it, when no thread is in the one before.

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};

pub(super) struct Memory {
    start: AtomicPtr<u8>,
    room: AtomicUsize,
    wanted: AtomicUsize,
}

const ALIGNMENT: usize = 64;

impl Memory {
    pub(super) const fn new() -> Self {
        Self {
            start: AtomicPtr::new(null_mut()),
            room: AtomicUsize::new(0),
            wanted: AtomicUsize::new(0),
        }
    }

    /// Has so many bytes ready, all zero. For the thread that sets the construct up.
    #[inline]
    pub(super) fn provide(&self, bytes: usize) {
        self.wanted.store(bytes, Ordering::Relaxed);
        if bytes > 0 {
            self.clear(bytes);
        }
    }

    #[cold]
    fn clear(&self, bytes: usize) {
        if bytes > self.room.load(Ordering::Relaxed) {
            self.grow(bytes);
        }
        let start = self.start.load(Ordering::Relaxed);
        // SAFETY: there are at least so many bytes, which nobody uses yet.
        unsafe { start.write_bytes(0, bytes) };
    }

    fn grow(&self, bytes: usize) {
        let layout = |bytes| Layout::from_size_align(bytes, ALIGNMENT);
        let Ok(wanted) = layout(bytes.next_multiple_of(ALIGNMENT)) else {
            // More than the address space holds, as no compiler asks for.
            std::process::abort();
        };
        // SAFETY: the size is not zero.
        let start = unsafe { alloc(wanted) };
        if start.is_null() {
            handle_alloc_error(wanted);
        }
        let before = self.start.swap(start, Ordering::Relaxed);
        let room = self.room.swap(wanted.size(), Ordering::Relaxed);
        if let (false, Ok(layout)) = (before.is_null(), layout(room)) {
            // SAFETY: allocated here with that layout; nobody is in the construct that used it.
            unsafe { dealloc(before, layout) };
        }
    }

    pub(super) fn address(&self) -> *mut c_void {
        match self.wanted.load(Ordering::Relaxed) {
            0 => null_mut(),
            _ => self.start.load(Ordering::Relaxed).cast(),
        }
    }
}
