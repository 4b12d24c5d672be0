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

use core::ffi::c_int;
use core::mem::offset_of;

use mapper_shim_core::thread_state::{self, ThreadState};

use super::errno::{REAL, location};
use super::member::OfMember;
use super::{carrier, storage};

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
