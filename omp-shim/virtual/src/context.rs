//! Leaving one flow of control and continuing another: stack, callee-saved registers, floating-point modes, `errno` and
//! the thread pointer.
//!
//! *Approach.* What the System V ABI lets a function destroy need not be kept. The rest goes onto the stack that is
//! left; a suspended context is its stack pointer. The thread pointer is the base of `fs`, set by one instruction
//! (Linux 5.9, FSGSBASE), else by a system call. With shared storage it stays, and `errno` is changed instead, which
//! each context keeps on its stack. Rarely used state is kept only for programs that look at it (`preserved`). Others
//! may continue the context that was left once its stack is not in use any more: see [`HandOff`].
//!
//! *Invariants.* A context is continued at most once each time it was left, and only after the store of its stack
//! pointer is visible. Stack-protector and pointer guards are the same in all threads of a process.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::block::{Carrier, landed};
use super::preserved::{self, Preserved};
use super::thread_pointer::{ERRNO_OFFSET, HAS_FSGSBASE, ThreadPointer};

/// A suspended flow of control: its stack pointer.
pub(super) type Saved = AtomicUsize;

/// Saves a context; its stack pointer at rdi. r9 becomes the offset of `errno`, eax MXCSR, r11w the control word.
macro_rules! leave {
    () => {
        "push rbp
         push rbx
         push r12
         push r13
         push r14
         push r15
         sub rsp, 24
         mov r9, qword ptr [rip + {errno_offset}]
         stmxcsr dword ptr [rsp]
         fnstcw word ptr [rsp + 4]
         mov r10d, dword ptr fs:[r9]
         mov dword ptr [rsp + 8], r10d
         mov eax, dword ptr [rsp]
         movzx r11d, word ptr [rsp + 4]
         mov qword ptr [rdi], rsp"
    };
}

core::arch::global_asm!(
    ".pushsection .text.mapper_virtual_team,\"ax\",@progbits",
    // mapper_switch(save, to, thread_pointer, busy, landed): to a context with storage of its own.
    ".balign 64",
    ".hidden mapper_switch",
    ".globl mapper_switch",
    ".type mapper_switch,@function",
    "mapper_switch:",
    leave!(),
    "mov rsp, rsi",
    "wrfsbase rdx",
    // Changing a mode costs more than comparing. MXCSR also holds flags of inexact results, which are each thread's own.
    "2:",
    "cmp eax, dword ptr [rsp]",
    "jne 3f",
    "4:",
    "cmp r11w, word ptr [rsp + 4]",
    "jne 5f",
    "6:",
    "test r8, r8",
    "jnz 7f",
    "mov byte ptr [rcx], 0",
    "8:",
    "add rsp, 24",
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
    // The stack is aligned as before a call, and all that is to be kept lies on it.
    "7:",
    "mov rdi, r8",
    "call {landed}",
    "jmp 8b",
    ".size mapper_switch,.-mapper_switch",
    // The same to a context that uses the storage in force, whose `errno` becomes its own.
    ".balign 64",
    ".hidden mapper_switch_within_storage",
    ".globl mapper_switch_within_storage",
    ".type mapper_switch_within_storage,@function",
    "mapper_switch_within_storage:",
    leave!(),
    "mov rsp, rsi",
    "mov r10d, dword ptr [rsp + 8]",
    "mov dword ptr fs:[r9], r10d",
    "cmp eax, dword ptr [rsp]",
    "jne 3b",
    "cmp r11w, word ptr [rsp + 4]",
    "jne 5b",
    "test r8, r8",
    "jnz 7b",
    "mov byte ptr [rcx], 0",
    "add rsp, 24",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
    ".size mapper_switch_within_storage,.-mapper_switch_within_storage",
    // As mapper_switch, by arch_prctl(ARCH_SET_FS, thread_pointer).
    ".balign 64",
    ".hidden mapper_switch_by_kernel",
    ".globl mapper_switch_by_kernel",
    ".type mapper_switch_by_kernel,@function",
    "mapper_switch_by_kernel:",
    leave!(),
    "mov rsp, rsi",
    "mov ebx, eax",
    "mov ebp, r11d",
    "mov r12, rcx",
    "mov rsi, rdx",
    "mov edi, 0x1002",
    "mov eax, 158",
    "syscall",
    "mov rcx, r12",
    "mov eax, ebx",
    "mov r11d, ebp",
    "jmp 2b",
    ".size mapper_switch_by_kernel,.-mapper_switch_by_kernel",
    // Where a new context begins: rbx is its argument, r12 what it runs. There is no caller.
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
    errno_offset = sym ERRNO_OFFSET,
    landed = sym landed,
);

