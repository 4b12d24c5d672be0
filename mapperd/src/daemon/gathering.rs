//! Launches and ends that follow each other closely are acted on together, with one decision.

use super::{Daemon, Timing};
use crate::machine::departure;
use crate::memory;
use crate::registry::app::App;
use crate::registry::pending::{Admitted, Launch, Pending, Step, Unanswered};
use crate::requests::adopt::SAVED_FIRST;
use crate::requests::effect::Effect;
use crate::requests::launch;
use crate::requests::launch::NotAdmitted;
use crate::requests::permit::{has_waited, held_up};
use crate::socket::message::Answer;
use crate::socket::quota::{self, Event};
use crate::store::saver::Saver;
use mapper_control::schema::{AdoptTarget, Threads};
use mapper_host::enforce::{Departure, HeldUp, MembersKept};
use mapper_model::AppId;
use std::cmp::Reverse;
use std::time::{Duration, Instant as Clock};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// How long a newcomer waits while others [arrive](crate::socket::arrivals::Arrivals), and an end after another for those that follow: 5 ms, as the
/// runtime's timer adds up to one. Where it takes longer to act on them, the next wait as long, so that there is time for
/// calls.
const GATHER: Duration = Duration::from_millis(4);

/// They wait no longer than this.
const GATHER_AT_MOST: Duration = Duration::from_millis(30);

/// An end waits no longer than this after others: hundreds that follow each other are not to have more than half of the time for
/// decisions on them.
const ENDS_AT_MOST: Duration = Duration::from_millis(500);

/// Newcomers that wait longer for the admission of others are admitted after the next wait, so that thousands of threads
/// of some launches delay neither calls nor the end of an interval by more than one of them takes.
const ADMITTING: Duration = Duration::from_millis(50);

/// What applications that have ended held is given back in turns of this length, between which others are served.
const GIVING_BACK: Duration = Duration::from_millis(50);

/// Newcomers that have waited longer are overtaken by no other.
const OVERTAKEN: Duration = Duration::from_millis(500);

/// How often the daemon checks whether others have waited too long for a move that the kernel holds up. It is woken when that
/// is finished.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Which newcomer is admitted first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    /// One for which the kernel has held up a move: that may have come.
    Begun,
    /// The one that has waited longest.
    Waited(Reverse<Duration>),
    /// Then the one whose user has most [time left](quota::Quotas::left_us), in microseconds.
    TimeLeft(Reverse<i64>),
}

/// What was admitted, and who waits for the answer.
type Waiting = (Admitted, oneshot::Sender<Answer>);

/// What came of the launches that have waited.
#[derive(Default)]
struct Gathered {
    admitted: Vec<Waiting>,
    /// What each took.
    events: Vec<Event>,
    /// How long the kernel has held up one of them.
    held_up: Duration,
}

/// Whether an application of an earlier daemon was.
#[derive(PartialEq, Eq)]
enum Forgotten {
    Yes,
    No,
}

/// Of those that end, this one gives back what it held before the decision: CPUs of its own, which others may get, or a group
/// that is not ours and may be started anew.
fn gives_back_at_once(app: &App) -> bool {
    let record = &app.record;
    let adoption = record.origin.adoption();
    let is_ours = adoption.is_none_or(|adoption| matches!(adoption.target, AdoptTarget::Pid(_)));
    !(record.partition.is_member() && is_ours)
}

impl Daemon {
    pub(crate) fn await_admission(&mut self, launch: Launch, reply: oneshot::Sender<Answer>) {
        let since = Instant::now();
        self.registry.pending.push(Pending {
            launch,
            reply,
            since,
        });
        // Teams that keep the size that they have at launch.
        let keeps_size = |pending: &&Pending| {
            pending.launch.settlement.terms.threads == Some(Threads::Allocated)
        };
        let pending = self.registry.pending.iter().filter(keeps_size);
        let oldest = pending.map(|pending| pending.since).min();
        let least = oldest.map_or(since, |oldest| oldest + GATHER);
        let soon = match self.arrivals.any() {
            true => since + GATHER,
            false => since,
        };
        let Timing {
            gathered,
            gather_until,
            ..
        } = &mut self.timing;
        let due = gather_until.map_or(soon, |until| until.max(soon));
        *gathered = Some(gathered.map_or(due, |waiting| waiting.min(due)).max(least));
    }

