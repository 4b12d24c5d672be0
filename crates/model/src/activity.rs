//! Whether an application did anything in an interval.
//!
//! What a program that waits, sleeps or is stopped completed says nothing of its speed, so such an
//! interval is no sample and breaks no promise. The rule needs CPU time alone. A program that wants to
//! run and gets no CPU has runnable threads, and is not idle.

use serde::{Deserialize, Serialize};

/// Part of a CPU below which an application is idle: timers of a waiting runtime use some thousandths.
const NEXT_TO_NOTHING: f64 = 0.01;

/// Whether an application did anything in an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// It ran, or would have with a CPU; or nothing is known.
    #[default]
    Active,
    /// It had nothing to do.
    Idle,
}

impl Activity {
    /// Of an application that used so much CPU time, on all CPUs together, in an interval of this
    /// length (nanoseconds), with so many runnable threads at its end, where known.
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
    fn an_application_without_work_is_idle_unless_it_waits_for_a_cpu() {
        let second = 1_000_000_000;
        assert_eq!(Activity::of(0, second, None), Idle);
        assert_eq!(Activity::of(9_000_000, second, Some(0)), Idle);
        assert_eq!(Activity::of(9_000_000, second, Some(1)), Active);
        assert_eq!(Activity::of(11_000_000, second, None), Active);
        // No time has passed: nothing can be said.
        assert_eq!(Activity::of(0, 0, None), Active);
    }
}
