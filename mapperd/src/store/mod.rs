//! What outlives the daemon.
//!
//! One thread writes the saved state ([`saver`]), since a slow disk must not delay decisions.

pub(crate) mod directory;
pub(crate) mod kept_pages;
pub(crate) mod saved;
pub(crate) mod saver;
pub(crate) mod takeover;
pub(crate) mod trusted_directory;
pub(crate) mod version1;

use crate::decider::Decider;
use crate::machine::Machine;
use crate::registry::Registry;
use crate::registry::app::App;
use saved::{Ending, Progress, SavedApp, Unsaved};
use saver::{Flushed, Saver};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Store {
    /// `None` if nothing outlives the daemon.
    pub(crate) saver: Option<Saver>,
}

impl Store {
    /// Saves what the next daemon needs, without waiting for the disk.
    pub(crate) fn save(
        &self,
        ending: Ending,
        registry: &Registry,
        machine: &Machine,
        decider: &Decider,
    ) {
        let Some(saver) = &self.saver else {
            return;
        };
        let mut saved = Unsaved::new(ending, registry.next_app, decider.decisions);
        let enforcer = &machine.enforcer;
        let left_over = enforcer.left_over();
        saved.unfinished = enforcer.remember_unfinished();
        saved.released.clone_from(&registry.released);
        saved.released.retain(|app| left_over.contains(app));
        saved.left_alone.clone_from(&registry.left_alone);
        saved.ended = registry.ended.to_save();
        let token = |app: &App| Some(app.page.as_ref()?.writer.token().to_string());
        let managed = registry.apps.iter().map(|app| (app, Progress::Done));
        let joining = registry.joining.iter();
        let joining = joining.map(|joining| (&joining.app, Progress::Joining));
        let apps = managed.chain(joining).map(|(app, progress)| SavedApp {
            record: app.record.clone(),
            processes: enforcer.remember(app.record.id),
            token: token(app),
            progress,
        });
        saved.apps = apps.collect();
        saved.apps.sort_by_key(|app| app.record.id);
        saved.controller = Some(decider.controller.save());
        saver.submit(saved);
    }

    /// Waits until a further state was written, or could not be.
    pub(crate) async fn has_tried(&self) {
        match &self.saver {
            Some(saver) => saver.has_tried().await,
            None => std::future::pending().await,
        }
    }

    /// The number of the state that is saved next.
    pub(crate) fn next(&self) -> u64 {
        self.saver.as_ref().map_or(0, |saver| saver.submitted() + 1)
    }

    /// Whether the state with this number, or a newer one, is written by now.
    pub(crate) fn outcome(&self, state: u64) -> Flushed {
        let saver = self.saver.as_ref();
        saver.map_or(Flushed::Nowhere, |saver| saver.outcome(state))
    }

    /// Waits up to `patience` until the state is written.
    pub(crate) fn flush(&self, patience: Duration) -> Flushed {
        let saver = self.saver.as_ref();
        saver.map_or(Flushed::Nowhere, |saver| saver.flush(patience))
    }
}
