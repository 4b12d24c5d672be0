//! For tests: a daemon on a fake machine of eight CPUs, whose enforcer only records what is requested.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use crate::config::accounts::Accounts;
use crate::config::args::Args;
use crate::config::file::ConfigFile;
use crate::config::peer::Peer;
use crate::config::settings::Settings;
use crate::daemon::{Daemon, Timing};
use crate::decider::Decider;
use crate::machine::Machine;
use crate::machine::sleep::Sleep;
use crate::machine::wake::Lookout;
use crate::registry::Registry;
use crate::requests::reloads::Reloads;
use crate::socket::arrivals::Arrivals;
use crate::socket::message::{Inbox, channel};
use crate::socket::quota::Quotas;
use crate::store::Store;
use crate::store::directory::Stored;
use crate::store::saved::Unsaved;
use crate::store::saver::{Saver, StateWriter};
use crate::telemetry::Telemetry;
use crate::telemetry::tally::Tally;
use clap::Parser;
use mapper_control::schema::{AdoptRequest, AdoptTarget, Selection};
use mapper_control::{ErrorReply, Reply};
use mapper_host::HostError;
use mapper_host::clock::ManualClock;
use mapper_host::cpus::UsableCpus;
use mapper_host::enforce::{
    Adoptee, BindMemory, Capabilities, Confine, Departure, Enforcer, ForeignSet, Former, Handover,
    HeldUp, IdleTimeChange, Isolate, MembersKept, Membership, MemoryBinding, Moved, Moves,
    Newcomer, Tasks, ThreadMasks, Unfinished,
};
use mapper_host::procfs::ProcFs;
use mapper_host::topology::{TopologyReadError, TopologySource};
use mapper_model::topology::Shape;
use mapper_model::{AppId, CpuSet, NodeId, Topology, Weight};
use mapper_pipeline::{Controller, Pacing};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Child;
use std::rc::Rc;
use std::time::Duration;

/// The process that every application consists of.
pub(crate) const FIRST_PROCESS: u32 = 77;

const SHAPE: Shape = Shape {
    sockets: 1,
    cores_per_socket: 8,
    threads_per_core: 1,
};

/// What was requested of the enforcer, and what it reports.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) sets: BTreeMap<AppId, CpuSet>,
    pub(crate) weights: BTreeMap<AppId, Weight>,
    pub(crate) idle_times: BTreeMap<AppId, CpuSet>,
    /// The kernel does not let one run last.
    pub(crate) refuses_idle_time: bool,
    pub(crate) foreign: BTreeMap<AppId, ForeignSet>,
    pub(crate) groups: BTreeMap<AppId, u64>,
    pub(crate) limits: BTreeMap<AppId, CpuSet>,
    pub(crate) released: Vec<(AppId, Departure)>,
    /// Applications without a process.
    pub(crate) empty: BTreeSet<AppId>,
    pub(crate) looks_for_ends: u32,
    /// How long it takes to let one go.
    pub(crate) release_takes: Duration,
    /// How often its threads were listed.
    pub(crate) listed: BTreeMap<AppId, u32>,
    /// No look says what has ended.
    pub(crate) looks_are_cut: bool,
    pub(crate) unfinished: Unfinished,
    /// What it takes to admit one.
    pub(crate) admission: Duration,
    /// What was admitted.
    pub(crate) admitted: Vec<AppId>,
    /// A process that ends while it is admitted.
    pub(crate) ends: Option<Child>,
    /// The kernel holds up moves, which the first of them finds out.
    pub(crate) moves_are_held_up: bool,
    /// How often an adoption is moved in part before all of it is.
    pub(crate) turns_left: u32,
    pub(crate) held_up: bool,
    /// How often systemd has not answered yet when an adoption asks.
    pub(crate) unanswered: u32,
    /// What was adopted and moved in.
    pub(crate) moved: Vec<AppId>,
    /// What was held up and is not asked for again.
    pub(crate) given_up: Vec<AppId>,
}

