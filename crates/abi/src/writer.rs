//! The daemon's side: creates the page and publishes allocations.

use core::sync::atomic::Ordering;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::allocation::{Allocation, Generation};
use crate::doorbell;
use crate::error::PageError;
use crate::layout::{PAGE_BYTES, PAGE_MAGIC, PAGE_VERSION};
use crate::mapping::{Access, Mapping, create_sealed_memfd};
use crate::reader::PageReader;
use crate::token::Token;

/// Owns the page of one application and is its only writer.
#[derive(Debug)]
pub struct PageWriter {
    fd: OwnedFd,
    mapping: Mapping,
    token: Token,
    /// The last sequence number published. Kept here, since the application can write to the page.
    sequence: u32,
}

impl PageWriter {
    /// Creates a page with a new token.
    pub fn create() -> Result<Self, PageError> {
        let token = Token::random()?;
        let fd = create_sealed_memfd()?;
        let mapping = Mapping::new(&fd, Access::ReadWrite)?;
        let header = &mapping.header;
        header.version.store(PAGE_VERSION, Ordering::Relaxed);
        header.size.store(PAGE_BYTES as u32, Ordering::Relaxed);
        header.token.store(token.to_raw(), Ordering::Relaxed);
        header.magic.store(PAGE_MAGIC, Ordering::Release);
        Ok(Self {
            fd,
            mapping,
            token,
            sequence: 0,
        })
    }

    /// Takes over a page that an earlier daemon created. Continues from the sequence number there, so that the application
    /// notices the next allocation; that also repairs an unfinished write.
    pub fn adopt(fd: OwnedFd, token: Token) -> Result<Self, PageError> {
        let mapping = Mapping::new(&fd, Access::ReadWrite)?;
        mapping.check_header(token)?;
        let sequence = mapping.allocation.sequence.load(Ordering::Relaxed);
        Ok(Self {
            fd,
            mapping,
            token,
            sequence,
        })
    }

    /// Publishes an allocation and wakes the application's waiting threads. The application sees the previous allocation or
    /// this one.
    pub fn publish(&mut self, allocation: &Allocation) -> Generation {
        self.sequence = self.mapping.allocation.publish(self.sequence, allocation);
        doorbell::ring(&self.mapping.report.doorbell);
        Generation::from_sequence(self.sequence)
    }

    /// The generation published last.
    pub const fn generation(&self) -> Generation {
        Generation::from_sequence(self.sequence)
    }

    /// What the application must have in its environment.
    pub const fn token(&self) -> Token {
        self.token
    }

    /// A reader of what the application reports, with a mapping of its own.
    pub fn reader(&self) -> Result<PageReader, PageError> {
        PageReader::from_fd(&self.fd, self.token)
    }
}

impl AsFd for PageWriter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
