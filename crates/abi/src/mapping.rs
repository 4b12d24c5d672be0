//! Owns the memory of a page, and is the only place that turns an address into a [`Page`].
//!
//! *Invariants.* A [`Mapping`] is made only of a memfd of exactly [`PAGE_BYTES`] bytes that is sealed
//! against changes of its size. Therefore every access within it is backed by memory for as long as
//! the mapping lives, whatever the other side does.

use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::error::PageError;
use crate::layout::{PAGE_BYTES, PAGE_MAGIC, PAGE_VERSION, Page};
use crate::token::Token;

/// Whether this side writes to the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    ReadOnly,
    ReadWrite,
}

/// A mapped page.
#[derive(Debug)]
pub(crate) struct Mapping {
    page: NonNull<Page>,
}

// SAFETY: the mapping is plain shared memory without thread affinity, and `Page` holds nothing but
// atomics, so it may be used and dropped from any thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; all access through `&Page` is atomic.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `fd` after checking that it can not fault.
    pub(crate) fn new(fd: impl AsFd, access: Access) -> Result<Self, PageError> {
        check_file(&fd)?;
        let protection = match access {
            Access::ReadOnly => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases no Rust object. The
        // length is that of the file, which can neither shrink nor grow.
        let address = unsafe {
            mmap(
                core::ptr::null_mut(),
                PAGE_BYTES,
                protection,
                MapFlags::SHARED,
                fd,
                0,
            )
        }
        .map_err(|source| PageError::Kernel {
            call: "mmap",
            source,
        })?;
        let page = NonNull::new(address.cast::<Page>()).ok_or(PageError::Kernel {
            call: "mmap",
            source: Errno::NOMEM,
        })?;
        Ok(Self { page })
    }

    /// Checks that the page is one of this version, and has this token.
    pub(crate) fn check_header(&self, token: Token) -> Result<(), PageError> {
        let header = &self.header;
        let magic = header.magic.load(Ordering::Relaxed);
        if magic != PAGE_MAGIC {
            return Err(PageError::WrongMagic { actual: magic });
        }
        let version = header.version.load(Ordering::Relaxed);
        if version != PAGE_VERSION {
            return Err(PageError::WrongVersion { actual: version });
        }
        let size = header.size.load(Ordering::Relaxed);
        if size as usize != PAGE_BYTES {
            return Err(PageError::WrongSize {
                actual: u64::from(size),
            });
        }
        if header.token.load(Ordering::Relaxed) != token.to_raw() {
            return Err(PageError::WrongToken);
        }
        Ok(())
    }
}

impl Deref for Mapping {
    type Target = Page;

    fn deref(&self) -> &Page {
        // SAFETY: `page` points to a live mapping of `PAGE_BYTES == size_of::<Page>()` bytes at a
        // page boundary, hence aligned. Every bit pattern is a valid `Page`, which holds nothing but
        // atomics, so writes from elsewhere are no data race.
        unsafe { self.page.as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one mapped in `new`; references to it borrow `self`. A failure
        // could only mean that it is not mapped any more, which is what is wanted.
        let _ = unsafe { munmap(self.page.as_ptr().cast(), PAGE_BYTES) };
    }
}

/// The seals that make a mapping safe to access.
const SIZE_SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

fn check_file(fd: impl AsFd) -> Result<(), PageError> {
    let seals = match fcntl_get_seals(&fd) {
        Ok(seals) => seals,
        Err(Errno::INVAL) => return Err(PageError::NotSealed),
        Err(source) => {
            return Err(PageError::Kernel {
                call: "fcntl(F_GET_SEALS)",
                source,
            });
        }
    };
    if !seals.contains(SIZE_SEALS) {
        return Err(PageError::NotSealed);
    }
    let size = fstat(&fd)
        .map_err(|source| PageError::Kernel {
            call: "fstat",
            source,
        })?
        .st_size;
    let size = u64::try_from(size).unwrap_or(0);
    if size != PAGE_BYTES as u64 {
        return Err(PageError::WrongSize { actual: size });
    }
    Ok(())
}

/// A memfd of the right size, sealed; all zero. It is close-on-exec and can not be executed.
pub(crate) fn create_sealed_memfd() -> Result<OwnedFd, PageError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = match memfd_create("mapper-page", flags | MemfdFlags::NOEXEC_SEAL) {
        // Linux before 6.3 does not know the flag.
        Err(Errno::INVAL) => memfd_create("mapper-page", flags),
        other => other,
    }
    .map_err(|source| PageError::Kernel {
        call: "memfd_create",
        source,
    })?;
    ftruncate(&fd, PAGE_BYTES as u64).map_err(|source| PageError::Kernel {
        call: "ftruncate",
        source,
    })?;
    fcntl_add_seals(&fd, SIZE_SEALS)
        .and_then(|()| fcntl_add_seals(&fd, SealFlags::SEAL))
        .map_err(|source| PageError::Kernel {
            call: "fcntl(F_ADD_SEALS)",
            source,
        })?;
    Ok(fd)
}
