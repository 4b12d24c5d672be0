//! What a program can report to mapper, and read from it.
//!
//! mapper moves CPUs between programs while they run. A program with threads of its own (no OpenMP) does not notice and
//! has too many threads, or too few. On the other hand, only the program knows its progress, or that it is about to need
//! one CPU only.
//!
//! The program's launcher left a page of shared memory in its environment ([`mapper_abi`]), which [`Mapper::get`] finds.
//! Reading the allocation costs a few loads and reporting a few stores, without a system call or waiting.
//!
//! *Without mapper* (not started by `mapper-launch`, another version, no daemon) [`Mapper::allocation`] is `None`, and
//! reports have no effect. A program needs no special case for that.
//!
//! ```
//! use mapper_client::Mapper;
//!
//! let mapper = Mapper::get();
//! let threads = match mapper.allocation() {
//!     Some(allocation) => allocation.cpu_count.get() as usize,
//!     None => std::thread::available_parallelism().map_or(1, usize::from),
//! };
//! for _batch in 0..threads {
//!     // … work …
//!     mapper.work_done(1.0);
//! }
//! ```
//!
//! No report can take a CPU from another program, or gain more than the user granted at launch. [`Mapper::promise`] asks
//! the daemon, which allows what the user may have asked for at launch.

mod promise;

use core::num::NonZeroU32;
use core::time::Duration;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

use mapper_abi::layout::OwnReportBlock;
use mapper_abi::{ClientPage, CpuWish, PageError, Token, doorbell};
pub use mapper_abi::{CpuMask, Generation};
pub use promise::PromiseError;
use rustix::time::{ClockId, clock_gettime};
use thiserror::Error;

/// A program's connection to mapper; without one it does nothing.
#[derive(Debug)]
pub struct Mapper {
    page: Option<ClientPage>,
}

/// The CPUs that the program has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// Counts up with every allocation, for [`Mapper::wait_for_change`].
    pub generation: Generation,
    /// How many CPUs: the size for a pool of threads.
    pub cpu_count: NonZeroU32,
    /// Which. May be more than `cpu_count` where programs share CPUs.
    pub cpus: CpuMask,
    /// Their NUMA nodes, bit *n* for node *n*.
    pub node_mask: u64,
}

/// Why a program is not managed.
#[derive(Debug, Error)]
pub enum NotManaged {
    /// It was not started by `mapper-launch`, or with `--no-runtime`.
    #[error("{0} is not set; start the program with mapper-launch")]
    NotLaunched(&'static str),
    /// The page is missing or invalid.
    #[error(transparent)]
    Page(#[from] PageError),
}

/// A part of the program in which it uses one CPU only. Ends when dropped.
#[derive(Debug)]
#[must_use = "the serial phase ends when this is dropped"]
pub struct SerialPhase<'a> {
    mapper: &'a Mapper,
}

impl Drop for SerialPhase<'_> {
    fn drop(&mut self) {
        self.mapper.end_serial();
    }
}

/// The longest sleep between two checks for a change, in case the daemon dies before it signals.
const LOOK: Duration = Duration::from_secs(1);

