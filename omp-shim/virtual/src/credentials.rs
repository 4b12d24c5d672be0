//! Changing the user and the groups that a process runs as, in a program with virtual teams.
//!
//! *Problem.* To the kernel they are each thread's own. The C library makes them the process's: it has every thread
//! make the system call, by a signal (number 33), and tells threads by their thread pointers. It marks each thread,
//! signals until no mark is left, and leaves out the thread that asks, which makes its call itself. Where a member of
//! a virtual team runs on a carrier, the thread pointer is the member's (or a donor's), the OS thread the carrier's:
//! - the handler of the signal takes the mark of the member away in place of the carrier's, so that the signalling
//!   never ends;
//! - a member that asks is left out, though it is the carrier that makes its call: its own OS thread would stay
//!   who it was.
//!
//! *Approach.* The handler runs under the carrier's own thread pointer ([`signal`]). And a member that asks has a
//! thread made that asks in its place, and waits for it: to that one nothing is lent, so that it is left out
//! rightly and everybody else is signalled. (Making a thread is not safe in a handler of a signal, as the C library's own
//! functions are: a member must not change its user in one.)
//!
//! *Other signals to threads*, as `tests/shim/signals.rs` shows them where no other source is named. Of the functions, those that send
//! to single threads may be called by modules without constructs only ([`super::kernel_state`]):
//!
//! | what | in a virtual team |
//! |---|---|
//! | `raise`, `abort`, `pthread_kill` of oneself | reach the OS thread that runs the caller, before they return: the C library asks the kernel for its number |
//! | `pthread_kill` of another member | reaches that member's OS thread. The handler runs there under the thread pointer in force, whether the thread is parked or busy with another member |
//! | a timer with `SIGEV_THREAD_ID` | the same for the OS thread that ran the member when that asked for its number |
//! | `pthread_cancel` | leaves a mark that the member sees at its next cancellation point, and nobody else. What it does then ends the team as it would one of the runtime's: the others wait for ever |
//! | the same, asynchronous | cancels by signal 32 what the OS thread runs at that moment (by reading), which need not be whom it is meant for |
//! | `fork` | the child is the member that forked, alone, under that member's thread pointer (`fork_within.c`) |

mod signal;

use crate::pool;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};

pub(super) use signal::come_before;

use super::{errno, kernel, quiet_thread};
use mapper_shim_core::elf;
use mapper_shim_core::symbols::c_name;

/// A call that another thread makes.
struct ProxyCall<'a> {
    call: &'a dyn Fn() -> c_int,
    answer: AtomicI32,
    errno: AtomicI32,
    is_done: AtomicBool,
}

/// How many proxy calls have been run, for those who wait for theirs.
static PROXY_CALLS_RUN: AtomicU32 = AtomicU32::new(0);

impl ProxyCall<'_> {
    /// Runs it on the calling thread, and says so to the one that waits.
    extern "C" fn run(proxy_call: *mut c_void) -> *mut c_void {
        // SAFETY: `send` passes an proxy call, and keeps it until it is done.
        let proxy_call = unsafe { &*proxy_call.cast::<ProxyCall<'_>>() };
        proxy_call
            .answer
            .store((proxy_call.call)(), Ordering::Relaxed);
        // SAFETY: it is the calling thread's.
        let errno = unsafe { errno::location().read() };
        proxy_call.errno.store(errno, Ordering::Relaxed);
        proxy_call.is_done.store(true, Ordering::Release);
        // From here on the proxy call may be gone.
        PROXY_CALLS_RUN.fetch_add(1, Ordering::Release);
        kernel::futex_wake(&PROXY_CALLS_RUN, u32::MAX >> 1);
        null_mut()
    }

    /// Has a thread made that makes the call. What it leaves in `errno` becomes the caller's if the call fails.
    fn send(call: &dyn Fn() -> c_int) -> c_int {
        let proxy_call = ProxyCall {
            call,
            answer: AtomicI32::new(0),
            errno: AtomicI32::new(0),
            is_done: AtomicBool::new(false),
        };
        let argument = core::ptr::from_ref(&proxy_call).cast_mut().cast();
        // SAFETY: the proxy call stays until it is done, which is waited for below. The calls that are sent are the C
        // library's functions with the caller's arguments, which any thread may call.
        if !unsafe { quiet_thread::start(Self::run, argument) } {
            return fail(libc::EAGAIN);
        }
        loop {
            let run = PROXY_CALLS_RUN.load(Ordering::Acquire);
            if proxy_call.is_done.load(Ordering::Acquire) {
                break;
            }
            kernel::futex_wait(&PROXY_CALLS_RUN, run);
        }
        match proxy_call.answer.load(Ordering::Relaxed) {
            -1 => fail(proxy_call.errno.load(Ordering::Relaxed)),
            answer => answer,
        }
    }
}

fn fail(error: c_int) -> c_int {
    // SAFETY: it is the calling thread's.
    unsafe { errno::location().write(error) };
    -1
}

/// The C library's function of that name, kept in `known`. Not by `dlsym`, see [`errno`].
pub(super) fn real(known: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let mut real = known.load(Ordering::Relaxed);
    if real.is_null() {
        real = elf::next_definition(name).map_or(null_mut(), |address| address as *mut c_void);
        known.store(real, Ordering::Relaxed);
    }
    real
}

/// Makes the call, on a thread to which no thread pointer is lent. −1 if it needs one that cannot be made.
pub(super) fn call(call: &dyn Fn() -> c_int) -> c_int {
    match pool::own_thread_pointer() {
        Some(_) => ProxyCall::send(call),
        None => call(),
    }
}

macro_rules! of_every_thread {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        /// The C library's functions, as far as they are known.
        mod known {
            use core::sync::atomic::AtomicPtr;
            $(
                #[allow(non_upper_case_globals, reason = "named as the function")]
                pub(super) static $name: AtomicPtr<core::ffi::c_void> =
                    AtomicPtr::new(core::ptr::null_mut());
            )*
        }

        /// Looks all of them up. To be called before the program has forked a child in which it calls one: looking up
        /// takes a lock of the linker's, which a thread that the child does not have may have held.
        pub(crate) fn look_up() {
            $(real(&known::$name, c_name(concat!(stringify!($name), "\0")));)*
        }

        $(
        /// The C library's function of the same name, for members of virtual teams, too.
        ///
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            let function = real(&known::$name, c_name(concat!(stringify!($name), "\0")));
            // SAFETY: a function of that name has this type; null becomes `None`.
            let function = unsafe {
                core::mem::transmute::<*mut c_void, Option<unsafe extern "C" fn($($type),*) -> c_int>>(
                    function,
                )
            };
            match function {
                // SAFETY: the arguments are the caller's, who waits until the call is through.
                Some(function) => call(&|| unsafe { function($($argument),*) }),
                None => fail(libc::ENOSYS),
            }
        }
    )*};
}

of_every_thread! {
    setuid(user: libc::uid_t);
    setgid(group: libc::gid_t);
    seteuid(user: libc::uid_t);
    setegid(group: libc::gid_t);
    setreuid(real_user: libc::uid_t, user: libc::uid_t);
    setregid(real_group: libc::gid_t, group: libc::gid_t);
    setresuid(real_user: libc::uid_t, user: libc::uid_t, saved_user: libc::uid_t);
    setresgid(real_group: libc::gid_t, group: libc::gid_t, saved_group: libc::gid_t);
    setgroups(count: libc::size_t, groups: *const libc::gid_t);
    initgroups(user: *const c_char, group: libc::gid_t);
}
