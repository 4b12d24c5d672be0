//! An orderly stop.

use super::Daemon;
use crate::registry::page;
use crate::requests::adopt::SAVED_FIRST;
use crate::store::saved::Ending;
use crate::store::saver::Flushed;
use crate::telemetry::service;
use mapper_host::chain;
use mapper_host::enforce::Departure;
use std::time::{Duration, Instant as Clock};
use tokio::time::Instant;

/// How long a stop waits until the state is written: less than service managers allow for it.
const LAST_SAVE: Duration = Duration::from_secs(3);

/// How long it goes on giving back what applications that have ended held. The next daemon removes the groups that are left.
const LAST_RETURNS: Duration = Duration::from_secs(1);

impl Daemon {
    /// Returns all CPUs to the applications.
    pub(super) fn stop(&mut self) {
        service::stopping();
        if !self.registry.joining.is_empty() {
            self.store.flush(SAVED_FIRST);
        }
        self.answer_saved(Instant::now() + SAVED_FIRST);
        self.withdraw_all();
        self.answer_releases(Duration::ZERO);
        let began = Clock::now();
        while !self.registry.leaving.is_empty() && began.elapsed() < LAST_RETURNS {
            self.give_back_in_turn();
        }
        self.save(Ending::Stopping);
        if self.store.flush(LAST_SAVE) == Flushed::Late {
            tracing::warn!(
                "state not saved within {} s; the next daemon continues from the previous state",
                LAST_SAVE.as_secs()
            );
        }
        if let Some(recorder) = self.telemetry.recorder.take() {
            recorder.finish(LAST_SAVE);
        }
        let topology = self.decider.topology();
        let all = self.machine.unmanaged_cpus(topology);
        for app in &mut self.registry.apps {
            let record = &app.record;
            // What the operator has placed stays where it is.
            if record.standing.set_by_operator().is_some() {
                continue;
            }
            let cpus = record.own_mask.as_ref().unwrap_or(&all);
            let enforcer = &mut self.machine.enforcer;
            if let Err(error) = enforcer.release(record.id, cpus, Departure::DaemonStops) {
                let name = &record.spec.name;
                tracing::warn!(app = record.id.0, %name, "release: {}", chain(&error));
            }
            if let Some(page) = &mut app.page {
                let allocation =
                    page::allocation(cpus, cpus.len(), &record.spec, topology, cpus.len());
                page.writer.publish(&allocation);
            }
        }
        self.machine.enforcer.finish();
        tracing::info!(
            applications = self.registry.apps.len(),
            "stopped; running applications have all CPUs"
        );
    }
}
