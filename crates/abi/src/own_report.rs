//! What an application's own code reports about itself: progress, the CPUs it can use, serial phases.
//!
//! Any thread of any of its processes may report at any moment, and none may wait for another. Each report is one word,
//! changed by compare-and-swap or addition, or a word and the time of its last change. Of such a pair the value is written
//! first and the time read first: the reader never takes new work for old, and the other error is corrected by the next
//! report.
//!
//! *Invariants.* The daemon's side yields bounded values only: finite, not negative, not of the future, CPU counts from 1 to
//! what the mask can name. Other contents count as not reported. An amount that is not finite, or with which the sum would
//! not be, is ignored: such a sum could never show progress again. Where the application wrote something else than a sum or
//! an average, the next report starts anew.

use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::layout::{MAX_CPUS, OwnReportBlock, PROGRESS_LATENCY, PROGRESS_WORK};

/// A new latency contributes this share to the average, the earlier ones the rest.
const LATENCY_SHARE: f64 = 1.0 / 8.0;

/// Progress as the application's own code reports it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum OwnProgress {
    /// Work done so far, in the application's own unit.
    Work {
        /// Cumulative amount; finite and not negative.
        done: f64,
        /// Monotonic time of the latest report; not in the future.
        at_ns: u64,
    },
    /// A latency observed lately.
    Latency {
        /// The latency; finite and not negative.
        latency_ns: f64,
        /// Monotonic time of the latest report; not in the future.
        at_ns: u64,
    },
}

/// The CPU counts that an application can use, as it reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuWish {
    /// It does not work well with fewer; at most `most`.
    pub least: NonZeroU32,
    /// It cannot use more.
    pub most: NonZeroU32,
}

impl CpuWish {
    /// A wish; the smaller number is the least.
    pub fn new(one: NonZeroU32, other: NonZeroU32) -> Self {
        Self {
            least: one.min(other),
            most: one.max(other),
        }
    }

    const fn to_raw(self) -> u64 {
        (self.most.get() as u64) << 32 | self.least.get() as u64
    }

    fn from_raw(raw: u64) -> Option<Self> {
        let bounded = |cpus: u64| {
            let cpus = u32::try_from(cpus).ok()?;
            NonZeroU32::new(cpus.min(MAX_CPUS as u32))
        };
        Some(Self::new(bounded(raw & 0xffff_ffff)?, bounded(raw >> 32)?))
    }
}

/// Everything that an application's own code reports.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct OwnReport {
    /// Its progress, as reported last.
    pub progress: Option<OwnProgress>,
    /// The CPUs it can use.
    pub cpus: Option<CpuWish>,
    /// Whether it is in a serial phase: one CPU is all it needs now.
    pub serial: bool,
}

/// So much later than the clock was read a report may have been made that is in the page.
const AHEAD_NS: u64 = 1_000_000_000;

impl OwnReport {
    /// The contents of the page at `now_ns`. A little later time counts as that: it is of a report
    /// made since.
    pub(crate) fn read(block: &OwnReportBlock, now_ns: u64) -> Self {
        let number = |word: &AtomicU64| amount(word.load(Ordering::Relaxed));
        // Acquire: the value is of this time or later.
        let time = |word: &AtomicU64| {
            let reported = Some(word.load(Ordering::Acquire));
            let last_ns = now_ns.saturating_add(AHEAD_NS);
            let reported = reported.filter(|at_ns| (1..=last_ns).contains(at_ns));
            reported.map(|at_ns| at_ns.min(now_ns))
        };
        let progress = match block.progress_kind.load(Ordering::Relaxed) {
            PROGRESS_WORK => time(&block.work_at_ns).and_then(|at_ns| {
                let done = number(&block.work_done)?;
                Some(OwnProgress::Work { done, at_ns })
            }),
            PROGRESS_LATENCY => time(&block.latency_at_ns).and_then(|at_ns| {
                let latency_ns = number(&block.latency_ns)?;
                Some(OwnProgress::Latency { latency_ns, at_ns })
            }),
            _ => None,
        };
        // A count below zero is no count of open phases.
        let phases = block.serial_phases.load(Ordering::Relaxed).cast_signed();
        Self {
            progress,
            cpus: CpuWish::from_raw(block.cpu_range.load(Ordering::Relaxed)),
            serial: phases > 0,
        }
    }
}

