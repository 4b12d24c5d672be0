//! The saved state of version 1, which was written before there was [`AppRecord`].

use crate::registry::accounting::Accounting;
use crate::registry::app::{AppRecord, Standing};
use crate::registry::origin::{Adoption, Origin};
use crate::registry::process::Process;
use crate::registry::provenance::Provenance;
use crate::store::saved::{Ending, Progress, Saved, SavedApp, VERSION};
use mapper_control::schema::{MemoryPolicy, Partition};
use mapper_model::{AppId, AppSpec, CpuSet, PlannedApp};
use serde::Deserialize;
use std::collections::BTreeSet;

#[derive(Deserialize)]
pub(crate) struct SavedV1 {
    boot: String,
    ending: Ending,
    next_app: AppId,
    decisions: u64,
    apps: Vec<AppV1>,
    #[serde(default)]
    released: BTreeSet<AppId>,
    #[serde(default)]
    unfinished: serde_json::Value,
    controller: serde_json::Value,
}

#[derive(Deserialize)]
struct AppV1 {
    id: AppId,
    spec: AppSpec,
    command: String,
    uid: u32,
    first_process: Process,
    /// All zero if there was none.
    launcher: Process,
    planned: Option<PlannedApp>,
    processes: serde_json::Value,
    #[serde(default)]
    set_by_others: Option<CpuSet>,
    #[serde(default)]
    own_mask: Option<CpuSet>,
    #[serde(default)]
    books: Accounting,
    #[serde(default)]
    provenance: Provenance,
    #[serde(default)]
    memory: MemoryPolicy,
    #[serde(default)]
    partition: Partition,
    #[serde(default)]
    adopted: Option<Adoption>,
    token: Option<String>,
}

impl From<SavedV1> for Saved {
    fn from(old: SavedV1) -> Self {
        Self {
            version: VERSION,
            boot: old.boot,
            ending: old.ending,
            next_app: old.next_app,
            decisions: old.decisions,
            apps: old.apps.into_iter().map(SavedApp::from).collect(),
            released: old.released,
            left_alone: Default::default(),
            ended: Vec::new(),
            unfinished: old.unfinished,
            controller: old.controller,
        }
    }
}

impl From<AppV1> for SavedApp {
    fn from(old: AppV1) -> Self {
        let origin = match old.adopted {
            Some(adoption) => Origin::Adopted(adoption),
            None if old.launcher == Process::default() => Origin::Recovered,
            None => Origin::Launched {
                launcher: old.launcher,
            },
        };
        let standing = match old.set_by_others {
            Some(cpus) => Standing::LeftToOperator(cpus),
            None if old.planned.is_some() => Standing::Managed,
            None => Standing::Pending,
        };
        Self {
            record: AppRecord {
                id: old.id,
                spec: old.spec,
                command: old.command,
                provenance: old.provenance,
                memory: old.memory,
                partition: old.partition,
                origin,
                uid: old.uid,
                groups: None,
                first_process: old.first_process,
                standing,
                planned: old.planned,
                own_mask: old.own_mask,
                accounting: old.books,
                spinning: None,
            },
            processes: old.processes,
            token: old.token,
            progress: Progress::Done,
        }
    }
}
