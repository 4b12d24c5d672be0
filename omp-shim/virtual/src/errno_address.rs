//! `errno`, whose address the program gets from the C library, and a compiler may keep in a register. A member with
//! shared storage (`storage`) may continue in another storage after a barrier. So the shim exports the function that
//! returns the address: for such a member it first makes the storage its own. The runtime and the C library do not keep
//! the address.

use core::ffi::c_int;
use core::mem::offset_of;

use mapper_shim_core::thread_state::{self, ThreadState};

use super::c_library::{ERRNO_LOCATION, errno};
use super::member::OfMember;
use super::{carrier, storage};

/// Answers a call from `caller`, for a member or before the real function is known.
extern "C" fn answer(caller: usize) -> *mut c_int {
    if let Some(member) = thread_state::current().member()
        && storage::is_claim(member, caller)
        && carrier::claim_storage(member)
    {
        storage::note_claim();
    }
    errno()
}

/// Where the calling thread's `errno` lies. Safety: none needed.
#[cfg_attr(not(miri), unsafe(no_mangle))]
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
        real = sym ERRNO_LOCATION,
        member = const offset_of!(ThreadState, member),
        answer = sym answer,
    )
}