    /// Admits the launches that have waited and ends the applications that have no process left, decides once for all, and
    /// answers.
    pub(crate) fn act_on_gathered(&mut self) {
        self.timing.gathered = None;
        self.take_turn_that_waits();
        let started = Clock::now();
        let mut events = self.end_emptied();
        let returning = self.give_back_in_turn();
        let held = self.machine.moves_held_up();
        let Gathered {
            admitted,
            events: launches,
            held_up,
        } = match &held {
            None => self.admit(),
            Some(held) => {
                self.refuse_the_late(held);
                Gathered::default()
            }
        };
        if !(admitted.is_empty() && events.is_empty()) {
            self.membership_changed();
        }
        self.answer_when_saved(admitted);
        events.extend(launches);
        let taken = started.elapsed();
        self.charge(events, taken.saturating_sub(held_up + returning));
        self.gather_after(started.elapsed());
        if !self.registry.pending.is_empty() {
            let again = self.machine.moves_held_up();
            let again = again.map(|_| Instant::now() + LOOK_AGAIN);
            self.timing.gathered = again.or(self.timing.gather_until);
        }
    }

    /// Refuses the newcomers that have waited long for the kernel.
    fn refuse_the_late(&mut self, held: &HeldUp) {
        let pending = std::mem::take(&mut self.registry.pending);
        let late = |waiting: &Pending| has_waited(waiting.since, held);
        let (late, pending) = pending.into_iter().partition(late);
        self.registry.pending = pending;
        for late in late {
            self.refuse_late(late, held);
        }
    }

    fn refuse_late(&mut self, late: Pending, held: &HeldUp) {
        let Pending { launch, reply, .. } = late;
        let (pid, error) = (launch.request.pid, held_up(held));
        tracing::warn!(pid, "launch refused: {error}");
        self.give_up(launch.app);
        let _hung_up = reply.send(Err(error));
    }

    /// What the kernel has held up for a newcomer or an adoption is not wanted any more.
    pub(super) fn give_up(&mut self, app: Option<AppId>) {
        if let Some(app) = app {
            self.machine.enforcer.give_up(app);
            let enforcer = self.machine.enforcer.as_ref();
            self.registry.note_left_over(app, enforcer);
        }
    }

    /// What follows waits as long as this took.
    pub(crate) fn gather_after(&mut self, taken: Duration) {
        let now = Instant::now();
        self.timing.gather_until = Some(now + taken.clamp(GATHER, GATHER_AT_MOST));
        self.timing.ends_until = Some(now + taken.clamp(GATHER, ENDS_AT_MOST));
    }

    /// Charges launches and ends for what they and the decision after them took together.
    pub(super) fn charge(&self, events: Vec<Event>, taken: Duration) {
        let Self {
            registry, machine, ..
        } = self;
        let apps_of = |account| registry.count_of(account, &machine.accounts);
        for (uid, account, part) in quota::parts(events, apps_of, registry.apps.len(), taken) {
            self.quotas.charge(uid, account, part);
        }
    }

