//! What an application's own code says about itself: progress, the CPUs it can use, serial phases.
//!
//! *Problem.* An application that knows its own work better than any counter does can say how far it
//! has come, and when it has no use for its CPUs. Any of its threads may say so at any moment, in any
//! of its processes, and none may wait for another.
//!
//! *Approach.* Each statement is one word, changed by compare-and-swap or addition, or a word and the
//! time of its last change. Of such a pair the value is written first, and the reader reads the time
//! first: it never takes new work for old, only the other way round, and that is made good by the next
//! report.
//!
//! *Invariants.* The daemon's side yields bounded values only: finite, not negative, not of the
//! future, CPU counts from 1 to what the mask can name. Whatever else stands there counts as not
//! said. Saying something other than a finite amount changes nothing, nor does an amount with which the
//! sum would not be finite any more: such a sum could never tell progress again. Where the application
//! wrote something else than a sum or an average, the next report begins anew.

use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::layout::{MAX_CPUS, OwnReportBlock, PROGRESS_LATENCY, PROGRESS_WORK};

/// A new latency counts for this share of the latency reported, the ones before for the rest.
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

/// The CPU counts that an application says it can use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuWish {
    /// With fewer it does not work well; at most `most`.
    pub least: NonZeroU32,
    /// More are of no use to it.
    pub most: NonZeroU32,
}

impl CpuWish {
    /// A wish; the smaller number is the least.
    #[must_use]
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

/// Everything that an application's own code says.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct OwnReport {
    /// Its progress, in the way it reported it last.
    pub progress: Option<OwnProgress>,
    /// The CPUs it can use.
    pub cpus: Option<CpuWish>,
    /// Whether it is in a serial phase: one CPU is all it needs now.
    pub serial: bool,
}

impl OwnReport {
    /// What stands in the page at `now_ns`.
    pub(crate) fn read(block: &OwnReportBlock, now_ns: u64) -> Self {
        let number = |word: &AtomicU64| amount(word.load(Ordering::Relaxed));
        // Acquire: the value is of this time or later.
        let time = |word: &AtomicU64| {
            Some(word.load(Ordering::Acquire)).filter(|at_ns| (1..=now_ns).contains(at_ns))
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
        // A count that went below zero is no count of open phases.
        let phases = block.serial_phases.load(Ordering::Relaxed).cast_signed();
        Self {
            progress,
            cpus: CpuWish::from_raw(block.cpu_range.load(Ordering::Relaxed)),
            serial: phases > 0,
        }
    }
}

impl OwnReportBlock {
    /// Adds to the work done; `now_ns` is the present `CLOCK_MONOTONIC`. What is not finite, is
    /// negative, or would make the sum infinite is not said: neither the sum nor its time changes.
    pub fn add_work(&self, amount: f64, now_ns: u64) {
        if !amount.is_finite() || amount < 0.0 {
            return;
        }
        if change(&self.work_done, |done| done + amount) {
            self.work_at_ns.fetch_max(now_ns, Ordering::Release);
            self.say_kind(PROGRESS_WORK);
        }
    }

    /// Reports a latency; `now_ns` is the present `CLOCK_MONOTONIC`. What is not finite or is negative
    /// is not said.
    pub fn add_latency(&self, latency_ns: f64, now_ns: u64) {
        if !latency_ns.is_finite() || latency_ns < 0.0 {
            return;
        }
        let averaged = change(&self.latency_ns, |before| {
            if before > 0.0 {
                before + (latency_ns - before) * LATENCY_SHARE
            } else {
                latency_ns
            }
        });
        if averaged {
            self.latency_at_ns.fetch_max(now_ns, Ordering::Release);
            self.say_kind(PROGRESS_LATENCY);
        }
    }

    fn say_kind(&self, kind: u32) {
        // Mostly it is there already, and need not travel between caches.
        if self.progress_kind.load(Ordering::Relaxed) != kind {
            self.progress_kind.store(kind, Ordering::Relaxed);
        }
    }

    /// Declares the CPUs that can be used; `None` takes that back.
    pub fn wish_cpus(&self, wish: Option<CpuWish>) {
        let raw = wish.map_or(0, CpuWish::to_raw);
        self.cpu_range.store(raw, Ordering::Relaxed);
    }

    /// A serial phase begins. Phases may be nested and overlap.
    pub fn begin_serial(&self) {
        self.serial_phases.fetch_add(1, Ordering::Relaxed);
    }

    /// A serial phase ends; one that never began does not.
    pub fn end_serial(&self) {
        // That there is none to end is the caller's mistake, and changes nothing.
        let _ = self
            .serial_phases
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
                open.checked_sub(1)
            });
    }
}

/// Changes a sum or an average, of which garbage counts as none yet. Returns whether it did: what would
/// not be finite is not written.
fn change(word: &AtomicU64, new: impl Fn(f64) -> f64) -> bool {
    word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |bits| {
        let value = new(amount(bits).unwrap_or(0.0));
        value.is_finite().then(|| value.to_bits())
    })
    .is_ok()
}

