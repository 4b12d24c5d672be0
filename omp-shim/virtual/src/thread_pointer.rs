//! The thread pointer: the base of `fs`, below and above which a thread's storage lies. Code that sets it must not use
//! what it has read of the calling thread's state before.
//!
//! `errno` lies at the same distance from it in all threads, since the C library is there from the start. Its value
//! belongs to the context, not to the storage: it is taken along where one changes without the other.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use mapper_shim_core::thread_state::{self, ThreadState};

use super::{c_library, kernel};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ThreadPointer(pub(super) usize);

/// Where a suspended context has `errno`, from its stack pointer: behind MXCSR and the x87 control word.
const FRAME_ERRNO: usize = 8;

pub(super) static HAS_FSGSBASE: AtomicBool = AtomicBool::new(false);

/// The distance of `errno`. While it is not known, the thread pointer itself is read, and only read.
pub(super) static ERRNO_OFFSET: AtomicUsize = AtomicUsize::new(0);

/// Finds out how to set the thread pointer, and where `errno` is; to be called before the first switch.
pub(super) fn prepare() {
    const HWCAP2_FSGSBASE: u64 = 2;
    // SAFETY: only asks for a number that the kernel gave at start.
    let capabilities = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    HAS_FSGSBASE.store(capabilities & HWCAP2_FSGSBASE != 0, Ordering::Relaxed);
    let errno = c_library::errno() as usize;
    ERRNO_OFFSET.store(errno.wrapping_sub(current().0), Ordering::Relaxed);
}

pub(super) fn knows_errno() -> bool {
    core::ptr::eq(current().errno(), c_library::errno())
}

impl ThreadPointer {
    pub(super) fn errno(self) -> *mut c_int {
        self.0.wrapping_add(ERRNO_OFFSET.load(Ordering::Relaxed)) as *mut c_int
    }

    /// Makes the value of `errno` in a context that is suspended that of this thread. Safety: the thread has not ended
    /// and nobody runs under its thread pointer but while parked; `context` is suspended.
    pub(super) unsafe fn take_errno(self, context: usize) {
        // SAFETY: as the caller promises; every frame has the value there.
        unsafe {
            let value = ((context + FRAME_ERRNO) as *const c_int).read();
            self.errno().write(value);
        }
    }

    /// Makes that of the calling thread its own. Safety: as for [`take_errno`](Self::take_errno).
    pub(super) unsafe fn copy_errno(self) {
        // SAFETY: as the caller promises; the other one is the calling thread's.
        unsafe { self.errno().write(current().errno().read()) };
    }

    /// Makes its own that of the calling thread. Safety: as for [`take_errno`](Self::take_errno).
    pub(super) unsafe fn lend_errno(self) {
        // SAFETY: as the caller promises; the other one is the calling thread's.
        unsafe { current().errno().write(self.errno().read()) };
    }

    /// The thread's state. Safety: the thread has not ended and is not in the shim while the reference is kept.
    pub(super) unsafe fn state(self) -> &'static ThreadState {
        // SAFETY: as the caller promises.
        unsafe { thread_state::of_thread(self.0) }
    }

    /// Has the calling thread go on under this thread pointer, with the value that `errno` has now. Safety: as for
    /// [`switch`]. References to what is the calling thread's own must not be used any more.
    #[inline(never)]
    pub(super) unsafe fn put_in_force(self) {
        // SAFETY: as the caller promises; only this function's own code runs in between.
        unsafe {
            self.copy_errno();
            self.put_in_force_bare();
        }
    }

    /// The same without touching any `errno`. Safety: as for [`put_in_force`](Self::put_in_force), but others may run
    /// under it as long as they touch other things.
    #[inline(always)]
    pub(super) unsafe fn put_in_force_bare(self) {
        // SAFETY: as the caller promises.
        unsafe {
            if HAS_FSGSBASE.load(Ordering::Relaxed) {
                core::arch::asm!("wrfsbase {}", in(reg) self.0, options(nostack));
            } else {
                kernel::set_thread_pointer(self.0);
            }
        }
    }
}

/// The calling thread's thread pointer. The ABI keeps it at `fs:0`.
pub(super) fn current() -> ThreadPointer {
    let pointer: usize;
    // SAFETY: reads a word that every thread has.
    unsafe {
        core::arch::asm!(
            "mov {}, qword ptr fs:[0]",
            out(reg) pointer,
            options(nostack, readonly, preserves_flags),
        );
    }
    ThreadPointer(pointer)
}
