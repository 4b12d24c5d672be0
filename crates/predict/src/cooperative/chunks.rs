//! Algorithm 1: the chunk size of the adaptive loop schedule [Cooperative §3.2].
//!
//! Threads of a malleable loop take chunks of iterations and look for a new allocation before each
//! one. Large chunks save dispatches, small ones react sooner and balance better; so one thread,
//! the delegate, doubles the chunk as long as a chunk takes less than the scheduling period, up to
//! ⌈remaining/2N⌉ iterations, where N is the number of cores.
//!
//! Readings [readings, CPR]: the cap is the ceiling that the text gives, not the listing's integer
//! division, and at least 1, or the tail of a loop would hang at chunks of nothing; before the
//! first chunk there is no time to compare, so nothing doubles.
//!
//! Invariants: a chunk is never larger than what remains and never empty while anything remains.

use std::num::NonZeroU64;

/// The rule's two constants.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ChunkRule {
    /// Cores of the machine, N.
    pub cores: NonZeroU64,
    /// Scheduling period; chunks that take less are doubled. Any unit of time.
    pub period: f64,
}

/// The chunk size of one loop, as the delegate keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkSize(u64);

impl ChunkSize {
    /// A loop that starts with chunks of `iterations` (at least one).
    #[must_use]
    pub const fn starting_at(iterations: u64) -> Self {
        Self(if iterations == 0 { 1 } else { iterations })
    }

    /// The delegate's next chunk, in iterations, when `remaining` are left and its last chunk took
    /// `elapsed` (none before its first). Zero when nothing remains.
    pub fn next(&mut self, rule: &ChunkRule, remaining: u64, elapsed: Option<f64>) -> u64 {
        if elapsed.is_some_and(|elapsed| elapsed < rule.period) {
            self.0 = self.0.saturating_mul(2);
        }
        let cap = remaining
            .div_ceil(rule.cores.get().saturating_mul(2))
            .max(1);
        self.0 = self.0.min(cap);
        self.0.min(remaining)
    }
}

/// All chunks of a loop of `iterations` that the delegate draws alone, when every iteration takes
/// `time_per_iteration`.
#[must_use]
pub fn delegate_alone(
    rule: &ChunkRule,
    iterations: u64,
    initial: ChunkSize,
    time_per_iteration: f64,
) -> Vec<u64> {
    let mut size = initial;
    let mut remaining = iterations;
    let mut elapsed = None;
    let mut chunks = Vec::new();
    while remaining > 0 {
        let chunk = size.next(rule, remaining, elapsed);
        remaining -= chunk;
        elapsed = Some(chunk as f64 * time_per_iteration);
        chunks.push(chunk);
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(cores: u64, period: f64) -> ChunkRule {
        ChunkRule {
            cores: NonZeroU64::new(cores).unwrap(),
            period,
        }
    }

    #[test]
    fn chunks_double_while_they_are_short() {
        let chunks = delegate_alone(&rule(4, 30.0), 1000, ChunkSize::starting_at(1), 1.0);
        assert_eq!(chunks[..7], [1, 2, 4, 8, 16, 32, 32]);
    }

    #[test]
    fn a_chunk_of_exactly_the_period_does_not_double() {
        let chunks = delegate_alone(&rule(1, 2.0), 100, ChunkSize::starting_at(2), 1.0);
        assert_eq!(chunks[..3], [2, 2, 2]);
    }

    #[test]
    fn the_first_chunk_is_capped_too() {
        let chunks = delegate_alone(&rule(4, 30.0), 16, ChunkSize::starting_at(100), 1.0);
        assert_eq!(chunks[0], 2);
    }

    #[test]
    fn a_loop_without_iterations_has_no_chunks() {
        assert!(delegate_alone(&rule(4, 30.0), 0, ChunkSize::starting_at(1), 1.0).is_empty());
        assert_eq!(ChunkSize::starting_at(1).next(&rule(4, 30.0), 0, None), 0);
    }

    proptest! {
        #[test]
        fn the_chunks_are_the_loop(
            iterations in 0u64..20_000, cores in 1u64..200, period in 0.0..100.0f64,
            start in 0u64..64, time in 0.0..10.0f64,
        ) {
            let chunks = delegate_alone(
                &rule(cores, period), iterations, ChunkSize::starting_at(start), time);
            prop_assert_eq!(chunks.iter().sum::<u64>(), iterations);
            let mut remaining = iterations;
            for chunk in chunks {
                prop_assert!(chunk >= 1 && chunk <= remaining.div_ceil(2 * cores).max(1));
                remaining -= chunk;
            }
        }
    }
}
