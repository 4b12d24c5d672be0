//! The descriptors the launcher was started with, all of which the program gets. The launcher must neither take a
//! number that was free and means something (0 to 2), nor hold anything open for longer than the program does: a pipe
//! the program closes has to end, a lock it releases has to be free.

use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use anyhow::Context as _;

/// Fills each of 0 to 2 that is closed, so that no descriptor of the launcher's is taken for a standard stream.
pub(crate) fn reserve_standard_streams() {
    for number in 0..3 {
        // SAFETY: asks only whether the number is in use.
        let is_open = unsafe { libc::fcntl(number, libc::F_GETFD) } != -1;
        if !is_open {
            // The lowest free number is this one, as those below are open. The launcher also works without /dev/null.
            // SAFETY: a C string, and flags without a mode.
            unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        }
    }
}

/// Closes every descriptor but those given, and puts /dev/null on the standard streams.
pub(crate) fn let_go(keep: &[BorrowedFd<'_>]) {
    // SAFETY: a C string, and flags without a mode.
    let null = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    let keep: Vec<RawFd> = keep.iter().map(AsRawFd::as_raw_fd).collect();
    for number in open_descriptors() {
        if keep.contains(&number) || number == null {
            continue;
        }
        if number > 2 {
            // SAFETY: the launcher's own descriptors are all in `keep`, by its callers, so nothing here owns this one.
            unsafe { libc::close(number) };
        } else if null >= 0 {
            // SAFETY: standard streams have no owner.
            unsafe { libc::dup3(null, number, libc::O_CLOEXEC) };
        }
    }
    if null > 2 {
        // SAFETY: opened above, without another owner.
        unsafe { libc::close(null) };
    }
}

/// The numbers that a program started by the launcher would get beside the standard streams.
pub(crate) fn beside_standard_streams() -> Vec<RawFd> {
    let mut all = open_descriptors();
    all.retain(|number| *number > 2);
    all
}

fn open_descriptors() -> Vec<RawFd> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    // The folder's own descriptor is in the list and closed by the time it is used.
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// A file without a name, for what a program prints.
pub(crate) fn memory_file() -> anyhow::Result<File> {
    let memory = nix::sys::memfd::memfd_create(c"output", nix::sys::memfd::MFdFlags::MFD_CLOEXEC)
        .context("make a place for the output")?;
    Ok(File::from(memory))
}
