//! The daemon's side: reads what an application reports, and trusts none of it.
//!
//! The application may write anything anywhere in the page at any time. The daemon must neither crash nor loop nor get
//! absurd numbers. So every value is loaded once, through an atomic, into a plain struct, and bounded: the number of slots
//! by the size of the page, times by the present, flags by the known ones. Sums saturate. Where totals go backwards,
//! [`Progress::since`] reports no gain.

use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::AsFd;

use crate::allocation::{Allocation, Generation};
use crate::error::PageError;
use crate::layout::{MAX_CPUS, SLOT_COUNT, ThreadSlot};
use crate::mapping::{Access, Mapping};
use crate::own_report::OwnReport;
use crate::report::{ReportFlags, RuntimeReport, Runtimes, TeamsOff};
use crate::token::Token;

/// Reads the page of one application.
#[derive(Debug)]
pub struct PageReader {
    mapping: Mapping,
}

/// How far an application has come, summed over all threads of all its processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Parallel regions completed.
    pub regions: u64,
    /// Iterations completed of loops that the runtime dispenses in chunks.
    pub iterations: u64,
    /// Thread time spent waiting at barriers; measured only with
    /// [`ReportFlags::WAIT_MEASURED`](crate::ReportFlags::WAIT_MEASURED).
    pub wait_ns: u64,
    /// Time in parallel regions, those that run included, summed over the threads that started them; an estimate, 0 where
    /// it is not measured.
    pub parallel_ns: u64,
    /// Monotonic time of the last region or loop completed; 0 before the first, never in the future.
    pub last_progress_ns: u64,
    /// Threads that hold a slot; those of killed processes hold theirs until it is needed.
    pub threads: u32,
    /// Identity of the region started by the thread that completed a region or loop last; 0 when unknown.
    pub region: u64,
}

/// What an application did between two readings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProgressGain {
    /// Parallel regions completed.
    pub regions: u64,
    /// Loop iterations completed.
    pub iterations: u64,
    /// Thread time spent waiting at barriers.
    pub wait_ns: u64,
}

impl Progress {
    /// The gain since `earlier`; nothing where a total went backwards.
    pub const fn since(&self, earlier: &Self) -> ProgressGain {
        ProgressGain {
            regions: self.regions.saturating_sub(earlier.regions),
            iterations: self.iterations.saturating_sub(earlier.iterations),
            wait_ns: self.wait_ns.saturating_sub(earlier.wait_ns),
        }
    }
}

impl PageReader {
    /// Maps the page read-only.
    pub fn from_fd(fd: impl AsFd, token: Token) -> Result<Self, PageError> {
        let mapping = Mapping::new(fd, Access::ReadOnly)?;
        mapping.check_header(token)?;
        Ok(Self { mapping })
    }

    /// Sums up the slots. `now_ns` is the present `CLOCK_MONOTONIC`, which bounds reported times.
    pub fn progress(&self, now_ns: u64) -> Progress {
        let mut total = Progress::default();
        let add = |sum: &mut u64, word: &AtomicU64| {
            *sum = sum.saturating_add(word.load(Ordering::Relaxed));
        };
        for slot in self.used_slots() {
            add(&mut total.regions, &slot.regions);
            add(&mut total.iterations, &slot.iterations);
            add(&mut total.wait_ns, &slot.wait_ns);
            add(&mut total.parallel_ns, &slot.parallel_ns);
            let is_owned = slot.owner.load(Ordering::Relaxed) != 0;
            total.threads += u32::from(is_owned);
            let since_ns = slot.parallel_since_ns.load(Ordering::Relaxed);
            if is_owned && since_ns != 0 {
                let so_far_ns = now_ns.saturating_sub(since_ns);
                total.parallel_ns = total.parallel_ns.saturating_add(so_far_ns);
            }
            let last_ns = slot.last_progress_ns.load(Ordering::Relaxed).min(now_ns);
            let region = slot.region.load(Ordering::Relaxed);
            if last_ns >= total.last_progress_ns && region != 0 {
                total.region = region;
            }
            total.last_progress_ns = total.last_progress_ns.max(last_ns);
        }
        total
    }

    /// What was published last, by this daemon or an earlier one; `None` if it ended while it wrote.
    pub fn allocation(&self) -> Option<Allocation> {
        self.mapping.allocation.read().map(|stamped| stamped.fields)
    }

    /// What the application reports about itself.
    pub fn report(&self) -> RuntimeReport {
        let report = &self.mapping.report;
        let applied = report.applied_sequence.load(Ordering::Acquire);
        // CPUs spared of another allocation say nothing about this one.
        let is_current = applied == self.mapping.allocation.sequence.load(Ordering::Relaxed);
        let spare_cpus = match is_current {
            true => report.spare_cpus.load(Ordering::Relaxed),
            false => 0,
        };
        RuntimeReport {
            runtimes: Runtimes::from_bits_truncate(report.runtimes.load(Ordering::Relaxed)),
            flags: ReportFlags::from_bits_truncate(report.flags.load(Ordering::Relaxed)),
            teams_off: TeamsOff::from_repr(report.teams_off.load(Ordering::Relaxed)),
            applied: Generation::from_sequence(applied),
            team_size: report.team_size.load(Ordering::Relaxed),
            max_threads: report.max_threads.load(Ordering::Relaxed),
            spare_cpus: spare_cpus.min(MAX_CPUS as u32),
            preemptions: report.preemptions.load(Ordering::Relaxed),
        }
    }

    /// What the application's own code reports. `now_ns` is the present `CLOCK_MONOTONIC`, which bounds reported times.
    pub fn own_report(&self, now_ns: u64) -> OwnReport {
        OwnReport::read(&self.mapping.own, now_ns)
    }

    /// The slots that were ever handed out, according to the application; never more than there are.
    fn used_slots(&self) -> &[ThreadSlot] {
        let claimed = self.mapping.report.slots_claimed.load(Ordering::Acquire) as usize;
        let slots = self.mapping.slots.get(..claimed.min(SLOT_COUNT));
        slots.unwrap_or_default()
    }
}