impl Seen {
    fn make_a_move(&mut self) -> Result<(), HostError> {
        self.held_up = self.moves_are_held_up;
        let change = || "a move".to_owned();
        match self.held_up {
            true => Err(HostError::HeldUp(change(), change(), 0)),
            false => Ok(()),
        }
    }
}

#[derive(Clone, Debug)]
struct FakeEnforcer(Rc<RefCell<Seen>>);

impl Enforcer for FakeEnforcer {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            members: MembersKept::ByKernel,
            masks: ThreadMasks::Intersected,
            memory: MemoryBinding::Available,
        }
    }

    fn describe(&self) -> String {
        "none".to_owned()
    }
}

impl Confine for FakeEnforcer {
    fn limit(&self) -> Result<CpuSet, HostError> {
        Ok(CpuSet::first(8))
    }

    fn apply(&mut self, app: AppId, cpus: &CpuSet) -> Result<(), HostError> {
        self.0.borrow_mut().sets.insert(app, cpus.clone());
        Ok(())
    }

    fn effective(&mut self, app: AppId) -> Result<CpuSet, HostError> {
        let seen = self.0.borrow();
        let foreign = seen.foreign.get(&app).map(|set| set.cpus.clone());
        Ok(foreign.unwrap_or_else(|| seen.sets[&app].clone()))
    }

    fn weigh(&mut self, app: AppId, weight: Weight) -> Result<(), HostError> {
        self.0.borrow_mut().weights.insert(app, weight);
        Ok(())
    }

    fn use_idle_time(&mut self, app: AppId, cpus: &CpuSet) -> Result<IdleTimeChange, HostError> {
        let mut seen = self.0.borrow_mut();
        if seen.refuses_idle_time {
            seen.idle_times.remove(&app);
            let refused = std::io::ErrorKind::PermissionDenied.into();
            return Err(HostError::Io("write", "cpu.idle".to_owned(), refused));
        }
        let before = seen.idle_times.insert(app, cpus.clone());
        match before.unwrap_or_default() == *cpus {
            true => Ok(IdleTimeChange::None),
            false => Ok(IdleTimeChange::Made),
        }
    }

    fn limit_of(&self, app: AppId) -> Result<Option<CpuSet>, HostError> {
        Ok(self.0.borrow().limits.get(&app).cloned())
    }

    fn set_by_others(&mut self, app: AppId) -> Option<ForeignSet> {
        self.0.borrow().foreign.get(&app).cloned()
    }
}

impl Membership for FakeEnforcer {
    fn admit(&mut self, newcomer: &Newcomer) -> Result<(), HostError> {
        std::thread::sleep(self.0.borrow().admission);
        let mut seen = self.0.borrow_mut();
        seen.make_a_move()?;
        seen.sets.insert(newcomer.app, CpuSet::new());
        seen.admitted.push(newcomer.app);
        if let Some(mut process) = seen.ends.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
        Ok(())
    }

    fn adopt(&mut self, adoptee: &Adoptee) -> Result<(), HostError> {
        let mut seen = self.0.borrow_mut();
        if seen.unanswered > 0 {
            seen.unanswered -= 1;
            return Err(HostError::SystemdLate(
                "look at",
                "a.service".to_owned(),
                500,
            ));
        }
        seen.make_a_move()?;
        seen.sets.insert(adoptee.app, CpuSet::new());
        Ok(())
    }

    fn give_up(&mut self, app: AppId) {
        self.0.borrow_mut().given_up.push(app);
    }

    fn move_in(&mut self, adoptee: &Adoptee) -> Result<Moved, HostError> {
        let mut seen = self.0.borrow_mut();
        if seen.turns_left > 0 {
            seen.turns_left -= 1;
            return Ok(Moved::Part);
        }
        seen.moved.push(adoptee.app);
        Ok(Moved::All)
    }

    fn first_process(&self, _: AppId) -> Option<u32> {
        Some(FIRST_PROCESS)
    }

