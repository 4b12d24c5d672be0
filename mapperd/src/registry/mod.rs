//! Which applications are managed, as plain data.

pub(crate) mod accounting;
pub(crate) mod app;
pub(crate) mod ended;
pub(crate) mod origin;
pub(crate) mod page;
pub(crate) mod pending;
pub(crate) mod process;
pub(crate) mod provenance;

use app::{App, Lease};
use ended::EndedReports;
use mapper_model::{AppId, AppName, CpuSet};
use pending::Pending;
use std::collections::BTreeSet;

#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) apps: Vec<App>,
    /// Launches that wait for others that arrive with them.
    pub(crate) pending: Vec<Pending>,
    pub(crate) next_app: AppId,
    /// Released applications of which processes could not be moved back: those stay in the group, unmanaged.
    pub(crate) released: BTreeSet<AppId>,
    /// Applications whose last process may have ended.
    pub(crate) may_have_ended: BTreeSet<AppId>,
    pub(crate) ended: EndedReports,
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self {
            apps: Vec::new(),
            pending: Vec::new(),
            next_app: AppId(1),
            released: BTreeSet::new(),
            may_have_ended: BTreeSet::new(),
            ended: EndedReports::default(),
        }
    }

    pub(crate) fn get(&self, id: AppId) -> Option<&App> {
        self.apps.iter().find(|app| app.record.id == id)
    }

    pub(crate) fn get_mut(&mut self, id: AppId) -> Option<&mut App> {
        self.apps.iter_mut().find(|app| app.record.id == id)
    }

    pub(crate) fn remove(&mut self, id: AppId) -> Option<App> {
        let place = self.apps.iter().position(|app| app.record.id == id)?;
        Some(self.apps.remove(place))
    }

    /// A number that no application has had.
    pub(crate) fn new_id(&mut self) -> AppId {
        let id = self.next_app;
        self.next_app = AppId(id.0 + 1);
        id
    }

    /// Notes each application whose launcher has ended, or that never had one, as perhaps ended.
    pub(crate) fn note_without_lease(&mut self) {
        let ended = |app: &&App| app.lease == Lease::Ended;
        let apps = self.apps.iter().filter(ended).map(|app| app.record.id);
        self.may_have_ended.extend(apps);
    }

    pub(crate) fn is_pending(&self, pid: u32) -> bool {
        let mut pending = self.pending.iter();
        pending.any(|pending| pending.launch.request.pid == pid)
    }

    /// How many applications and waiting launches count against a user's quota.
    pub(crate) fn count_of(&self, uid: u32) -> usize {
        let apps = self.apps.iter();
        let apps = apps.filter(|app| app.record.requested_by() == uid);
        let pending = self.pending.iter();
        apps.count() + pending.filter(|p| p.launch.peer.uid == uid).count()
    }

    /// Those of these CPUs that no application holds.
    pub(crate) fn free(&self, usable: &CpuSet) -> CpuSet {
        let mut free = usable.clone();
        for app in &self.apps {
            free.remove_all(&app.effective);
        }
        free
    }

    /// The name, with a number added if it is taken.
    pub(crate) fn unique_name(&self, wanted: AppName) -> AppName {
        let taken = |name: &AppName| self.apps.iter().any(|app| app.record.spec.name == *name);
        if !taken(&wanted) {
            return wanted;
        }
        // A name has 64 characters at most, all of one byte each.
        let mut numbered = (2u64..).map(|number| {
            let suffix = format!("-{number}");
            let stem = &wanted.as_str()[..wanted.as_str().len().min(64 - suffix.len())];
            AppName::from_lossy(&format!("{stem}{suffix}"))
        });
        numbered.find(|name| !taken(name)).unwrap_or(wanted)
    }
}