impl OwnReportBlock {
    /// Adds to the work done; `now_ns` is the present `CLOCK_MONOTONIC`. Ignored is an amount that is negative, not finite,
    /// or would make the sum infinite.
    pub fn add_work(&self, amount: f64, now_ns: u64) {
        if !amount.is_finite() || amount < 0.0 {
            return;
        }
        if change(&self.work_done, |done| done + amount) {
            self.work_at_ns.fetch_max(now_ns, Ordering::Release);
            self.set_kind(PROGRESS_WORK);
        }
    }

    /// Reports a latency; `now_ns` is the present `CLOCK_MONOTONIC`. Ignored is one that is negative or not finite.
    pub fn add_latency(&self, latency_ns: f64, now_ns: u64) {
        if !latency_ns.is_finite() || latency_ns < 0.0 {
            return;
        }
        let averaged = change(&self.latency_ns, |before| match before > 0.0 {
            true => before + (latency_ns - before) * LATENCY_SHARE,
            false => latency_ns,
        });
        if averaged {
            self.latency_at_ns.fetch_max(now_ns, Ordering::Release);
            self.set_kind(PROGRESS_LATENCY);
        }
    }

    fn set_kind(&self, kind: u32) {
        // A store only if needed keeps the cache line where it is.
        if self.progress_kind.load(Ordering::Relaxed) != kind {
            self.progress_kind.store(kind, Ordering::Relaxed);
        }
    }

    /// Declares the CPUs that can be used; `None` revokes that.
    pub fn wish_cpus(&self, wish: Option<CpuWish>) {
        let raw = wish.map_or(0, CpuWish::to_raw);
        self.cpu_range.store(raw, Ordering::Relaxed);
    }

    /// A serial phase begins. Phases may be nested and overlap.
    pub fn begin_serial(&self) {
        self.serial_phases.fetch_add(1, Ordering::Relaxed);
    }

    /// A serial phase ends. Ignored if none is open, which is the caller's mistake.
    pub fn end_serial(&self) {
        let (phases, relaxed) = (&self.serial_phases, Ordering::Relaxed);
        let _ = phases.fetch_update(relaxed, relaxed, |open| open.checked_sub(1));
    }
}

/// Changes a sum or an average; an invalid one counts as 0. Returns whether it did: a value that is not finite is not
/// written.
fn change(word: &AtomicU64, new: impl Fn(f64) -> f64) -> bool {
    word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |bits| {
        let value = new(amount(bits).unwrap_or(0.0));
        value.is_finite().then(|| value.to_bits())
    })
    .is_ok()
}

