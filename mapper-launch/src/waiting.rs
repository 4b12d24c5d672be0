//! How long a thread that waits at a barrier spins before it sleeps.
//!
//! Spinning is quickest when each thread has a CPU; sleeping leaves the CPU to the one it waits for. libgomp decides
//! once, at start, and spins for milliseconds, which a program that is confined to fewer CPUs afterwards loses at each
//! barrier. So threads spin about as long as it takes to sleep and be woken, [`SPIN_TIME`]. libgomp counts turns of its
//! loop (one load, one `pause`), which take 4 ns on some processors and 60 ns on others, so a turn is timed here, on
//! the processor that the program is about to run on. Measurements: `docs/book/src/adr/0003-waiting.md`.

use std::hint::{black_box, spin_loop};
use std::time::{Duration, Instant};

/// How long to spin: some two sleeps and wake-ups of a thread.
const SPIN_TIME: Duration = Duration::from_micros(10);
/// Fewer turns are never set: a program that owns its CPUs would sleep at each barrier.
const LEAST_TURNS: u32 = 200;
/// More turns are never set: the shim reports programs that spin longer as slow when shrunk.
const MOST_TURNS: u32 = 3_000;
/// Turns in a sample, and samples. Only the fastest counts: the others were interrupted.
const SAMPLE_TURNS: u32 = 200;
const SAMPLES: u32 = 5;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SpinTurns(u32);

impl SpinTurns {
    /// Threads that never have a CPU each only keep others from running by spinning.
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn measured() -> Self {
        let fastest = (0..SAMPLES).map(|_| sample()).min();
        Self::fitting(fastest.unwrap_or_default())
    }

    /// As many as fit into [`SPIN_TIME`], within bounds, if [`SAMPLE_TURNS`] take this long.
    fn fitting(sample: Duration) -> Self {
        let turns = SPIN_TIME.as_nanos() * u128::from(SAMPLE_TURNS) / sample.as_nanos().max(1);
        let turns = u32::try_from(turns).unwrap_or(u32::MAX);
        Self(turns.clamp(LEAST_TURNS, MOST_TURNS))
    }
}

impl std::fmt::Display for SpinTurns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

fn sample() -> Duration {
    let word = 0_u32;
    let begun = Instant::now();
    for _ in 0..SAMPLE_TURNS {
        black_box(&word);
        spin_loop();
    }
    begun.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_fill_the_spin_time_within_bounds_on_any_clock() {
        for (turn_ns, turns) in [
            (25, 400),
            (4, 2_500),
            (0, MOST_TURNS),
            (1, MOST_TURNS),
            (1_000_000, LEAST_TURNS),
        ] {
            let sample = Duration::from_nanos(turn_ns * u64::from(SAMPLE_TURNS));
            assert_eq!(SpinTurns::fitting(sample).0, turns);
        }
    }

    #[test]
    fn a_turn_is_timed_in_next_to_no_time() {
        let times = (0..20).map(|_| {
            let begun = Instant::now();
            let turns = SpinTurns::measured();
            assert!((LEAST_TURNS..=MOST_TURNS).contains(&turns.0));
            begun.elapsed()
        });
        let least = times.min().unwrap();
        assert!(least < Duration::from_millis(5), "{least:?}");
    }
}
