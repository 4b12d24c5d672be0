//! The system calls of virtual teams. Bare ones: the C library's wrappers write `errno`, which a barrier or a lock must
//! not change.

use core::ffi::{c_char, c_int, c_long};
use core::ptr::{null, null_mut};
use core::sync::atomic::AtomicU32;

const MEMBARRIER_PRIVATE_EXPEDITED: usize = 1 << 3;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: usize = 1 << 4;
const ARCH_SET_FS: usize = 0x1002;
const ARCH_CET_STATUS: usize = 0x5005;

/// A system call of up to four arguments. Safety: as the call requires.
#[inline(always)]
unsafe fn call(number: c_long, arguments: [usize; 4]) -> isize {
    let result: isize;
    let [first, second, third, fourth] = arguments;
    // SAFETY: the kernel keeps all registers but rax, rcx and r11; the caller vouches for the memory.
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

pub(super) fn signal_mask() -> SignalMask {
    let mut mask = 0_u64;
    // SAFETY: the kernel writes eight bytes there; nothing is set, and the call cannot fail.
    unsafe { change_mask(null(), &raw mut mask) };
    SignalMask(mask)
}

pub(super) fn set_signal_mask(SignalMask(mask): SignalMask) {
    // SAFETY: the kernel reads eight bytes there.
    unsafe { change_mask(&raw const mask, null_mut()) };
}

/// Safety: null or places of the mask's size.
unsafe fn change_mask(new: *const u64, old: *mut u64) {
    let how = libc::SIG_SETMASK.cast_unsigned() as usize;
    let arguments = [how, new as usize, old as usize, size_of::<u64>()];
    // SAFETY: as the caller promises.
    unsafe { call(libc::SYS_rt_sigprocmask, arguments) };
}

/// The calling thread's alternate stack for handlers; `none` if the kernel does not say.
pub(super) fn alternate_stack(none: libc::stack_t) -> libc::stack_t {
    let mut stack = none;
    // SAFETY: the kernel writes the structure; nothing is set.
    unsafe { call(libc::SYS_sigaltstack, [0, &raw mut stack as usize, 0, 0]) };
    stack
}

/// Sets it; without effect while the calling thread runs on the present one.
pub(super) fn set_alternate_stack(stack: &libc::stack_t) {
    let place = core::ptr::from_ref(stack) as usize;
    // SAFETY: the kernel reads the structure.
    unsafe { call(libc::SYS_sigaltstack, [place, 0, 0, 0]) };
}

fn futex(word: &AtomicU32, operation: c_int, value: u32, time: *const libc::timespec) {
    let operation = (operation | libc::FUTEX_PRIVATE_FLAG).cast_unsigned() as usize;
    let arguments = [
        word.as_ptr() as usize,
        operation,
        value as usize,
        time as usize,
    ];
    // SAFETY: the address is that of a live word, or for waking only a name; the time is null or outlives the call.
    unsafe { call(libc::SYS_futex, arguments) };
}

pub(super) fn futex_wait(word: &AtomicU32, expected: u32) {
    futex(word, libc::FUTEX_WAIT, expected, null());
}

pub(super) fn futex_wait_for(word: &AtomicU32, expected: u32, nanoseconds: i64) {
    let time = libc::timespec {
        tv_sec: nanoseconds / 1_000_000_000,
        tv_nsec: nanoseconds % 1_000_000_000,
    };
    futex(word, libc::FUTEX_WAIT, expected, &raw const time);
}

pub(super) fn futex_wake(word: &AtomicU32, count: u32) {
    futex(word, libc::FUTEX_WAKE, count, null());
}

pub(super) fn sched_yield() -> i32 {
    // SAFETY: takes nothing.
    unsafe { call(libc::SYS_sched_yield, [0; 4]) as i32 }
}

/// The calling thread's timers are late by no more than the kernel needs, whatever slack the program has for its own.
pub(super) fn wake_in_time() {
    // SAFETY: takes a number.
    unsafe { call(libc::SYS_prctl, [libc::PR_SET_TIMERSLACK as usize, 1, 0, 0]) };
}

pub(super) const fn no_cpus() -> libc::cpu_set_t {
    // SAFETY: an array of numbers, for which zeroes are valid.
    unsafe { core::mem::zeroed() }
}

pub(super) fn every_cpu() -> libc::cpu_set_t {
    let mut cpus = no_cpus();
    for cpu in 0..libc::CPU_SETSIZE as usize {
        // SAFETY: it is within the set.
        unsafe { libc::CPU_SET(cpu, &mut cpus) };
    }
    cpus
}

/// The CPUs on which a thread may run; nothing where the kernel does not say.
pub(super) fn affinity(thread: libc::pid_t) -> Option<libc::cpu_set_t> {
    let mut cpus = no_cpus();
    let bytes = size_of::<libc::cpu_set_t>();
    let arguments = [thread as usize, bytes, &raw mut cpus as usize, 0];
    // SAFETY: `cpus` is a place of so many bytes.
    let written = unsafe { call(libc::SYS_sched_getaffinity, arguments) };
    (written > 0).then_some(cpus)
}

/// Sets those of the calling thread; without effect where the kernel refuses.
pub(super) fn set_own_affinity(cpus: &libc::cpu_set_t) {
    let bytes = size_of::<libc::cpu_set_t>();
    let arguments = [0, bytes, core::ptr::from_ref(cpus) as usize, 0];
    // SAFETY: the kernel reads so many bytes there.
    unsafe { call(libc::SYS_sched_setaffinity, arguments) };
}

/// The number by which the kernel knows the calling thread, whatever its thread pointer says.
pub(super) fn thread_number() -> libc::pid_t {
    // SAFETY: takes nothing.
    unsafe { call(libc::SYS_gettid, [0; 4]) as libc::pid_t }
}

/// The priority of a thread, from -20 to 19; nothing where the kernel does not say.
pub(super) fn priority(thread: u32) -> Option<c_int> {
    let arguments = [libc::PRIO_PROCESS as usize, thread as usize, 0, 0];
    // SAFETY: takes numbers.
    let answer = unsafe { call(libc::SYS_getpriority, arguments) };
    // The kernel answers 40 for -20.
    (answer > 0).then(|| 20 - answer as c_int)
}

/// Sets it; the number of an error if that fails.
pub(super) fn set_priority(thread: u32, priority: c_int) -> Result<(), c_int> {
    let priority = priority as usize;
    let arguments = [libc::PRIO_PROCESS as usize, thread as usize, priority, 0];
    // SAFETY: takes numbers.
    match unsafe { call(libc::SYS_setpriority, arguments) } {
        0 => Ok(()),
        error => Err((error as c_int).saturating_neg()),
    }
}

/// What the kernel keeps of a name, with the NUL.
const NAME_BYTES: usize = 16;

/// Does something with the file that has the name of a thread of this process; the number of an error if that fails.
fn with_name_file(
    thread: libc::pid_t,
    flags: c_int,
    run: impl FnOnce(usize) -> isize,
) -> Result<usize, c_int> {
    let mut path = [0_u8; 48];
    let name = format_args!("/proc/self/task/{thread}/comm\0");
    std::io::Write::write_fmt(&mut &mut path[..], name).map_err(|_| libc::EINVAL)?;
    let flags = (flags | libc::O_CLOEXEC).cast_unsigned() as usize;
    let number =
        |answer: isize| usize::try_from(answer).map_err(|_| (answer as c_int).saturating_neg());
    // SAFETY: the path ends with a NUL.
    let file = number(unsafe { call(libc::SYS_open, [path.as_ptr() as usize, flags, 0, 0]) })?;
    let done = run(file);
    // SAFETY: it was opened above.
    unsafe { call(libc::SYS_close, [file, 0, 0, 0]) };
    number(done)
}

/// Names a thread of this process; the number of an error if that fails. Safety: `name` is that of `PR_SET_NAME`.
pub(super) unsafe fn name_thread(thread: libc::pid_t, name: *const c_char) -> Result<(), c_int> {
    // SAFETY: as the caller promises; no byte after the NUL is read.
    let length = unsafe { libc::strnlen(name, NAME_BYTES - 1) };
    let written = with_name_file(thread, libc::O_WRONLY, |file| {
        // SAFETY: the name has so many bytes.
        unsafe { call(libc::SYS_write, [file, name as usize, length, 0]) }
    });
    written.map(|_| ())
}

/// Tells the name of a thread of this process; the number of an error if that fails. Safety: `name` is that of `PR_GET_NAME`.
pub(super) unsafe fn name_of_thread(thread: libc::pid_t, name: *mut c_char) -> Result<(), c_int> {
    let mut name_read = [0_u8; NAME_BYTES];
    let length = with_name_file(thread, libc::O_RDONLY, |file| {
        let arguments = [file, name_read.as_mut_ptr() as usize, NAME_BYTES, 0];
        // SAFETY: the place has so many bytes.
        unsafe { call(libc::SYS_read, arguments) }
    })?;
    // The file ends with a new line.
    name_read
        .iter_mut()
        .skip(length.saturating_sub(1))
        .for_each(|byte| *byte = 0);
    // SAFETY: the caller's place has so many bytes.
    unsafe { name.cast::<[u8; NAME_BYTES]>().write(name_read) };
    Ok(())
}

/// What is done on a signal, as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct SignalAction {
    pub(super) handler: usize,
    pub(super) flags: u64,
    pub(super) restorer: usize,
    pub(super) mask: u64,
}

