//! The few system calls that virtual teams make, without touching `errno`.
//!
//! The C library's wrappers write `errno` of the calling thread. A barrier or a lock must not change
//! the program's, so these are bare.

use core::ffi::c_int;
use core::sync::atomic::AtomicU32;

const SYS_RT_SIGACTION: usize = 13;
const SYS_RT_SIGPROCMASK: usize = 14;
const SYS_SCHED_YIELD: usize = 24;
const SYS_SIGALTSTACK: usize = 131;
const SYS_ARCH_PRCTL: usize = 158;
const SYS_GETTID: usize = 186;
const SYS_FUTEX: usize = 202;
const SYS_MEMBARRIER: usize = 324;

const FUTEX_WAIT_PRIVATE: usize = 128;
const FUTEX_WAKE_PRIVATE: usize = 129;
const MEMBARRIER_PRIVATE_EXPEDITED: usize = 1 << 3;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: usize = 1 << 4;
const ARCH_SET_FS: usize = 0x1002;
const ARCH_CET_STATUS: usize = 0x5005;

/// A system call of up to four arguments.
///
/// # Safety
/// What the call needs.
#[inline(always)]
unsafe fn call(number: usize, arguments: [usize; 4]) -> isize {
    let result: isize;
    let [first, second, third, fourth] = arguments;
    // SAFETY: the kernel keeps all registers but rax, rcx and r11; what the call does to memory is
    // the caller's affair.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Signals that a thread blocks: bit *n* - 1 for signal *n*.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SignalMask(pub(super) u64);

impl SignalMask {
    /// All but those by which the C library reaches its threads, 32 and 33.
    pub(super) const THE_PROGRAMS: Self = Self(!(0b11 << 31));
}

/// Those that the calling thread blocks.
pub(super) fn signal_mask() -> SignalMask {
    let mut mask = 0_u64;
    let place = &raw mut mask as usize;
    let setmask = libc::SIG_SETMASK.cast_unsigned() as usize;
    // SAFETY: the kernel writes eight bytes there; nothing is set, and the call cannot fail.
    unsafe { call(SYS_RT_SIGPROCMASK, [setmask, 0, place, size_of::<u64>()]) };
    SignalMask(mask)
}

/// The calling thread blocks these from here on, and no others.
pub(super) fn set_signal_mask(SignalMask(mask): SignalMask) {
    let place = &raw const mask as usize;
    let setmask = libc::SIG_SETMASK.cast_unsigned() as usize;
    // SAFETY: the kernel reads eight bytes there.
    unsafe { call(SYS_RT_SIGPROCMASK, [setmask, place, 0, size_of::<u64>()]) };
}

/// The calling thread's alternate stack for handlers; `none` if the kernel does not say.
pub(super) fn alternate_stack(none: libc::stack_t) -> libc::stack_t {
    let mut stack = none;
    // SAFETY: the kernel writes the structure; nothing is set.
    unsafe { call(SYS_SIGALTSTACK, [0, &raw mut stack as usize, 0, 0]) };
    stack
}

/// Sets it; in vain while the calling thread runs on the present one.
pub(super) fn set_alternate_stack(stack: &libc::stack_t) {
    let place = core::ptr::from_ref(stack) as usize;
    // SAFETY: the kernel reads the structure.
    unsafe { call(SYS_SIGALTSTACK, [place, 0, 0, 0]) };
}

/// Sleeps while `word` holds `expected`; may return early.
pub(super) fn futex_wait(word: &AtomicU32, expected: u32) {
    let address = word.as_ptr() as usize;
    // SAFETY: the address is that of a live word; no time limit.
    unsafe {
        call(
            SYS_FUTEX,
            [address, FUTEX_WAIT_PRIVATE, expected as usize, 0],
        )
    };
}

/// The same for at most so long.
pub(super) fn futex_wait_for(word: &AtomicU32, expected: u32, nanoseconds: i64) {
    let time = libc::timespec {
        tv_sec: nanoseconds / 1_000_000_000,
        tv_nsec: nanoseconds % 1_000_000_000,
    };
    let arguments = [
        word.as_ptr() as usize,
        FUTEX_WAIT_PRIVATE,
        expected as usize,
        &raw const time as usize,
    ];
    // SAFETY: the address is that of a live word; the time outlives the call.
    unsafe { call(SYS_FUTEX, arguments) };
}

/// Wakes up to `count` sleepers.
pub(super) fn futex_wake(word: &AtomicU32, count: u32) {
    let address = word.as_ptr() as usize;
    // SAFETY: the address is only a name for the kernel.
    unsafe { call(SYS_FUTEX, [address, FUTEX_WAKE_PRIVATE, count as usize, 0]) };
}

/// Lets another thread have the CPU.
pub(super) fn sched_yield() -> i32 {
    // SAFETY: takes nothing.
    unsafe { call(SYS_SCHED_YIELD, [0; 4]) as i32 }
}

/// The number by which the kernel knows the calling thread, whatever its thread pointer says.
pub(super) fn thread_number() -> libc::pid_t {
    // SAFETY: takes nothing.
    unsafe { call(SYS_GETTID, [0; 4]) as libc::pid_t }
}

/// What is done on a signal, as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct SignalAction {
    /// The address of the handler.
    pub(super) handler: usize,
    pub(super) flags: u64,
    /// What handlers return through.
    pub(super) restorer: usize,
    /// The signals blocked meanwhile.
    pub(super) mask: u64,
}