    fn held_up(&self) -> Option<HeldUp> {
        let seen = self.0.borrow();
        (seen.moves_are_held_up && seen.held_up).then(|| HeldUp {
            change: "a move".to_owned(),
            lasting: Duration::from_secs(1),
            moves: Moves::Wait,
        })
    }

    fn refresh(&mut self) -> Result<(), HostError> {
        Ok(())
    }

    fn too_many_groups(&mut self, app: AppId) -> Option<u64> {
        self.0.borrow().groups.get(&app).copied()
    }

    fn owner(&self, pid: u32) -> Option<AppId> {
        let seen = self.0.borrow();
        let first = seen.sets.keys().next();
        first.copied().filter(|_| pid == FIRST_PROCESS)
    }

    fn cpu_time_ns(&mut self, _: AppId) -> Option<u64> {
        Some(0)
    }

    fn tasks(&mut self, app: AppId) -> Tasks {
        *self.0.borrow_mut().listed.entry(app).or_default() += 1;
        Tasks {
            processes: vec![FIRST_PROCESS],
            ..Tasks::default()
        }
    }

    fn emptied(&mut self, apps: &mut BTreeSet<AppId>) -> Vec<AppId> {
        let mut seen = self.0.borrow_mut();
        seen.looks_for_ends += 1;
        if seen.looks_are_cut {
            return Vec::new();
        }
        let apps = std::mem::take(apps);
        apps.intersection(&seen.empty).copied().collect()
    }

    fn release(&mut self, app: AppId, _: &CpuSet, why: Departure) -> Result<(), HostError> {
        let takes = self.0.borrow().release_takes;
        std::thread::sleep(takes);
        self.0.borrow_mut().sets.remove(&app);
        self.0.borrow_mut().released.push((app, why));
        Ok(())
    }
}

impl Handover for FakeEnforcer {
    fn remember(&self, _: AppId) -> serde_json::Value {
        serde_json::Value::Null
    }

    fn take_over(&mut self, former: &Former) -> Result<(), HostError> {
        let cpus = former.cpus.clone();
        self.0.borrow_mut().sets.insert(former.app, cpus);
        Ok(())
    }

    fn is_moving(&self, _app: AppId) -> bool {
        self.unfinished() == Unfinished::Moving
    }

    fn unfinished(&self) -> Unfinished {
        self.0.borrow().unfinished
    }
}

impl Isolate for FakeEnforcer {}

impl BindMemory for FakeEnforcer {
    fn bind_memory(&mut self, _: AppId, _: &[NodeId]) -> Result<(), HostError> {
        Ok(())
    }
}

#[derive(Debug)]
struct EightCpus;

impl TopologySource for EightCpus {
    fn describe(&self) -> String {
        "a test".to_owned()
    }

    fn read(&self) -> Result<Topology, TopologyReadError> {
        Ok(Topology::regular(SHAPE))
    }
}

/// A disk that accepts everything and keeps nothing.
struct NoDisk;

impl StateWriter for NoDisk {
    fn store(&self, _: Unsaved) -> anyhow::Result<Stored> {
        Ok(Stored::Whole)
    }
}

/// A daemon whose processes all belong to `owner`, and what its enforcer sees.
pub(crate) struct FakeMachine {
    pub(crate) daemon: Daemon,
    pub(crate) seen: Rc<RefCell<Seen>>,
    _files: tempfile::TempDir,
    pub(crate) inbox: Inbox,
}

