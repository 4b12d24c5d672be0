//! The shim's handler for the signal by which the C library has every thread change its user or groups. It finds the OS
//! thread's own thread pointer by its kernel number and runs the C library's handler under that. The C library installs
//! its handler with its first thread; so the shim's is installed when the first member has an OS thread.
//!
//! *Invariants.* A signal may come at any instruction: the handler takes no lock, uses no thread-local storage and
//! makes bare system calls. The member whose thread pointer it is may run beside its carrier under the same one; the C
//! library's handler touches two words there, by atomic instructions, which only signalling uses.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::kernel::{self, SignalAction};
use crate::pool::own_thread_pointer;
use crate::thread_pointer;

/// The C library's `SIGSETXID`, which it keeps to itself.
const CHANGE_CREDENTIALS: c_int = 33;

/// Values that stand for no handler: the default, and to ignore it.
const IGNORED: usize = 1;

type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

static THEIRS: AtomicUsize = AtomicUsize::new(0);

/// Puts the shim's handler before the C library's, which has made a thread. For the pool's owner.
pub(crate) fn come_before() {
    // Children of forks have the handlers of their parent.
    static IS_BEFORE: AtomicBool = AtomicBool::new(false);
    if IS_BEFORE.swap(true, Ordering::Relaxed) {
        return;
    }
    let Some(theirs) = kernel::signal_action(CHANGE_CREDENTIALS) else {
        return;
    };
    if theirs.handler <= IGNORED || theirs.flags & libc::SA_SIGINFO as u64 == 0 {
        return;
    }
    THEIRS.store(theirs.handler, Ordering::Release);
    let ours = SignalAction {
        handler: change as *const () as usize,
        // A handler of the program's must not run under the thread pointer that is in force only here.
        mask: u64::MAX,
        ..theirs
    };
    // SAFETY: `change` has the type that `SA_SIGINFO` asks for, and returns through the C library's own restorer.
    unsafe { kernel::set_signal_action(CHANGE_CREDENTIALS, &ours) };
}

unsafe extern "C" fn change(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let theirs = THEIRS.load(Ordering::Acquire);
    // SAFETY: stored by `come_before`, which saw that it takes three arguments.
    let theirs = unsafe { core::mem::transmute::<usize, Handler>(theirs) };
    let Some(own) = own_thread_pointer() else {
        // SAFETY: the arguments are the kernel's.
        return unsafe { theirs(signal, info, context) };
    };
    let lent = thread_pointer::current();
    // SAFETY: both are thread pointers of threads that have not ended: a member's OS thread is in the table only while it
    // lives. All signals are blocked, and the C library's handler uses of the storage only what the head says; nothing of
    // the thread's is kept here across the changes.
    unsafe {
        own.put_in_force_bare();
        theirs(signal, info, context);
        lent.put_in_force_bare();
    }
}
