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

/// Whether CPUs of an application are also another's.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "loan")]
pub enum Loan {
    /// They are its own.
    #[default]
    None,
    /// It is idle: others may use its CPUs until it has something to do. Both may run on them meanwhile.
    Lends,
    /// Some belong to idle applications.
    Borrows {
        /// Those CPUs: some of its own plan.
        cpus: CpuSet,
    },
}

impl Loan {
    /// Whether there is none.
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// CPUs of others that an application may use besides its own, while no thread of their owners wants to run there.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct IdleTime {
    /// Those CPUs: none of its own.
    pub cpus: CpuSet,
    /// How many of them are idle on average, at least one.
    pub count: u32,
}

impl IdleTime {
    /// Whether there is none.
    pub const fn is_none(&self) -> bool {
        self.count == 0
    }
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
    /// Whether some of them are also another's.
    #[serde(default, skip_serializing_if = "Loan::is_none")]
    pub loan: Loan,
    /// What it may use besides; no part of its share or of its planned CPUs.
    #[serde(default, skip_serializing_if = "IdleTime::is_none")]
    pub idle_time: IdleTime,
    /// How they were chosen.
    pub strategy: Strategy,
    /// Its share, with the reasons.
    pub share: Share,
    /// The reasons in one plain sentence.
    pub sentence: String,
}

impl PlannedApp {
    /// Its CPUs without those that it has borrowed.
    pub fn own(&self) -> CpuSet {
        match &self.loan {
            Loan::Borrows { cpus } => self.cpus.difference(cpus),
            Loan::Lends | Loan::None => self.cpus.clone(),
        }
    }
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