/// The amount in a word, if it is valid: finite and not negative.
fn amount(bits: u64) -> Option<f64> {
    Some(f64::from_bits(bits)).filter(|value| value.is_finite() && *value >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(block: &OwnReportBlock, now_ns: u64) -> Option<OwnProgress> {
        OwnReport::read(block, now_ns).progress
    }

    const fn work(done: f64, at_ns: u64) -> Option<OwnProgress> {
        Some(OwnProgress::Work { done, at_ns })
    }

    const fn latency(latency_ns: f64, at_ns: u64) -> Option<OwnProgress> {
        Some(OwnProgress::Latency { latency_ns, at_ns })
    }

    fn cpus(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).unwrap()
    }

    #[test]
    fn nothing_said_is_nothing_read() {
        assert_eq!(
            OwnReport::read(&OwnReportBlock::default(), u64::MAX),
            OwnReport::default()
        );
    }

    #[test]
    fn work_adds_up_over_threads() {
        let block = OwnReportBlock::default();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let block = &block;
                scope.spawn(move || {
                    (0..1000_u64).for_each(|i| block.add_work(0.5, 1 + thread * 1000 + i));
                });
            }
        });
        assert_eq!(progress(&block, 4000), work(2000.0, 4000));
    }

    #[test]
    fn a_latency_follows_what_is_reported() {
        let block = OwnReportBlock::default();
        block.add_latency(800.0, 1);
        block.add_latency(1600.0, 2);
        assert_eq!(progress(&block, 2), latency(900.0, 2));
        for _ in 0..100 {
            block.add_latency(50.0, 3);
        }
        let Some(OwnProgress::Latency { latency_ns, .. }) = progress(&block, 3) else {
            panic!("no latency");
        };
        assert!((latency_ns - 50.0).abs() < 1.0, "{latency_ns}");
    }

    #[test]
    fn an_invalid_amount_is_neither_reported_nor_read() {
        let block = OwnReportBlock::default();
        for amount in [f64::NAN, f64::INFINITY, -1.0] {
            block.add_work(amount, 1);
            block.add_latency(amount, 1);
        }
        assert_eq!(progress(&block, 1), None);
        block.add_work(1.0, 5);
        assert_eq!(progress(&block, 4), work(1.0, 4), "made since");
        block.add_work(1.0, AHEAD_NS + 7);
        assert_eq!(progress(&block, 6), None, "of the future");
        let block = OwnReportBlock::default();
        block.add_work(1.0, 5);
        // After an invalid amount in the page reports start anew.
        for invalid in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
            block.work_done.store(invalid.to_bits(), Ordering::Relaxed);
            assert_eq!(progress(&block, 9), None);
            block.add_work(2.0, 6);
            assert_eq!(progress(&block, 9), work(2.0, 6));
        }
        for invalid in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
            block.add_latency(1.0, 7);
            block.latency_ns.store(invalid.to_bits(), Ordering::Relaxed);
            assert_eq!(progress(&block, 9), None);
            block.add_latency(2.0, 8);
            assert_eq!(progress(&block, 9), latency(2.0, 8));
        }
    }

    #[test]
    fn an_amount_with_which_the_sum_would_be_infinite_is_ignored() {
        let block = OwnReportBlock::default();
        block.add_work(1e308, 1);
        block.add_work(1e308, 2);
        assert_eq!(progress(&block, 3), work(1e308, 1));
        // One that fits still counts.
        block.add_work(5e307, 3);
        assert_eq!(progress(&block, 3), work(1.5e308, 3));
    }

    #[test]
    fn the_longest_latencies_have_a_finite_average() {
        let block = OwnReportBlock::default();
        for latency_ns in [f64::MAX, f64::MIN_POSITIVE, f64::MAX, 0.0, f64::MAX] {
            block.add_latency(latency_ns, 1);
            let progress = progress(&block, 1);
            let valid = matches!(progress, Some(OwnProgress::Latency { .. }));
            assert!(valid, "{latency_ns}: {progress:?}");
        }
    }

    #[test]
    fn a_wish_is_a_range_within_what_the_mask_can_name() {
        let block = OwnReportBlock::default();
        let wish = || OwnReport::read(&block, 1).cpus;
        block.wish_cpus(Some(CpuWish::new(cpus(8), cpus(2))));
        assert_eq!(wish(), Some(CpuWish::new(cpus(2), cpus(8))));
        block.cpu_range.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(wish().unwrap().most.get() as usize, MAX_CPUS);
        block.cpu_range.store(5, Ordering::Relaxed);
        assert_eq!(wish(), None);
        block.wish_cpus(None);
        assert_eq!(wish(), None);
    }

    #[test]
    fn serial_phases_may_overlap_and_an_end_too_many_changes_nothing() {
        let block = OwnReportBlock::default();
        let serial = || OwnReport::read(&block, 1).serial;
        block.end_serial();
        assert!(!serial());
        block.begin_serial();
        block.begin_serial();
        block.end_serial();
        assert!(serial());
        block.end_serial();
        assert!(!serial());
    }
}