    fn admit(&mut self) -> Gathered {
        let (mut admitted, mut events, mut held_up) = (Vec::new(), Vec::new(), Duration::ZERO);
        let began = Clock::now();
        let mut pending = std::mem::take(&mut self.registry.pending);
        pending.sort_by_cached_key(|waiting| {
            let waited = waiting.since.elapsed();
            let Launch { app, peer, .. } = &waiting.launch;
            match (app, waited < OVERTAKEN) {
                (Some(_), _) => Order::Begun,
                (None, false) => Order::Waited(Reverse(waited)),
                (None, true) => {
                    Order::TimeLeft(Reverse(self.quotas.left_us(peer.uid, peer.account, began)))
                }
            }
        });
        let mut pending = pending.into_iter();
        while began.elapsed() < ADMITTING
            && self.machine.moves_held_up().is_none()
            && let Some(waiting) = pending.next()
        {
            let Pending {
                launch,
                reply,
                since,
            } = waiting;
            if reply.is_closed() {
                self.give_up(launch.app);
                continue;
            }
            let forgotten = self.forget_unanswered(launch.request.pid);
            let Self {
                registry,
                machine,
                telemetry,
                ..
            } = self;
            let (uid, account, started) = (launch.peer.uid, launch.peer.account, Clock::now());
            let begun = launch.app;
            match launch::admit(launch, registry, machine, telemetry) {
                Ok(app) => admitted.push((app, reply)),
                Err(NotAdmitted::Refused(error)) => {
                    tracing::warn!("launch failed: {error}");
                    self.give_up(begun);
                    let _ = reply.send(Err(error));
                }
                // Neither can the others be. Nobody is charged for that.
                Err(NotAdmitted::HeldUp(launch)) => {
                    let launch = *launch;
                    let waiting = Pending {
                        launch,
                        reply,
                        since,
                    };
                    match self.machine.enforcer.held_up() {
                        Some(held) if has_waited(since, &held) => {
                            self.refuse_late(waiting, &held);
                        }
                        _ => self.registry.pending.push(waiting),
                    }
                    held_up = started.elapsed();
                    if forgotten == Forgotten::Yes {
                        events.push(Event::new(uid, account, Clock::now()));
                    }
                    break;
                }
            }
            events.push(Event::new(uid, account, started));
        }
        self.registry.pending.extend(pending);
        Gathered {
            admitted,
            events,
            held_up,
        }
    }

    /// An earlier daemon admitted this process and ended before it answered: its launcher asks again.
    fn forget_unanswered(&mut self, pid: u32) -> Forgotten {
        let Some(app) = launch::with_first_process(pid, &self.registry, &self.machine) else {
            return Forgotten::No;
        };
        let app = app.record.id;
        self.forget(app);
        self.registry.ended.retract(app);
        Forgotten::Yes
    }

    fn answer_when_saved(&mut self, admitted: Vec<Waiting>) {
        if admitted.is_empty() {
            return;
        }
        // Without groups the next daemon finds the managed processes by the file alone. A launcher waits for it, but
        // for no disk that is slower than this; nobody else waits.
        let saver = self.store.saver.as_ref();
        let saver = saver.filter(|_| {
            let members = self.machine.enforcer.capabilities().members;
            members == MembersKept::BySavedState
        });
        match saver.and_then(|saver| saver.unwritten(SAVED_FIRST)) {
            Some(state) => {
                let due = Instant::now() + SAVED_FIRST;
                let waiting = admitted.into_iter().map(|(admitted, reply)| Unanswered {
                    admitted,
                    reply,
                    state,
                    due,
                });
                self.registry.unanswered.extend(waiting);
                self.timing.answer_by(due);
            }
            None => self.answer_launches(admitted),
        }
    }

