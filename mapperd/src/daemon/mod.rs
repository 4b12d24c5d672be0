//! The loop: the one task that owns everything that changes, and the only folder that sees all of it.
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
//! A *pending* application waits a few milliseconds for others that arrive with it, if clients are connecting or its team
//! keeps the size that it has at launch: each gets its share immediately, instead of the first being given everything
//! and losing it again. An *orphan* is managed like any other
//! application; its launcher has ended while some of its processes run on. What is adopted is *joining* until the state with
//! it is saved and its processes are moved (`adoption`), and managed from then on.
//!
//! What an application that is gone held, such as its group, is given back at once or, where hundreds end together, soon after.
//!
//! Handlers of requests get the owners they need and return an [`Effect`], on which the loop acts.
//!
//! Invariants: an application is released exactly once; every arrival and departure is followed by a decision; without
//! applications, and with nothing left to do for those that are gone, there is no timer.

mod adoption;
#[cfg(test)]
mod adoption_tests;
mod gathering;
#[cfg(test)]
mod gathering_tests;
mod reloads;
mod stopping;
mod turns;

use crate::config::adopt_rules::AdoptRules;
use crate::config::peer::Peer;
use crate::config::settings::Settings;
use crate::decider::Decider;
use crate::interval;
use crate::machine::Machine;
use crate::machine::departure::let_go;
use crate::machine::wake::{self, Found, Lookout};
use crate::memory;
use crate::registry::Registry;
use crate::registry::app::Lease;
use crate::registry::pending::Promising;
use crate::requests::effect::{Effect, Handled};
use crate::requests::permit::{Permit, internal};
use crate::requests::reloads::{Read, Reloads};
use crate::requests::{advise, explain, history, launch, policies, promise, release, report};
use crate::socket::arrivals::Arrivals;
use crate::socket::message::{Answer, Inbox, Message};
use crate::socket::quota::{Event, Quotas};
use crate::store::Store;
use crate::store::saved::Ending;
use crate::store::takeover::{self, Legacy};
use crate::telemetry::service::{self, Asked, Signals, Watchdog};
use crate::telemetry::{Telemetry, metrics, status};
use mapper_control::schema::{ExitedRequest, LaunchRequest};
use mapper_control::{Reply, Request};
use mapper_host::chain;
use mapper_host::enforce::{Departure, MembersKept, Unfinished};
use mapper_model::{AppId, Spinning, Trigger};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant as Clock};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

/// How often the state is saved while nothing changes.
const SAVE_EVERY: Duration = Duration::from_secs(10);

/// The same where the kernel does not keep which processes belong to an application: a process that was started and
/// lost its parent between the last save and a crash of the daemon would not be found again.
const SAVE_EVERY_WITHOUT_GROUPS: Duration = Duration::from_secs(1);

pub(crate) struct Daemon {
    pub(crate) config: Settings,
    pub(crate) registry: Registry,
    pub(crate) machine: Machine,
    pub(crate) decider: Decider,
    pub(crate) store: Store,
    pub(crate) telemetry: Telemetry,
    /// Where the time that calls take is charged.
    pub(crate) quotas: Quotas,
    pub(crate) arrivals: Arrivals,
    pub(crate) lookout: Lookout,
    /// Where the rules that adopt go when they change.
    pub(crate) adopt_rules: watch::Sender<AdoptRules>,
    pub(crate) reloads: Reloads,
    pub(crate) timing: Timing,
}

/// After each turn of a timer, messages come before the next one for as long as that took, but no longer than this: timers
/// that are always due, as their turns take longer than their intervals, must not keep calls out.
const CALLS_FIRST_AT_MOST: Duration = Duration::from_millis(30);

/// What the loop does next.
enum Next {
    Signal(Asked),
    Gathered,
    Saved,
    Interval,
    Look,
    Sign,
    Turn,
    Return,
    Finished,
    Read(Box<Read>),
    Message(Option<Message>),
    IdleEnd,
}

/// Which of two kinds of moves has the first one of a turn.
#[derive(Debug, Default)]
pub(crate) enum First {
    /// Of what was released, back.
    #[default]
    Returning,
    /// Of what is adopted.
    Joining,
}