/// What is done on that signal, be it one that the C library keeps to itself.
pub(super) fn signal_action(signal: c_int) -> Option<SignalAction> {
    let mut action = SignalAction {
        handler: 0,
        flags: 0,
        restorer: 0,
        mask: 0,
    };
    let arguments = [
        signal as usize,
        0,
        &raw mut action as usize,
        size_of::<u64>(),
    ];
    // SAFETY: `action` is a place for the answer, in the kernel's layout; nothing is changed.
    let status = unsafe { call(SYS_RT_SIGACTION, arguments) };
    (status == 0).then_some(action)
}

/// Has that be done.
///
/// # Safety
/// The handler has the type that the flags say, and may run in any thread at any instruction.
pub(super) unsafe fn set_signal_action(signal: c_int, action: &SignalAction) {
    let action = core::ptr::from_ref(action) as usize;
    // SAFETY: as the caller promises; the action is in the kernel's layout.
    unsafe {
        call(
            SYS_RT_SIGACTION,
            [signal as usize, action, 0, size_of::<u64>()],
        )
    };
}

/// Prepares [`memory_barrier_everywhere`]; false if the kernel has no such thing.
pub(super) fn register_memory_barrier() -> bool {
    // SAFETY: takes numbers only.
    unsafe {
        call(
            SYS_MEMBARRIER,
            [MEMBARRIER_REGISTER_PRIVATE_EXPEDITED, 0, 0, 0],
        ) == 0
    }
}

/// Has every thread of the process pass a full memory barrier.
pub(super) fn memory_barrier_everywhere() -> bool {
    // SAFETY: takes numbers only.
    unsafe { call(SYS_MEMBARRIER, [MEMBARRIER_PRIVATE_EXPEDITED, 0, 0, 0]) == 0 }
}

/// Sets the calling thread's thread pointer.
///
/// # Safety
/// It is that of a thread that has not ended, and nobody else runs under it.
#[inline(always)]
pub(super) unsafe fn set_thread_pointer(pointer: usize) {
    // SAFETY: as the caller promises.
    unsafe { call(SYS_ARCH_PRCTL, [ARCH_SET_FS, pointer, 0, 0]) };
}

/// Whether the calling thread has a shadow stack, which a change of stacks would have to change too.
pub(super) fn has_shadow_stack() -> bool {
    let mut features: u64 = 0;
    // SAFETY: `features` is a place for the result. Kernels that do not know the request refuse it.
    let status = unsafe {
        call(
            SYS_ARCH_PRCTL,
            [ARCH_CET_STATUS, &raw mut features as usize, 0, 0],
        )
    };
    status == 0 && features & 1 != 0
}
