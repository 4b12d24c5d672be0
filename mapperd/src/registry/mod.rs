//! Which applications are managed, as plain data.

pub(crate) mod accounting;
pub(crate) mod app;
pub(crate) mod ended;
pub(crate) mod origin;
pub(crate) mod page;
pub(crate) mod pending;
pub(crate) mod process;
pub(crate) mod provenance;

use crate::config::accounts::Accounts;
use app::{App, AppRecord, Lease};
use ended::EndedApps;
use mapper_control::schema::{AdoptTarget, Program};
use mapper_host::enforce;
use mapper_model::{AppId, AppName, CpuSet, Spinning};
use pending::{Asking, Joining, Pending, Promising, Releasing, Unanswered};
use provenance::{Build, EarlierRun, StartedFile};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashSet, VecDeque};

/// So many released ones are remembered.
const MOST_LEFT_ALONE: usize = 1024;

/// What root released although a rule fits it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct LeftAlone {
    pub(crate) target: AdoptTarget,
    /// Of its group.
    pub(crate) inode: u64,
}

#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) left_alone: VecDeque<LeftAlone>,
    /// In the order of their numbers.
    pub(crate) apps: Vec<App>,
    /// Launches that wait for others that arrive with them.
    pub(crate) pending: Vec<Pending>,
    /// Launches that are placed and wait to be saved.
    pub(crate) unanswered: Vec<Unanswered>,
    /// Adoptions that are not prepared yet, and promises that wait for a move.
    pub(crate) asking: Vec<Asking>,
    pub(crate) promising: Vec<Promising>,
    pub(crate) releasing: Vec<Releasing>,
    /// Adoptions that wait to be saved, or are being moved.
    pub(crate) joining: Vec<Joining>,
    pub(crate) next_app: AppId,
    /// Released applications of which processes could not be moved back: those stay in the group, unmanaged.
    pub(crate) released: BTreeSet<AppId>,
    /// Applications whose last process may have ended.
    pub(crate) may_have_ended: BTreeSet<AppId>,
    /// Those that have ended and still hold their groups and counters. No state that is saved has them: the next daemon
    /// removes groups of ours that are empty.
    pub(crate) leaving: VecDeque<App>,
    pub(crate) ended: EndedApps,
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self {
            apps: Vec::new(),
            pending: Vec::new(),
            unanswered: Vec::new(),
            asking: Vec::new(),
            promising: Vec::new(),
            releasing: Vec::new(),
            joining: Vec::new(),
            next_app: AppId(1),
            left_alone: VecDeque::new(),
            released: BTreeSet::new(),
            may_have_ended: BTreeSet::new(),
            leaving: VecDeque::new(),
            ended: EndedApps::default(),
        }
    }

    pub(crate) fn get(&self, id: AppId) -> Option<&App> {
        self.place(id).map(|place| &self.apps[place])
    }

    /// The application that was adopted as this.
    pub(crate) fn adopted(&self, target: &AdoptTarget) -> Option<AppId> {
        let is_it = |app: &&App| {
            let adoption = app.record.origin.adoption();
            adoption.is_some_and(|adoption| adoption.target == *target)
        };
        Some(self.with_joining().find(is_it)?.record.id)
    }

    /// The applications, and those that are to become some.
    pub(crate) fn with_joining(&self) -> impl Iterator<Item = &App> {
        let joining = self.joining.iter().map(|joining| &joining.app);
        self.apps.iter().chain(joining)
    }

    pub(crate) fn add(&mut self, app: App) {
        let id = app.record.id;
        let place = self.apps.partition_point(|other| other.record.id < id);
        self.apps.insert(place, app);
    }

    /// What a rule fits is not to be adopted again before it starts anew.
    pub(crate) fn leave_alone(&mut self, id: AppId) {
        let adoption = self.get(id).and_then(|app| app.record.origin.adoption());
        let left = adoption.and_then(|adoption| {
            let target = adoption.target.clone();
            adoption.inode().map(|inode| LeftAlone { target, inode })
        });
        if let Some(left) = left {
            self.left_alone.retain(|other| other.target != left.target);
            self.left_alone.push_back(left);
            if self.left_alone.len() > MOST_LEFT_ALONE {
                self.left_alone.pop_front();
            }
        }
    }

    pub(crate) fn get_mut(&mut self, id: AppId) -> Option<&mut App> {
        self.place(id).map(|place| &mut self.apps[place])
    }

    fn place(&self, id: AppId) -> Option<usize> {
        let place = self.apps.binary_search_by_key(&id, |app| app.record.id);
        place.ok()
    }

    pub(crate) fn remove(&mut self, id: AppId) -> Option<App> {
        self.may_have_ended.remove(&id);
        Some(self.apps.remove(self.place(id)?))
    }

    /// Those of these that there are.
    pub(crate) fn remove_all(&mut self, ids: &[AppId]) -> Vec<App> {
        let ids: BTreeSet<AppId> = ids.iter().copied().collect();
        self.may_have_ended.retain(|id| !ids.contains(id));
        let gone = |app: &mut App| ids.contains(&app.record.id);
        self.apps.extract_if(.., gone).collect()
    }

    /// A number that no application has had.
    pub(crate) fn new_id(&mut self) -> AppId {
        let id = self.next_app;
        self.next_app = AppId(id.0 + 1);
        id
    }

    /// What could not be taken back out of its group is not managed by the next daemon, either.
    pub(crate) fn note_left_over(&mut self, app: AppId, enforcer: &dyn enforce::Enforcer) {
        let left_over = enforcer.left_over();
        self.released
            .retain(|released| left_over.contains(released));
        if left_over.contains(&app) {
            self.released.insert(app);
        }
    }

    /// Notes each application whose launcher has ended, or that never had one, as perhaps ended.
    pub(crate) fn note_without_lease(&mut self) {
        let ended = |app: &&App| app.lease == Lease::Ended;
        let apps = self.apps.iter().filter(ended).map(|app| app.record.id);
        self.may_have_ended.extend(apps);
    }

    /// What runs of this program by this user have shown.
    pub(crate) fn earlier_run(
        &self,
        uid: u32,
        program: Option<&Program>,
        command: &str,
    ) -> EarlierRun {
        let build = program.and_then(|program| StartedFile::from(program).build(command));
        let Some(build) = build else {
            return EarlierRun::Nothing;
        };
        let mut apps = self.apps.iter();
        let runs = apps
            .any(|app| app.record.requested_by() == uid && app.spins().as_ref() == Some(&build));
        let mut ended = self.ended.latest();
        let mut ran =
            || ended.any(|ended| ended.requested_by == uid && ended.spun.as_ref() == Some(&build));
        match runs || ran() {
            true => EarlierRun::WaitedBySpinning,
            false => EarlierRun::Nothing,
        }
    }

    /// Whether all applications count for one user.
    pub(crate) fn is_of_one_user(&self, accounts: &Accounts) -> bool {
        let mut users = self
            .apps
            .iter()
            .map(|app| accounts.of(app.record.requested_by()));
        let first = users.next();
        users.all(|user| Some(user) == first)
    }

    /// How the threads of this program of this user were last seen to spin, outside OpenMP.
    pub(crate) fn earlier_spinning(&self, record: &AppRecord) -> Option<Spinning> {
        let (uid, build) = (record.requested_by(), record.build()?);
        let is_it = |of: u32, other: &Build| of == uid && *other == build;
        let mut runs = self.apps.iter().map(|app| &app.record);
        let running = runs.find_map(|other| {
            let build = other.build()?;
            other
                .spinning
                .filter(|_| is_it(other.requested_by(), &build))
        });
        let ended = || {
            let mut ended = self.ended.latest();
            ended.find_map(|ended| {
                let (build, spinning) = ended.spinning.as_ref()?;
                is_it(ended.requested_by, build).then_some(*spinning)
            })
        };
        running.or_else(ended)
    }

    pub(crate) fn is_pending(&self, pid: u32) -> bool {
        let mut pending = self.pending.iter();
        let mut joining = self.joining.iter();
        pending.any(|pending| pending.launch.request.pid == pid)
            || joining.any(|joining| joining.adoptee.target == enforce::AdoptTarget::Pid(pid))
    }

    /// How many applications there are and may be.
    pub(crate) fn count(&self) -> usize {
        self.apps.len() + self.pending.len() + self.joining.len()
    }

    /// How many applications and newcomers count against a user's quota.
    pub(crate) fn count_of(&self, account: u32, accounts: &Accounts) -> usize {
        let apps = self.with_joining().map(|app| app.record.requested_by());
        let pending = self.pending.iter().map(|p| p.launch.peer.uid);
        let uids = apps.chain(pending);
        uids.filter(|uid| accounts.of(*uid) == account).count()
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
        let names = self.with_joining().map(|app| &app.record.spec.name);
        let names: HashSet<&AppName> = names.collect();
        let taken = |name: &AppName| names.contains(name);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_waited_by_spinning_is_known_to_its_user_by_its_build() {
        let program = |id: &str| Program {
            path: "/p".to_owned(),
            build_id: Some(id.to_owned()),
            ..Program::default()
        };
        let mut registry = Registry::new();
        let spun = StartedFile::from(&program("00ff")).build("p");
        let ended = ended::tests::ended(1, 1000);
        registry.ended.add(ended::Ended { spun, ..ended });
        for (uid, id, command, known) in [
            (1000, "00ff", "p", EarlierRun::WaitedBySpinning),
            (1001, "00ff", "p", EarlierRun::Nothing),
            (1000, "00fe", "p", EarlierRun::Nothing),
            (1000, "00ff", "p 2", EarlierRun::Nothing),
        ] {
            let found = registry.earlier_run(uid, Some(&program(id)), command);
            assert_eq!(found, known, "{uid} {id} {command}");
        }
    }

    fn record(uid: u32, command: &str) -> AppRecord {
        let program = Program {
            path: "/p".to_owned(),
            build_id: Some("00ff".to_owned()),
            ..Program::default()
        };
        let name = AppName::from_lossy("p");
        let process = process::Process {
            pid: 7,
            started_ticks: 7,
        };
        let spec = mapper_model::AppSpec::named(name);
        let mut record = AppRecord::new(AppId(7), spec, origin::Origin::Recovered, uid, process, 0);
        record.provenance.program = Some(StartedFile::from(&program));
        record.command = command.to_owned();
        record
    }

    #[test]
    fn applications_are_one_users_if_the_same_one_has_asked_for_all() {
        let mut registry = Registry::new();
        for (uid, of_one) in [(1000, true), (1000, true), (1001, false)] {
            let app = App::new(record(uid, "p"), Lease::Ended, Default::default());
            registry.apps.push(app);
            assert_eq!(registry.is_of_one_user(&Accounts::default()), of_one);
        }
    }

    #[test]
    fn a_program_that_spun_outside_openmp_is_known_to_its_user_by_its_build() {
        let spinning = Spinning {
            threads: 2,
            share: 0.9,
        };
        let mut registry = Registry::new();
        let build = record(1000, "p").build().unwrap();
        registry.ended.add(ended::Ended {
            spinning: Some((build, spinning)),
            ..ended::tests::ended(1, 1000)
        });
        for (uid, command, known) in [
            (1000, "p", Some(spinning)),
            (1001, "p", None),
            (1000, "p 2", None),
        ] {
            assert_eq!(registry.earlier_spinning(&record(uid, command)), known);
        }
    }
}