#[derive(Debug, Default)]
pub(crate) struct Timing {
    /// The end of the interval; `None` while there is no application and nothing left to do for released ones.
    pub(crate) next_interval: Option<Instant>,
    /// The last decision of an interval.
    last_interval: Option<Instant>,
    /// The last periodic save.
    last_saved: Option<Instant>,
    /// When the waiting newcomers are admitted, and applications that have no process left are ended.
    pub(crate) gathered: Option<Instant>,
    /// Until when what follows the last of these is gathered.
    gather_until: Option<Instant>,
    /// The same for ends.
    ends_until: Option<Instant>,
    /// When more is [given back](Daemon::give_back_in_turn) of what applications that have ended held.
    next_return: Option<Instant>,
    /// When the applications that lend their CPUs are looked at.
    next_look: Option<Instant>,
    /// When launches are answered, and adoptions refused, that were not saved by then.
    answers_due: Option<Instant>,
    /// When the next [turn](turns) is due.
    pub(crate) next_turn: Option<Instant>,
    first: First,
    /// Whether that was due while a move was held up.
    turn_waits: bool,
    /// Others are served until then.
    turn_until: Option<Instant>,
    /// Since when there is nothing to manage.
    idle_since: Option<Instant>,
}

impl Timing {
    /// Waits for the timer that is due first, so that each has its turn where several are overdue.
    async fn next(&self) -> Next {
        let timers = [
            (self.gathered, Next::Gathered),
            (self.answers_due, Next::Saved),
            (self.next_interval, Next::Interval),
            (self.next_look, Next::Look),
            (self.next_turn, Next::Turn),
            (self.next_return, Next::Return),
        ];
        let set = timers.into_iter().filter(|(moment, _)| moment.is_some());
        match set.min_by_key(|(moment, _)| *moment) {
            Some((moment, next)) => {
                at(moment).await;
                next
            }
            None => std::future::pending().await,
        }
    }

    /// Who waits for the disk is answered by then.
    fn answer_by(&mut self, due: Instant) {
        let before = self.answers_due.unwrap_or(due);
        self.answers_due = Some(due.min(before));
    }
}

impl Daemon {
    /// Takes over every application that still runs. Has to be called first.
    pub(crate) fn take_over(&mut self, legacy: Legacy) {
        takeover::take_over(
            legacy,
            &mut self.registry,
            &mut self.machine,
            &mut self.decider,
            &mut self.telemetry,
        );
        if !self.registry.joining.is_empty() {
            // Before anybody is answered.
            self.timing.next_turn = Some(Instant::now());
        }
        if self.has_work() {
            self.membership_changed();
        } else {
            // No decision does it.
            self.refresh();
        }
    }

    pub(crate) async fn run(mut self, mut inbox: Inbox, mut signals: Signals, watchdog: Watchdog) {
        let waker = Waker::from(Arc::clone(&self.machine.finished));
        self.machine.enforcer.wake_when_finished(waker);
        let mut sign = Box::pin(watchdog.sign());
        let mut calls_until = Instant::now();
        loop {
            self.schedule_unfinished();
            // The runtime looks at signals and at its timers only where nothing is ready here.
            tokio::task::yield_now().await;
            if Instant::now() < calls_until
                && let Ok(message) = inbox.try_recv()
            {
                self.handle(message);
                continue;
            }
            let idle_end = self.idle_end();
            // Timers come before messages, so that a flood of calls cannot delay decisions.
            let next = tokio::select! {
                biased;
                signal = signals.received() => Next::Signal(signal),
                () = &mut sign => Next::Sign,
                () = self.store.has_tried() => Next::Saved,
                () = self.machine.finished.any() => Next::Finished,
                read = self.reloads.read() => Next::Read(Box::new(read)),
                next = self.timing.next() => next,
                message = inbox.recv() => Next::Message(message),
                () = at(idle_end) => Next::IdleEnd,
            };
            let began = Clock::now();
            match next {
                Next::Signal(Asked::Stop(name)) => {
                    tracing::info!("{name}: stopping");
                    break;
                }
                // The log has the answer.
                Next::Signal(Asked::Reload) => self.reload_for(None),
                Next::Read(read) => self.apply_read(*read),
                Next::Gathered => self.act_on_gathered(),
                Next::Saved => self.answer_saved(Instant::now()),
                Next::Interval => self.interval_passed(),
                Next::Look => self.look_at_lenders(),
                Next::Sign => sign.set(watchdog.sign()),
                Next::Turn => self.take_turn(),
                Next::Return => drop(self.give_back_in_turn()),
                Next::Finished => self.continue_after_move(),
                Next::Message(Some(message)) => {
                    self.handle(message);
                    continue;
                }
                Next::Message(None) => break,
                Next::IdleEnd => {
                    tracing::info!(
                        "there was nothing to manage for as long as --stop-when-idle says: stopping"
                    );
                    break;
                }
            }
            calls_until = Instant::now() + began.elapsed().min(CALLS_FIRST_AT_MOST);
        }
        self.stop();
    }