unsafe extern "C-unwind" {
    fn mapper_switch(
        save: *mut usize,
        to: usize,
        thread_pointer: usize,
        busy: *mut bool,
        landed: *const Carrier,
    );
    fn mapper_switch_within_storage(
        save: *mut usize,
        to: usize,
        thread_pointer: usize,
        busy: *mut bool,
        landed: *const Carrier,
    );
    fn mapper_switch_by_kernel(
        save: *mut usize,
        to: usize,
        thread_pointer: usize,
        busy: *mut bool,
        landed: *const Carrier,
    );
    fn mapper_context_start();
}

/// What storage a context is continued under.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Base {
    InForce,
    /// That of the thread whose context it is.
    Of(ThreadPointer),
}

/// What is done once the context that was left can be continued by others.
#[derive(Clone, Copy)]
pub(super) struct HandOff {
    busy: *mut bool,
    carrier: *const Carrier,
}

impl HandOff {
    #[inline(always)]
    pub(super) fn clear(busy: &AtomicBool) -> Self {
        Self {
            busy: busy.as_ptr(),
            carrier: core::ptr::null(),
        }
    }

    /// The carrier comes from [`landed`](super::block::landed).
    #[inline(always)]
    pub(super) fn tell(carrier: &'static Carrier) -> Self {
        Self {
            busy: core::ptr::null_mut(),
            carrier,
        }
    }

    #[inline(always)]
    pub(super) fn silent() -> Self {
        static NOBODYS: AtomicBool = AtomicBool::new(false);
        Self::clear(&NOBODYS)
    }
}

/// Leaves the present context for another; returns when one continues it. Safety: `to` was left by `switch` or
/// made by [`fresh`] and not continued since; its stack is not in use. A thread pointer is that of the thread whose
/// context it is, which nobody else runs under, and that thread has not ended. Under the storage in force nobody else
/// runs.
#[inline(always)]
pub(super) unsafe fn switch(save: &Saved, to: usize, base: Base, hand_off: HandOff) {
    // SAFETY: as the caller promises.
    unsafe {
        if preserved::is_wanted() {
            switch_with_all(save, to, base, hand_off);
        } else {
            switch_as_it_is(save, to, base, hand_off);
        }
    }
}

/// The same for programs that look at what `preserved` keeps. Safety: as for [`switch`].
#[cold]
#[inline(never)]
unsafe fn switch_with_all(save: &Saved, to: usize, base: Base, hand_off: HandOff) {
    let own = Preserved::of_this_thread();
    own.is_left();
    // SAFETY: as the caller promises.
    unsafe { switch_as_it_is(save, to, base, hand_off) };
    own.take_up();
}

/// Safety: as for [`switch`].
#[inline(always)]
unsafe fn switch_as_it_is(save: &Saved, to: usize, base: Base, hand_off: HandOff) {
    let HandOff { busy, carrier } = hand_off;
    match base {
        // SAFETY: as the caller promises; all registers that the ABI has callees keep are kept.
        Base::InForce => unsafe {
            mapper_switch_within_storage(save.as_ptr(), to, 0, busy, carrier);
        },
        // SAFETY: likewise.
        Base::Of(pointer) if HAS_FSGSBASE.load(Ordering::Relaxed) => unsafe {
            mapper_switch(save.as_ptr(), to, pointer.0, busy, carrier);
        },
        // SAFETY: likewise.
        Base::Of(pointer) => unsafe {
            mapper_switch_by_kernel(save.as_ptr(), to, pointer.0, busy, carrier);
        },
    }
}

/// Floating-point modes: MXCSR in the low half, the x87 control word above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Modes(pub(super) u64);

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

pub(super) fn set_modes(wanted: Modes) {
    if wanted == modes() {
        return;
    }
    let Modes(bits) = wanted;
    // SAFETY: `modes` has read these values from the registers; the shim does no floating-point arithmetic.
    unsafe {
        core::arch::asm!(
            "ldmxcsr dword ptr [{0}]",
            "fldcw word ptr [{0} + 4]",
            in(reg) &raw const bits,
            options(nostack, preserves_flags),
        );
    }
}

