//! What the shim knows about the calling thread.
//!
//! *Approach.* Every chunk of a dynamic loop needs it, and a `thread_local!` of a shared object costs a call of
//! `__tls_get_addr`. So it is a thread-local block, declared in assembly and addressed by the *initial-exec* model: one
//! load and one addition. That needs a library that is present at program start. Where libomp loads the shim later as a
//! tool, the block has to fit into what the loader reserves.
//!
//! *Invariants.* All-zero bytes are the state of a thread that never called. Only the thread itself uses its state.
//! `caller` is at offset 0, where the entry stubs store it.

use core::cell::Cell;
use core::ffi::c_void;
use core::mem::{align_of, offset_of, size_of};
use core::ptr::NonNull;

use mapper_abi::layout::ThreadSlot;

use crate::runtime::Runtime;

/// The address of something whose type its owner knows.
pub type Owned = NonNull<c_void>;

/// A logical thread of a team that the shim runs itself; what it is, those who run the team know.
pub type Logical = NonNull<c_void>;

/// The calling thread's state.
#[repr(C, align(64))]
pub struct ThreadState {
    /// Return address of the exported function called last, noted by its entry stub.
    pub caller: Cell<usize>,
    /// Iterations of the chunk being executed, not yet counted.
    pub pending: Cell<u64>,
    /// Where the thread counts.
    pub slot: Cell<Option<&'static ThreadSlot>>,
    /// The loop's increment minus one. Not beside `pending`: both copied as one would be a load of 16 bytes after two
    /// stores of 8, which waits until these have reached the cache.
    pub stride_less_one: Cell<i64>,
    /// Whether others count there too.
    pub slot_is_shared: Cell<bool>,
    /// The thread called `omp_set_num_threads` outside any region.
    pub has_set_num_threads: Cell<bool>,
    /// A `num_threads` clause was announced for the next libomp region.
    pub clause_announced: Cell<bool>,
    /// The iterations of the next libomp loop wait for one another.
    pub loop_is_doacross: Cell<bool>,
    /// Regions that may still end before the time is noted again.
    pub regions_to_stamp: Cell<u8>,
    /// How many ended so the last time.
    pub regions_skipped: Cell<u8>,
    /// The thread's number in its team while it is in a dispensed loop; else 0, the thread that never parks.
    pub rank: Cell<u32>,
    /// Since when it takes chunks of that loop without a CPU ([`crate::waiting::loop_length`]); else 0.
    pub passes_since_us: Cell<u32>,
    /// `omp_get_max_threads()` before the thread's first outermost region.
    pub initial_max_threads: Cell<u32>,
    /// The runtime of the outermost region begun last; none before the first.
    pub home_runtime: Cell<Option<&'static Runtime>>,
    /// The runtime whose regions take the routine path: the thread has a slot of its own, and the allocation suffices.
    pub settled_runtime: Cell<Option<&'static Runtime>>,
    /// The sequence number of the allocation of which that is true.
    pub settled_sequence: Cell<u32>,
    /// The runtime that was met last, for calls whose origin is not known.
    pub last_runtime: Cell<Option<&'static Runtime>>,
    /// Lowest address of the module whose runtime was looked up last.
    pub route_start: Cell<usize>,
    /// Length of that module; 0 when none was looked up.
    pub route_len: Cell<usize>,
    /// Its runtime.
    pub route_runtime: Cell<Option<&'static Runtime>>,
    /// The team record that it is part of.
    pub record: Cell<Option<Owned>>,
    /// The loop that it takes chunks of, where those grow.
    pub shared_loop: Cell<Option<Owned>>,
    /// Dispensed loops that it has begun in this region.
    pub loops_begun: Cell<u32>,
    /// The member of the virtual team that it is, outside real regions within.
    pub member: Cell<Option<Logical>>,
    /// The member of a virtual team that began the real region it is in.
    pub outer: Cell<Option<Logical>>,
}

