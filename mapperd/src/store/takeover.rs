//! Taking over the applications of an earlier daemon.
//!
//! After a crash, applications are confined as they were; after an orderly stop they have all CPUs. They and their
//! launchers keep running, and the next daemon continues with what it finds:
//!
//! - the *enforcer* reports which applications run (by their groups, or by following the saved processes),
//! - the *saved state* contains their promises and what was learned about them,
//! - the *page* of each is found again ([`kept_pages`]).
//!
//! A group with processes that were released stays unmanaged. Any other group that is not in the saved state is managed
//! with the default promise: unmanaged, it would run on CPUs assigned to others. There are no leases after that: an
//! application ends when its last process does.

use crate::decider::Decider;
use crate::machine::Machine;
use crate::machine::enforce::{bind_memory, publish_in_force};
use crate::machine::process::descriptor;
use crate::registry::Registry;
use crate::registry::app::{App, AppRecord, Lease};
use crate::registry::origin::Origin;
use crate::registry::page::Page;
use crate::registry::pending::{AdoptionAsked, Joining, Step};
use crate::registry::process::Process;
use crate::store::directory::{Found, StateDir};
use crate::store::kept_pages::{self, KeptPages};
use crate::store::saved::{Ending, Progress, Saved, SavedApp};
use crate::telemetry::Telemetry;
use crate::telemetry::service::Passed;
use anyhow::Context;
use mapper_control::schema::Partition;
use mapper_host::chain;
use mapper_host::enforce::{Former, MembersKept};
use mapper_model::{AppId, AppName, AppSpec, CpuSet};
use mapper_pipeline::Controller;
use std::os::fd::{AsFd, OwnedFd};

/// What an earlier daemon left.
#[derive(Debug)]
pub(crate) struct Legacy {
    pub(crate) saved: Option<Saved>,
    pub(crate) pages: KeptPages,
}

impl Legacy {
    /// Looks for it. Logs what cannot be read.
    pub(crate) fn find(dir: Option<&StateDir>, passed: Vec<Passed>) -> Self {
        let saved = match dir.map(StateDir::load) {
            Some(Found::State(saved)) => Some(*saved),
            Some(Found::Damaged { why, before }) => {
                tracing::error!(
                    "saved state set aside as {}.damaged, {}: {why:#}",
                    dir.map(StateDir::file).unwrap_or_default().display(),
                    match before {
                        Some(_) => "continuing from the previous one, without the last changes",
                        None => "its contents are lost",
                    }
                );
                before.map(|before| *before)
            }
            Some(Found::Nothing) | None => None,
        };
        Self {
            saved,
            pages: KeptPages::among(passed),
        }
    }

    /// Gives a controller the history of the earlier one.
    pub(crate) fn teach(&self, controller: &mut Controller) {
        let Some(saved) = &self.saved else {
            return;
        };
        let learned = serde_json::from_value(saved.controller.clone())
            .context("read what was learned")
            .and_then(|state: mapper_pipeline::ControllerState| {
                if let Err(error) = controller.restore(state.clone()) {
                    tracing::info!("the allocation policy starts without its history: {error}");
                    controller.restore_without_policy(state)?;
                }
                Ok(())
            });
        if let Err(error) = learned {
            tracing::warn!("what was learned about applications is lost: {error:#}");
        }
    }
}

pub(crate) fn take_over(
    legacy: Legacy,
    registry: &mut Registry,
    machine: &mut Machine,
    decider: &mut Decider,
    telemetry: &mut Telemetry,
) {
    let Legacy { saved, mut pages } = legacy;
    let left_over = machine.enforcer.left_over();
    let highest = left_over.iter().map(|app| app.0 + 1).max().unwrap_or(1);
    registry.next_app = AppId(highest.max(registry.next_app.0));
    let mut known = Vec::new();
    let mut ending = Ending::Running;
    if let Some(saved) = saved {
        registry.next_app = AppId(registry.next_app.0.max(saved.next_app.0));
        decider.decisions = saved.decisions;
        ending = saved.ending;
        known = saved.apps;
        machine.enforcer.take_up(&saved.unfinished);
        registry.released = saved.released;
        registry.left_alone = saved.left_alone;
        registry.ended.continue_from(saved.ended);
        registry.released.retain(|app| left_over.contains(app));
    }
    for app in left_over {
        let saved = known.iter().any(|saved| saved.record.id == app);
        if !saved && !registry.released.contains(&app) {
            known.push(recovered(app, machine));
        }
    }
    known.sort_by_key(|saved| saved.record.id);
    for saved in known {
        let (id, progress) = (saved.record.id, saved.progress);
        match take_over_one(saved, ending, &mut pages, machine) {
            Ok(app) if progress == Progress::Joining => {
                registry.joining.extend(joining(app, machine));
            }
            Ok(mut app) => {
                // It has all CPUs after an orderly stop.
                publish_in_force(&mut app, machine, decider);
                let cpus = planned_cpus(&app.record);
                registry.apps.push(app);
                bind_memory(id, &cpus, registry, machine, decider, telemetry);
            }
            Err(error) if error.is_gone() => {
                tracing::info!(app = id.0, "has ended in the meantime");
                kept_pages::forget(id);
            }
            Err(error) => {
                tracing::warn!(app = id.0, "not taken over: {}", chain(&error));
                kept_pages::forget(id);
            }
        }
    }
    pages.drop_rest();
}

