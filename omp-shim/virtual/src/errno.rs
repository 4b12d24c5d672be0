//! `errno`, whose place the program asks the C library for.
//!
//! *Problem.* A compiler may keep the address of `errno` in a register for as long as a function runs. A
//! member that shares storage with others (see `storage`) may go on in another storage behind a barrier,
//! where the C library writes another `errno`.
//!
//! *Approach.* There is one function by which a module gets that address, so it is exported here. For a member
//! whose storage is shared it first makes the storage its own. The runtime and the C library's own
//! libraries do not keep the address past their return: where they ask, nothing is changed, all the more since
//! they may hold other addresses.
//!
//! *Cost.* Seven instructions more each time, for all programs that the shim is loaded into.

use core::ffi::{c_int, c_void};
use core::mem::offset_of;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::member::OfMember;
use super::{carrier, storage};
use mapper_shim_core::elf;
use mapper_shim_core::thread_state::{self, ThreadState};

/// The C library's function, once looked up.
static REAL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Where the calling thread's `errno` lies.
pub(super) fn location() -> *mut c_int {
    let mut real = REAL.load(Ordering::Relaxed);
    if real.is_null() {
        real = find();
        REAL.store(real, Ordering::Relaxed);
    }
    // SAFETY: the function of that name has this type.
    let real =
        unsafe { core::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *mut c_int>(real) };
    // SAFETY: it takes nothing.
    unsafe { real() }
}

/// Not by `dlsym` if it can be helped: it takes the lock that whoever runs a library's constructors holds, and a
/// constructor may wait for a thread that is here for the first time.
#[cold]
fn find() -> *mut c_void {
    match elf::next_definition(c"__errno_location") {
        Some(address) => address as *mut c_void,
        // SAFETY: the handle is a special one, the name a C string. The C library has the function.
        None => unsafe { libc::dlsym(libc::RTLD_NEXT, c"__errno_location".as_ptr()) },
    }
}

/// Answers a call from `caller`, for a member of a virtual team or before the real function is known.
extern "C" fn answer(caller: usize) -> *mut c_int {
    if let Some(member) = thread_state::current().member()
        && storage::is_claim(member, caller)
        && carrier::claim_storage(member)
    {
        storage::note_claim();
    }
    location()
}

/// Where the calling thread's `errno` lies.
///
/// # Safety
/// None needed.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn __errno_location() -> *mut c_int {
    core::arch::naked_asm!(
        "mov r11, qword ptr [rip + mapper_omp_thread@GOTTPOFF]",
        "mov rax, qword ptr [rip + {real}]",
        "cmp qword ptr fs:[r11 + {member}], 0",
        "jne 2f",
        "test rax, rax",
        "jz 2f",
        "jmp rax",
        "2:",
        "mov rdi, qword ptr [rsp]",
        "jmp {answer}",
        real = sym REAL,
        member = const offset_of!(ThreadState, member),
        answer = sym answer,
    )
}
