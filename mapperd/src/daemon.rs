//! The task that owns everything that changes.
//!
//! States of an application:
//!
//! ```text
//!            Launch                gathered           lease closed,          no process left
//!  (nothing) ──────► pending ──────────────► managed ───────────────► orphan ───────────────► (gone)
//!                       │                       │   processes remain
//!                       └─ refused ─► (nothing) └── no process left ─► (gone)
//! ```
//!
//! A *pending* application waits a few milliseconds for others that arrive with it, so that each gets
//! its proper share at once instead of the first being given everything and losing it again. An
//! *orphan* is one whose launcher is gone while some of its processes run on; it is managed like any
//! other.
//!
//! Invariants: an application is released exactly once; every arrival and departure is followed by a
//! decision; with no application, and nothing left to do for those that were released, there is no timer.

use crate::config::program_rules::ProgramRules;
use crate::config::settings::Settings;
use crate::interval::Used;
use crate::machine::limited::Limited;
use crate::machine::surroundings::Sleep;
use crate::machine::watch::Watches;
use crate::registry::accounting::{Books, Closed};
use crate::registry::page::{self, Page};
use crate::requests::adopt::Adoption;
use crate::requests::launch::Pending;
use crate::requests::settling::Provenance;
use crate::socket::message::{Answer, Inbox, Message, Peer, Sender, Served};
use crate::store::kept_pages;
use crate::store::saved::{Ending, Process};
use crate::store::saver::{Flushed, Saver};
use crate::telemetry::metrics::Tally;
use crate::telemetry::record::Recorder;
use crate::telemetry::service::{self, Asked, Signals, Watchdog};
use mapper_control::schema::{ExitedRequest, MemoryPolicy, Partition, Selection};
use mapper_control::{ErrorReply, Reply, Request};
use mapper_host::chain;
use mapper_host::clock::Clock;
use mapper_host::counters::CounterSource;
use mapper_host::cpus::UsableCpus;
use mapper_host::enforce::{Departure, Enforcer, EnforcerKind, Unfinished};
use mapper_host::procfs::ProcFs;
use mapper_host::topology::TopologySource;
use mapper_model::{AppId, AppSpec, CpuSet, PlannedApp, Trigger};
use mapper_pipeline::{Controller, Pacing};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

/// How long a newcomer waits for others that arrive with it.
pub(crate) const GATHER: Duration = Duration::from_millis(5);

/// How often what is learned is written down while nothing else calls for it.
const SAVE_EVERY: Duration = Duration::from_secs(10);

/// The same where the kernel does not keep who belongs to an application: a process that was started
/// and lost its parent between the last time and a crash of the daemon would not be found again.
const SAVE_EVERY_WITHOUT_GROUPS: Duration = Duration::from_secs(1);

/// How long an orderly stop waits until the state is written: well below the time that service managers
/// give a stop.
const LAST_SAVE: Duration = Duration::from_secs(3);

/// What a daemon is made of.
pub(crate) struct Parts {
    pub(crate) settings: Settings,
    /// The rules that mapper is delivered with.
    pub(crate) shipped_programs: ProgramRules,
    pub(crate) topology_source: Box<dyn TopologySource>,
    pub(crate) controller: Controller,
    pub(crate) enforcer: Box<dyn Enforcer>,
    pub(crate) enforcer_selection: Selection,
    pub(crate) counters: Vec<Box<dyn CounterSource>>,
    pub(crate) counters_selection: Selection,
    /// Writes down what outlives the daemon; `None` if nothing does.
    pub(crate) saver: Option<Saver>,
    pub(crate) usable_cpus: UsableCpus,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) clock: Box<dyn Clock>,
    pub(crate) proc: ProcFs,
    pub(crate) sender: Sender,
}

/// All state. See the [module](self).
pub(crate) struct Daemon {
    pub(crate) parts: Parts,
    pub(crate) apps: Vec<App>,
    pub(crate) pending: Vec<Pending>,
    pub(crate) next_app: AppId,
    /// Applications that were released while processes could not be put back: those stay in the group, unmanaged.
    pub(crate) released: BTreeSet<AppId>,
    pub(crate) decisions: u64,
    pub(crate) started_ns: u64,
    /// CPUs that may be given out, as of the last decision.
    pub(crate) usable: CpuSet,
    /// CPUs that are online, as of the last decision.
    pub(crate) online: CpuSet,
    /// How long the machine has slept so far.
    pub(crate) sleep: Sleep,
    /// Reports of applications that have ended.
    pub(crate) closed: Closed,
    pub(crate) tally: Tally,
    /// How often a decision is taken.
    pub(crate) pacing: Pacing,
    /// The stretched interval that was last told in the log; `None` while it is as set.
    pub(crate) told_interval_ns: Option<u64>,
    timing: Timing,
}