fn planned_cpus(record: &AppRecord) -> CpuSet {
    let planned = record.planned.as_ref();
    planned.map_or_else(CpuSet::new, |planned| planned.cpus.clone())
}

fn take_over_one(
    saved: SavedApp,
    ending: Ending,
    pages: &mut KeptPages,
    machine: &mut Machine,
) -> Result<App, mapper_host::HostError> {
    let SavedApp {
        record,
        processes,
        token,
        ..
    } = saved;
    let id = record.id;
    let cpus = planned_cpus(&record);
    let launcher = record.origin.launcher();
    let launcher = launcher.filter(|launcher| machine.is_alive(*launcher));
    let launcher = launcher.map(|launcher| launcher.pid);
    let token = token.and_then(|token| token.parse().ok());
    let page = token.and_then(|token| pages.take(id, launcher, token));
    let enforcer = &mut machine.enforcer;
    enforcer.take_over(&Former {
        app: id,
        cpus: cpus.clone(),
        unsaved: page.as_ref().and_then(Page::cpus),
        launcher,
        account: machine.accounts.of(record.requested_by()),
        set_by_others: record.standing.set_by_operator().cloned(),
        processes,
    })?;
    if record.partition == Partition::Isolated
        && let Err(error) = enforcer.isolate(id)
    {
        tracing::warn!(app = id.0, "not isolated again: {}", chain(&error));
    }
    // An orderly stop gave all CPUs back; threads' masks have to be set again in any case.
    let again =
        ending == Ending::Stopping || enforcer.capabilities().members == MembersKept::BySavedState;
    if again
        && !cpus.is_empty()
        && let Err(error) = enforcer.apply(id, &cpus)
    {
        tracing::warn!(app = id.0, "not confined again: {}", chain(&error));
    }
    let effective = enforcer.effective(id).unwrap_or_default();
    let watches = machine.watch(id, descriptor_of(record.first_process, machine));
    tracing::info!(
        app = id.0,
        name = %record.spec.name,
        cpus = %effective,
        page = if page.is_some() { "found" } else { "none" },
        "taken over"
    );
    if let Some(page) = &page {
        kept_pages::keep(id, page.writer.as_fd());
    }
    let mut app = App::new(record, Lease::Ended, watches);
    app.page = page;
    app.effective = effective;
    Ok(app)
}

/// What the earlier daemon had begun to adopt. The rest is moved once decisions are taken.
fn joining(app: App, machine: &Machine) -> Option<Joining> {
    let record = &app.record;
    let adoption = record.origin.adoption()?;
    let account = machine.accounts.of(adoption.by);
    Some(Joining {
        target: adoption.target.clone(),
        adoptee: adoption.adoptee(record.id, account, machine.usable.clone()),
        process: descriptor_of(record.first_process, machine),
        asked: AdoptionAsked::OfAnEarlierDaemon,
        uid: adoption.by,
        step: Step::Moving { since: None },
        app,
    })
}

/// A group that is not in the saved state.
fn recovered(id: AppId, machine: &mut Machine) -> SavedApp {
    let first = machine.enforcer.first_process(id).unwrap_or_default();
    let uid = machine.proc.uids(first).map_or(0, |uids| uids.real);
    tracing::warn!(
        app = id.0,
        "runs, but is not in the saved state: taken over with the default promise"
    );
    let name = AppName::from_lossy(&format!("recovered-{id}"));
    let (spec, now_ns) = (AppSpec::named(name), machine.clock.now_ns());
    let first = machine.process(first);
    SavedApp {
        record: AppRecord::new(id, spec, Origin::Recovered, uid, first, now_ns),
        processes: serde_json::Value::Null,
        token: None,
        progress: Progress::Done,
    }
}

/// A descriptor of a process that was saved, if it still runs.
fn descriptor_of(process: Process, machine: &Machine) -> Option<OwnedFd> {
    let found = descriptor(process.pid).ok()?;
    // Checked after it was opened, so that it stays this process.
    machine.is_alive(process).then_some(found)
}
