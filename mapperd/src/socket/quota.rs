//! Quotas of each user on the socket.
//!
//! One user must not use up connections and decisions for all others, by mistake (a script that launches in a loop)
//! or on purpose. Root and the user of the daemon are bounded only by the number of all connections. Of others,
//!
//! - nobody holds more *connections* than half of what is free, so that no number of users leaves others none, and the
//!   last are reserved for root;
//! - the *time* that a user's connections, calls and ends of programs take is measured and charged. Who is in debt waits,
//!   so that a burst of launches is only slower, and all in debt together get a part of the time. Who is far in debt
//!   cannot connect;
//! - long requests and unread replies take *memory*, of which nobody gets more than half of what is free;
//! - few calls are with the daemon at a time (*turns*), and the next is that of the user with the fewest there and the
//!   least debt, so that a newcomer does not wait behind another's hundreds. Launches are admitted in the order of the
//!   [time](Quotas::left_us) that their users have left.
//!
//! A user is an [account](crate::config::accounts). Memory is bounded by the connections: a user without any is
//! forgotten when the debt is paid.

use crate::config::accounts::is_privileged;
use crate::memory;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Connections that may be open at a time, if there are as many descriptors.
const CONNECTIONS: usize = 4096;

/// Of these, reserved for root and the daemon's user.
const RESERVED: usize = 128;

/// Connections that one user may have open at a time.
const OWN_CONNECTIONS: usize = 256;

/// Seconds that a user's calls may take at once.
const BURST: f64 = 0.5;

/// The part of the time that all users in debt get together.
const SHARE: f64 = 0.5;

/// What a connection is charged, in seconds: ten times what it takes, since others wait behind it unserved.
const CONNECTION: f64 = 1e-3;

/// What a call takes beside what the daemon measures, in seconds.
const OVERHEAD: f64 = 50e-6;

/// Who would wait longer for a call cannot connect. Launchers wait for twice as long.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Bytes of long requests and of replies that clients do not read, for all users and for one.
const BYTES: usize = 16 << 20;
const OWN_BYTES: usize = 1 << 20;

/// Calls of users that are with the daemon at a time: a newcomer's and root's wait behind as many at most.
const TURNS: usize = 16;

/// So many users are remembered before those without connections are removed.
const REMEMBERED: usize = 1024;

#[derive(Clone, Debug)]
pub(crate) struct Quotas(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// Connections that may be open.
    places: usize,
    /// Connections of root and the daemon's user.
    privileged: usize,
    /// Those of all others.
    ordinary: usize,
    /// Turns that are free.
    turns: usize,
    /// Bytes that are free.
    bytes: usize,
    users: HashMap<u32, Used>,
}

#[derive(Debug)]
struct Used {
    connections: usize,
    /// Seconds that calls may take without waiting; below zero a debt.
    seconds: f64,
    until: Instant,
    /// What a call is expected to take, charged before it begins.
    expected: f64,
    /// The part of `seconds` that was charged for calls which have not begun.
    reserved: f64,
    /// What was charged since the last call ended.
    charged: f64,
    /// Calls that are with the daemon.
    running: usize,
    /// Bytes held.
    bytes: usize,
    /// Those that wait for a turn.
    waiting: VecDeque<oneshot::Sender<()>>,
}

impl Used {
    fn fresh(now: Instant) -> Self {
        Self {
            connections: 0,
            seconds: BURST,
            until: now,
            expected: 0.0,
            reserved: 0.0,
            charged: 0.0,
            running: 0,
            bytes: 0,
            waiting: VecDeque::new(),
        }
    }

    fn fill_up(&mut self, now: Instant, rate: f64) {
        let passed = now.saturating_duration_since(self.until);
        self.seconds = (self.seconds + passed.as_secs_f64() * rate).min(BURST);
        self.until = now;
    }

    fn wait(&self, rate: f64) -> Duration {
        until_paid(-self.seconds, rate)
    }
}

fn until_paid(debt: f64, rate: f64) -> Duration {
    Duration::try_from_secs_f64(debt.max(0.0) / rate).unwrap_or(Duration::MAX)
}

/// One connection of a user. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Place {
    quotas: Quotas,
    /// `None`: no quotas apply.
    account: Option<u32>,
}

/// Why a connection is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("user {0} has too many connections open; close some, or wait")]
    TooMany(u32),
    #[error("too many connections are open; try again later")]
    Full,
    #[error("the calls of user {0} take too much time; try again later")]
    TooFast(u32),
}

impl State {
    /// The part of the time that each user in debt gets. Also those pay who do not come any more.
    fn rate(&mut self, now: Instant) -> f64 {
        let users = self.users.values_mut();
        let mut in_debt: Vec<&mut Used> = users.filter(|used| used.seconds < 0.0).collect();
        let rate = SHARE / in_debt.len().max(1) as f64;
        in_debt.iter_mut().for_each(|used| used.fill_up(now, rate));
        in_debt.retain(|used| used.seconds < 0.0);
        SHARE / in_debt.len().max(1) as f64
    }