/// An application under management.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) id: AppId,
    pub(crate) spec: AppSpec,
    pub(crate) command: String,
    /// How its launch was settled.
    pub(crate) provenance: Provenance,
    /// What is done with its memory when its CPUs move.
    pub(crate) memory: MemoryPolicy,
    /// Whether it is to have its CPUs to itself.
    pub(crate) partition: Partition,
    /// What it was before, if it was adopted.
    pub(crate) adopted: Option<Adoption>,
    pub(crate) uid: u32,
    pub(crate) first_process: Process,
    pub(crate) launcher: Process,
    pub(crate) page: Option<Page>,
    /// The last plan for it; `None` before the first.
    pub(crate) planned: Option<PlannedApp>,
    /// What was in force when last looked at; empty before the first placement.
    pub(crate) effective: CpuSet,
    /// The CPUs that somebody else has set for it, which are left alone.
    pub(crate) set_by_others: Option<CpuSet>,
    /// The limit around it that keeps it off CPUs that are given out.
    pub(crate) limited: Option<Limited>,
    /// What was found in force instead of what was planned, when it was last logged.
    pub(crate) told_mismatch: Option<CpuSet>,
    pub(crate) books: Books,
    /// The CPUs that its owner confined it to before it was managed, if fewer than all.
    pub(crate) own_mask: Option<CpuSet>,
    /// The CPU time it had used when it was last observed.
    pub(crate) used: Option<Used>,
    pub(crate) lease: Lease,
    pub(crate) _watches: Watches,
}

impl App {
    /// The user who had it managed: it counts to what that user may have. Its processes may be another's.
    pub(crate) fn asked_by(&self) -> u32 {
        self.adopted.as_ref().map_or(self.uid, |adopted| adopted.by)
    }

    /// Whether it was found by its group alone, so that nobody knows how it came.
    pub(crate) fn is_recovered(&self) -> bool {
        self.adopted.is_none() && self.launcher == Process::default()
    }
}

/// Whether the launcher of an application is still there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lease {
    Held,
    Ended,
}

/// When what is due.
#[derive(Debug, Default)]
struct Timing {
    /// The next interval ends; `None` while there is neither an application nor anything left to do for one
    /// that was released.
    next_interval: Option<Instant>,
    /// The last decision of an interval.
    last_interval: Option<Instant>,
    /// The state was last written down.
    last_saved: Option<Instant>,
    /// Newcomers have waited long enough.
    gathered: Option<Instant>,
}

impl Daemon {
    pub(crate) fn new(parts: Parts) -> anyhow::Result<Self> {
        let started_ns = parts.clock.now_ns();
        let sleep = Sleep::until_now(parts.clock.as_ref());
        let settings = &parts.settings;
        let pacing = Pacing::new(settings.interval.nanoseconds(), settings.overhead_budget);
        let mut daemon = Self {
            next_app: AppId(1),
            released: BTreeSet::new(),
            parts,
            apps: Vec::new(),
            pending: Vec::new(),
            decisions: 0,
            started_ns,
            usable: CpuSet::new(),
            online: CpuSet::new(),
            sleep,
            closed: Closed::default(),
            tally: Tally::default(),
            pacing,
            told_interval_ns: None,
            timing: Timing::default(),
        };
        let usable = daemon.read_usable()?;
        anyhow::ensure!(
            !usable.cpus.is_empty(),
            "no CPU is usable: online {}, not allowed to this daemon {}, isolated {}, reserved {}; \
             change the reserve or the affinity of the daemon",
            usable.online,
            usable.forbidden,
            usable.isolated,
            usable.reserved
        );
        let kept = [
            ("isolated", &usable.isolated),
            ("reserved", &usable.reserved),
            ("not allowed to this daemon", &usable.forbidden),
        ];
        let kept = kept.iter().filter(|(_, cpus)| !cpus.is_empty());
        let kept: Vec<String> = kept.map(|(why, cpus)| format!("; {why}: {cpus}")).collect();
        tracing::info!("CPUs to give out: {}{}", usable.cpus, kept.concat());
        daemon.usable = usable.cpus;
        daemon.online = usable.online;
        Ok(daemon)
    }