/// The amount that a word holds, if it is one: finite and not negative.
fn amount(bits: u64) -> Option<f64> {
    Some(f64::from_bits(bits)).filter(|value| value.is_finite() && *value >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU32;

    fn block() -> OwnReportBlock {
        OwnReportBlock {
            progress_kind: AtomicU32::new(0),
            serial_phases: AtomicU32::new(0),
            work_done: AtomicU64::new(0),
            work_at_ns: AtomicU64::new(0),
            latency_ns: AtomicU64::new(0),
            latency_at_ns: AtomicU64::new(0),
            cpu_range: AtomicU64::new(0),
        }
    }

    fn cpus(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).unwrap()
    }

    #[test]
    fn nothing_said_is_nothing_read() {
        assert_eq!(OwnReport::read(&block(), u64::MAX), OwnReport::default());
    }

    #[test]
    fn work_adds_up_over_threads() {
        let block = block();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let block = &block;
                scope.spawn(move || {
                    (0..1000_u64).for_each(|i| block.add_work(0.5, 1 + thread * 1000 + i));
                });
            }
        });
        let done = OwnProgress::Work {
            done: 2000.0,
            at_ns: 4000,
        };
        assert_eq!(OwnReport::read(&block, 4000).progress, Some(done));
    }

    #[test]
    fn a_latency_follows_what_is_reported() {
        let block = block();
        block.add_latency(800.0, 1);
        block.add_latency(1600.0, 2);
        let expected = OwnProgress::Latency {
            latency_ns: 900.0,
            at_ns: 2,
        };
        assert_eq!(OwnReport::read(&block, 2).progress, Some(expected));
        for _ in 0..100 {
            block.add_latency(50.0, 3);
        }
        let Some(OwnProgress::Latency { latency_ns, .. }) = OwnReport::read(&block, 3).progress
        else {
            panic!("no latency");
        };
        assert!((latency_ns - 50.0).abs() < 1.0, "{latency_ns}");
    }

    #[test]
    fn what_is_no_amount_is_not_said_and_what_is_none_in_the_page_is_not_read() {
        let block = block();
        for amount in [f64::NAN, f64::INFINITY, -1.0] {
            block.add_work(amount, 1);
            block.add_latency(amount, 1);
        }
        assert_eq!(OwnReport::read(&block, 1).progress, None);
        block.add_work(1.0, 5);
        assert_eq!(OwnReport::read(&block, 4).progress, None, "of the future");
        for garbage in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
            block.work_done.store(garbage.to_bits(), Ordering::Relaxed);
            assert_eq!(OwnReport::read(&block, 9).progress, None);
            // Reports begin anew.
            block.add_work(2.0, 6);
            let done = 2.0;
            assert_eq!(
                OwnReport::read(&block, 9).progress,
                Some(OwnProgress::Work { done, at_ns: 6 })
            );
        }
        for garbage in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
            block.add_latency(1.0, 7);
            block.latency_ns.store(garbage.to_bits(), Ordering::Relaxed);
            assert_eq!(OwnReport::read(&block, 9).progress, None);
            block.add_latency(2.0, 8);
            let latency_ns = 2.0;
            assert_eq!(
                OwnReport::read(&block, 9).progress,
                Some(OwnProgress::Latency {
                    latency_ns,
                    at_ns: 8
                })
            );
        }
    }

    #[test]
    fn an_amount_with_which_the_sum_would_be_infinite_is_not_said() {
        let block = block();
        block.add_work(1e308, 1);
        block.add_work(1e308, 2);
        let said = OwnProgress::Work {
            done: 1e308,
            at_ns: 1,
        };
        assert_eq!(OwnReport::read(&block, 3).progress, Some(said));
        // One that fits still counts.
        block.add_work(5e307, 3);
        let said = OwnProgress::Work {
            done: 1.5e308,
            at_ns: 3,
        };
        assert_eq!(OwnReport::read(&block, 3).progress, Some(said));
    }

    #[test]
    fn the_longest_latencies_have_a_finite_average() {
        let block = block();
        for latency_ns in [f64::MAX, f64::MIN_POSITIVE, f64::MAX, 0.0, f64::MAX] {
            block.add_latency(latency_ns, 1);
            let progress = OwnReport::read(&block, 1).progress;
            assert!(
                matches!(progress, Some(OwnProgress::Latency { .. })),
                "{latency_ns}: {progress:?}"
            );
        }
    }

    #[test]
    fn a_wish_is_a_range_within_what_the_mask_can_name() {
        let block = block();
        block.wish_cpus(Some(CpuWish::new(cpus(8), cpus(2))));
        let wish = OwnReport::read(&block, 1).cpus.unwrap();
        assert_eq!((wish.least.get(), wish.most.get()), (2, 8));
        block.cpu_range.store(u64::MAX, Ordering::Relaxed);
        let wish = OwnReport::read(&block, 1).cpus.unwrap();
        assert_eq!(wish.most.get() as usize, MAX_CPUS);
        block.cpu_range.store(5, Ordering::Relaxed);
        assert_eq!(OwnReport::read(&block, 1).cpus, None);
        block.wish_cpus(None);
        assert_eq!(OwnReport::read(&block, 1).cpus, None);
    }

    #[test]
    fn serial_phases_may_overlap_and_an_end_too_many_changes_nothing() {
        let block = block();
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
