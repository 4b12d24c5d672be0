//! The page that mapperd and one application share.
//!
//! *Problem.* The daemon decides a few times a second which CPUs a program may use; the program's OpenMP runtime starts up
//! to a million parallel regions a second and has to know the decision at each. The daemon has to know the program's
//! progress. Neither may wait for the other, or be harmed by what the other writes.
//!
//! *Approach.* One sealed memfd per application, [`PAGE_BYTES`] long, mapped by both ([`layout`]). The daemon writes an
//! [`Allocation`] under a seqlock ([`seqlock`]); a check for a change costs one relaxed load. Each thread of the application
//! counts in a slot of its own, so that counting needs no atomic read-modify-write and no cache line moves between threads.
//!
//! The daemon creates the page with [`PageWriter`] and reads progress with [`PageReader`]; the application uses
//! [`ClientPage`]. C programs use `include/mapper_page.h`, generated from [`layout`] and compared with it by a test.
//!
//! *Trust.* The application can write to the page, so the daemon treats its contents as untrusted and changing at any
//! moment: it copies values through atomics, bounds them, and never reads back what it wrote itself. The memfd is sealed
//! against shrinking, so that an access cannot fault. The application trusts a page with the token from the launcher, which
//! a recycled process or descriptor number would not have.
//!
//! *Invariants.* All shared fields are atomics of fixed width; the layout of a version never changes; slots only count
//! upwards.

pub mod allocation;
pub mod client;
pub mod doorbell;
pub mod error;
pub mod layout;
mod mapping;
pub mod own_report;
pub mod reader;
pub mod report;
pub mod seqlock;
#[cfg(feature = "stand-in")]
pub mod stand_in;
pub mod token;
pub mod writer;

pub use allocation::{Allocation, CpuMask, Generation, TeamMode};
pub use client::{ClientPage, Leftovers, SlotClaim, SlotOwner, SlotSharing};
pub use error::PageError;
pub use layout::{PAGE_BYTES, PAGE_VERSION};
pub use own_report::{CpuWish, OwnProgress, OwnReport};
pub use reader::{PageReader, Progress, ProgressGain};
pub use report::{ReportFlags, RuntimeReport, Runtimes, TeamsOff};
pub use token::Token;
pub use writer::PageWriter;

/// Environment variable with the path of the page: `/proc/<launcher's pid>/fd/<n>`.
pub const PAGE_ENV: &str = "MAPPER_PAGE";
/// Environment variable with the page's [`Token`] in hexadecimal.
pub const TOKEN_ENV: &str = "MAPPER_TOKEN";
/// Environment variable with the [`TeamMode`] chosen at launch: `fixed`, `follow` or `virtual`.
pub const TEAMS_ENV: &str = "MAPPER_TEAMS";
/// Environment variable that makes the shim report on stderr why it stays inert: `1`.
pub const DEBUG_ENV: &str = "MAPPER_DEBUG";
