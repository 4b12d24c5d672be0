//! Leaving one flow of control and continuing another: stack, callee-saved registers, floating-point
//! modes and the thread pointer.
//!
//! *Problem.* A logical thread of a virtual team has a stack and thread-local storage of its own, and
//! runs now on this OS thread, now on that one.
//!
//! *Approach.* What the System V ABI lets a function destroy need not be kept, since the change
//! happens inside one. The rest goes onto the stack that is left; a suspended context is its stack
//! pointer. The thread pointer is the base of `fs`: set by one instruction where the kernel allows it
//! (Linux 5.9 on CPUs with FSGSBASE), else by a system call.
//!
//! *Invariants.* A context is continued at most once each time it was left, and only after the store
//! of its stack pointer is visible to whoever continues it. Stack-protector and pointer guards lie in
//! thread-local storage but are the same in all threads of a process, so code compiled with them may
//! change contexts.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A suspended flow of control: its stack pointer.
pub(super) type Saved = AtomicUsize;

/// A thread pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ThreadPointer(pub(super) usize);

core::arch::global_asm!(
    ".pushsection .text.mapper_virtual_team,\"ax\",@progbits",
    // mapper_switch(save, to, thread_pointer)
    ".balign 64",
    ".hidden mapper_switch",
    ".globl mapper_switch",
    ".type mapper_switch,@function",
    "mapper_switch:",
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "sub rsp, 8",
    "stmxcsr dword ptr [rsp]",
    "fnstcw word ptr [rsp + 4]",
    "mov eax, dword ptr [rsp]",
    "movzx ecx, word ptr [rsp + 4]",
    "mov qword ptr [rdi], rsp",
    "mov rsp, rsi",
    "wrfsbase rdx",
    // Changing a mode costs more than asking whether it differs. MXCSR holds flags that every
    // inexact result sets, too; they are each thread's own.
    "2:",
    "cmp eax, dword ptr [rsp]",
    "jne 3f",
    "4:",
    "cmp cx, word ptr [rsp + 4]",
    "jne 5f",
    "6:",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
    "3:",
    "ldmxcsr dword ptr [rsp]",
    "jmp 4b",
    "5:",
    "fldcw word ptr [rsp + 4]",
    "jmp 6b",
    ".size mapper_switch,.-mapper_switch",
    // The same by arch_prctl(ARCH_SET_FS, thread_pointer).
    ".balign 64",
    ".hidden mapper_switch_by_kernel",
    ".globl mapper_switch_by_kernel",
    ".type mapper_switch_by_kernel,@function",
    "mapper_switch_by_kernel:",
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "sub rsp, 8",
    "stmxcsr dword ptr [rsp]",
    "fnstcw word ptr [rsp + 4]",
    "mov ebx, dword ptr [rsp]",
    "movzx ebp, word ptr [rsp + 4]",
    "mov qword ptr [rdi], rsp",
    "mov rsp, rsi",
    "mov rsi, rdx",
    "mov edi, 0x1002",
    "mov eax, 158",
    "syscall",
    "mov eax, ebx",
    "mov ecx, ebp",
    "jmp 2b",
    ".size mapper_switch_by_kernel,.-mapper_switch_by_kernel",
    // Where a new context begins: its argument is in rbx, what it runs in r12. There is no caller,
    // and the unwinder is told so.
    ".balign 16",
    ".hidden mapper_context_start",
    ".globl mapper_context_start",
    ".type mapper_context_start,@function",
    "mapper_context_start:",
    ".cfi_startproc",
    ".cfi_undefined rip",
    "mov rdi, rbx",
    "call r12",
    "ud2",
    ".cfi_endproc",
    ".size mapper_context_start,.-mapper_context_start",
    ".popsection",
);

unsafe extern "C-unwind" {
    fn mapper_switch(save: *mut usize, to: usize, thread_pointer: usize);
    fn mapper_switch_by_kernel(save: *mut usize, to: usize, thread_pointer: usize);
    fn mapper_context_start();
}

/// The thread pointer can be set without the kernel.
static HAS_FSGSBASE: AtomicBool = AtomicBool::new(false);

/// Finds out how to set the thread pointer; to be called before the first switch.
pub(super) fn prepare() {
    const HWCAP2_FSGSBASE: u64 = 2;
    // SAFETY: only asks for a number that the kernel gave at start.
    let capabilities = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    HAS_FSGSBASE.store(capabilities & HWCAP2_FSGSBASE != 0, Ordering::Relaxed);
}

