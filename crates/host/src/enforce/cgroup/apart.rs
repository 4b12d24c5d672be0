//! Changes of groups that the kernel may hold up.
//!
//! *Moves*, which change which groups there are or which processes are in them, take the lock of all groups. A process that
//! joins one also waits until no thread of the machine is between the begin and the end of a fork or an exit: for seconds,
//! if one of them gets no CPU there.
//!
//! *Memory*: where it follows CPUs, the kernel moves it before a write returns. That can take for ever: an address space that
//! is locked while a file system does not answer cannot be moved. Every other change of a cpuset may wait for that as well,
//! also where another program bound that memory: after it has taken effect (before Linux 6.18), or before, if the kernel waits
//! for the lock of that address space. So does every process that joins a group, with the lock of all groups held.
//!
//! Therefore a thread of its own makes each move once decisions are taken, and each other change once memory is bound here.
//! On a machine of several memory nodes, where others may bind some, it makes the first of the values that follow one another
//! closely. If a change does not return soon, its thread is left to wait, and the next one gets [another](super::spare).
//!
//! While a move is held up, no other is tried. Who asks again for one that was held up gets its outcome, and no second
//! move.
//!
//! A value that is held up, or that no thread can write now, or of a group that a process is being moved to or from, need
//! not be asked for again: it is written as soon as that is possible. Values for one file are written in
//! order, and of those that wait for one that is not in force yet only the newest is kept.

use super::alike::{Hold, Sets};
use super::asked::{Asked, Change};
use super::spare::{Job, Spare, Thread};
use crate::HostError;
use crate::enforce::{HeldUp, Moves};
use crate::procfs::read_cpu_list;
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

const IN_USE: Patience = Patience {
    moves: Duration::from_millis(5),
    first: Duration::from_millis(100),
    others: Duration::from_millis(10),
    in_all: Duration::from_millis(200),
    least: Duration::from_millis(1),
};

/// Tests on plain files wait however busy the machine is.
const LONG: Duration = Duration::from_secs(20);

const PATIENCE: Patience = match cfg!(test) {
    false => IN_USE,
    true => Patience {
        moves: LONG,
        first: LONG,
        others: LONG,
        in_all: LONG,
        least: LONG,
    },
};

/// Within this, values that are held up are waited for no longer than [`Patience::in_all`].
const SPELL: Duration = Duration::from_secs(1);

/// Where only others may bind memory, what follows so soon on a value that a thread could write has no thread of its own: to
/// wake one takes longer than the write.
const SOON: Duration = Duration::from_millis(5);

/// How long an outcome is kept for who asks for the same change again, and how many.
const KEPT: Duration = Duration::from_secs(10);
const MOST_KEPT: usize = 256;

/// Changes that may be held up at once, each with its thread.
const MOST: usize = 256;

/// Of these for one file.
const MOST_OF_ONE: usize = 4;

/// Makes changes, and knows which are held up. Clones share that.
#[derive(Clone, Debug)]
pub(super) struct Changes {
    state: Arc<Mutex<State>>,
    sets: Sets,
}

/// How long a change may take before it counts as held up.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// Where nothing holds it up, a move takes a tenth of a millisecond.
    moves: Duration,
    /// For a value.
    first: Duration,
    /// While one is held up already.
    others: Duration,
    /// For all values in a spell that are held up.
    in_all: Duration,
    /// For each after that: as long as a value takes that nothing holds up.
    least: Duration,
}

/// How long values that are held up were waited for, and since when that counts.
#[derive(Clone, Copy, Debug)]
struct Waited {
    since: Instant,
    time: Duration,
}

#[derive(Debug)]
struct State {
    /// Whether decisions wait for changes.
    begun: bool,
    memory: MemoryOnItsWay,
    patience: Patience,
    waited: Waited,
    /// When a thread last wrote a value that was not held up.
    went: Option<Instant>,
    /// Who is woken when a change is finished that was held up.
    waker: Option<Waker>,
    /// Those of the groups between which processes are moved stay as they are.
    sets: Sets,
    spare: Spare,
    held: Vec<Held>,
    /// Values that have not been tried, one a file, in the order in which they were asked for.
    due: Vec<Due>,
    /// What came of moves that were held up, oldest first.
    ended: VecDeque<Ended>,
}

