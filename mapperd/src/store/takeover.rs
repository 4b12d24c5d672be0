//! Taking over what an earlier daemon managed, and leaving it to the next one.
//!
//! After a crash, applications are confined as they were. After an orderly stop they have all CPUs.
//! Either way they run on, in their groups, and their launchers do not mind: a launcher needs the
//! daemon only to get a place. So the next daemon goes on with what it finds:
//!
//! - the *enforcer* says which applications run (by the groups there are, or by following the
//!   processes that were saved),
//! - the *saved state* says what they were promised and what was learned of them,
//! - the *page* of each comes back as [`page_keeping`](crate::store::kept_pages) tells.
//!
//! A group in which processes were left that were released stays unmanaged.
//! Any other that nothing is saved of is managed all the same, with the default promise: left alone, it
//! would run on CPUs that are given to others.
//!
//! Nobody's lease is held after that: an application ends when the last of its processes does.

use crate::daemon::{App, Daemon, Lease};
use crate::machine::watch::Watches;
use crate::registry::accounting::Books;
use crate::registry::page::{self, Page};
use crate::requests::settling::Provenance;
use crate::store::kept_pages::{self, KeptPages};
use crate::store::saved::{Ending, Found, Process, Saved, SavedApp, StateDir};
use crate::store::saver::Flushed;
use anyhow::Context;
use mapper_control::schema::{MemoryPolicy, Partition};
use mapper_host::chain;
use mapper_host::enforce::{EnforcerKind, Former};
use mapper_host::procfs::ProcFs;
use mapper_model::{AppId, AppName, AppSpec, CpuSet};
use mapper_pipeline::Controller;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// What an earlier daemon left.
#[derive(Debug)]
pub(crate) struct Legacy {
    pub(crate) saved: Option<Saved>,
    pub(crate) pages: KeptPages,
}

impl Legacy {
    /// Looks for it. Says so when there is something that cannot be read.
    pub(crate) fn find(dir: Option<&StateDir>) -> Self {
        let saved = match dir.map(StateDir::load) {
            Some(Found::State(saved)) => Some(*saved),
            Some(Found::Damaged { why, before }) => {
                tracing::error!(
                    "saved state set aside as {}.damaged, {}: {why:#}",
                    dir.map(StateDir::file).unwrap_or_default().display(),
                    match before {
                        Some(_) => "going on from the one before, without what changed last",
                        None => "what it knew is lost",
                    }
                );
                before.map(|before| *before)
            }
            Some(Found::Nothing) | None => None,
        };
        Self {
            saved,
            pages: KeptPages::from_environment(),
        }
    }

    /// Gives a controller the memory of the earlier one.
    pub(crate) fn teach(&self, controller: &mut Controller) {
        let Some(saved) = &self.saved else {
            return;
        };
        let learned = serde_json::from_value(saved.controller.clone())
            .context("read what was learned")
            .and_then(|state: mapper_pipeline::ControllerState| {
                if let Err(error) = controller.restore(state.clone()) {
                    tracing::info!("the allocation policy starts anew: {error}");
                    controller.restore_without_policy(state)?;
                }
                Ok(())
            });
        if let Err(error) = learned {
            tracing::warn!("what was learned of applications is lost: {error:#}");
        }
    }
}

