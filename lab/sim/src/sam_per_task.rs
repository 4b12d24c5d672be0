//! SAM as published, task by task, for comparison with SAM-MPH, which added groups of tasks, history
//! and the siblings of a core [SAM-MPH §5].
//!
//! An approximation from its description: tasks begin where Linux forks them, on the emptiest socket.
//! In every interval each pair of sockets may move one task: the one with the most coherence between
//! sockets, if it is above the threshold, goes from the socket with less coherence to the one with
//! more; to an idle core there, else an idle context, else in place of a task that does not share.
//! Nobody asks whose tasks share with whom: programs that share are drawn to the same sockets and may
//! stay torn apart once these are full.
//!
//! The model counts by program. What a counter of each task would show follows from where the tasks
//! were: threads share alike with each other, so that the part between sockets of a task's events is in
//! proportion to its peers elsewhere. Nothing else is taken from the model.

use crate::governor::{Decision, Governor, Overhead};
use crate::machine::Machine;
use mapper_model::{AppId, AppObservation, CpuId, CpuSet, Event, Observation, Trigger};

/// The policy. See the [module](self).
#[derive(Debug)]
pub struct SamPerTask {
    machine: Machine,
    interval_s: f64,
    overhead: Overhead,
    /// Coherence events per cycle from which a task shares.
    sharing_per_cycle: f64,
    programs: Vec<Program>,
}

/// A program's tasks and what was counted of it.
#[derive(Debug)]
struct Program {
    id: AppId,
    /// The context of each task.
    tasks: Vec<CpuId>,
    last: Counted,
    /// Coherence events per cycle of the average task in the last interval.
    all_per_cycle: f64,
    /// Those between sockets, of a task on each socket.
    across_per_cycle: Vec<f64>,
}

/// Cumulative counts of all tasks.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    cycles: f64,
    between_sockets: f64,
    within_socket: f64,
}

/// A task, by the places of its program and of itself there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Task {
    program: usize,
    task: usize,
}

impl SamPerTask {
    /// The policy for a machine; a task shares from so many coherence events per cycle.
    #[must_use]
    pub fn new(
        machine: &Machine,
        interval_s: f64,
        overhead: Overhead,
        sharing_per_cycle: f64,
    ) -> Self {
        Self {
            machine: machine.clone(),
            interval_s,
            overhead,
            sharing_per_cycle,
            programs: Vec::new(),
        }
    }

    fn occupied(&self) -> CpuSet {
        let tasks = self.programs.iter().flat_map(|program| &program.tasks);
        tasks.copied().collect()
    }

    /// The idle context of a socket whose core is the emptiest.
    fn idle_on(&self, socket: &CpuSet, occupied: &CpuSet) -> Option<CpuId> {
        let cores = self.machine.topology().cores().iter();
        cores
            .filter(|core| !core.is_disjoint(socket))
            .filter_map(|core| {
                let idle = core.difference(occupied).first_cpu()?;
                Some((core.overlap(occupied), idle))
            })
            .min()
            .map(|(_, idle)| idle)
    }

    /// Contexts for so many tasks as Linux forks them; fewer where every context has a task already.
    fn fork(&self, tasks: usize) -> Vec<CpuId> {
        let mut occupied = self.occupied();
        let mut placed = Vec::new();
        for _ in 0..tasks {
            let sockets = self.machine.topology().sockets().iter();
            let emptiest = sockets
                .filter(|socket| !socket.is_subset(&occupied))
                .min_by_key(|socket| socket.overlap(&occupied));
            let Some(cpu) = emptiest.and_then(|socket| self.idle_on(socket, &occupied)) else {
                break;
            };
            occupied.insert(cpu);
            placed.push(cpu);
        }
        placed
    }

    fn arrive(&mut self, observed: &AppObservation) {
        self.programs.push(Program {
            id: observed.app,
            tasks: self.fork(observed.reading.threads.len()),
            last: Counted::of(observed),
            all_per_cycle: 0.0,
            across_per_cycle: vec![0.0; self.machine.topology().sockets().len()],
        });
    }