/// Whether a value may wait for memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MemoryOnItsWay {
    /// There is nowhere to move it.
    Never,
    /// Others may bind some, once decisions are taken.
    OfOthers,
    /// Some was bound here, or by an earlier daemon.
    BoundHere,
}

#[derive(Debug)]
struct Held {
    asked: Asked,
    /// Whether moves can be made meanwhile.
    moves: Moves,
    /// Whether the log has it.
    logged: bool,
    progress: Arc<Progress>,
    outcome: Receiver<io::Result<()>>,
    thread: Thread,
}

/// How far the thread of a change has come, and whether the deciding thread is to be woken then.
#[derive(Debug, Default)]
struct Progress {
    has_begun: AtomicBool,
    is_late: AtomicBool,
}

struct Due {
    asked: Asked,
    make: Make,
}

impl std::fmt::Debug for Due {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.asked.fmt(f)
    }
}

#[derive(Debug)]
struct Ended {
    change: String,
    at: Instant,
    outcome: io::Result<()>,
}

type Make = Box<dyn FnOnce() -> io::Result<()> + Send>;

impl Changes {
    pub(super) fn new() -> Self {
        // The kernel waits for the lock of an address space, too, with all cpusets locked.
        let nodes = read_cpu_list(Path::new("/sys/devices/system/node/has_memory"));
        let memory = match nodes {
            Ok(nodes) if nodes.len() > 1 => MemoryOnItsWay::OfOthers,
            _ => MemoryOnItsWay::Never,
        };
        let sets = Sets::default();
        let state = State {
            begun: false,
            memory,
            patience: PATIENCE,
            waited: Waited {
                since: Instant::now(),
                time: Duration::ZERO,
            },
            went: None,
            waker: None,
            sets: sets.clone(),
            spare: Spare::default(),
            held: Vec::new(),
            due: Vec::new(),
            ended: VecDeque::new(),
        };
        let state = Arc::new(Mutex::new(state));
        Self { state, sets }
    }

    /// Where moves say which groups are to stay as they are.
    pub(super) const fn sets(&self) -> &Sets {
        &self.sets
    }

    /// From here on moves have threads of their own, and values where others may bind memory. The first are started.
    pub(super) fn decisions_begin(&self) {
        let mut state = self.state();
        state.begun = true;
        state.fill();
    }

    /// From here on this is woken when a change is finished that was held up.
    pub(super) fn wake_when_finished(&self, waker: Waker) {
        self.state().waker = Some(waker);
    }

    /// From here on each change has a thread of its own.
    pub(super) fn memory_is_bound(&self) {
        let mut state = self.state();
        state.memory = MemoryOnItsWay::BoundHere;
        state.fill();
    }

    /// A change that is held up or due: the oldest of those that make moves wait, or of all.
    pub(super) fn held_up(&self) -> Option<HeldUp> {
        let mut state = self.state();
        state.look();
        let held = state.oldest().map(|held| (&held.asked, held.moves));
        let due = state.due.iter().map(|due| (&due.asked, Moves::Go));
        let due = || due.min_by_key(|(asked, _)| asked.since);
        held.or_else(due).map(|(asked, moves)| HeldUp {
            change: asked.change.clone(),
            lasting: asked.since.elapsed(),
            moves,
        })
    }

    /// Writes what was due and can be written now.
    pub(super) fn look(&self) {
        self.state().look();
    }

    /// Whether a change would be lost if the daemon ended now.
    pub(super) fn would_be_lost(&self) -> bool {
        let mut state = self.state();
        state.look();
        let begun = |held: &Held| held.progress.has_begun.load(Ordering::SeqCst);
        !state.due.is_empty() || !state.held.iter().all(begun)
    }

