//! Releases in pieces: what leaves gets its CPUs back within its account's part of each interval.

use super::AffinityEnforcer;
use super::confined::{Leaving, ThreadBefore};
use crate::enforce::{Former, Handover, masks};
use crate::{HostError, chain};
use mapper_model::{AppId, CpuSet, ThreadId};
use serde::{Deserialize, Serialize};

/// A release that an earlier daemon began.
#[derive(Debug, Serialize, Deserialize)]
struct Begun {
    app: AppId,
    account: u32,
    all: CpuSet,
    /// What its threads may still have.
    stale: Vec<CpuSet>,
    known: serde_json::Value,
}

impl AffinityEnforcer {
    /// Continues a release until `left` is used up. Ends it after an error.
    pub(super) fn leave(&mut self, app: AppId, left: &mut usize) -> Result<(), HostError> {
        let mut result = Ok(());
        if self.apps.get(&app).and_then(|app| app.leaving) == Some(Leaving::Freeing) {
            result = self.settle_within(app, left);
            if let Some(confined) = self.apps.get_mut(&app)
                && (result.is_err() || confined.stale.is_empty())
            {
                confined.leaving = Some(Leaving::PuttingBack(ThreadId(0)));
            }
        }
        if self.put_back(app, left) {
            self.apps.remove(&app);
            self.tree.remove(app);
        }
        result
    }

    /// Gives the threads of an adopted application the masks that they had before, except those that chose one, until
    /// `left` is used up. Returns whether that was all.
    fn put_back(&mut self, app: AppId, left: &mut usize) -> bool {
        let Some(confined) = self.apps.get_mut(&app) else {
            return true;
        };
        let Some(Leaving::PuttingBack(first)) = confined.leaving else {
            return false;
        };
        let Some(before) = &confined.before else {
            return true;
        };
        for (tid, mask) in confined.threads.range(first..) {
            if *left == 0 {
                confined.leaving = Some(Leaving::PuttingBack(*tid));
                return false;
            }
            *left -= 1;
            let same = |thread: &&ThreadBefore| {
                let now = self.proc.thread_stat(*tid);
                now.is_ok_and(|now| now.started_ticks == thread.started_ticks)
            };
            let had = before
                .threads
                .get(&tid.0)
                .filter(same)
                .map_or(&before.first, |thread| &thread.mask);
            if mask.own.is_none()
                && !had.is_empty()
                && let Err(error) = masks::set(*tid, had)
                && !error.is_gone()
            {
                tracing::warn!(thread = tid.0, "mask not restored: {}", chain(&error));
            }
        }
        true
    }

    pub(super) fn remember_leaving(&self) -> serde_json::Value {
        let leaving = self.apps.iter().filter(|(_, app)| app.leaving.is_some());
        let begun = leaving.map(|(app, confined)| Begun {
            app: *app,
            account: confined.account,
            all: confined.cpus.clone(),
            stale: confined.stale.clone(),
            known: self.remember(*app),
        });
        serde_json::to_value(begun.collect::<Vec<_>>()).unwrap_or_default()
    }

    pub(super) fn finish_leaving(&mut self) {
        let leaving = self.apps.iter().filter(|(_, app)| app.leaving.is_some());
        for app in leaving.map(|(app, _)| *app).collect::<Vec<_>>() {
            if let Err(error) = self.leave(app, &mut { usize::MAX }) {
                tracing::warn!(app = app.0, "release: {}", chain(&error));
            }
        }
    }

    pub(super) fn take_up_leaving(&mut self, unfinished: &serde_json::Value) {
        let begun = Vec::<Begun>::deserialize(unfinished).unwrap_or_default();
        for begun in begun {
            let former = Former {
                app: begun.app,
                cpus: CpuSet::new(),
                unsaved: None,
                launcher: None,
                account: begun.account,
                set_by_others: None,
                processes: begun.known,
            };
            // One that has ended meanwhile needs nothing.
            if self.take_over(&former).is_ok()
                && let Some(confined) = self.apps.get_mut(&begun.app)
            {
                confined.change_to(&begun.all);
                confined.stale.extend(begun.stale);
                confined.leaving = Some(Leaving::Freeing);
            }
        }
    }
}
