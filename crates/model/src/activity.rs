//! Whether an application did anything in an interval.
//!
//! A program that waits for input, sleeps or is stopped shows no speed: what it completed then says how
//! little it was asked to do, not how fast it does it with its CPUs. Such an interval is neither a sample
//! nor a broken promise. The rule needs CPU time alone, which is read of every application, and holds for
//! whatever its performance is measured by. A program that *wants* to run and gets no CPU is not idle: it
//! has threads that are runnable.

use serde::{Deserialize, Serialize};

/// CPU time, as a part of one CPU's, below which nothing is taken to have been done: the timers of a
/// waiting runtime use a few thousandths.
const NEXT_TO_NOTHING: f64 = 0.01;

/// Whether an application did anything in an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// It ran, or would have if it had been let; or nothing is known.
    #[default]
    Active,
    /// It had nothing to do.
    Idle,
}

impl Activity {
    /// Of an application that used so much CPU time, on all CPUs together, in an interval of this length
    /// (nanoseconds), at the end of which so many of its threads were runnable, if that is known.
    #[must_use]
    pub fn of(used_ns: u64, elapsed_ns: u64, runnable_threads: Option<u32>) -> Self {
        let little = (used_ns as f64) < NEXT_TO_NOTHING * elapsed_ns as f64;
        if little && runnable_threads.is_none_or(|threads| threads == 0) {
            Self::Idle
        } else {
            Self::Active
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Activity::{Active, Idle};

    #[test]
    fn who_used_next_to_nothing_is_idle_unless_it_waits_for_a_cpu() {
        let second = 1_000_000_000;
        assert_eq!(Activity::of(0, second, None), Idle);
        assert_eq!(Activity::of(9_000_000, second, Some(0)), Idle);
        assert_eq!(Activity::of(9_000_000, second, Some(1)), Active);
        assert_eq!(Activity::of(11_000_000, second, None), Active);
        // No time has passed: nothing can be said.
        assert_eq!(Activity::of(0, 0, None), Active);
    }
}