impl Daemon {
    /// Takes over every application that still runs. To be called before anything else happens.
    pub(crate) fn take_over(&mut self, legacy: Legacy) {
        let Legacy { saved, mut pages } = legacy;
        let left_over = self.parts.enforcer.left_over();
        let highest = left_over.iter().map(|app| app.0 + 1).max().unwrap_or(1);
        self.next_app = AppId(highest.max(self.next_app.0));
        let mut known = Vec::new();
        let mut ending = Ending::Running;
        if let Some(saved) = saved {
            self.next_app = AppId(self.next_app.0.max(saved.next_app.0));
            self.decisions = saved.decisions;
            ending = saved.ending;
            known = saved.apps;
            self.parts.enforcer.take_up(&saved.unfinished);
            self.released = saved.released;
            self.released.retain(|app| left_over.contains(app));
        }
        for app in left_over {
            if !known.iter().any(|saved| saved.id == app) && !self.released.contains(&app) {
                known.push(self.unknown(app));
            }
        }
        known.sort_by_key(|saved| saved.id);
        for saved in known {
            let id = saved.id;
            match self.take_over_one(saved, ending, &mut pages) {
                Ok(()) => {}
                Err(error) if error.is_gone() => {
                    tracing::info!(app = id.0, "has ended meanwhile");
                    kept_pages::forget(id);
                }
                Err(error) => {
                    tracing::warn!(app = id.0, "not taken over: {}", chain(&error));
                    kept_pages::forget(id);
                }
            }
        }
        pages.drop_rest();
        if self.has_work() {
            self.membership_changed();
        } else if let Err(error) = self.parts.enforcer.refresh() {
            // There is no decision that would look at what is left.
            tracing::warn!("processes not looked at: {}", chain(&error));
        }
    }

    fn take_over_one(
        &mut self,
        saved: SavedApp,
        ending: Ending,
        pages: &mut KeptPages,
    ) -> Result<(), mapper_host::HostError> {
        let id = saved.id;
        let given = saved
            .planned
            .as_ref()
            .map_or_else(CpuSet::new, |planned| planned.cpus.clone());
        let launcher = self.lives(saved.launcher).then_some(saved.launcher.pid);
        let enforcer = &mut self.parts.enforcer;
        enforcer.take_over(&Former {
            app: id,
            cpus: given.clone(),
            launcher,
            set_by_others: saved.set_by_others.clone(),
            processes: saved.processes,
        })?;
        if saved.partition == Partition::Isolated
            && let Err(error) = enforcer.isolate(id)
        {
            tracing::warn!(app = id.0, "not isolated again: {}", chain(&error));
        }
        // A stop gave all CPUs back; threads' masks have to be set again in any case.
        let again = ending == Ending::Stopping || enforcer.kind() == EnforcerKind::Affinity;
        if again
            && !given.is_empty()
            && let Err(error) = enforcer.apply(id, &given)
        {
            tracing::warn!(app = id.0, "not confined again: {}", chain(&error));
        }
        let effective = enforcer.effective(id).unwrap_or_default();
        let mut watches = Watches::default();
        if let Some(events) = enforcer.watch(id) {
            watches.group(id, events, self.parts.sender.clone());
        }
        if let Some(process) = self.descriptor_of(saved.first_process) {
            watches.process(id, process, self.parts.sender.clone());
        }
        let page = saved
            .token
            .and_then(|token| token.parse().ok())
            .and_then(|token| pages.take(id, launcher, token));
        tracing::info!(
            app = id.0,
            name = %saved.spec.name,
            cpus = %effective,
            page = if page.is_some() { "found" } else { "none" },
            "taken over"
        );
        if let Some(page) = &page {
            kept_pages::keep(id, page.writer.as_fd());
        }
        self.apps.push(App {
            id,
            spec: saved.spec,
            command: saved.command,
            provenance: saved.provenance,
            memory: saved.memory,
            partition: saved.partition,
            adopted: saved.adopted,
            uid: saved.uid,
            first_process: saved.first_process,
            launcher: saved.launcher,
            page,
            planned: saved.planned,
            effective,
            set_by_others: saved.set_by_others,
            limited: None,
            told_mismatch: None,
            own_mask: saved.own_mask,
            books: saved.books,
            used: None,
            lease: Lease::Ended,
            _watches: watches,
        });
        self.bind_memory(id, &given);
        self.tell_page(id);
        Ok(())
    }