/// A context that will call `start(argument)`, which must not return, on the stack that ends at `stack_top`, under
/// these modes and with the `errno` of `thread`. Safety: the 128 bytes below `stack_top` are writable and not in use.
/// The thread has not ended.
pub(super) unsafe fn fresh(
    stack_top: usize,
    Modes(modes): Modes,
    thread: ThreadPointer,
    start: unsafe extern "C-unwind" fn(*const c_void) -> !,
    argument: *const c_void,
) -> usize {
    // SAFETY: as the caller promises.
    let errno = unsafe { thread.errno().read() };
    // As `mapper_switch` pops them: modes, errno, nothing, r15, r14, r13, r12, rbx, rbp, return address. Then the stack
    // is aligned to 16, as before a call.
    let frame = [
        modes,
        u64::from(errno.cast_unsigned()),
        0,
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
    #[cfg(mapper_beside_sanitizer)]
    forget_marks(top);
    // SAFETY: the caller vouches for the place; 96 bytes below a multiple of 64 is a multiple of 8.
    unsafe { (bottom as *mut [u64; 12]).write(frame) };
    bottom
}

/// Where the shim is checked beside a program that is not: the functions of the context that was on this stack before do not
/// return any more, so that what AddressSanitizer has marked around their variables would count as part of others.
#[cfg(mapper_beside_sanitizer)]
fn forget_marks(stack_top: usize) {
    /// Stacks are seldom used more deeply. Where one is smaller, errors in what lies below it may go unreported.
    const DEPTH: usize = 1 << 20;
    unsafe extern "C" {
        safe fn __asan_unpoison_memory_region(address: usize, size: usize);
    }
    __asan_unpoison_memory_region(stack_top - DEPTH, DEPTH);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::c_library::errno;
    use crate::thread_pointer::{current, knows_errno, prepare};
    use core::cell::Cell;

    struct PingPong {
        home: Saved,
        away: Saved,
        turns: Cell<u32>,
        base: Base,
    }

    impl PingPong {
        fn new(base: Base) -> Self {
            Self {
                home: Saved::new(0),
                away: Saved::new(0),
                turns: Cell::new(0),
                base,
            }
        }

        /// Goes to the other context, which is new or waits in `switch`.
        fn go(&self) {
            let away = self.away.load(Ordering::Relaxed);
            // SAFETY: see above.
            unsafe { switch(&self.home, away, self.base, HandOff::silent()) };
        }

        /// Goes back to the test's context, which waits in `switch`.
        fn come_back(&self) {
            let home = self.home.load(Ordering::Relaxed);
            // SAFETY: see above.
            unsafe { switch(&self.away, home, self.base, HandOff::silent()) };
        }

        /// Has the other context begin with `start` on that stack, which must outlive it.
        fn prepare(
            &self,
            stack: &mut [u64],
            start: unsafe extern "C-unwind" fn(*const c_void) -> !,
        ) {
            let top = stack.as_mut_ptr_range().end as usize;
            let argument = core::ptr::from_ref(self).cast();
            // SAFETY: the stack is large enough and lives until the end of the test.
            let context = unsafe { fresh(top, modes(), current(), start, argument) };
            self.away.store(context, Ordering::Relaxed);
        }
    }

    unsafe extern "C-unwind" fn count(argument: *const c_void) -> ! {
        // SAFETY: the test passes a `PingPong` that outlives the context.
        let shared = unsafe { &*argument.cast::<PingPong>() };
        loop {
            shared.turns.set(shared.turns.get() + 1);
            shared.come_back();
        }
    }

    fn goes_there_and_back_under(base: Base) {
        let mut stack = vec![0_u64; 8192];
        let shared = PingPong::new(base);
        shared.prepare(&mut stack, count);
        for turn in 1..=3 {
            shared.go();
            assert_eq!(shared.turns.get(), turn);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "has inline assembly")]
    fn a_context_continues_where_it_was_left() {
        prepare();
        goes_there_and_back_under(Base::InForce);
        goes_there_and_back_under(Base::Of(current()));
    }

    #[test]
    #[cfg_attr(miri, ignore = "has inline assembly")]
    fn a_context_that_shares_storage_keeps_its_own_errno() {
        unsafe extern "C-unwind" fn fail(argument: *const c_void) -> ! {
            // SAFETY: as for `count`.
            let shared = unsafe { &*argument.cast::<PingPong>() };
            // SAFETY: it is the calling thread's.
            unsafe { errno().write(7) };
            shared.come_back();
            std::process::abort()
        }
        prepare();
        assert!(knows_errno());
        let mut stack = vec![0_u64; 8192];
        let shared = PingPong::new(Base::InForce);
        // SAFETY: it is the calling thread's.
        unsafe { errno().write(3) };
        shared.prepare(&mut stack, fail);
        shared.go();
        // SAFETY: it is the calling thread's.
        assert_eq!(unsafe { errno().read() }, 3);
        // SAFETY: the context is suspended, and the thread pointer this thread's.
        unsafe { current().take_errno(shared.away.load(Ordering::Relaxed)) };
        // SAFETY: it is the calling thread's.
        assert_eq!(unsafe { errno().read() }, 7);
    }
}
