//! What can be wrong with a page.

use std::path::PathBuf;

use rustix::io::Errno;
use thiserror::Error;

use crate::layout::{MAX_CPUS, PAGE_BYTES, PAGE_VERSION};

/// Why a page could not be created or is not accepted.
#[derive(Debug, Error)]
pub enum PageError {
    /// The path in the environment leads nowhere.
    #[error("open the shared page {path}: {source}; is the launcher still running?")]
    Open {
        /// The expected path.
        path: PathBuf,
        /// The kernel's error.
        source: Errno,
    },
    /// A system call on the memfd failed.
    #[error("{call} on the shared page: {source}")]
    Kernel {
        /// Its name.
        call: &'static str,
        /// The kernel's error.
        source: Errno,
    },
    /// The file has another length.
    #[error(
        "the shared page has {0} bytes instead of {PAGE_BYTES}; it is no page of mapper, or of another version"
    )]
    WrongSize(u64),
    /// The file could still be truncated, and an access to it fault.
    #[error(
        "the shared page is not sealed against changes of its size; only a memfd made by mapperd is accepted"
    )]
    NotSealed,
    /// The first bytes are not those of a page.
    #[error("the shared page starts with {0:#018x}; it is no page of mapper")]
    WrongMagic(u64),
    /// Daemon and program are of different releases.
    #[error(
        "the shared page has version {0}, this program knows {PAGE_VERSION}; update the older of the two"
    )]
    WrongVersion(u32),
    /// The page belongs to another application.
    #[error("the shared page carries another token; its path has been reused by another process")]
    WrongToken,
    /// The token in the environment is malformed.
    #[error("token {0:?} is not sixteen hexadecimal digits other than zero")]
    BadToken(String),
    /// A CPU number that the mask cannot hold.
    #[error("cpu {0} is beyond the {MAX_CPUS} that the shared page can name")]
    CpuOutOfRange(u32),
}
