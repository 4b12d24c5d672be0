//! What is seen in one run of a mix.

use serde::Serialize;

use crate::machine::{Disturbance, LoadBefore};

/// What one run cost one program, in the unit of the program.
///
/// A program that was ended at the time limit costs at least the limit. A run with a wrong result or a crash
/// costs nothing that could be compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunCost {
    Exact(f64),
    Limit(f64),
    /// The run came to a wrong result or none.
    Invalid,
}

impl RunCost {
    pub(crate) fn value(self) -> Option<f64> {
        match self {
            Self::Exact(value) | Self::Limit(value) => Some(value),
            Self::Invalid => None,
        }
    }

    pub(crate) fn is_limit(self) -> bool {
        matches!(self, Self::Limit(_))
    }
}

/// What one program did in a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct ProgramRun {
    /// From its start to its end, whatever came of it.
    pub(crate) seconds: f64,
    pub(crate) cost: RunCost,
}

/// The CPUs of each program as the daemon reported them; nothing for a program that it does not know at the time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct TimelineSample {
    pub(crate) at_s: f64,
    pub(crate) cpus: Vec<Option<u32>>,
}

/// One run of a mix under one setting.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Run {
    /// Repetition and round: runs of the same moment are compared with each other.
    pub(crate) moment: usize,
    pub(crate) before: LoadBefore,
    pub(crate) during: Disturbance,
    /// In the order of the mix.
    pub(crate) programs: Vec<ProgramRun>,
    pub(crate) wrong: Vec<String>,
    /// CPUs over time, where they were recorded.
    pub(crate) timeline: Vec<TimelineSample>,
    /// What the daemon noted of the programs' teams, where it was recorded.
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

    pub(crate) fn is_over_limit(&self) -> bool {
        self.programs.iter().any(|of| of.cost.is_limit())
    }
}
