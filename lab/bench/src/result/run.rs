//! What is seen in one run of a mix.

use serde::Serialize;

use crate::data::program::Unit;
use crate::machine::{Disturbance, LoadBefore};

/// What one run cost one program.
///
/// A program that was ended at the time limit costs at least the limit. A run with a wrong result or a crash
/// costs nothing that could be compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunCost {
    Seconds(f64),
    P99Ms(f64),
    /// It was ended after so many seconds.
    Limit(f64),
    /// The run came to a wrong result or none.
    Invalid,
}

impl RunCost {
    /// The figure in a unit, the limit standing for itself; nothing if there is none in this unit.
    pub(crate) fn in_unit(self, unit: Unit) -> Option<f64> {
        match (self, unit) {
            (Self::Seconds(seconds) | Self::Limit(seconds), Unit::Seconds) => Some(seconds),
            (Self::P99Ms(ms), Unit::P99) => Some(ms),
            (Self::Limit(seconds), Unit::P99) => Some(1e3 * seconds),
            (Self::Seconds(_), Unit::P99)
            | (Self::P99Ms(_), Unit::Seconds)
            | (Self::Invalid, _) => None,
        }
    }

    /// Whether the program was ended at the limit.
    pub(crate) fn is_limit(self) -> bool {
        matches!(self, Self::Limit(_))
    }
}

/// What one program did in a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct ProgramRun {
    /// From its start to its end, whatever came of it.
    pub(crate) seconds: f64,
    /// What counts.
    pub(crate) cost: RunCost,
}

/// The CPUs that each program of a mix held over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Timeline {
    pub(crate) samples: Vec<TimelineSample>,
}

/// What the daemon reported at one moment; nothing for a program that it does not know (yet, or any more).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct TimelineSample {
    pub(crate) at_s: f64,
    pub(crate) cpus: Vec<Option<u32>>,
}

/// One run of a mix under one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Run {
    /// Repetition and round: runs of the same moment are compared with each other.
    pub(crate) moment: usize,
    pub(crate) before: LoadBefore,
    pub(crate) during: Disturbance,
    /// In the order of the mix.
    pub(crate) programs: Vec<ProgramRun>,
    /// What was wrong with the results.
    pub(crate) wrong: Vec<String>,
    /// Where it was asked for.
    pub(crate) timeline: Option<Timeline>,
    /// What the daemon noted of the programs' teams, where it was asked for.
    pub(crate) notes: Vec<String>,
}

impl Run {
    /// Records a wrong result: no figure of this run counts, since the other programs had the machine to
    /// themselves for longer.
    pub(crate) fn reject(&mut self, reason: String) {
        self.wrong.push(reason);
        for program in &mut self.programs {
            program.cost = RunCost::Invalid;
        }
    }

    /// Whether a program was ended at the limit.
    pub(crate) fn is_over_limit(&self) -> bool {
        self.programs.iter().any(|of| of.cost.is_limit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_latency_is_never_judged_by_its_seconds() {
        assert_eq!(RunCost::Seconds(1.5).in_unit(Unit::P99), None);
        assert_eq!(RunCost::Invalid.in_unit(Unit::P99), None);
        assert_eq!(RunCost::Limit(1.5).in_unit(Unit::P99), Some(1500.0));
    }
}