impl FakeMachine {
    pub(crate) fn with_processes_of(owner: u32) -> Self {
        let files = tempfile::tempdir().unwrap();
        std::fs::write(files.path().join("online"), "0-7\n").unwrap();
        let process = files.path().join(FIRST_PROCESS.to_string());
        std::fs::create_dir(&process).unwrap();
        let status = format!("Uid:\t{owner}\t{owner}\t{owner}\t{owner}\n");
        std::fs::write(process.join("status"), status).unwrap();
        let args = Args::parse_from(["mapperd", "--socket", "/nowhere"]);
        let settings = Settings::merge(args, ConfigFile::default(), "").unwrap();
        let topology = Topology::regular(SHAPE);
        let controller = Controller::new(settings.pipeline.clone(), topology).unwrap();
        let seen = Rc::new(RefCell::new(Seen {
            sets: BTreeMap::new(),
            foreign: BTreeMap::new(),
            groups: BTreeMap::new(),
            limits: BTreeMap::new(),
            released: Vec::new(),
            empty: BTreeSet::new(),
            looks_for_ends: 0,
            release_takes: Duration::ZERO,
            listed: BTreeMap::new(),
            looks_are_cut: false,
            idle_times: BTreeMap::new(),
            refuses_idle_time: false,
            unfinished: Unfinished::Nothing,
            admission: Duration::ZERO,
            admitted: Vec::new(),
            ends: None,
            moves_are_held_up: false,
            turns_left: 0,
            held_up: false,
            unanswered: 0,
            moved: Vec::new(),
            given_up: Vec::new(),
            weights: BTreeMap::new(),
        }));
        let selection = Selection {
            name: "none".to_owned(),
            not_better: Vec::new(),
        };
        let (sender, inbox) = channel();
        let clock = ManualClock::default();
        let mut machine = Machine {
            enforcer: Box::new(FakeEnforcer(Rc::clone(&seen))),
            enforcer_selection: selection.clone(),
            isolation: selection.clone(),
            counters: Vec::new(),
            counters_selection: selection,
            topology_source: Box::new(EightCpus),
            usable_cpus: UsableCpus::at(files.path(), CpuSet::new()),
            sleep: Sleep::until_now(&clock),
            clock: Box::new(clock),
            proc: ProcFs::at(files.path()).unwrap(),
            accounts: Accounts::default(),
            sender,
            usable: CpuSet::new(),
            online: CpuSet::new(),
            finished: Default::default(),
            spinning: Default::default(),
        };
        machine.find_usable().unwrap();
        let pacing = Pacing::new(settings.interval.nanoseconds(), settings.overhead_budget);
        let daemon = Daemon {
            config: settings,
            registry: Registry::new(),
            machine,
            decider: Decider::new(controller, pacing),
            store: Store {
                saver: Some(Saver::start(NoDisk).unwrap()),
            },
            telemetry: Telemetry {
                tally: Tally::default(),
                recorder: None,
                started_ns: 0,
            },
            quotas: Quotas::new(u64::MAX),
            arrivals: Arrivals::default(),
            lookout: Lookout::default(),
            adopt_rules: tokio::sync::watch::channel(Default::default()).0,
            reloads: Reloads::start().unwrap(),
            timing: Timing::default(),
        };
        Self {
            daemon,
            seen,
            _files: files,
            inbox,
        }
    }

    pub(crate) fn adopt(&mut self, peer: &Peer, group: &str) -> Result<AppId, ErrorReply> {
        let request = AdoptRequest::of(AdoptTarget::Cgroup(group.to_owned()));
        let (reply, mut answer) = tokio::sync::oneshot::channel();
        self.daemon.adopt(peer, request, reply);
        self.saved();
        match answer.try_recv().unwrap()?.reply {
            Reply::Adopt(adopted) => Ok(adopted.app),
            other => panic!("{other:?}"),
        }
    }

    /// What waits for the disk is done, and each adoption has a turn.
    pub(crate) fn saved(&mut self) {
        self.daemon.store.flush(Duration::from_secs(20));
        self.daemon.answer_saved(tokio::time::Instant::now());
        for _ in 0..self.daemon.registry.joining.len() {
            self.daemon.take_turn();
        }
    }
}

pub(crate) fn root() -> Peer {
    Peer::of(0, &[])
}

/// A user who is neither root nor runs the test.
pub(crate) fn user() -> Peer {
    Peer::of(rustix::process::geteuid().as_raw() + 1000, &[])
}

/// Fails unless every part occurs in the text of an error.
#[track_caller]
pub(crate) fn assert_says(error: impl std::fmt::Display, parts: &[&str]) {
    let text = format!("{error:#}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}
