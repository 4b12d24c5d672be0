//! Changes of groups that the kernel may hold up.
//!
//! *Moves*, which change which groups there are or which processes are in them, take the lock of all groups. A process that
//! joins one also waits until no thread of the machine is between the begin and the end of a fork or an exit: for seconds,
//! if one of them gets no CPU there.
//!
//! *Memory*: where it follows CPUs, the kernel moves it before a write returns. That can take for ever: an address space that
//! is locked while a file system does not answer cannot be moved. Before Linux 6.18, every other change of a cpuset waits
//! for that as well, after it has taken effect; so does every process that joins a group, with the lock of all groups
//! held.
//!
//! Therefore a thread of its own makes each move once decisions are taken, and each other change once memory is bound here. If
//! it does not return soon, that thread is left to wait, and the next change gets another, which was started before: a new
//! thread would wait, too. A change of a cpuset that is held up is in force, as its file shows. Moves are not tried while they
//! would be held up. Who asks again for a move that was held up gets its outcome, and no second move.

use crate::HostError;
use crate::enforce::{HeldUp, Moves};
use crate::procfs::read_small;
use std::collections::VecDeque;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

/// Tests on plain files wait however busy the machine is.
const PATIENCE: Patience = match cfg!(test) {
    false => Patience {
        moves: Duration::from_millis(5),
        first: Duration::from_millis(100),
        others: Duration::from_millis(10),
    },
    true => Patience {
        moves: Duration::from_secs(20),
        first: Duration::from_secs(20),
        others: Duration::from_secs(20),
    },
};

/// How long an outcome is kept for who asks for the same change again, and how many.
const KEPT: Duration = Duration::from_secs(10);
const MOST_KEPT: usize = 256;

/// Changes that may be held up at once, each with its thread.
const MOST: usize = 256;

/// Threads that are kept for what comes.
const IDLE: usize = 2;

const STACK: usize = 64 << 10;

/// The first Linux in which a change waits for its own memory only.
const WAITS_FOR_ITS_OWN: (u32, u32) = (6, 18);

/// Makes changes, and knows which are held up. Clones share that.
#[derive(Clone, Debug)]
pub(super) struct Changes(Arc<Mutex<State>>);

/// How long a change may take before it counts as held up.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// Where nothing holds it up, a move takes a tenth of a millisecond.
    moves: Duration,
    /// For another change.
    first: Duration,
    /// While one is held up already.
    others: Duration,
}

#[derive(Debug)]
struct State {
    /// Whether decisions wait for moves.
    begun: bool,
    /// Whether changes that are no moves have a thread of their own, too.
    memory_bound: bool,
    patience: Patience,
    /// Who is woken when a change is finished that was held up.
    waker: Option<Waker>,
    /// While another change than a move is held up.
    moves: Moves,
    /// Threads that wait for a change.
    idle: Vec<SyncSender<Job>>,
    held: Vec<Held>,
    /// What came of moves that were held up, oldest first.
    ended: VecDeque<Ended>,
}

#[derive(Debug)]
struct Held {
    change: String,
    action: &'static str,
    is_move: bool,
    /// Whether moves can be made meanwhile.
    moves: Moves,
    since: Instant,
    /// Whether the log has it.
    logged: bool,
    outcome: Receiver<io::Result<()>>,
    thread: SyncSender<Job>,
}

#[derive(Debug)]
struct Ended {
    change: String,
    at: Instant,
    outcome: io::Result<()>,
}

type Job = Box<dyn FnOnce() + Send>;

/// A change: what it is, for messages, and where.
pub(super) struct Change<'a> {
    pub(super) action: &'static str,
    pub(super) value: &'a str,
    pub(super) path: PathBuf,
}

impl Change<'_> {
    /// Whether it changes which groups there are, or which processes are in them.
    fn moves(&self) -> bool {
        let name = self.path.file_name().unwrap_or_default().as_bytes();
        self.action != "write" || name.starts_with(b"cgroup.")
    }

    fn failed(&self, error: io::Error) -> HostError {
        match self.action {
            "write" => HostError::write(self.value, &self.path, error),
            action => HostError::file(action, &self.path, error),
        }
    }

    fn waits_for(&self, held: &Held) -> HostError {
        HostError::HeldUp(
            self.describe(),
            held.change.clone(),
            held.since.elapsed().as_secs(),
        )
    }

    fn describe(&self) -> String {
        let path = self.path.display();
        match self.action {
            "write" => format!("write {:?} to {path}", self.value),
            action => format!("{action} {path}"),
        }
    }
}