/// The calling thread's thread pointer. The ABI keeps it at `fs:0`.
pub(super) fn thread_pointer() -> ThreadPointer {
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

/// Leaves the present context for another; returns when somebody continues it.
///
/// # Safety
/// `to` was left by `switch` or made by [`fresh`] and not continued since; its stack is not in use.
/// `thread_pointer` is that of the thread whose context it is, which nobody else runs under, and that
/// thread has not ended.
#[inline(always)]
pub(super) unsafe fn switch(save: &Saved, to: usize, thread_pointer: ThreadPointer) {
    if HAS_FSGSBASE.load(Ordering::Relaxed) {
        // SAFETY: as the caller promises; all registers that the ABI has callees keep are kept.
        unsafe { mapper_switch(save.as_ptr(), to, thread_pointer.0) };
    } else {
        // SAFETY: likewise.
        unsafe { mapper_switch_by_kernel(save.as_ptr(), to, thread_pointer.0) };
    }
}

/// Floating-point modes: MXCSR in the low half, the x87 control word above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Modes(pub(super) u64);

/// Those of the calling thread.
pub(super) fn modes() -> Modes {
    let (mut mxcsr, mut control_word) = (0_u32, 0_u16);
    // SAFETY: both store their register and change nothing else.
    unsafe {
        core::arch::asm!(
            "stmxcsr dword ptr [{0}]",
            "fnstcw word ptr [{1}]",
            in(reg) &raw mut mxcsr,
            in(reg) &raw mut control_word,
            options(nostack, preserves_flags),
        );
    }
    Modes(u64::from(mxcsr) | u64::from(control_word) << 32)
}

/// Sets those of the calling thread, for the program's code.
pub(super) fn set_modes(wanted: Modes) {
    if wanted == modes() {
        return;
    }
    let Modes(bits) = wanted;
    // SAFETY: `modes` has read these values from the registers. They take effect in the program's
    // code; the shim does no floating-point arithmetic.
    unsafe {
        core::arch::asm!(
            "ldmxcsr dword ptr [{0}]",
            "fldcw word ptr [{0} + 4]",
            in(reg) &raw const bits,
            options(nostack, preserves_flags),
        );
    }
}

/// A context that will call `start(argument)` on the stack that ends at `stack_top`, under these
/// floating-point modes; `start` must not return.
///
/// # Safety
/// The 128 bytes below `stack_top` are writable and not in use.
pub(super) unsafe fn fresh(
    stack_top: usize,
    Modes(modes): Modes,
    start: unsafe extern "C-unwind" fn(*const c_void) -> !,
    argument: *const c_void,
) -> usize {
    // As `mapper_switch` pops them: modes, r15, r14, r13, r12, rbx, rbp, return address. Once these
    // are gone the stack is aligned to 16, as before a call.
    let frame = [
        modes,
        0,
        0,
        0,
        start as usize as u64,
        argument as u64,
        0,
        mapper_context_start as *const () as u64,
        0,
        0,
    ];
    let top = stack_top & !63;
    let bottom = top - size_of_val(&frame);
    // SAFETY: the caller vouches for the place; 80 bytes below a multiple of 64 is a multiple of 8.
    unsafe { (bottom as *mut [u64; 10]).write(frame) };
    bottom
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    struct PingPong {
        home: Saved,
        away: Saved,
        turns: Cell<u32>,
    }

    unsafe extern "C-unwind" fn count(argument: *const c_void) -> ! {
        // SAFETY: the test passes a `PingPong` that outlives the context.
        let shared = unsafe { &*argument.cast::<PingPong>() };
        loop {
            shared.turns.set(shared.turns.get() + 1);
            // SAFETY: the test's context waits in `switch`.
            unsafe {
                switch(
                    &shared.away,
                    shared.home.load(Ordering::Relaxed),
                    thread_pointer(),
                );
            }
        }
    }

    #[test]
    fn a_context_continues_where_it_was_left() {
        prepare();
        let mut stack = vec![0_u64; 8192];
        let top = stack.as_mut_ptr_range().end as usize;
        let shared = PingPong {
            home: Saved::new(0),
            away: Saved::new(0),
            turns: Cell::new(0),
        };
        // SAFETY: the stack is large enough and lives until the end of the test.
        let start = unsafe { fresh(top, modes(), count, (&raw const shared).cast()) };
        shared.away.store(start, Ordering::Relaxed);
        for turn in 1..=3 {
            // SAFETY: the other context is either new or waits in `switch`.
            unsafe {
                switch(
                    &shared.home,
                    shared.away.load(Ordering::Relaxed),
                    thread_pointer(),
                );
            }
            assert_eq!(shared.turns.get(), turn);
        }
    }
}
