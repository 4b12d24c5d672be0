//! What of the shim a run can choose.

use serde::Serialize;

/// What the shim may do with teams, as `MAPPER_TEAMS` names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Teams {
    /// Their size never changes.
    Fixed,
    /// Their size follows the allocation.
    Follow,
    /// The program sees the team it expects, carried by as many threads as it has CPUs.
    Virtual,
}

impl Teams {
    /// Its name in the environment.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Follow => "follow",
            Self::Virtual => "virtual",
        }
    }
}

/// How the shim dispenses dynamic and guided loops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoopSchedule {
    /// In the chunks that the program asks for.
    #[default]
    AsWritten,
    /// In chunks that grow, as under `MAPPER_SCHEDULE=adaptive`.
    Adaptive,
}
