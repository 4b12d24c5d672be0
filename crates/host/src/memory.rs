//! The allocator's free memory.

/// Gives free memory back to the system, where the allocator can: glibc's keeps it otherwise, above all between pieces
/// that are in use.
pub fn give_back_free_memory() {
    // SAFETY: the call has no precondition; it locks what it works on.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