    /// When the daemon stops if nothing comes.
    fn idle_end(&mut self) -> Option<Instant> {
        let limit = self
            .config
            .stop_when_idle
            .filter(|_| !self.reloads.is_reading())?;
        // What is to be adopted may start at any time.
        if !self.config.adopt.is_empty() {
            self.timing.idle_since = None;
            return None;
        }
        let registry = &self.registry;
        let calls = registry.unanswered.len() + registry.asking.len() + registry.promising.len();
        let waiting = registry.count() + calls;
        if self.has_work() || waiting > 0 {
            self.timing.idle_since = None;
            return None;
        }
        let since = self.timing.idle_since.get_or_insert_with(Instant::now);
        Some(*since + limit)
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Call {
                peer,
                request,
                reply,
                arrival,
            } => {
                drop(arrival);
                let (uid, account, started) = (peer.uid, peer.account, Clock::now());
                match request {
                    Request::Launch(request) => self.launch(peer, *request, reply),
                    Request::Adopt(request) => self.adopt(&peer, *request, reply),
                    Request::Promise(request) => self.promise(Promising {
                        peer,
                        request,
                        reply,
                        since: Instant::now(),
                    }),
                    Request::Reload => self.reload(&peer, reply),
                    request => {
                        let Handled { answer, effect } = self.answer(&peer, request);
                        self.act(effect);
                        match answer.as_ref().map(|served| &served.reply) {
                            Ok(Reply::Release(released)) => {
                                self.answer_when_moved(released.app, answer, reply);
                            }
                            _ => drop(reply.send(answer)),
                        }
                    }
                }
                self.quotas.charge(uid, account, started.elapsed());
            }
            Message::Adopt { candidate, reply } => {
                self.adopt_by_rule(candidate, reply);
            }
            Message::LeaseEnded { app } => {
                if let Some(known) = self.registry.get_mut(app) {
                    known.lease = Lease::Ended;
                    self.may_have_ended(app);
                }
            }
            Message::Scrape { reply } => {
                let text = metrics::metrics(
                    &mut self.registry,
                    &self.machine,
                    &self.decider,
                    &self.telemetry,
                );
                let _hung_up = reply.send(text);
            }
            Message::MayHaveEnded { app } => self.may_have_ended(app),
            Message::Spinning { app, spinning } => self.note_spinning(app, spinning),
        }
    }

    fn answer(&mut self, peer: &Peer, request: Request) -> Handled {
        let permit = Permit::of(peer, &self.config);
        let Self {
            config,
            registry,
            machine,
            decider,
            telemetry,
            ..
        } = self;
        let mut effect = Effect::None;
        let answer = match request {
            Request::Status => Ok(status::status(
                &permit, config, registry, machine, decider, telemetry,
            )),
            Request::Explain(asked) => {
                explain::explain(&permit, &asked.name, registry, machine, decider)
            }
            Request::Policies => Ok(policies::policies(decider)),
            Request::Report(asked) => report::report(&permit, asked.app, registry, machine),
            Request::Advise => Ok(advise::advise(&permit, registry, machine, decider)),
            Request::History => Ok(history::history(&permit, registry, machine)),
            Request::Release(asked) => {
                effect = Effect::Membership;
                release::release(&permit, &asked.name, registry, machine, decider, telemetry)
            }
            Request::Promise(asked) => promise::promise(&permit, &asked, registry, machine),
            Request::Exited(ExitedRequest { app, status }) => {
                tracing::debug!(app = app.0, status, "launcher reports the end");
                match registry.get_mut(app) {
                    Some(known) => known.exit_status = Some(status),
                    None => registry.ended.note_status(app, status),
                }
                self.may_have_ended(app);
                Ok(Reply::Exited {})
            }
            Request::Launch(_)
            | Request::Adopt(_)
            | Request::Reload
            | Request::GetInfo
            | Request::GetInterfaceDescription(_) => Err(internal(
                "the call was routed to the wrong handler".to_owned(),
            )),
        };
        Handled::of(answer, effect)
    }

    fn act(&mut self, effect: Effect) {
        match effect {
            Effect::None => {}
            Effect::Membership => self.membership_changed(),
            Effect::Decide | Effect::NewPace if self.registry.apps.is_empty() => {}
            Effect::Decide => self.decide(Trigger::Membership),
            Effect::NewPace => {
                self.decide(Trigger::Membership);
                self.begin_interval(Instant::now());
            }
        }
    }

    fn launch(&mut self, peer: Peer, request: LaunchRequest, reply: oneshot::Sender<Answer>) {
        let (pid, uid) = (request.pid, peer.uid);
        match launch::check(peer, request, &self.config, &self.registry, &self.machine) {
            Ok(launch) => self.await_admission(launch, reply),
            Err(error) => {
                self.telemetry.tally.refused += 1;
                tracing::info!(pid, uid, "launch refused: {error}");
                let _hung_up = reply.send(Err(error));
            }
        }
    }

    pub(crate) fn interval_passed(&mut self) {
        let now = Instant::now();
        self.timing.last_interval = Some(now);
        self.registry.note_without_lease();
        self.end_empty();
        let unfinished = self.machine.enforcer.unfinished();
        if self.registry.apps.is_empty() {
            self.refresh();
        } else {
            self.decide(Trigger::Interval);
            self.telemetry.tally.intervals += 1;
        }
        if self.machine.enforcer.unfinished() != unfinished {
            self.save(Ending::Running);
        }
        // The timer stops if the last application ended or was released by the decision. The cost of the pass affects
        // the next interval.
        self.timing.next_interval = self.has_work().then(|| now + self.interval());
        let save_every = match self.machine.enforcer.capabilities().members {
            MembersKept::ByKernel => SAVE_EVERY,
            MembersKept::BySavedState => SAVE_EVERY_WITHOUT_GROUPS,
        };
        let last = self.timing.last_saved;
        if last.is_none_or(|last| now - last >= save_every) {
            self.timing.last_saved = Some(now);
            self.save(Ending::Running);
        }
    }

    /// Takes a decision because an application came or left, and begins a new interval.
    pub(crate) fn membership_changed(&mut self) {
        self.decide(Trigger::Membership);
        self.save(Ending::Running);
        let interval = self.interval();
        let now = Instant::now();
        if self.registry.apps.is_empty() {
            self.timing.next_interval = self.has_work().then(|| now + interval);
            self.timing.last_interval = None;
            service::status("idle");
            return;
        }
        self.delay_interval();
        service::status(&format!("{} applications", self.registry.apps.len()));
    }

    /// The interval in which an application came or left gives no sample, so a new one begins here; but programs that come
    /// and go all the time must not delay decisions for ever.
    fn delay_interval(&mut self) {
        let (now, interval) = (Instant::now(), self.interval());
        let last = *self.timing.last_interval.get_or_insert(now);
        self.timing.next_interval = Some((now + interval).min(last + 2 * interval));
    }

    pub(crate) fn decide(&mut self, trigger: Trigger) {
        self.give_back_before_isolation();
        interval::pass(
            trigger,
            &self.config,
            &mut self.registry,
            &mut self.machine,
            &mut self.decider,
            &self.store,
            &mut self.telemetry,
        );
        if !wake::borrowed(&self.registry).is_empty() {
            self.timing.next_look.get_or_insert_with(Instant::now);
        }
    }

    /// Decides at once if an application that lends its CPUs has something to do.
    fn look_at_lenders(&mut self) {
        let started = Clock::now();
        let Found { woke, next } = self.lookout.look(&mut self.registry, &mut self.machine);
        self.timing.next_look = next.map(|wait| Instant::now() + wait);
        if woke.is_empty() {
            return;
        }
        let accounts = woke.into_iter().filter_map(|app| {
            let uid = self.registry.get(app)?.record.requested_by();
            Some(Event::new(uid, self.machine.accounts.of(uid), started))
        });
        let events = accounts.collect();
        // The state of before serves the next daemon as well.
        self.decide(Trigger::Membership);
        self.delay_interval();
        self.charge(events, started.elapsed());
    }

    /// Decides at once with what the threads of an application were seen to do.
    fn note_spinning(&mut self, app: AppId, spinning: Option<Spinning>) {
        let started = Clock::now();
        let Some(known) = self.registry.get_mut(app) else {
            return;
        };
        known.record.spinning = spinning;
        let (uid, name) = (known.record.requested_by(), &known.record.spec.name);
        match spinning {
            Some(Spinning { threads, share }) => tracing::info!(
                app = app.0, %name, threads, share, "its threads wait for each other by spinning, outside OpenMP"
            ),
            None => tracing::info!(app = app.0, %name, "its threads do not spin any more"),
        }
        self.decide(Trigger::Membership);
        self.delay_interval();
        let event = Event::new(uid, self.machine.accounts.of(uid), started);
        self.charge(vec![event], started.elapsed());
    }

    /// Reads which processes exist, where no decision does.
    fn refresh(&mut self) {
        if let Err(error) = self.machine.enforcer.refresh() {
            tracing::warn!("processes not read: {}", chain(&error));
        }
    }

    fn save(&self, ending: Ending) {
        self.store
            .save(ending, &self.registry, &self.machine, &self.decider);
    }
    fn begin_interval(&mut self, now: Instant) {
        self.timing.last_interval = Some(now);
        self.timing.next_interval = Some(now + self.interval());
    }

    /// Whether intervals have to follow.
    fn has_work(&self) -> bool {
        let Registry { apps, leaving, .. } = &self.registry;
        let unfinished = self.machine.enforcer.unfinished() != Unfinished::Nothing;
        unfinished || !(apps.is_empty() && leaving.is_empty())
    }

    fn interval(&self) -> Duration {
        Duration::from_nanos(self.decider.pacing.interval_ns())
    }

    /// Ends the management of an application. Takes no decision.
    pub(crate) fn forget(&mut self, app: AppId) {
        memory::one_ended();
        let_go(
            app,
            Departure::ForGood,
            &mut self.registry,
            &mut self.machine,
            &self.decider,
            &mut self.telemetry,
        );
    }
}