pub(super) fn signal_action(signal: c_int) -> Option<SignalAction> {
    let mut action = SignalAction::default();
    let place = &raw mut action as usize;
    let arguments = [signal as usize, 0, place, size_of::<u64>()];
    // SAFETY: `action` is a place for the answer, in the kernel's layout; nothing is changed.
    let status = unsafe { call(libc::SYS_rt_sigaction, arguments) };
    (status == 0).then_some(action)
}

/// Sets it. Safety: the handler has the type that the flags say, and may run in any thread at any instruction.
pub(super) unsafe fn set_signal_action(signal: c_int, action: &SignalAction) {
    let place = core::ptr::from_ref(action) as usize;
    let arguments = [signal as usize, place, 0, size_of::<u64>()];
    // SAFETY: as the caller promises; the action is in the kernel's layout.
    unsafe { call(libc::SYS_rt_sigaction, arguments) };
}

/// Prepares [`memory_barrier_everywhere`]; false if the kernel has no such thing.
pub(super) fn register_memory_barrier() -> bool {
    memory_barrier(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED)
}

pub(super) fn memory_barrier_everywhere() -> bool {
    memory_barrier(MEMBARRIER_PRIVATE_EXPEDITED)
}

fn memory_barrier(command: usize) -> bool {
    // SAFETY: takes numbers only.
    unsafe { call(libc::SYS_membarrier, [command, 0, 0, 0]) == 0 }
}

/// Safety: it is the thread pointer of a thread that has not ended, and nothing else runs under it.
#[inline(always)]
pub(super) unsafe fn set_thread_pointer(pointer: usize) {
    // SAFETY: as the caller promises.
    unsafe { call(libc::SYS_arch_prctl, [ARCH_SET_FS, pointer, 0, 0]) };
}

/// Whether the calling thread has a shadow stack, which a change of stacks would have to change too.
pub(super) fn has_shadow_stack() -> bool {
    let mut features: u64 = 0;
    let arguments = [ARCH_CET_STATUS, &raw mut features as usize, 0, 0];
    // SAFETY: `features` is a place for the result. Kernels that do not know the request refuse it.
    let status = unsafe { call(libc::SYS_arch_prctl, arguments) };
    status == 0 && features & 1 != 0
}