    fn user(&mut self, account: u32, now: Instant) -> (&mut Used, f64) {
        let rate = self.rate(now);
        let fresh = || Used::fresh(now);
        let used = self.users.entry(account).or_insert_with(fresh);
        used.fill_up(now, rate);
        (used, rate)
    }

    /// Charges a call as much as it is expected to take; returns that, in seconds.
    fn call(&mut self, account: u32, now: Instant) -> f64 {
        let (used, _) = self.user(account, now);
        used.seconds -= used.expected;
        used.reserved += used.expected;
        used.expected
    }

    /// How long a call has to wait until it is paid, with those that came before it.
    fn wait(&mut self, account: u32, now: Instant) -> Duration {
        let (used, rate) = self.user(account, now);
        used.wait(rate)
    }

    /// A call that has a turn begins; or returns how long it still has to wait, since those that ran before it took
    /// longer than was expected.
    fn begin(&mut self, account: u32, before: f64, now: Instant) -> Duration {
        let (used, rate) = self.user(account, now);
        let wait = until_paid(-(used.seconds + used.reserved), rate);
        if wait.is_zero() {
            used.reserved = (used.reserved - before).max(0.0);
        }
        wait
    }

    /// A turn for a call, or what says when it has one.
    fn queue(&mut self, account: u32, now: Instant) -> oneshot::Receiver<()> {
        let (granted, grant) = oneshot::channel();
        self.user(account, now).0.waiting.push_back(granted);
        self.grant();
        grant
    }

    /// Gives free turns to those that wait.
    fn grant(&mut self) {
        while self.turns > 0 {
            let free = self.turns;
            let waiting = self.users.values_mut();
            let waiting =
                waiting.filter(|used| !used.waiting.is_empty() && 2 * used.running <= free);
            let next = waiting.min_by(|a, b| {
                let fewer = a.running.cmp(&b.running);
                fewer.then(b.seconds.total_cmp(&a.seconds))
            });
            let Some(next) = next else {
                return;
            };
            // Who waited may have been dropped.
            if next
                .waiting
                .pop_front()
                .is_some_and(|granted| granted.send(()).is_ok())
            {
                next.running += 1;
                self.turns -= 1;
            }
        }
    }

    /// A turn passes on.
    fn pass_on(&mut self, account: u32, now: Instant) {
        self.turns += 1;
        let (used, _) = self.user(account, now);
        used.running = used.running.saturating_sub(1);
        self.grant();
    }

    /// A call has ended. It has cost what was charged meanwhile, and not what was charged before it began.
    fn end(&mut self, account: u32, before: f64, now: Instant) {
        let (used, _) = self.user(account, now);
        used.seconds += before - OVERHEAD;
        used.expected += (std::mem::take(&mut used.charged) - used.expected) / 8.0;
        self.pass_on(account, now);
    }

    fn hold(&mut self, account: u32, bytes: usize, now: Instant) -> bool {
        let free = self.bytes;
        let (used, _) = self.user(account, now);
        let within = used.bytes + bytes <= OWN_BYTES && 2 * used.bytes + bytes <= free;
        // One reply may be longer than what a user may hold otherwise.
        let permitted = within || used.bytes == 0 && bytes <= free;
        if permitted {
            used.bytes += bytes;
            self.bytes -= bytes;
        }
        permitted
    }

    fn connect(&mut self, account: u32, now: Instant) -> Result<(), Refused> {
        if self.users.len() >= REMEMBERED {
            let rate = self.rate(now);
            self.users.retain(|_, used| {
                used.fill_up(now, rate);
                used.connections > 0 || used.seconds < BURST
            });
        }
        let taken = self.privileged.max(RESERVED) + self.ordinary;
        let free = self.places.saturating_sub(taken);
        let (used, rate) = self.user(account, now);
        if used.wait(rate) > LONGEST_WAIT {
            return Err(Refused::TooFast(account));
        }
        used.seconds -= CONNECTION;
        match used.connections {
            0 if free == 0 => return Err(Refused::Full),
            own if own >= OWN_CONNECTIONS || 2 * own > free => {
                return Err(Refused::TooMany(account));
            }
            _ => used.connections += 1,
        }
        self.ordinary += 1;
        Ok(())
    }
}

/// A launch or an end of one user, and what it took itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    uid: u32,
    account: u32,
    own: Duration,
}

impl Event {
    /// One that began then and is over.
    pub(crate) fn new(uid: u32, account: u32, started: Instant) -> Self {
        let own = started.elapsed();
        Self { uid, account, own }
    }
}