    /// Answers the launches that were saved, and has moved what is to be adopted. Of those for which the disk has taken too long
    /// by this moment, launches are answered and adoptions refused.
    pub(crate) fn answer_saved(&mut self, moment: Instant) {
        let saver = self.store.saver.as_ref();
        let tried = saver.map_or(u64::MAX, Saver::tried);
        let waiting = std::mem::take(&mut self.registry.unanswered);
        let (saved, waiting): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|w| w.due <= moment || w.state <= tried);
        self.registry.unanswered = waiting;
        let saved = saved.into_iter().map(|w| (w.admitted, w.reply));
        self.answer_launches(saved.collect());
        self.adopt_saved(moment);
        let launches = self.registry.unanswered.iter().map(|launch| launch.due);
        let joining = self.registry.joining.iter();
        let adoptions = joining.filter_map(|joining| match joining.step {
            Step::Saving { due, .. } => Some(due),
            Step::Moving { .. } => None,
        });
        self.timing.answers_due = launches.chain(adoptions).min();
    }

    fn answer_launches(&mut self, admitted: Vec<Waiting>) {
        let mut lost = Effect::None;
        for (app, reply) in admitted {
            let id = app.id;
            let answer = launch::answer(app, &self.registry, &self.machine);
            let refused = answer.is_err();
            let unheard = reply.send(answer).is_err();
            if refused || unheard {
                self.forget(id);
                lost = Effect::Membership;
            }
        }
        self.act(lost);
    }

    /// Looks at once whether an application ended. Where ends follow each other closely, one look and one decision serve
    /// all: each takes time that grows with the processes of the machine.
    pub(crate) fn may_have_ended(&mut self, app: AppId) {
        if self.registry.get(app).is_none() {
            return;
        }
        self.registry.may_have_ended.insert(app);
        let until = self.timing.ends_until;
        match until.filter(|until| *until > Instant::now()) {
            Some(until) => {
                self.timing.gathered.get_or_insert(until);
            }
            None => self.end_empty(),
        }
    }

    /// Ends the applications that have no process left, with one decision.
    pub(crate) fn end_empty(&mut self) {
        if self.registry.may_have_ended.is_empty() {
            return;
        }
        let started = Clock::now();
        let events = self.end_emptied();
        let returning = self.give_back_in_turn();
        if !events.is_empty() {
            self.membership_changed();
        }
        self.charge(events, started.elapsed().saturating_sub(returning));
        self.gather_after(started.elapsed());
    }

    /// Ends the applications that have no process left, and returns whose they were. Takes no decision.
    fn end_emptied(&mut self) -> Vec<Event> {
        let apps = &mut self.registry.may_have_ended;
        if apps.is_empty() {
            return Vec::new();
        }
        let Self {
            registry, machine, ..
        } = self;
        let emptied = machine.enforcer.emptied(&mut registry.may_have_ended);
        let mut events = Vec::new();
        for mut app in registry.remove_all(&emptied) {
            let (uid, started) = (app.record.requested_by(), Clock::now());
            departure::note_end(&mut app, &mut self.registry, &self.machine);
            match gives_back_at_once(&app) {
                true => self.registry.leaving.push_front(app),
                false => self.registry.leaving.push_back(app),
            }
            let account = self.machine.accounts.of(uid);
            events.push(Event::new(uid, account, started));
        }
        events
    }

    /// Gives back what applications that have ended held, of as many as there is time for, and returns how long that took. The
    /// others follow once the calls that have come meanwhile are [served](super::CALLS_FIRST_AT_MOST).
    pub(super) fn give_back_in_turn(&mut self) -> Duration {
        let began = Clock::now();
        while let Some(app) = self.registry.leaving.front()
            && (gives_back_at_once(app) || began.elapsed() < GIVING_BACK)
            && let Some(app) = self.registry.leaving.pop_front()
        {
            self.give_back(app);
        }
        let more = !self.registry.leaving.is_empty();
        self.timing.next_return = more.then(Instant::now);
        began.elapsed()
    }

    /// The kernel refuses a partition CPUs that another group has.
    pub(super) fn give_back_before_isolation(&mut self) {
        let mut apps = self.registry.apps.iter();
        if self.registry.leaving.is_empty() || apps.all(|app| app.record.partition.is_member()) {
            return;
        }
        for app in std::mem::take(&mut self.registry.leaving) {
            self.give_back(app);
        }
    }

    /// Charged to who had asked for it.
    fn give_back(&mut self, app: App) {
        let (uid, started) = (app.record.requested_by(), Clock::now());
        memory::one_ended();
        departure::give_back(
            app,
            Departure::ForGood,
            &mut self.registry,
            &mut self.machine,
            &self.decider,
            &mut self.telemetry,
        );
        let account = self.machine.accounts.of(uid);
        self.quotas.charge(uid, account, started.elapsed());
    }
}
