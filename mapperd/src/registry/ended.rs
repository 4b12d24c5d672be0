//! Applications that have ended, for their reports and for the history.

use crate::registry::app::{App, AppRecord};
use mapper_control::schema::Account;
use mapper_model::{AppId, AppName, Qos};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

/// In memory: so many may end at once before the launcher of the first has asked for its report.
const KEPT: usize = 256;
/// In the history, and for the next daemon.
pub(crate) const SHOWN: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct EndedApps(VecDeque<Arc<Ended>>);

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) app: AppId,
    pub(crate) name: AppName,
    pub(crate) uid: u32,
    pub(crate) requested_by: u32,
    pub(crate) command: String,
    pub(crate) qos: Qos,
    pub(crate) account: Account,
    pub(crate) exit_status: Option<u8>,
    pub(crate) ended_ns: u64,
}

impl Ended {
    /// The application as if it ended now.
    pub(crate) fn now(app: &App, now_ns: u64) -> Self {
        let AppRecord {
            id,
            spec,
            command,
            uid,
            accounting,
            ..
        } = &app.record;
        Self {
            app: *id,
            name: spec.name.clone(),
            uid: *uid,
            requested_by: app.record.requested_by(),
            command: match app.record.origin.adoption() {
                Some(adoption) => adoption.target.to_string(),
                None => command.clone(),
            },
            qos: spec.qos,
            account: accounting.clone().finished(spec.qos),
            exit_status: app.exit_status,
            ended_ns: now_ns,
        }
    }
}

impl EndedApps {
    pub(crate) fn add(&mut self, ended: Ended) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(Arc::new(ended));
    }

    /// The launcher may report the status after the daemon has seen the end.
    pub(crate) fn note_status(&mut self, app: AppId, status: u8) {
        if let Some(ended) = self.0.iter_mut().rev().find(|ended| ended.app == app) {
            Arc::make_mut(ended).exit_status = Some(status);
        }
    }

    pub(crate) fn find(&self, app: AppId) -> Option<&Ended> {
        let found = self.0.iter().find(|ended| ended.app == app);
        found.map(Arc::as_ref)
    }

    /// The latest first.
    pub(crate) fn latest(&self) -> impl Iterator<Item = &Arc<Ended>> {
        self.0.iter().rev()
    }

    /// What an earlier daemon saved, the latest first.
    pub(crate) fn continue_from(&mut self, saved: Vec<Arc<Ended>>) {
        self.0 = saved.into_iter().rev().collect();
    }
}
