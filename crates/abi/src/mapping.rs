//! Owns the memory of a page; only here an address becomes a [`Page`].
//!
//! *Invariant.* A [`Mapping`] is made only of a memfd of exactly [`PAGE_BYTES`] bytes that is sealed against changes of its
//! size. So every access is backed by memory as long as the mapping lives, whatever the other side does.

use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    MemfdFlags, Mode, SealFlags, fchmod, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate,
    memfd_create,
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

// SAFETY: the mapping is plain shared memory without thread affinity, and `Page` holds only atomics, so it may be used and
// dropped from any thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; all access through `&Page` is atomic.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `fd` after checking that it cannot fault.
    pub(crate) fn new(fd: impl AsFd, access: Access) -> Result<Self, PageError> {
        check_file(&fd)?;
        let protection = match access {
            Access::ReadOnly => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        let kernel = |source| kernel("mmap", source);
        let (anywhere, flags) = (core::ptr::null_mut(), MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice aliases no Rust object. The length is that of the
        // file, which can neither shrink nor grow.
        let address = unsafe { mmap(anywhere, PAGE_BYTES, protection, flags, fd, 0) };
        let page = NonNull::new(address.map_err(kernel)?.cast::<Page>());
        let page = page.ok_or(kernel(Errno::NOMEM))?;
        Ok(Self { page })
    }

    /// Checks that the page has this version and token.
    pub(crate) fn check_header(&self, token: Token) -> Result<(), PageError> {
        let header = &self.header;
        let magic = header.magic.load(Ordering::Relaxed);
        if magic != PAGE_MAGIC {
            return Err(PageError::WrongMagic(magic));
        }
        let version = header.version.load(Ordering::Relaxed);
        if version != PAGE_VERSION {
            return Err(PageError::WrongVersion(version));
        }
        let size = header.size.load(Ordering::Relaxed);
        if size as usize != PAGE_BYTES {
            return Err(PageError::WrongSize(size.into()));
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
        // SAFETY: `page` points to a live mapping of `PAGE_BYTES == size_of::<Page>()` bytes at a page boundary, hence
        // aligned. Every bit pattern is a valid `Page`, which holds only atomics, so other writes are no data race.
        unsafe { self.page.as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one mapped in `new`; references to it borrow `self`. A failure could only mean that it
        // is not mapped any more.
        let _ = unsafe { munmap(self.page.as_ptr().cast(), PAGE_BYTES) };
    }
}

/// The seals that make a mapping safe to access.
const SIZE_SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

fn kernel(call: &'static str, source: Errno) -> PageError {
    PageError::Kernel { call, source }
}

fn check_file(fd: impl AsFd) -> Result<(), PageError> {
    match fcntl_get_seals(&fd) {
        Ok(seals) if seals.contains(SIZE_SEALS) => {}
        Ok(_) | Err(Errno::INVAL) => return Err(PageError::NotSealed),
        Err(source) => return Err(kernel("fcntl(F_GET_SEALS)", source)),
    }
    let found = fstat(&fd).map_err(|source| kernel("fstat", source))?;
    let size = u64::try_from(found.st_size).unwrap_or(0);
    if size != PAGE_BYTES as u64 {
        return Err(PageError::WrongSize(size));
    }
    Ok(())
}

/// What `MFD_NOEXEC_SEAL` gives: a user's program opens the page of root's daemon by its name in `/proc`, which takes
/// permission; no one executes it. Who can reach that name is limited by `/proc`.
const MODE: Mode = Mode::from_bits_retain(0o666);

/// A sealed memfd of the right size; all zero. It is close-on-exec and has no permission to be executed.
pub(crate) fn create_sealed_memfd() -> Result<OwnedFd, PageError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let create = |how| memfd_create("mapper-page", flags | how);
    // Not sealed against execution: a checkpointing tool gives a restored memfd its seals once it is mapped, and the kernel
    // refuses this one then.
    let fd = create(MemfdFlags::EXEC)
        .or_else(|errno| match errno {
            // `vm.memfd_noexec` is 2.
            Errno::ACCESS => create(MemfdFlags::NOEXEC_SEAL),
            // Linux before 6.3 knows neither flag.
            Errno::INVAL => create(MemfdFlags::empty()),
            other => Err(other),
        })
        .map_err(|source| kernel("memfd_create", source))?;
    fchmod(&fd, MODE).map_err(|source| kernel("fchmod", source))?;
    ftruncate(&fd, PAGE_BYTES as u64).map_err(|source| kernel("ftruncate", source))?;
    fcntl_add_seals(&fd, SIZE_SEALS)
        .and_then(|()| fcntl_add_seals(&fd, SealFlags::SEAL))
        .map_err(|source| kernel("fcntl(F_ADD_SEALS)", source))?;
    Ok(fd)
}