    /// The tasks that are on a socket.
    fn tasks_on(&self, socket: &CpuSet) -> Vec<Task> {
        let programs = self.programs.iter().enumerate();
        programs
            .flat_map(|(program, p)| (0..p.tasks.len()).map(move |task| Task { program, task }))
            .filter(|at| socket.contains(self.cpu(*at)))
            .collect()
    }

    fn cpu(&self, at: Task) -> CpuId {
        self.programs[at.program].tasks[at.task]
    }

    /// Moves at most one task between two sockets.
    fn consolidate(&mut self, pair: [usize; 2], sockets: &[CpuSet]) {
        let coherence = pair.map(|socket| -> f64 {
            let tasks = self.tasks_on(&sockets[socket]).into_iter();
            tasks
                .map(|at| self.programs[at.program].all_per_cycle)
                .sum()
        });
        let [from, to] = match coherence[0] < coherence[1] {
            true => pair,
            false => [pair[1], pair[0]],
        };
        let across = |at: &Task| self.programs[at.program].across_per_cycle[from];
        let most = self
            .tasks_on(&sockets[from])
            .into_iter()
            .filter(|at| across(at) >= self.sharing_per_cycle)
            .max_by(|a, b| across(a).total_cmp(&across(b)));
        let Some(mover) = most else {
            return;
        };
        if let Some(idle) = self.idle_on(&sockets[to], &self.occupied()) {
            self.programs[mover.program].tasks[mover.task] = idle;
            return;
        }
        let all = |at: &Task| self.programs[at.program].all_per_cycle;
        let least = self
            .tasks_on(&sockets[to])
            .into_iter()
            .filter(|at| all(at) < self.sharing_per_cycle)
            .min_by(|a, b| all(a).total_cmp(&all(b)));
        if let Some(other) = least {
            let (here, there) = (self.cpu(mover), self.cpu(other));
            self.programs[mover.program].tasks[mover.task] = there;
            self.programs[other.program].tasks[other.task] = here;
        }
    }
}

impl Counted {
    fn of(observed: &AppObservation) -> Self {
        let sum = |event: Event| -> f64 {
            let threads = observed.reading.threads.iter();
            threads
                .filter_map(|thread| thread.counters.get(event))
                .map(|counter| counter.value as f64)
                .sum()
        };
        Self {
            cycles: sum(Event::Cycles),
            between_sockets: sum(Event::RemoteHitModified),
            within_socket: sum(Event::SnoopHit) + sum(Event::SnoopHitModified),
        }
    }
}

impl Program {
    /// Takes what was counted since the last reading, during which the tasks were where they are.
    fn read(&mut self, observed: &AppObservation, sockets: &[CpuSet]) {
        let now = Counted::of(observed);
        let cycles = (now.cycles - self.last.cycles).max(1.0);
        let per_cycle = |now: f64, last: f64| (now - last).max(0.0) / cycles;
        let across = per_cycle(now.between_sockets, self.last.between_sockets);
        let within = per_cycle(now.within_socket, self.last.within_socket);
        self.all_per_cycle = across + within;
        self.across_per_cycle = between_sockets(across, &self.counts(sockets));
        self.last = now;
    }

    /// Its tasks on each socket.
    fn counts(&self, sockets: &[CpuSet]) -> Vec<f64> {
        let set: CpuSet = self.tasks.iter().copied().collect();
        let counts = sockets.iter().map(|socket| f64::from(socket.overlap(&set)));
        counts.collect()
    }
}

/// What a task on each socket sees of events between sockets where the average task sees so many and
/// the sockets have these counts of tasks: more, the more of its peers are elsewhere.
fn between_sockets(average: f64, counts: &[f64]) -> Vec<f64> {
    let all: f64 = counts.iter().sum();
    let elsewhere: f64 = counts.iter().map(|here| here * (all - here)).sum();
    let seen = counts.iter().map(|here| match elsewhere > 0.0 {
        true => average * (all - here) * all / elsewhere,
        false => 0.0,
    });
    seen.collect()
}

impl Governor for SamPerTask {
    fn interval_s(&self) -> f64 {
        self.interval_s
    }

    fn overhead(&self) -> Overhead {
        self.overhead
    }