impl Mapper {
    /// The program's connection. Searched at the first call, which is best early in `main`.
    #[must_use]
    pub fn get() -> &'static Self {
        static MAPPER: OnceLock<Mapper> = OnceLock::new();
        MAPPER.get_or_init(|| Self {
            page: Self::find().ok(),
        })
    }

    /// A separate connection, or why there is none.
    pub fn attach() -> Result<Self, NotManaged> {
        Ok(Self {
            page: Some(Self::find()?),
        })
    }

    /// A connection to nothing.
    #[must_use]
    pub const fn inert() -> Self {
        Self { page: None }
    }

    fn find() -> Result<ClientPage, NotManaged> {
        let variable = |name| std::env::var_os(name).ok_or(NotManaged::NotLaunched(name));
        let path = variable(mapper_abi::PAGE_ENV)?;
        let token = variable(mapper_abi::TOKEN_ENV)?;
        let token: Token = token.to_string_lossy().parse()?;
        Ok(ClientPage::open(Path::new(&path), token)?)
    }

    /// Whether mapper manages this program.
    #[must_use]
    pub const fn is_managed(&self) -> bool {
        self.page.is_some()
    }

    /// The CPUs it has now; `None` when it is not managed or nothing was decided yet.
    #[must_use]
    pub fn allocation(&self) -> Option<Allocation> {
        let read = self.page.as_ref()?.allocation()?;
        Some(Allocation {
            generation: Generation::from_sequence(read.sequence),
            cpu_count: NonZeroU32::new(read.fields.cpu_count)?,
            cpus: read.fields.cpus,
            node_mask: read.fields.node_mask,
        })
    }

    /// The generation of the allocation, by a single load; 0 when not managed.
    #[must_use]
    pub fn generation(&self) -> Generation {
        let sequence = self.page.as_ref().map_or(0, ClientPage::sequence);
        // While the daemon writes, the one before is in force.
        Generation::from_sequence(sequence)
    }

    /// Waits up to `timeout` until the allocation has another generation than `known`, and returns the new one. Without
    /// mapper it always waits that long.
    #[must_use]
    pub fn wait_for_change(&self, known: Generation, timeout: Duration) -> Option<Allocation> {
        let deadline = Instant::now().checked_add(timeout);
        let left = || match deadline {
            Some(deadline) => deadline.saturating_duration_since(Instant::now()),
            None => LOOK,
        };
        let Some(page) = &self.page else {
            std::thread::sleep(timeout);
            return None;
        };
        let bell = &page.report().doorbell;
        loop {
            let heard = doorbell::listen(bell);
            if let Some(allocation) = self.allocation()
                && allocation.generation != known
            {
                return Some(allocation);
            }
            let left = left();
            if left.is_zero() {
                return None;
            }
            // The application's own threads ring this bell, too; the next iteration checks.
            let _ = doorbell::wait(bell, heard, left.min(LOOK));
        }
    }

    fn report(&self, report: impl FnOnce(&OwnReportBlock)) {
        if let Some(page) = &self.page {
            report(page.own());
        }
    }

    /// Reports an amount of work done, in any unit that stays the same; more per second is better. Amounts of all threads
    /// are added. Ignored is an amount that is negative or not finite, or with which the sum would not be finite; the sum
    /// is an `f64`, so that an amount below about 1e-16 of it adds nothing.
    pub fn work_done(&self, amount: f64) {
        self.report(|own| own.add_work(amount, now_ns()));
    }

    /// Reports how long something took, such as a request; less is better. The daemon sees an average of the latest.
    pub fn latency(&self, latency: Duration) {
        self.report(|own| own.add_latency(latency.as_secs_f64() * 1e9, now_ns()));
    }

    /// Declares that the program can use from `least` to `most` CPUs. Narrows the range of its launch; a `least` beyond an
    /// equal share of the machine is cut to that.
    pub fn declare_cpus(&self, least: NonZeroU32, most: NonZeroU32) {
        self.report(|own| own.wish_cpus(Some(CpuWish::new(least, most))));
    }

    /// Revokes [`declare_cpus`](Self::declare_cpus).
    pub fn declare_nothing(&self) {
        self.report(|own| own.wish_cpus(None));
    }

    /// Has the program promised this share of its fair-share performance, above 0 and up to 1, from the next decision on. As
    /// much is allowed as its user may ask for at launch. Unlike reports this is a call of the daemon, and waits for its
    /// answer. Without mapper it does nothing.
    pub fn promise(&self, share: f64) -> Result<(), PromiseError> {
        if !(share > 0.0 && share <= 1.0) {
            return Err(PromiseError::OutOfRange(share));
        }
        match self.is_managed() {
            true => promise::ask(share),
            false => Ok(()),
        }
    }

    /// Begins a serial phase: until the returned value is dropped, the program needs one CPU only. For phases of a second
    /// or more, since the daemon decides about once a second. With the decision after the last phase the program has
    /// again what it had before, unless the promise to another program needs that.
    pub fn serial_phase(&self) -> SerialPhase<'_> {
        self.begin_serial();
        SerialPhase { mapper: self }
    }

    /// Begins a serial phase that [`end_serial`](Self::end_serial) ends, for callers that cannot keep a guard. Phases of
    /// several threads may overlap: the last end counts.
    pub fn begin_serial(&self) {
        self.report(OwnReportBlock::begin_serial);
    }

    /// Ends a serial phase.
    pub fn end_serial(&self) {
        self.report(OwnReportBlock::end_serial);
    }
}

/// The present time by the clock of the page.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let since_boot = Duration::try_from(now).unwrap_or_default();
    u64::try_from(since_boot.as_nanos()).unwrap_or(u64::MAX)
}