/// Waits for this moment; for ever, if there is none.
async fn at(moment: Option<Instant>) {
    match moment {
        // A new timer of the runtime does not notice at once that it has expired.
        Some(moment) if moment <= Instant::now() => {}
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeMachine, root};
    use mapper_pipeline::{OverheadBudget, Pacing};
    use std::sync::mpsc;
    use tokio::signal::unix::SignalKind;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn the_timer_that_was_due_first_has_the_next_turn() {
        let now = Instant::now();
        let ago = |ms| Some(now - Duration::from_millis(ms));
        let timing = Timing {
            gathered: ago(1),
            next_interval: ago(2),
            next_turn: ago(3),
            ..Timing::default()
        };
        assert!(matches!(timing.next().await, Next::Turn));
        let timing = Timing {
            next_turn: Some(now + Duration::from_secs(60)),
            ..timing
        };
        assert!(matches!(timing.next().await, Next::Interval));
    }

    #[tokio::test]
    async fn a_moment_that_has_passed_goes_before_messages_that_wait() {
        let soon = Instant::now() + Duration::from_millis(5);
        // Meanwhile the runtime looks at no timer.
        std::thread::sleep(Duration::from_millis(20));
        let passed = tokio::select! {
            biased;
            () = at(Some(soon)) => true,
            () = std::future::ready(()) => false,
        };
        assert!(passed);
    }

    async fn run_with_intervals_that_are_always_overdue() {
        let mut machine = FakeMachine::with_processes_of(0);
        machine.adopt(&root(), "/jobs/1").unwrap();
        let FakeMachine {
            mut daemon, inbox, ..
        } = machine;
        daemon.decider.pacing = Pacing::new(1, OverheadBudget::new(0.0).unwrap());
        daemon.timing.next_interval = Some(Instant::now());
        let (reply, answer) = oneshot::channel();
        let call = Message::Call {
            peer: root(),
            request: Request::Status,
            reply,
            arrival: None,
        };
        let sender = daemon.machine.sender.clone();
        let calling = async {
            // Also what takes the runtime's timers.
            tokio::time::sleep(Duration::from_millis(5)).await;
            sender.send(call).await.unwrap();
            answer.await.unwrap().unwrap();
        };
        // SIGTERM and SIGINT still end the test program.
        let signals = Signals::listen_to([SignalKind::user_defined1(); 3]).unwrap();
        tokio::select! {
            () = daemon.run(inbox, signals, Watchdog::from_environment()) => panic!("it stopped"),
            () = calling => {}
        }
    }

    #[test]
    fn calls_are_answered_although_intervals_are_always_overdue() {
        let (done, answered) = mpsc::channel();
        std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build().unwrap();
            runtime.block_on(run_with_intervals_that_are_always_overdue());
            done.send(()).unwrap();
        });
        answered.recv_timeout(Duration::from_secs(20)).unwrap();
    }
}