    /// Lives until a signal says stop.
    pub(crate) async fn run(mut self, mut inbox: Inbox, mut signals: Signals, watchdog: Watchdog) {
        let mut sign = Box::pin(watchdog.sign());
        loop {
            // Timers come before messages, so that a flood of calls cannot hold decisions up.
            tokio::select! {
                biased;
                signal = signals.received() => match signal {
                    Asked::Stop(name) => {
                        tracing::info!("{name}: stopping");
                        break;
                    }
                    Asked::Reload => self.reload_for_signal(),
                },
                () = at(self.timing.gathered) => self.admit_gathered(),
                () = at(self.timing.next_interval) => self.interval_passed(),
                () = &mut sign => sign.set(watchdog.sign()),
                message = inbox.recv() => match message {
                    Some(message) => self.handle(message),
                    None => break,
                },
            }
        }
        self.stop();
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Call {
                peer,
                request,
                reply,
            } => {
                if let Request::Launch(request) = request {
                    self.launch(peer, *request, reply);
                } else {
                    let answer = self.answer(&peer, request);
                    // The client may have hung up.
                    let _ = reply.send(answer);
                }
            }
            Message::LeaseEnded { app } => {
                if let Some(known) = self.apps.iter_mut().find(|a| a.id == app) {
                    known.lease = Lease::Ended;
                    self.end_if_empty(app);
                }
            }
            Message::Scrape { reply } => {
                // The scraper may have hung up.
                let _ = reply.send(self.metrics());
            }
            Message::MayHaveEnded { app } => self.end_if_empty(app),
        }
    }

    fn answer(&mut self, peer: &Peer, request: Request) -> Answer {
        match request {
            Request::Status => Ok(Served::plain(Reply::Status(Box::new(self.status(peer))))),
            Request::Explain(asked) => self.explain(peer, &asked.name),
            Request::Policies => Ok(Served::plain(Reply::Policies(self.policies()))),
            Request::Adopt(request) => self.adopt(peer, *request),
            Request::Release(asked) => self.release(peer, &asked.name),
            Request::Reload => self.reload_for(peer),
            Request::Report(asked) => self.report(peer, asked.app),
            Request::Exited(ExitedRequest { app, status }) => {
                tracing::debug!(app = app.0, status, "launcher reports the end");
                self.end_if_empty(app);
                Ok(Served::plain(Reply::Exited {}))
            }
            Request::Launch(_) | Request::GetInfo | Request::GetInterfaceDescription(_) => {
                Err(ErrorReply::Internal {
                    message: "call reached the wrong place".to_owned(),
                })
            }
        }
    }

    /// Starts or ends the wait for further newcomers.
    pub(crate) fn gather_until(&mut self, moment: Option<Instant>) {
        match moment {
            Some(moment) => {
                self.timing.gathered.get_or_insert(moment);
            }
            None => self.timing.gathered = None,
        }
    }

    fn interval_passed(&mut self) {
        let now = Instant::now();
        self.timing.last_interval = Some(now);
        for app in self.orphans() {
            self.end_if_empty(app);
        }
        let unfinished = self.parts.enforcer.unfinished();
        if !self.apps.is_empty() {
            self.decide(Trigger::Interval);
        } else if let Err(error) = self.parts.enforcer.refresh() {
            tracing::warn!("processes not looked at: {}", chain(&error));
        }
        if self.parts.enforcer.unfinished() != unfinished {
            self.save(Ending::Running);
        }
        // Whoever ended last, or was released by the decision, stops the timer. What the pass took has its
        // say in the next one.
        self.timing.next_interval = self.has_work().then(|| now + self.interval());
        let save_every = match self.parts.enforcer.kind() {
            EnforcerKind::Cgroup => SAVE_EVERY,
            EnforcerKind::Affinity => SAVE_EVERY_WITHOUT_GROUPS,
        };
        if self
            .timing
            .last_saved
            .is_none_or(|last| now - last >= save_every)
        {
            self.timing.last_saved = Some(now);
            self.save(Ending::Running);
        }
    }

    /// Takes a decision because somebody came or left, and sees to it that a whole interval follows.
    pub(crate) fn membership_changed(&mut self) {
        self.decide(Trigger::Membership);
        self.save(Ending::Running);
        let interval = self.interval();
        let now = Instant::now();
        if self.apps.is_empty() {
            self.timing.next_interval = self.has_work().then(|| now + interval);
            self.timing.last_interval = None;
            service::status("idle");
            return;
        }
        let last = *self.timing.last_interval.get_or_insert(now);
        // The interval in which somebody came or left gives no sample, so a new one begins here; but
        // programs that come and go all the time must not put off decisions for ever.
        self.timing.next_interval = Some((now + interval).min(last + 2 * interval));
        service::status(&format!("{} applications", self.apps.len()));
    }

    /// Whether intervals are to follow.
    pub(crate) fn has_work(&self) -> bool {
        !self.apps.is_empty() || self.parts.enforcer.unfinished() != Unfinished::Nothing
    }

    /// The length of the interval has changed: a new one begins.
    pub(crate) fn restart_interval(&mut self) {
        let now = Instant::now();
        self.timing.last_interval = Some(now);
        self.timing.next_interval = Some(now + self.interval());
    }

    /// The time from one decision to the next, at present.
    fn interval(&self) -> Duration {
        Duration::from_nanos(self.pacing.interval_ns())
    }

    fn orphans(&self) -> Vec<AppId> {
        self.apps
            .iter()
            .filter(|app| app.lease == Lease::Ended)
            .map(|app| app.id)
            .collect()
    }

    /// Lets an application go if none of its processes is left.
    fn end_if_empty(&mut self, app: AppId) {
        let known = self.apps.iter().any(|a| a.id == app);
        if known && !self.parts.enforcer.is_populated(app) {
            self.forget(app);
            self.membership_changed();
        }
    }

    /// Lets an application go, whether or not it still runs. Returns what could not be put back.
    pub(crate) fn forget(&mut self, app: AppId) -> Option<String> {
        self.let_go(app, Departure::ForGood)
    }

    /// The same, for a reason. Takes no decision.
    pub(crate) fn let_go(&mut self, app: AppId, departure: Departure) -> Option<String> {
        let place = self.apps.iter().position(|a| a.id == app)?;
        let mut gone = self.apps.remove(place);
        let now_ns = self.parts.clock.now_ns();
        gone.books.elapsed(now_ns, gone.effective.len());
        self.closed.add(&gone);
        let everything = gone.own_mask.take().unwrap_or_else(|| self.everything());
        let released = self.parts.enforcer.release(app, &everything, departure);
        let trouble = released.err().map(|error| chain(&error));
        if (gone.adopted.is_some() || gone.is_recovered())
            && self.parts.enforcer.left_over().contains(&app)
        {
            self.released.insert(app);
        }
        if let Some(trouble) = &trouble {
            self.tally.error("release");
            tracing::warn!(app = app.0, name = %gone.spec.name, "release: {trouble}");
        }
        for source in &mut self.parts.counters {
            source.forget(app);
        }
        if gone.page.is_some() {
            kept_pages::forget(app);
        }
        tracing::info!(app = app.0, name = %gone.spec.name, "ended");
        trouble
    }

    /// All CPUs an application may have that is not managed.
    pub(crate) fn everything(&self) -> CpuSet {
        self.parts.enforcer.limit().unwrap_or_else(|error| {
            tracing::warn!("{}", chain(&error));
            self.parts.controller.topology().cpus().clone()
        })
    }

    /// Gives all CPUs back.
    fn stop(&mut self) {
        service::stopping();
        self.save(Ending::Stopping);
        if self.saved_within(LAST_SAVE) == Flushed::Late {
            tracing::warn!(
                "state not saved within {} s; the next daemon goes on from what was saved before",
                LAST_SAVE.as_secs()
            );
        }
        if let Some(recorder) = self.parts.recorder.take() {
            recorder.finish(LAST_SAVE);
        }
        let everything = self.everything();
        let topology = self.parts.controller.topology();
        // Those that somebody else has placed keep their place.
        for app in self
            .apps
            .iter_mut()
            .filter(|app| app.set_by_others.is_none())
        {
            let everything = app.own_mask.as_ref().unwrap_or(&everything);
            let released = self
                .parts
                .enforcer
                .release(app.id, everything, Departure::DaemonStops);
            if let Err(error) = released {
                tracing::warn!(app = app.id.0, name = %app.spec.name, "release: {}", chain(&error));
            }
            if let Some(page) = &mut app.page {
                let told = page::allocation(everything, &app.spec, topology, everything.len());
                page.writer.publish(&told);
            }
        }
        tracing::info!(
            applications = self.apps.len(),
            "stopped; applications that run have all CPUs"
        );
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Machine, root};

    #[test]
    fn intervals_go_on_until_what_was_released_has_got_everything_back() {
        let mut machine = Machine::with_processes_of(0);
        let app = machine.adopt(&root(), "/jobs/1").unwrap();
        let timer = |machine: &Machine| machine.daemon.timing.next_interval.is_some();
        assert!(timer(&machine));
        machine.seen.borrow_mut().unfinished = Unfinished::Restoring;
        machine.daemon.forget(app);
        machine.daemon.membership_changed();
        for _ in 0..3 {
            assert!(timer(&machine));
            machine.daemon.interval_passed();
        }
        machine.seen.borrow_mut().unfinished = Unfinished::Nothing;
        machine.daemon.interval_passed();
        assert!(!timer(&machine));
    }

    #[test]
    fn a_decision_that_lets_the_last_application_go_stops_the_timer() {
        let mut machine = Machine::with_processes_of(0);
        let app = machine.adopt(&root(), "/jobs/1").unwrap();
        machine.seen.borrow_mut().groups.insert(app, 4711);
        machine.daemon.interval_passed();
        assert!(machine.daemon.timing.next_interval.is_none());
    }
}