    fn decide(&mut self, observation: &Observation) -> Decision {
        let here = |id: AppId| observation.apps.iter().find(|app| app.app == id);
        self.programs.retain(|program| here(program.id).is_some());
        let sockets = self.machine.topology().sockets().to_vec();
        if observation.trigger == Trigger::Interval {
            for program in &mut self.programs {
                if let Some(observed) = here(program.id) {
                    program.read(observed, &sockets);
                }
            }
            for second in 1..sockets.len() {
                for first in 0..second {
                    self.consolidate([first, second], &sockets);
                }
            }
        }
        for observed in &observation.apps {
            if self
                .programs
                .iter()
                .all(|program| program.id != observed.app)
            {
                self.arrive(observed);
            }
        }
        let placed = self.programs.iter().filter(|p| !p.tasks.is_empty());
        Decision {
            sets: placed
                .map(|p| (p.id, p.tasks.iter().copied().collect()))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    fn machine() -> Machine {
        presets::machine("ivb40").unwrap()
    }

    /// A policy with programs of so many tasks, alternating over the sockets, that see so many events
    /// per cycle.
    fn policy(programs: &[(usize, f64)]) -> SamPerTask {
        let machine = machine();
        let mut policy = SamPerTask::new(&machine, 0.1, Overhead::default(), 0.78e-3);
        for (at, (tasks, events)) in programs.iter().enumerate() {
            let placed = policy.fork(*tasks);
            policy.programs.push(Program {
                id: AppId(at as u64 + 1),
                tasks: placed,
                last: Counted::default(),
                all_per_cycle: *events,
                across_per_cycle: vec![0.0; 2],
            });
        }
        policy
    }

    /// Intervals in which the model's counters are played by where the tasks are.
    fn intervals(policy: &mut SamPerTask, count: u32) -> Vec<Vec<f64>> {
        let sockets = policy.machine.topology().sockets().to_vec();
        for _ in 0..count {
            for program in &mut policy.programs {
                let counts = program.counts(&sockets);
                let all: f64 = counts.iter().sum();
                let pairs: f64 = counts.iter().map(|here| here * (all - here)).sum();
                let average = program.all_per_cycle * pairs / (all * (all - 1.0));
                program.across_per_cycle = between_sockets(average, &counts);
            }
            policy.consolidate([0, 1], &sockets);
            let occupied: usize = policy.programs.iter().map(|p| p.tasks.len()).sum();
            assert_eq!(policy.occupied().len() as usize, occupied, "one each");
        }
        let counts = policy.programs.iter().map(|p| p.counts(&sockets));
        counts.collect()
    }

    #[test]
    fn a_program_that_shares_comes_together_one_task_an_interval() {
        let mut policy = policy(&[(20, 3e-3)]);
        assert_eq!(intervals(&mut policy, 0), [[10.0, 10.0]]);
        assert_eq!(intervals(&mut policy, 1), [[11.0, 9.0]]);
        assert_eq!(intervals(&mut policy, 20), [[20.0, 0.0]]);
    }

    #[test]
    fn tasks_that_do_not_share_are_only_moved_out_of_the_way() {
        let mut alone = policy(&[(20, 0.1e-3)]);
        assert_eq!(intervals(&mut alone, 50), [[10.0, 10.0]]);
        let mut beside = policy(&[(20, 3e-3), (20, 0.1e-3)]);
        assert_eq!(intervals(&mut beside, 50), [[20.0, 0.0], [0.0, 20.0]]);
    }

    #[test]
    fn programs_that_all_share_stay_torn_apart_as_nobody_knows_whose_tasks_are_whose() {
        let mut policy = policy(&[(20, 3e-3), (20, 3e-3)]);
        let counts = intervals(&mut policy, 50);
        assert_eq!(counts, [[10.0, 10.0], [10.0, 10.0]]);
    }

    #[test]
    fn the_average_over_all_tasks_is_what_was_counted() {
        let counts = [3.0, 5.0, 0.0, 12.0];
        let seen = between_sockets(2e-3, &counts);
        let sum: f64 = counts.iter().zip(&seen).map(|(n, seen)| n * seen).sum();
        assert!((sum / 20.0 - 2e-3).abs() < 1e-12);
        assert!(seen[0] > seen[1] && seen[1] > seen[3]);
    }
}