impl Changes {
    pub(super) fn new() -> Self {
        Self::where_moves(match kernel() {
            Some(version) if version >= WAITS_FOR_ITS_OWN => Moves::Go,
            _ => Moves::Wait,
        })
    }

    fn where_moves(moves: Moves) -> Self {
        Self(Arc::new(Mutex::new(State {
            begun: false,
            memory_bound: false,
            patience: PATIENCE,
            waker: None,
            moves,
            idle: Vec::new(),
            held: Vec::new(),
            ended: VecDeque::new(),
        })))
    }

    /// From here on each move has a thread of its own. One more is started, for what comes while a move is held up.
    pub(super) fn decisions_begin(&self) {
        let mut state = self.state();
        state.begun = true;
        state.start_threads();
    }

    /// From here on this is woken when a change is finished that was held up.
    pub(super) fn wake_when_finished(&self, waker: Waker) {
        self.state().waker = Some(waker);
    }

    /// From here on each change has a thread of its own.
    pub(super) fn memory_is_bound(&self) {
        self.state().memory_bound = true;
    }

    /// The oldest change that is held up, of those that make moves wait if there are any.
    pub(super) fn held_up(&self) -> Option<HeldUp> {
        let mut state = self.state();
        state.look();
        state.oldest().map(|held| HeldUp {
            change: held.change.clone(),
            lasting: held.since.elapsed(),
            moves: held.moves,
        })
    }

    /// Whether memory is better bound later: the kernel holds up another change than an ordinary move.
    pub(super) fn memory_waits(&self) -> bool {
        let mut state = self.state();
        state.look();
        let long = |held: &Held| !held.is_move || held.since.elapsed() >= HeldUp::LONG;
        state.held.iter().any(long)
    }

    /// Whether processes can neither join nor leave groups now.
    pub(super) fn moves_wait(&self) -> bool {
        self.held_up().is_some_and(|held| held.moves == Moves::Wait)
    }