    /// Values that have not been tried, for messages.
    pub(super) fn due(&self) -> Vec<String> {
        let state = self.state();
        let due = state.due.iter().map(|due| due.asked.change.clone());
        due.collect()
    }

    /// What is due for a file is not written: it belongs to others.
    pub(super) fn forget(&self, path: &Path) {
        self.state().due.retain(|due| due.asked.path != path);
    }

    /// Whether memory is better bound later: the kernel holds up another change than an ordinary move.
    pub(super) fn memory_waits(&self) -> bool {
        let mut state = self.state();
        state.look();
        let long = |held: &Held| !held.asked.is_move || held.asked.since.elapsed() >= HeldUp::LONG;
        state.held.iter().any(long)
    }

    /// Whether processes can neither join nor leave groups now.
    pub(super) fn moves_wait(&self) -> bool {
        self.held_up().is_some_and(|held| held.moves == Moves::Wait)
    }

    /// Makes a change, or leaves it to its thread. [`HostError::HeldUp`] if it has not returned, or was not tried: a move is
    /// to be asked for again, a value is written later.
    pub(super) fn make(
        &self,
        change: &Change<'_>,
        make: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Result<(), HostError> {
        let mut state = self.state();
        let is_move = change.moves();
        state.look();
        let group = change.path.parent().unwrap_or(&change.path);
        let held = change.changes_sets().then(|| self.sets.change(group));
        match &held {
            // A process is being moved between this group and another.
            Some(None) => return Err(state.keep(change, Box::new(make))),
            _ if !is_move && state.awaits(&change.path) => {
                return Err(state.keep(change, Box::new(make)));
            }
            _ => {}
        }
        if !state.has_threads_for(change) {
            drop(state);
            return make().map_err(|error| change.failed(error));
        }
        if is_move {
            if let Some(outcome) = state.outcome(&change.describe()) {
                return outcome.map_err(|error| change.failed(error));
            }
            if let Some(held) = state.oldest()
                && held.moves == Moves::Wait
            {
                return Err(state.waits(change));
            }
        }
        let patience = state.patience_for(is_move);
        let began = Instant::now();
        // What cannot be started now may be later.
        let thread = state.take_thread().unwrap_or_default();
        let Some(thread) = thread else {
            state.have_waited(is_move, began);
            return Err(match is_move {
                true => state.waits(change),
                false => state.keep(change, Box::new(make)),
            });
        };
        let held = state
            .give(thread, change.asked(), Box::new(make), held.flatten())
            .map_err(|error| change.failed(error))?;
        let left = patience.saturating_sub(began.elapsed());
        let in_time = held.outcome.recv_timeout(left).or_else(|error| {
            held.progress.is_late.store(true, Ordering::SeqCst);
            // It may have come before that.
            held.outcome.try_recv().map_err(|_| error)
        });
        match in_time {
            Ok(outcome) => {
                if change.is_of_cpuset() {
                    state.went = Some(Instant::now());
                }
                state.spare.put(held.thread);
                outcome.map_err(|error| change.failed(error))
            }
            Err(RecvTimeoutError::Disconnected) => Err(change.failed(has_ended())),
            Err(RecvTimeoutError::Timeout) => {
                state.have_waited(is_move, began);
                let is_in_force = !is_move && held.asked.is_in_force();
                state.held.push(held);
                match is_in_force {
                    true => Ok(()),
                    false => {
                        let what = change.describe();
                        Err(HostError::HeldUp(what.clone(), what, 0))
                    }
                }
            }
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_threads_for(&self, change: &Change<'_>) -> bool {
        let is_move = change.moves();
        match self.memory {
            MemoryOnItsWay::BoundHere => true,
            MemoryOnItsWay::OfOthers if is_move => self.begun,
            MemoryOnItsWay::OfOthers => {
                let soon = self.went.is_some_and(|went| went.elapsed() < SOON);
                self.begun && change.is_of_cpuset() && !(soon && self.held.is_empty())
            }
            MemoryOnItsWay::Never => self.begun && is_move,
        }
    }

    /// Of the changes that are held up, those that make moves wait first.
    fn oldest(&self) -> Option<&Held> {
        let waits = |held: &&Held| held.moves == Moves::Wait;
        self.held.iter().find(waits).or_else(|| self.held.first())
    }

    /// Whether another value for a file has to wait: one before it is due, or held up and not in force, or many are held up.
    fn awaits(&self, path: &Path) -> bool {
        self.due.iter().any(|due| due.asked.path == path) || self.is_occupied(path)
    }

    fn is_occupied(&self, path: &Path) -> bool {
        let held = self.held.iter().map(|held| &held.asked);
        let held: Vec<&Asked> = held.filter(|asked| asked.path == path).collect();
        let last = held.last();
        held.len() >= MOST_OF_ONE || last.is_some_and(|asked| !asked.is_in_force())
    }

    /// Keeps a value to be written later, and no older one for the same file.
    fn keep(&mut self, change: &Change<'_>, make: Make) -> HostError {
        let mut asked = change.asked();
        let why = self.waits(change);
        let older = self.due.iter().position(|due| due.asked.path == asked.path);
        if let Some(place) = older {
            asked.since = self.due.remove(place).asked.since;
        }
        self.due.push(Due { asked, make });
        why
    }

    /// What a change waits for that is not tried now.
    fn waits(&self, change: &Change<'_>) -> HostError {
        let (what, lasting) = match self.oldest() {
            Some(held) => (held.asked.change.clone(), held.asked.since.elapsed()),
            None => (
                "a move of a process of its group, or the start of a thread".to_owned(),
                Duration::ZERO,
            ),
        };
        HostError::HeldUp(change.describe(), what, lasting.as_secs())
    }

    /// How long a change may take before it counts as held up.
    fn patience_for(&mut self, is_move: bool) -> Duration {
        if is_move {
            return self.patience.moves;
        }
        if self.waited.since.elapsed() >= SPELL {
            self.waited = Waited {
                since: Instant::now(),
                time: Duration::ZERO,
            };
        }
        let left = self.patience.in_all.saturating_sub(self.waited.time);
        let patience = match self.held.is_empty() {
            true => left.min(self.patience.first),
            false => left.min(self.patience.others),
        };
        patience.max(self.patience.least)
    }

    fn have_waited(&mut self, is_move: bool, since: Instant) {
        if !is_move {
            self.waited.time += since.elapsed();
        }
    }

    /// What cannot be started is tried again when it is needed.
    fn fill(&mut self) {
        let _later = self.spare.fill();
    }

    fn take_thread(&mut self) -> io::Result<Option<Thread>> {
        match self.held.len() < MOST {
            true => self.spare.take(),
            false => Ok(None),
        }
    }

    /// Has a thread make a change, of the sets of a group that are in use for that.
    fn give(
        &self,
        thread: Thread,
        asked: Asked,
        make: Make,
        sets: Option<Hold>,
    ) -> io::Result<Held> {
        let (done, outcome) = mpsc::sync_channel(1);
        let progress = Arc::new(Progress::default());
        let (shared, waker) = (Arc::clone(&progress), self.waker.clone());
        let job: Job = Box::new(move || {
            shared.has_begun.store(true, Ordering::SeqCst);
            let outcome = make();
            drop(sets);
            let _nobody_waits = done.send(outcome);
            if shared.is_late.load(Ordering::SeqCst)
                && let Some(waker) = waker
            {
                waker.wake();
            }
        });
        thread.send(job).map_err(|_| has_ended())?;
        let moves = match asked.is_move || asked.is_of_cpuset() {
            true => Moves::Wait,
            false => Moves::Go,
        };
        Ok(Held {
            asked,
            moves,
            logged: false,
            progress,
            outcome,
            thread,
        })
    }

    /// What came of a move that was held up, once.
    fn outcome(&mut self, change: &str) -> Option<io::Result<()>> {
        self.ended.retain(|ended| ended.at.elapsed() < KEPT);
        let place = self.ended.iter().position(|ended| ended.change == change)?;
        Some(self.ended.remove(place)?.outcome)
    }

    /// Takes the outcome of what has returned, and has written what waited for that.
    fn look(&mut self) {
        for mut held in std::mem::take(&mut self.held) {
            let (change, took) = (&held.asked.change, held.asked.since.elapsed());
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
                Err(TryRecvError::Disconnected) => {
                    tracing::error!("the thread of a change has ended: {change}");
                    continue;
                }
                Ok(outcome) => outcome,
            };
            let is_tried_again = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
            match &outcome {
                Err(error) if is_tried_again(error) => {}
                Err(error) if !held.asked.is_move && Asked::is_gone(error) => {}
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
                Ok(()) => held.asked.action == "write",
                Err(error) => held.asked.action != "remove" && !is_tried_again(error),
            };
            if held.asked.is_move && is_kept {
                self.ended.push_back(Ended {
                    change: held.asked.change,
                    at: Instant::now(),
                    outcome,
                });
            }
            self.spare.put(held.thread);
        }
        let most = self.ended.len().saturating_sub(MOST_KEPT);
        self.ended.drain(..most);
        self.write_what_is_due();
    }

    fn write_what_is_due(&mut self) {
        let mut place = 0;
        while let Some(Due { asked, .. }) = self.due.get(place) {
            let group = asked.path.parent().unwrap_or(&asked.path);
            let sets = asked.changes_sets().then(|| self.sets.change(group));
            if matches!(sets, Some(None)) || self.is_occupied(&asked.path) {
                place += 1;
                continue;
            }
            let Ok(Some(thread)) = self.take_thread() else {
                return;
            };
            let Due { asked, make } = self.due.remove(place);
            match self.give(thread, asked, make, sets.flatten()) {
                Ok(held) => {
                    held.progress.is_late.store(true, Ordering::SeqCst);
                    self.held.push(held);
                }
                Err(error) => tracing::error!("a change could not be made: {error}"),
            }
        }
    }
}

fn has_ended() -> io::Error {
    io::Error::other("the thread that changes groups has ended")
}

#[cfg(test)]
impl Changes {
    /// From here on whatever does not return at once is held up.
    pub(super) fn impatient(&self) {
        self.decisions_begin();
        self.state().patience.moves = Duration::ZERO;
    }

    /// From here on no thread is started for a change until what is returned is dropped.
    pub(super) fn starve(&self) -> mpsc::Sender<()> {
        self.memory_is_bound();
        self.state().spare.starve()
    }

    /// Has a write held up until what is returned is dropped.
    pub(super) fn hold_up(&self, file: impl Into<std::path::PathBuf>) -> mpsc::Sender<()> {
        let (end, waits) = mpsc::channel::<()>();
        self.memory_is_bound();
        let mut state = self.state();
        let change = Change {
            action: "write",
            value: "0",
            path: file.into(),
        };
        let thread = state.take_thread().unwrap().unwrap();
        let make = Box::new(move || {
            let _ended = waits.recv();
            Ok(())
        });
        let held = state.give(thread, change.asked(), make, None).unwrap();
        held.progress.is_late.store(true, Ordering::SeqCst);
        state.held.push(held);
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_values_are_held_up_they_are_not_waited_for_long_in_a_second() {
        let changes = Changes::new();
        let mut state = changes.state();
        state.patience = IN_USE;
        let mut waited = Duration::ZERO;
        for _ in 0..MOST {
            let patience = state.patience_for(false);
            let began = Instant::now().checked_sub(patience).unwrap();
            state.have_waited(false, began);
            waited += patience;
        }
        assert!(waited < Duration::from_millis(500), "{waited:?}");
        assert_eq!(state.patience_for(false), IN_USE.least);
        state.waited.since = Instant::now().checked_sub(SPELL).unwrap();
        assert_eq!(state.patience_for(false), IN_USE.first);
    }
}
