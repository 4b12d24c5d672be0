//! The saved state: what the next daemon continues from.
//!
//! It is not forced to the disk, since it is useless once the machine has been booted again; it contains the boot's id.

use crate::registry::LeftAlone;
use crate::registry::app::AppRecord;
use crate::registry::ended::Ended;
use mapper_model::AppId;
use mapper_pipeline::ControllerState;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};

pub(crate) const VERSION: u32 = 3;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Saved<Learned = serde_json::Value> {
    pub(crate) version: u32,
    /// The boot in which it was written; processes of another are gone.
    pub(crate) boot: String,
    pub(crate) ending: Ending,
    pub(crate) next_app: AppId,
    pub(crate) decisions: u64,
    pub(crate) apps: Vec<SavedApp>,
    /// Groups in which released processes are left, which are not to be managed again.
    pub(crate) released: BTreeSet<AppId>,
    /// What is not adopted again before it starts anew.
    #[serde(default)]
    pub(crate) left_alone: VecDeque<LeftAlone>,
    /// The applications that ended last, the latest first.
    #[serde(default)]
    pub(crate) ended: Vec<Arc<Ended>>,
    /// What the enforcer still has to do for applications that were released, in its own format.
    pub(crate) unfinished: serde_json::Value,
    /// What the controller remembers, in its own format; by default nothing.
    pub(crate) controller: Learned,
}

/// A state that is to be saved. What the controller remembers takes long to put into its format, which is left to the
/// thread that writes it.
pub(crate) type Unsaved = Saved<Option<ControllerState>>;

/// What the daemon that wrote it was doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    /// It ran: it was killed if it runs no more.
    Running,
    /// It was about to give all CPUs back and stop.
    Stopping,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct SavedApp {
    pub(crate) record: AppRecord,
    /// What the enforcer remembers of its processes.
    pub(crate) processes: serde_json::Value,
    /// Of its page.
    pub(crate) token: Option<String>,
    /// How far its adoption was.
    #[serde(default)]
    pub(crate) progress: Progress,
}

/// How far an adoption was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Progress {
    /// It was made, or there was none.
    #[default]
    Done,
    /// Some of its processes may have been moved.
    Joining,
}

impl<Learned: Default> Saved<Learned> {
    /// A state without applications.
    pub(crate) fn new(ending: Ending, next_app: AppId, decisions: u64) -> Self {
        Self {
            version: VERSION,
            boot: boot(),
            ending,
            next_app,
            decisions,
            apps: Vec::new(),
            released: BTreeSet::new(),
            left_alone: VecDeque::new(),
            ended: Vec::new(),
            unfinished: serde_json::Value::Null,
            controller: Learned::default(),
        }
    }
}

/// The id of this boot; empty where the kernel does not provide it.
pub(crate) fn boot() -> String {
    static READ: OnceLock<String> = OnceLock::new();
    let read = || std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    READ.get_or_init(|| read().trim().to_owned()).clone()
}
