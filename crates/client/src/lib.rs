//! What a program can say to mapper, and ask of it.
//!
//! *Problem.* mapper moves CPUs between programs while they run. A program with threads of its own
//! (no OpenMP) does not notice: it has too many threads, or too few. And nobody knows as well as the
//! program how far it has come, or that it is about to do something that needs one CPU only.
//!
//! *Approach.* The program's launcher left a page of shared memory in its environment ([`mapper_abi`]).
//! [`Mapper::get`] finds it; reading the allocation then costs a few loads, saying something a few
//! stores, without a system call. Nobody waits for anybody.
//!
//! *Without mapper* (not started by `mapper-launch`, another version, no daemon) everything does
//! nothing: [`Mapper::allocation`] is `None`, and what is said is heard by nobody. A program needs no
//! case of its own for that.
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
//! Trust and bounds: nothing that a program says can take a CPU from another program, or more than the
//! user gave it at launch.

use core::num::NonZeroU32;
use core::time::Duration;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

use mapper_abi::{ClientPage, CpuWish, PageError, Token, doorbell};
pub use mapper_abi::{CpuMask, Generation};
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
    /// Counts up with every allocation; to be given to [`Mapper::wait_for_change`].
    pub generation: Generation,
    /// How many CPUs: what a pool of threads should have.
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
    /// The page is not there, or not believed.
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

/// The longest sleep between two looks for a change, should the daemon die before it rings.
const LOOK: Duration = Duration::from_secs(1);

impl Mapper {
    /// The program's connection. Looked for at the first call, which is best early in `main`.
    #[must_use]
    pub fn get() -> &'static Self {
        static MAPPER: OnceLock<Mapper> = OnceLock::new();
        MAPPER.get_or_init(|| Self {
            page: Self::find().ok(),
        })
    }

    /// A connection of one's own, or why there is none.
    ///
    /// # Errors
    /// [`NotManaged`] says what is missing.
    pub fn attach() -> Result<Self, NotManaged> {
        Ok(Self {
            page: Some(Self::find()?),
        })
    }

    /// Who is not connected to anything.
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

    /// The generation of the allocation: a single load, for those who look at it often. 0 when not
    /// managed.
    #[must_use]
    pub fn generation(&self) -> Generation {
        let sequence = self.page.as_ref().map_or(0, ClientPage::sequence);
        // While the daemon writes, the one before is in force.
        Generation::from_sequence(sequence)
    }

    /// Waits until the allocation is another than that of generation `known`, for `timeout` at most.
    /// Returns the new one, or `None` if there is none by then. Who is not managed waits in vain.
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
            // The application's own threads ring this bell, too; the next turn tells.
            let _ = doorbell::wait(bell, heard, left.min(LOOK));
        }
    }

    /// Says that so much work is done, in any unit that is always the same; more per second is better.
    /// Amounts of all threads add up. An amount that is negative or not finite is ignored, and so is one
    /// with which the sum would not be finite; the sum is an `f64`, so that an amount below about 1e-16
    /// of it adds nothing.
    pub fn work_done(&self, amount: f64) {
        if let Some(page) = &self.page {
            page.own().add_work(amount, now_ns());
        }
    }

    /// Says how long something took that should be quick, such as a request; less is better. The
    /// daemon sees an average of the latest.
    pub fn latency(&self, latency: Duration) {
        if let Some(page) = &self.page {
            page.own()
                .add_latency(latency.as_secs_f64() * 1e9, now_ns());
        }
    }

    /// Declares that the program can use from `least` to `most` CPUs. Narrows what it was launched
    /// with; a `least` beyond an equal share of the machine is cut to that.
    pub fn declare_cpus(&self, least: NonZeroU32, most: NonZeroU32) {
        if let Some(page) = &self.page {
            page.own().wish_cpus(Some(CpuWish::new(least, most)));
        }
    }

    /// Takes back what [`declare_cpus`](Self::declare_cpus) said.
    pub fn declare_nothing(&self) {
        if let Some(page) = &self.page {
            page.own().wish_cpus(None);
        }
    }

    /// Begins a serial phase: until what is returned is dropped, the program needs one CPU only. For
    /// phases of a second or more; the daemon decides about once a second. With the decision after the
    /// last phase has ended the program has again what it had before, unless the promise to another
    /// program needs that.
    pub fn serial_phase(&self) -> SerialPhase<'_> {
        self.begin_serial();
        SerialPhase { mapper: self }
    }

    /// Begins a serial phase that [`end_serial`](Self::end_serial) ends, for those who cannot keep a
    /// guard. Phases of several threads may overlap: the last end counts.
    pub fn begin_serial(&self) {
        if let Some(page) = &self.page {
            page.own().begin_serial();
        }
    }

    /// Ends a serial phase.
    pub fn end_serial(&self) {
        if let Some(page) = &self.page {
            page.own().end_serial();
        }
    }
}

/// The present by the clock of the page.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}