    /// Makes a change, or leaves it to its thread. [`HostError::HeldUp`] if it has not returned, or was not tried: to be
    /// asked for again.
    pub(super) fn make(
        &self,
        change: &Change<'_>,
        make: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Result<(), HostError> {
        let mut state = self.state();
        let is_move = change.moves();
        let apart = match is_move {
            true => state.begun || state.memory_bound,
            false => state.memory_bound,
        };
        if !apart {
            drop(state);
            return make().map_err(|error| change.failed(error));
        }
        state.look();
        if is_move && let Some(outcome) = state.outcome(&change.describe()) {
            return outcome.map_err(|error| change.failed(error));
        }
        let oldest = state.oldest();
        if let Some(held) = oldest
            && (is_move && held.moves == Moves::Wait || state.held.len() >= MOST)
        {
            return Err(change.waits_for(held));
        }
        let patience = match (is_move, oldest) {
            (true, _) => state.patience.moves,
            (false, None) => state.patience.first,
            (false, Some(_)) => state.patience.others,
        };
        if state.held.is_empty() {
            state.start_threads();
        }
        let (done, outcome) = mpsc::sync_channel(1);
        let (late, waker) = (Arc::new(AtomicBool::new(false)), state.waker.clone());
        let is_late = Arc::clone(&late);
        let job: Job = Box::new(move || {
            let _nobody_waits = done.send(make());
            if is_late.load(Ordering::SeqCst)
                && let Some(waker) = waker
            {
                waker.wake();
            }
        });
        let since = Instant::now();
        let ended = || io::Error::other("the thread that changes groups has ended");
        let idle = state.idle.pop();
        let held_move = state.held.iter().find(|held| held.is_move);
        let thread = match (idle, held_move) {
            (Some(thread), _) => thread,
            // To start one would wait for that.
            (None, Some(held)) => return Err(change.waits_for(held)),
            (None, None) => start().map_err(|error| change.failed(error))?,
        };
        if thread.send(job).is_err() {
            return Err(change.failed(ended()));
        }
        let in_time = outcome.recv_timeout(patience).or_else(|error| {
            late.store(true, Ordering::SeqCst);
            // It may have come before that.
            outcome.try_recv().map_err(|_| error)
        });
        match in_time {
            Ok(outcome) => {
                state.idle.push(thread);
                return outcome.map_err(|error| change.failed(error));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(change.failed(ended())),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let what = change.describe();
        let moves = match is_move {
            true => Moves::Wait,
            false => state.moves,
        };
        state.held.push(Held {
            change: what.clone(),
            action: change.action,
            is_move,
            moves,
            since,
            logged: false,
            outcome,
            thread,
        });
        Err(HostError::HeldUp(what.clone(), what, 0))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Of the changes that are held up, those that make moves wait first.
    fn oldest(&self) -> Option<&Held> {
        let waits = |held: &&Held| held.moves == Moves::Wait;
        self.held.iter().find(waits).or_else(|| self.held.first())
    }

    /// What cannot be started is tried again when it is needed.
    fn start_threads(&mut self) {
        while self.idle.len() < IDLE
            && let Ok(thread) = start()
        {
            self.idle.push(thread);
        }
    }

    /// What came of a move that was held up, once.
    fn outcome(&mut self, change: &str) -> Option<io::Result<()>> {
        self.ended.retain(|ended| ended.at.elapsed() < KEPT);
        let place = self.ended.iter().position(|ended| ended.change == change)?;
        Some(self.ended.remove(place)?.outcome)
    }

    /// Takes the outcome of what has returned.
    fn look(&mut self) {
        for mut held in std::mem::take(&mut self.held) {
            let (change, took) = (&held.change, held.since.elapsed());
            let s = took.as_secs_f64();
            let outcome = match held.outcome.try_recv() {
                Err(TryRecvError::Empty) => {
                    if took >= HeldUp::LONG && !held.logged {
                        held.logged = true;
                        tracing::warn!("the kernel holds up a change: {change}");
                    }
                    self.held.push(held);
                    continue;
                }
                // Its thread has ended with it.
                Err(TryRecvError::Disconnected) => continue,
                Ok(outcome) => outcome,
            };
            match &outcome {
                Err(error) => tracing::warn!(
                    "a change failed that was held up for {s:.1} s: {change}: {error}"
                ),
                Ok(()) if held.logged => {
                    tracing::info!("the kernel has finished a change after {s:.1} s: {change}");
                }
                Ok(()) => {}
            }
            // Who asks again for a group to be made or removed sees whether it is there; why it could not be made, only so.
            let is_kept = match &outcome {
                Ok(()) => held.action == "write",
                Err(_) => held.action != "remove",
            };
            if held.is_move && is_kept {
                self.ended.push_back(Ended {
                    change: held.change,
                    at: Instant::now(),
                    outcome,
                });
            }
            self.idle.push(held.thread);
        }
        let most = self.ended.len().saturating_sub(MOST_KEPT);
        self.ended.drain(..most);
        // Others end.
        self.idle.truncate(IDLE);
    }
}

/// A thread that makes changes until nobody has any for it.
fn start() -> io::Result<SyncSender<Job>> {
    let (sender, jobs) = mpsc::sync_channel::<Job>(1);
    std::thread::Builder::new()
        .name("change-groups".to_owned())
        .stack_size(STACK)
        .spawn(move || jobs.into_iter().for_each(|job| job()))?;
    Ok(sender)
}

/// The first two numbers of its version.
fn kernel() -> Option<(u32, u32)> {
    let release = read_small(Path::new("/proc/sys/kernel/osrelease")).ok()?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
impl Changes {
    /// From here on whatever does not return at once is held up.
    pub(super) fn impatient(&self) {
        self.decisions_begin();
        self.state().patience.moves = Duration::ZERO;
    }

    /// Has a write held up until what is returned is dropped.
    pub(super) fn hold_up(&self, file: &str, moves: Moves) -> mpsc::Sender<()> {
        let (end, waits) = mpsc::channel::<()>();
        self.memory_is_bound();
        self.state().moves = moves;
        let none = Patience {
            moves: Duration::ZERO,
            first: Duration::ZERO,
            others: Duration::ZERO,
        };
        let patience = std::mem::replace(&mut self.state().patience, none);
        let change = Change {
            action: "write",
            value: "0",
            path: PathBuf::from(file),
        };
        let late = self.make(&change, move || {
            let _ = waits.recv();
            Ok(())
        });
        assert!(matches!(late, Err(HostError::HeldUp(..))), "{late:?}");
        self.state().patience = patience;
        end
    }
}