    /// After a stop the page tells of all CPUs: it is put right.
    fn tell_page(&mut self, id: AppId) {
        let most = self.usable.len();
        let topology = self.parts.controller.topology();
        if let Some(app) = self.apps.iter_mut().find(|app| app.id == id)
            && let Some(Page { writer, .. }) = &mut app.page
        {
            writer.publish(&page::allocation(&app.effective, &app.spec, topology, most));
        }
    }

    /// A group that nothing is saved of.
    fn unknown(&mut self, id: AppId) -> SavedApp {
        let first = self.parts.enforcer.first_process(id).unwrap_or_default();
        let uid = self.parts.proc.uids(first).map_or(0, |uids| uids.real);
        tracing::warn!(
            app = id.0,
            "runs, but nothing is known of it: taken over with the default promise"
        );
        SavedApp {
            id,
            spec: AppSpec::named(AppName::from_lossy(&format!("recovered-{id}"))),
            command: String::new(),
            provenance: Provenance::default(),
            memory: MemoryPolicy::Keep,
            partition: Partition::Member,
            adopted: None,
            uid,
            first_process: self.process(first),
            launcher: Process::default(),
            planned: None,
            processes: serde_json::Value::Null,
            set_by_others: None,
            token: None,
            own_mask: None,
            books: Books::open(self.parts.clock.now_ns()),
        }
    }

    /// A process as it can be known again later.
    pub(crate) fn process(&self, pid: u32) -> Process {
        Process {
            pid,
            started_ticks: started_ticks(&self.parts.proc, pid).unwrap_or_default(),
        }
    }

    fn lives(&self, process: Process) -> bool {
        started_ticks(&self.parts.proc, process.pid) == Some(process.started_ticks)
    }

    fn descriptor_of(&self, process: Process) -> Option<OwnedFd> {
        let pid = Pid::from_raw(i32::try_from(process.pid).ok()?)?;
        let descriptor = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        // Looked at after it was opened: it is this process for good.
        self.lives(process).then_some(descriptor)
    }

    /// Has written down what the next daemon needs, without waiting for the disk.
    pub(crate) fn save(&self, ending: Ending) {
        let Some(saver) = &self.parts.saver else {
            return;
        };
        let mut saved = Saved::new(ending, self.next_app, self.decisions);
        match serde_json::to_value(self.parts.controller.save()) {
            Ok(state) => saved.controller = state,
            Err(error) => tracing::debug!("what was learned is not saved: {error}"),
        }
        let enforcer = &self.parts.enforcer;
        let left_over = enforcer.left_over();
        saved.unfinished = enforcer.remember_unfinished();
        saved.released.clone_from(&self.released);
        saved.released.retain(|app| left_over.contains(app));
        saved.apps = self
            .apps
            .iter()
            .map(|app| SavedApp {
                id: app.id,
                spec: app.spec.clone(),
                command: app.command.clone(),
                provenance: app.provenance.clone(),
                memory: app.memory,
                partition: app.partition,
                adopted: app.adopted.clone(),
                uid: app.uid,
                first_process: app.first_process,
                launcher: app.launcher,
                planned: app.planned.clone(),
                processes: enforcer.remember(app.id),
                set_by_others: app.set_by_others.clone(),
                own_mask: app.own_mask.clone(),
                books: app.books.clone(),
                token: app
                    .page
                    .as_ref()
                    .map(|page| page.writer.token().to_string()),
            })
            .collect();
        saver.submit(saved);
    }

    /// Waits until the state is written, for as long as `patience`.
    pub(crate) fn saved_within(&self, patience: Duration) -> Flushed {
        let saver = self.parts.saver.as_ref();
        saver.map_or(Flushed::Nowhere, |saver| saver.flush(patience))
    }
}

fn started_ticks(proc: &ProcFs, pid: u32) -> Option<u64> {
    let stat = proc.stat(pid).ok()?;
    (pid != 0 && !stat.is_zombie()).then_some(stat.started_ticks)
}
