//! Finding applications whose threads wait for one another by spinning, outside OpenMP.
//!
//! A thread of its own looks at one application after the other, whichever is due first: how many of its threads run or
//! wait for a CPU and, where these are more than its CPUs, what they do ([`spinning_share`]). It is due soon after it came
//! or its CPUs changed, then ever more rarely. The deciding thread only leaves it the present list.
//!
//! What was found is withdrawn after three looks in a row that speak against it: there are no more busy threads than its
//! part of the CPUs, or all of their time is waiting although each has a CPU, so that it is none (or helps nothing).

use crate::config::accounts::Accounts;
use crate::registry::Registry;
use crate::socket::message::{Message, Sender};
use anyhow::Context;
use mapper_host::observe::spinning_share;
use mapper_host::procfs::ProcFs;
use mapper_model::{AppId, Lending, Observation, Resizing, Spinning, ThreadId};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// When an application is looked at after it came or its CPUs changed.
const SOON: Duration = Duration::from_millis(50);
/// When its threads are sampled again, at first and at most, and for how long.
const AGAIN: Duration = Duration::from_secs(1);
const RARELY: Duration = Duration::from_secs(30);
const SAMPLED: Duration = Duration::from_millis(100);
/// While no threads are too many, an application is looked at this often, or so much of the time goes to one.
const CALM: Duration = Duration::from_secs(2);
const CALM_EACH: Duration = Duration::from_millis(20);

/// The share of the CPU time of threads from which on they spin, and from which on they do nothing else.
const SPINS: f64 = 0.5;
const NOTHING_ELSE: f64 = 0.999;
const AGAINST: u32 = 3;

/// Processes and threads of an application that are looked at.
const PROCESSES: usize = 16;
const THREADS: usize = 64;

/// Where the thread finds what to look at.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpinningLookout(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    candidates: Mutex<Option<Vec<Candidate>>>,
    changed: Condvar,
}

#[derive(Clone, Debug)]
struct Candidate {
    app: AppId,
    processes: Vec<u32>,
    /// In force.
    cpus: u32,
    /// Those that are counted for it.
    counted: u32,
    known: Option<Spinning>,
}

impl SpinningLookout {
    pub(crate) fn start(&self, sender: Sender) -> anyhow::Result<()> {
        let (shared, proc) = (Arc::clone(&self.0), ProcFs::system()?);
        let thread = std::thread::Builder::new().name("spinning".to_owned());
        thread
            .spawn(move || look_at_all(&shared, &proc, &sender))
            .context("start the thread that looks for spinning")?;
        Ok(())
    }

    /// Leaves the applications of a decision to the thread, if they are all one user's: those that may share CPUs and run no
    /// OpenMP regions.
    pub(crate) fn note(&self, registry: &Registry, observation: &Observation, accounts: &Accounts) {
        let apps = registry.apps.iter().zip(&observation.apps);
        let candidates = apps.filter(|(_, observed)| {
            let regions = observed
                .reading
                .runtime
                .map_or(0, |runtime| runtime.regions);
            let spec = &observed.spec;
            regions == 0
                && observed.allowed.is_none()
                && observed.fixed.is_none()
                && spec.lending == Lending::WhenIdle
                && spec.resizing == Resizing::Allowed
        });
        let candidates = candidates.map(|(app, _)| Candidate {
            app: app.record.id,
            processes: app
                .tasks
                .processes
                .iter()
                .copied()
                .take(PROCESSES)
                .collect(),
            cpus: app.effective.len(),
            counted: app.counted_cpus(),
            known: app.record.spinning,
        });
        let candidates = match registry.apps.len() > 1 && registry.is_of_one_user(accounts) {
            true => candidates.collect(),
            false => Vec::new(),
        };
        let mut shared = (self.0.candidates.lock()).unwrap_or_else(PoisonError::into_inner);
        *shared = Some(candidates);
        self.0.changed.notify_one();
    }
}

fn look_at_all(shared: &Shared, proc: &ProcFs, sender: &Sender) {
    let mut all: BTreeMap<AppId, Looks> = BTreeMap::new();
    loop {
        let due = all.values().map(|looks| looks.due).min();
        let wait = due.map_or(RARELY, |due| due.saturating_duration_since(Instant::now()));
        let candidates = shared.candidates.lock();
        let candidates = candidates.unwrap_or_else(PoisonError::into_inner);
        let waited = (shared.changed).wait_timeout_while(candidates, wait, |new| new.is_none());
        let new = waited.unwrap_or_else(PoisonError::into_inner).0.take();
        let now = Instant::now();
        if let Some(new) = new {
            let mut before = std::mem::take(&mut all);
            for candidate in new {
                let looks = match before.remove(&candidate.app) {
                    Some(looks) => looks.with(candidate, now),
                    None => Looks::new(candidate, now),
                };
                all.insert(looks.candidate.app, looks);
            }
        }
        let count = u32::try_from(all.len()).unwrap_or(u32::MAX);
        let due = all.values_mut().min_by_key(|looks| looks.due);
        let Some(looks) = due.filter(|looks| looks.due <= now) else {
            continue;
        };
        let before = looks.candidate.known;
        let seen = look(&looks.candidate, proc);
        looks.learn(
            seen,
            Instant::now(),
            CALM.max(CALM_EACH.saturating_mul(count)),
        );
        let (app, spinning) = (looks.candidate.app, looks.candidate.known);
        // It fails while the daemon stops.
        if spinning != before
            && sender
                .blocking_send(Message::Spinning { app, spinning })
                .is_err()
        {
            return;
        }
    }
}

