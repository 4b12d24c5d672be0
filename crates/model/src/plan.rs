//! A complete decision: counts, CPUs, reasons, and the ordered actions that lead there.

use crate::{AppId, AppName, CpuSet, Share, Strategy, Transfer};
use serde::{Deserialize, Serialize};

/// The CPUs to be in force after an interval, for every application, and how to get there. Immutable
/// and complete: enforcing it needs no further choice.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Plan {
    /// The decision it belongs to.
    pub tick: u64,
    /// One entry per application, in order of arrival.
    pub apps: Vec<PlannedApp>,
    /// CPUs that changed hands.
    pub transfers: Vec<Transfer>,
    /// Usable CPUs that no application holds.
    pub free: CpuSet,
    /// What to do, in this order: shrink before grow.
    pub actions: Vec<Action>,
}

/// One application in a plan.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PlannedApp {
    /// The application.
    pub app: AppId,
    /// Its name.
    pub name: AppName,
    /// Its planned CPUs.
    pub cpus: CpuSet,
    /// How they were chosen.
    pub strategy: Strategy,
    /// Its share, with the reasons.
    pub share: Share,
    /// The reasons in one plain sentence.
    pub sentence: String,
}

/// One step of enforcement: writes one application's CPU set.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum Action {
    /// Takes CPUs away: `to` is a subset of `from`.
    Shrink {
        /// The application.
        app: AppId,
        /// In force before.
        from: CpuSet,
        /// To be in force.
        to: CpuSet,
    },
    /// Sets the final CPUs.
    Set {
        /// The application.
        app: AppId,
        /// In force before this step (empty for a newcomer).
        from: CpuSet,
        /// To be in force.
        to: CpuSet,
    },
}

impl Action {
    /// The application concerned.
    pub const fn app(&self) -> AppId {
        match self {
            Self::Shrink { app, .. } | Self::Set { app, .. } => *app,
        }
    }

    /// The CPUs to be in force after the step.
    pub const fn to(&self) -> &CpuSet {
        match self {
            Self::Shrink { to, .. } | Self::Set { to, .. } => to,
        }
    }
}