/// A zeroed block of the calling thread's own storage. Zeros must be a valid value; the type must not be `Sync`.
#[macro_export]
macro_rules! thread_block {
    ($(#[$doc:meta])* $visibility:vis $name:ident: $type:ty, $symbol:literal) => {
        core::arch::global_asm!(
            concat!(".pushsection .tbss.", $symbol, ",\"awT\",@nobits"),
            ".balign {align}",
            concat!(".globl ", $symbol),
            concat!(".hidden ", $symbol),
            concat!(".type ", $symbol, ",@object"),
            concat!(".size ", $symbol, ",{bytes}"),
            concat!($symbol, ": .zero {bytes}"),
            ".popsection",
            align = const core::mem::align_of::<$type>(),
            bytes = const core::mem::size_of::<$type>(),
        );

        $(#[$doc])*
        #[inline(always)]
        $visibility fn $name() -> &'static $type {
            let address: *const $type;
            // SAFETY: reads the thread pointer (which the ABI keeps at fs:0) and a constant offset; changes
            // nothing but the register and the flags.
            unsafe {
                core::arch::asm!(
                    concat!("mov {0}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                    "add {0}, qword ptr fs:[0]",
                    out(reg) address,
                    options(nostack, readonly),
                );
            }
            // SAFETY: the block has the size and alignment of the type, lives as long as the thread and starts
            // zeroed, which is a valid value. The type is not `Sync`, so that the reference stays with the thread.
            unsafe { &*address }
        }
    };
}
pub use thread_block;

const BYTES: usize = 192;

const _: () = {
    assert!(offset_of!(ThreadState, caller) == 0);
    assert!(size_of::<ThreadState>() == BYTES);
    assert!(align_of::<ThreadState>() == 64);
};

thread_block! {
    /// The state of the calling thread. The reference must not be kept across a change of the thread pointer.
    pub current: ThreadState, "mapper_omp_thread"
}

/// The state of the thread with that thread pointer.
///
/// # Safety
/// It is one, and has not ended. As long as the reference is used, nobody else uses that state.
pub unsafe fn of_thread(thread_pointer: usize) -> &'static ThreadState {
    let offset: usize;
    // SAFETY: reads a constant; changes nothing but the register.
    unsafe {
        core::arch::asm!(
            "mov {0}, qword ptr [rip + mapper_omp_thread@GOTTPOFF]",
            out(reg) offset,
            options(nostack, readonly, preserves_flags),
        );
        // SAFETY: the caller vouches for the thread, which has its block there as `current` says.
        &*(thread_pointer.wrapping_add(offset) as *const ThreadState)
    }
}

/// The instructions by which a stub notes its return address. They use r10 and r11, which carry no arguments.
#[macro_export]
macro_rules! note_caller {
    () => {
        "mov r11, qword ptr [rip + mapper_omp_thread@GOTTPOFF]
         mov r10, qword ptr [rsp]
         mov qword ptr fs:[r11], r10"
    };
}
pub use note_caller;

impl ThreadState {
    /// Saves the loop around a region, so that loops inside do not disturb it.
    pub fn enter_region(&self) -> LoopState {
        let outer = LoopState {
            pending: self.pending.get(),
            stride_less_one: self.stride_less_one.get(),
        };
        self.leave_region(LoopState::default());
        outer
    }

    /// Whether the shim dispenses the loops that the thread meets: one test for two pointers.
    #[inline(always)]
    pub fn has_loops_of_its_own(&self) -> bool {
        let address = |owned: Option<Owned>| owned.map_or(0, |owned| owned.as_ptr() as usize);
        address(self.member.get()) | address(self.shared_loop.get()) != 0
    }

    /// Whether the thread is executing a chunk of a dispensed loop.
    #[inline(always)]
    pub fn is_in_loop(&self) -> bool {
        self.pending.get() as i64 | self.stride_less_one.get() != 0
    }

    /// Puts back what [`enter_region`](Self::enter_region) saved.
    pub fn leave_region(&self, outer: LoopState) {
        self.pending.set(outer.pending);
        self.stride_less_one.set(outer.stride_less_one);
    }
}

/// The loop that a thread is executing.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct LoopState {
    pending: u64,
    stride_less_one: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "has inline assembly")]
    fn every_thread_starts_with_a_state_of_its_own() {
        current().pending.set(5);
        let other = std::thread::spawn(|| current().pending.get())
            .join()
            .unwrap();
        assert_eq!((current().pending.get(), other), (5, 0));
        current().pending.set(0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "has inline assembly")]
    fn a_region_within_a_loop_leaves_the_loop_as_it_was() {
        let thread = current();
        thread.pending.set(3);
        thread.stride_less_one.set(1);
        let outer = thread.enter_region();
        assert_eq!((thread.pending.get(), thread.stride_less_one.get()), (0, 0));
        thread.pending.set(9);
        thread.leave_region(outer);
        assert_eq!((thread.pending.get(), thread.stride_less_one.get()), (3, 1));
        thread.leave_region(LoopState::default());
    }
}