/// What a look has found.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Seen {
    /// No more busy threads than CPUs.
    Calm,
    /// So many, which spin for so much of their time; `None` if that is not known.
    Busy(u32, Option<f64>),
}

fn look(candidate: &Candidate, proc: &ProcFs) -> Seen {
    let processes = candidate.processes.iter();
    let threads = processes.filter_map(|pid| proc.threads_from(*pid, 0, THREADS).ok());
    let threads: Vec<ThreadId> = threads.flatten().take(THREADS).collect();
    let busy = |threads: &[ThreadId]| -> Vec<ThreadId> {
        let runnable = threads.iter().filter(|thread| proc.is_runnable(**thread));
        runnable.copied().collect()
    };
    let enough = match candidate.known {
        Some(_) => candidate.counted,
        None => candidate.cpus,
    } as usize;
    let first = busy(&threads);
    if first.len() <= enough {
        return Seen::Calm;
    }
    let share = spinning_share(&first, SAMPLED);
    let still = busy(&first).len();
    match still > enough {
        true => Seen::Busy(still as u32, share),
        false => Seen::Calm,
    }
}

#[derive(Debug)]
struct Looks {
    candidate: Candidate,
    due: Instant,
    wait: Duration,
    /// Looks in a row that spoke against what is known.
    against: u32,
    /// It was found and turned out not to be so.
    never: bool,
}

impl Looks {
    fn new(candidate: Candidate, now: Instant) -> Self {
        Self {
            candidate,
            due: now + SOON,
            wait: SOON,
            against: 0,
            never: false,
        }
    }

    fn with(self, candidate: Candidate, now: Instant) -> Self {
        match self.candidate.cpus == candidate.cpus {
            true => Self { candidate, ..self },
            false => Self {
                due: now + SOON,
                wait: SOON,
                candidate,
                ..self
            },
        }
    }

    fn learn(&mut self, seen: Seen, now: Instant, calm: Duration) {
        let longer = |wait: Duration, most: Duration| wait.saturating_mul(2).clamp(SOON, most);
        let known = &mut self.candidate.known;
        (self.against, self.wait) = match (*known, seen) {
            (None, Seen::Calm) => (0, longer(self.wait, calm)),
            (None, Seen::Busy(threads, Some(share))) if share >= SPINS && !self.never => {
                *known = Some(Spinning { threads, share });
                (0, AGAIN)
            }
            (None, Seen::Busy(..)) => (0, longer(self.wait.max(AGAIN / 2), RARELY)),
            (Some(_), Seen::Calm) => (self.against + 1, longer(self.wait.max(AGAIN / 2), RARELY)),
            (Some(before), Seen::Busy(threads, share)) => {
                let threads = threads.max(before.threads);
                let has_enough = self.candidate.cpus >= threads;
                let useless = has_enough && share.is_some_and(|share| share >= NOTHING_ELSE);
                *known = Some(Spinning { threads, ..before });
                let against = if useless { self.against + 1 } else { 0 };
                (against, longer(self.wait.max(AGAIN / 2), RARELY))
            }
        };
        if self.against >= AGAINST {
            self.never = seen != Seen::Calm;
            self.against = 0;
            *known = None;
        }
        self.due = now + self.wait;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_withdrawn_after_three_looks_that_speak_against_it() {
        let now = Instant::now();
        let found_on = |cpus: u32, seen: &[Seen]| {
            let candidate = Candidate {
                app: AppId(1),
                processes: Vec::new(),
                cpus,
                counted: 1,
                known: None,
            };
            let mut looks = Looks::new(candidate, now);
            for seen in seen {
                looks.learn(*seen, now, CALM);
                assert!(looks.wait >= SOON && looks.wait <= RARELY);
            }
            looks.candidate.known.map(|spinning| spinning.threads)
        };
        let spins = Seen::Busy(2, Some(0.9));
        let [computes, useless] = [0.3, 1.0].map(|share| Seen::Busy(2, Some(share)));
        for (seen, threads) in [
            (&[Seen::Calm, computes, Seen::Busy(2, None)][..], None),
            (&[computes, spins], Some(2)),
            (&[spins, Seen::Busy(4, None), computes], Some(4)),
            (
                &[spins, Seen::Calm, Seen::Calm, computes, Seen::Calm],
                Some(2),
            ),
            (&[spins, Seen::Calm, Seen::Calm, Seen::Calm], None),
            (&[spins, Seen::Calm, Seen::Calm, Seen::Calm, spins], Some(2)),
            (&[useless, useless, useless, useless], None),
            (&[useless, useless, useless, useless, useless], None),
        ] {
            assert_eq!(found_on(2, seen), threads, "{seen:?}");
        }
        // As long as it has too few CPUs it can do nothing else.
        assert_eq!(found_on(1, &[useless; 9]), Some(2));
    }
}
