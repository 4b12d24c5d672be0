//! Algorithm 1: the chunk size of the adaptive loop schedule [Cooperative §3.2].
//!
//! Threads of a malleable loop take chunks and check for a new allocation before each one. One thread, the delegate,
//! doubles the chunk while a chunk takes less than the scheduling period, up to ⌈remaining/2N⌉ iterations on N cores.
//!
//! Readings [readings, CPR]: the cap is the ceiling of the text, not the listing's integer
//! division, and at least 1; before the first chunk there is no time, so nothing doubles.
//!
//! Invariants: a chunk is at most what remains, and not empty while anything remains.

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
    pub const fn starting_at(iterations: u64) -> Self {
        Self(if iterations == 0 { 1 } else { iterations })
    }

    /// The delegate's next chunk when `remaining` iterations are left and its last chunk took
    /// `elapsed` (`None` before the first). Zero when nothing remains.
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

/// All chunks of a loop that the delegate draws alone, at `time_per_iteration`.
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
    fn chunks_double_while_short_up_to_the_cap() {
        for (rule, iterations, start, expected) in [
            (rule(4, 30.0), 1000, 1, &[1, 2, 4, 8, 16, 32, 32][..]),
            // A chunk of exactly the period does not double.
            (rule(1, 2.0), 100, 2, &[2, 2, 2]),
            // The first chunk is capped too.
            (rule(4, 30.0), 16, 100, &[2]),
        ] {
            let chunks = delegate_alone(&rule, iterations, ChunkSize::starting_at(start), 1.0);
            assert_eq!(chunks[..expected.len()], *expected);
        }
        let rule = rule(4, 30.0);
        assert!(delegate_alone(&rule, 0, ChunkSize::starting_at(1), 1.0).is_empty());
        assert_eq!(ChunkSize::starting_at(1).next(&rule, 0, None), 0);
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
