//! The page that mapperd and one application share.
//!
//! *Problem.* The daemon decides a few times a second which CPUs a program may use; the program's
//! OpenMP runtime starts up to a million parallel regions a second and wants to know the decision at
//! each. The daemon in turn wants to know how far the program has come. Neither may ever wait for
//! the other, and neither may be hurt by what the other writes.
//!
//! *Approach.* One sealed memfd per application, [`PAGE_BYTES`] long, mapped by both ([`layout`]).
//! The daemon writes an [`Allocation`] under a seqlock ([`seqlock`]); reading it without a change
//! costs one relaxed load. Each thread of the application counts into a slot of its own, so that
//! counting needs no atomic read-modify-write and no cache line moves between threads.
//!
//! *Who uses what.* The daemon creates the page with [`PageWriter`] and reads progress with
//! [`PageReader`]; the application's side is [`ClientPage`]. C programs see the same layout through
//! `include/mapper_page.h`, which is generated from [`layout`] and checked against it by a test.
//!
//! *Trust.* The application maps the page writable, so the daemon treats whatever it reads as data
//! that anybody may have put there, changing at any moment: it copies values out through atomics,
//! bounds them, and never reads back what it wrote itself. The memfd is sealed against shrinking, so
//! an access can not fault. The application trusts the page as far as the token in it equals the one
//! the launcher gave it, which a recycled process or descriptor number would not.
//!
//! *Invariants.* All shared fields are atomics of fixed width; the layout of a version never
//! changes; slots only ever count upwards.

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
/// Environment variable that makes the shim say on stderr why it stays inert: `1`.
pub const DEBUG_ENV: &str = "MAPPER_DEBUG";