/// The parts of a time that users, by uid and account, are charged for launches and ends. What these took themselves is
/// paid in full by whose they are; the rest, the decision that followed, in proportion to the user's applications, `apps_of`
/// an account of `all`, since it takes longer for what others run, too.
pub(crate) fn parts(
    mut events: Vec<Event>,
    apps_of: impl Fn(u32) -> usize,
    all: usize,
    taken: Duration,
) -> Vec<(u32, u32, Duration)> {
    events.sort_unstable_by_key(|event| (event.uid, event.account));
    let own_of = |of: &[Event]| of.iter().map(|event| event.own).sum::<Duration>();
    let rest = taken.saturating_sub(own_of(&events));
    // Those that ended are among no others any more.
    let all = (all + events.len()) as f64;
    let part = |of_one: &[Event]| {
        let Event { uid, account, .. } = of_one[0];
        let apps = apps_of(account) + of_one.len();
        (
            uid,
            account,
            own_of(of_one) + rest.mul_f64(apps as f64 / all),
        )
    };
    let same = |a: &Event, b: &Event| (a.uid, a.account) == (b.uid, b.account);
    events.chunk_by(same).map(part).collect()
}

impl Quotas {
    /// For a process that may have so many descriptors open, of which connections get a quarter.
    pub(crate) fn new(descriptors: u64) -> Self {
        let places = usize::try_from(descriptors / 4).unwrap_or(usize::MAX);
        Self(Arc::new(Mutex::new(State {
            places: places.clamp(2 * RESERVED, CONNECTIONS),
            privileged: 0,
            ordinary: 0,
            turns: TURNS,
            bytes: BYTES,
            users: HashMap::new(),
        })))
    }

    /// Charges a user for time that calls or ends of programs have taken.
    pub(crate) fn charge(&self, uid: u32, account: u32, taken: Duration) {
        if !is_privileged(uid) {
            let mut state = self.state();
            let (used, _) = state.user(account, Instant::now());
            used.seconds -= taken.as_secs_f64();
            used.charged += taken.as_secs_f64();
        }
    }

    /// The time in microseconds that calls of this uid may take without waiting: below zero a debt of its account.
    pub(crate) fn left_us(&self, uid: u32, account: u32, now: Instant) -> i64 {
        match is_privileged(uid) {
            true => i64::MAX,
            false => (self.state().user(account, now).0.seconds * 1e6) as i64,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more connection of this uid, which counts against the quotas of `account`.
    pub(crate) fn connect(&self, uid: u32, account: u32, now: Instant) -> Result<Place, Refused> {
        let mut state = self.state();
        let account = (!is_privileged(uid)).then_some(account);
        match account {
            Some(account) => state.connect(account, now)?,
            None if state.privileged + state.ordinary >= state.places => return Err(Refused::Full),
            None => state.privileged += 1,
        }
        Ok(Place {
            quotas: self.clone(),
            account,
        })
    }
}

impl Place {
    /// Room for so many bytes; `None` if the user has no more.
    pub(crate) fn hold(&self, bytes: usize) -> Option<Held> {
        let mut state = self.quotas.state();
        let permitted = |account| state.hold(account, bytes, Instant::now());
        let held = || Held(self.quotas.clone(), self.account, bytes);
        self.account.is_none_or(permitted).then(held)
    }

    /// Waits until a call of this connection may go to the daemon.
    pub(crate) async fn turn(&self) -> Turn {
        let Some(account) = self.account else {
            return Turn(None);
        };
        let before = self.quotas.state().call(account, Instant::now());
        let mut wait = self.quotas.state().wait(account, Instant::now());
        loop {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            let granted = self.quotas.state().queue(account, Instant::now());
            // A user with connections is not forgotten, so that the answer comes.
            let _ = granted.await;
            let mut state = self.quotas.state();
            wait = state.begin(account, before, Instant::now());
            if wait.is_zero() {
                drop(state);
                return Turn(Some((self.quotas.clone(), account, before)));
            }
            state.pass_on(account, Instant::now());
        }
    }
}

/// A call that is with the daemon, of a user with quotas: which, and what it was charged before it began. Dropping it
/// passes the turn on.
#[derive(Debug)]
pub(crate) struct Turn(Option<(Quotas, u32, f64)>);

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some((quotas, account, before)) = self.0.take() {
            quotas.state().end(account, before, Instant::now());
        }
    }
}

/// Bytes that are held for a user. Dropping it gives them back.
#[derive(Debug)]
pub(crate) struct Held(Quotas, Option<u32>, usize);

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(account) = self.1 {
            let mut state = self.0.state();
            state.bytes += self.2;
            state.user(account, Instant::now()).0.bytes -= self.2;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        memory::one_ended();
        let mut state = self.quotas.state();
        let Some(account) = self.account else {
            state.privileged = state.privileged.saturating_sub(1);
            return;
        };
        state.ordinary = state.ordinary.saturating_sub(1);
        if let Some(used) = state.users.get_mut(&account) {
            used.connections = used.connections.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests;
