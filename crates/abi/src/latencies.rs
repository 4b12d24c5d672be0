//! How many latencies an application has reported of each size.
//!
//! There are eight sizes to a factor of two, from 1 µs to 73 minutes; what is shorter or longer counts as the first or the
//! last. So a percentile is exact to 6 %. The counts wrap around: only the difference of two readings has a meaning, and
//! the daemon reads them several times a second.

use core::sync::atomic::Ordering;

use crate::layout::{LATENCY_SIZES, OwnReportBlock};

/// Sizes to a factor of two, as a power of two.
const STEPS: u32 = 3;

/// The first size begins at this power of two, in nanoseconds.
const FIRST: u32 = 10;

/// The place of a latency among the counts.
pub(crate) fn size_of(latency_ns: f64) -> usize {
    // Saturates.
    let ns = (latency_ns as u64).max(1 << FIRST);
    let octave = ns.ilog2() - FIRST;
    let step = (ns >> (octave + FIRST - STEPS)) & ((1 << STEPS) - 1);
    let size = (octave << STEPS) as usize + step as usize;
    size.min(LATENCY_SIZES - 1)
}

/// The middle of a size.
fn middle_ns(size: usize) -> f64 {
    let (octave, step) = (size >> STEPS, size % (1 << STEPS));
    let steps = (1 << STEPS) + step;
    (steps as f64 + 0.5) * (1u64 << (octave as u32 + FIRST - STEPS)) as f64
}

/// How many latencies there were of each size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Latencies(Box<[u32; LATENCY_SIZES]>);

impl Latencies {
    pub(crate) fn read(block: &OwnReportBlock) -> Self {
        let count = |size: usize| block.latency_counts[size].load(Ordering::Relaxed);
        Self(Box::new(core::array::from_fn(count)))
    }

    /// Those since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        let since = |size: usize| self.0[size].wrapping_sub(earlier.0[size]);
        Self(Box::new(core::array::from_fn(since)))
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|count| u64::from(*count)).sum()
    }

    /// The latency that this share of them, from 0 to 1, does not exceed; `None` if there is none.
    pub fn percentile_ns(&self, share: f64) -> Option<f64> {
        let wanted = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut counted = 0;
        let size = self.0.iter().position(|count| {
            counted += u64::from(*count);
            counted >= wanted
        });
        size.map(middle_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(latencies_ns: impl IntoIterator<Item = f64>) -> Latencies {
        let block = OwnReportBlock::default();
        for latency_ns in latencies_ns {
            block.add_latency(latency_ns, 1);
        }
        Latencies::read(&block)
    }

    #[test]
    fn a_latency_is_less_than_seven_percent_from_the_middle_of_its_size() {
        let mut latency_ns = 1024.0;
        while latency_ns < 3.9e12 {
            let found = middle_ns(size_of(latency_ns));
            let off = (found / latency_ns - 1.0).abs();
            assert!(off < 0.0626, "{latency_ns}: {found}");
            latency_ns *= 1.01;
        }
    }

    #[test]
    fn sizes_rise_with_latencies_and_the_ends_have_the_rest() {
        let sizes = [0.0, 1023.0, 1151.0, 1152.0, 2048.0, 1e6, 1e9, 1e300].map(size_of);
        assert!(sizes.is_sorted(), "{sizes:?}");
        assert_eq!(sizes[..5], [0, 0, 0, 1, 8]);
        assert_eq!(sizes[7], LATENCY_SIZES - 1);
    }

    #[test]
    fn the_99th_percentile_is_what_one_of_a_hundred_exceeds() {
        let latencies = reported((1..=1000).map(|n| f64::from(n) * 1e6));
        assert_eq!(latencies.count(), 1000);
        for (share, ms) in [(0.0, 1.0), (0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = latencies.percentile_ns(share).unwrap() / 1e6;
            assert!((found / ms - 1.0).abs() < 0.0626, "{share}: {found}");
        }
        assert_eq!(reported([]).percentile_ns(0.99), None);
    }

    #[test]
    fn what_was_reported_since_an_earlier_reading_counts_also_where_a_count_wrapped() {
        let block = OwnReportBlock::default();
        block.latency_counts[size_of(5e6)].store(u32::MAX, Ordering::Relaxed);
        let before = Latencies::read(&block);
        block.add_latency(5e6, 1);
        block.add_latency(5e6, 2);
        let since = Latencies::read(&block).since(&before);
        assert_eq!(since.count(), 2);
    }
}
