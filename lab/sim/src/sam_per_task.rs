//! SAM as published, task by task, for comparison with SAM-MPH, which added groups of tasks, history and the siblings of
//! a core [SAM-MPH §5].
//!
//! An approximation from its description: tasks begin where Linux forks them, on the emptiest socket. In every interval
//! each pair of sockets may move one task: the one with the most coherence between sockets, if it is above the
//! threshold, goes from the socket with less coherence to the one with more; to an idle core there, else an idle
//! context, else in exchange for a task that does not share. Which tasks share with which is unknown, so programs that
//! share are drawn to the same sockets and may stay apart once these are full.
//!
//! The model counts by program. What a task's counter would show follows from where the tasks were: threads share
//! evenly, so the part of a task's events between sockets is proportional to its peers elsewhere.

use crate::counters::Counted;
use crate::governor::{Decision, Governor};
use crate::machine::Machine;
use mapper_model::{AppId, AppObservation, CpuId, CpuSet, Observation, Trigger};

/// The policy. See the [module](self).
#[derive(Debug)]
pub struct SamPerTask {
    machine: Machine,
    /// Coherence events per cycle from which a task shares.
    sharing_per_cycle: f64,
    programs: Vec<Program>,
}

#[derive(Debug)]
struct Program {
    id: AppId,
    tasks: Vec<CpuId>,
    last: Counted,
    /// Coherence events per cycle of the average task in the last interval.
    all_per_cycle: f64,
    /// Those between sockets, of a task on each socket.
    across_per_cycle: Vec<f64>,
}

/// A task, by index of its program and within it.
#[derive(Clone, Copy)]
struct Task {
    program: usize,
    task: usize,
}

impl SamPerTask {
    /// The policy for a machine; a task shares from so many coherence events per cycle on.
    pub fn new(machine: &Machine, sharing: f64) -> Self {
        Self {
            machine: machine.clone(),
            sharing_per_cycle: sharing,
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
        let here = cores.filter(|core| !core.is_disjoint(socket));
        let idle = here.filter_map(|core| {
            let idle = core.difference(occupied).first_cpu()?;
            Some((core.overlap(occupied), idle))
        });
        idle.min().map(|(_, idle)| idle)
    }

    /// Contexts for so many tasks as Linux forks them; fewer once every context has a task.
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
            last: Counted::of(&observed.reading),
            all_per_cycle: 0.0,
            across_per_cycle: vec![0.0; self.machine.topology().sockets().len()],
        });
    }

    fn tasks_on(&self, socket: &CpuSet) -> Vec<Task> {
        let programs = self.programs.iter().enumerate();
        let tasks = programs
            .flat_map(|(program, p)| (0..p.tasks.len()).map(move |task| Task { program, task }));
        tasks.filter(|at| socket.contains(self.cpu(*at))).collect()
    }

    fn cpu(&self, at: Task) -> CpuId {
        self.programs[at.program].tasks[at.task]
    }

    /// Moves at most one task between two sockets.
    fn consolidate(&mut self, pair: [usize; 2], sockets: &[CpuSet]) {
        let all = |at: &Task| self.programs[at.program].all_per_cycle;
        let tasks = |socket: usize| self.tasks_on(&sockets[socket]).into_iter();
        let coherence = pair.map(|socket| tasks(socket).map(|at| all(&at)).sum::<f64>());
        let [from, to] = match coherence[0] < coherence[1] {
            true => pair,
            false => [pair[1], pair[0]],
        };
        let across = |at: &Task| self.programs[at.program].across_per_cycle[from];
        let sharing = tasks(from).filter(|at| across(at) >= self.sharing_per_cycle);
        let Some(mover) = sharing.max_by(|a, b| across(a).total_cmp(&across(b))) else {
            return;
        };
        let others = tasks(to).filter(|at| all(at) < self.sharing_per_cycle);
        let least = others.min_by(|a, b| all(a).total_cmp(&all(b)));
        if let Some(idle) = self.idle_on(&sockets[to], &self.occupied()) {
            self.programs[mover.program].tasks[mover.task] = idle;
        } else if let Some(other) = least {
            let (here, there) = (self.cpu(mover), self.cpu(other));
            self.programs[mover.program].tasks[mover.task] = there;
            self.programs[other.program].tasks[other.task] = here;
        }
    }
}

impl Program {
    /// Takes the counts since the last reading, during which the tasks were where they are now.
    fn read(&mut self, observed: &AppObservation, sockets: &[CpuSet]) {
        let now = Counted::of(&observed.reading);
        let cycles = (now.cycles - self.last.cycles).max(1.0);
        let per_cycle = |now: f64, last: f64| (now - last).max(0.0) / cycles;
        let across = per_cycle(now.between_sockets, self.last.between_sockets);
        let within = per_cycle(now.within_socket, self.last.within_socket);
        self.all_per_cycle = across + within;
        self.across_per_cycle = between_sockets(across, &self.counts(sockets));
        self.last = now;
    }

    fn counts(&self, sockets: &[CpuSet]) -> Vec<f64> {
        let set: CpuSet = self.tasks.iter().copied().collect();
        let counts = sockets.iter().map(|socket| f64::from(socket.overlap(&set)));
        counts.collect()
    }
}

/// Events between sockets of a task on each socket, given those of the average task and the tasks on each socket: more,
/// the more of its peers are elsewhere.
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
            if self.programs.iter().all(|p| p.id != observed.app) {
                self.arrive(observed);
            }
        }
        let placed = self.programs.iter().filter(|p| !p.tasks.is_empty());
        let sets = placed.map(|p| (p.id, p.tasks.iter().copied().collect()));
        sets.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::machine;

    /// Where the tasks of programs with so many tasks and events per cycle, forked over two sockets, are after so many
    /// intervals with counts by where the tasks are.
    fn after(count: u32, programs: &[(usize, f64)]) -> Vec<Vec<f64>> {
        let mut policy = SamPerTask::new(&machine("ivb40"), 0.78e-3);
        for (id, &(tasks, all_per_cycle)) in (1..).zip(programs) {
            let tasks = policy.fork(tasks);
            policy.programs.push(Program {
                id: AppId(id),
                tasks,
                last: Counted::default(),
                all_per_cycle,
                across_per_cycle: vec![0.0; 2],
            });
        }
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
        policy.programs.iter().map(|p| p.counts(&sockets)).collect()
    }

    #[test]
    fn a_program_that_shares_comes_together_one_task_an_interval() {
        for (intervals, expected) in [(0, [10.0, 10.0]), (1, [11.0, 9.0]), (21, [20.0, 0.0])] {
            assert_eq!(after(intervals, &[(20, 3e-3)]), [expected]);
        }
    }

    #[test]
    fn tasks_that_do_not_share_are_only_moved_out_of_the_way() {
        assert_eq!(after(50, &[(20, 0.1e-3)]), [[10.0, 10.0]]);
        let beside = after(50, &[(20, 3e-3), (20, 0.1e-3)]);
        assert_eq!(beside, [[20.0, 0.0], [0.0, 20.0]]);
    }

    #[test]
    fn programs_that_all_share_stay_apart_as_their_tasks_are_not_distinguished() {
        let counts = after(50, &[(20, 3e-3), (20, 3e-3)]);
        assert_eq!(counts, [[10.0, 10.0], [10.0, 10.0]]);
    }

    #[test]
    fn the_average_over_all_tasks_is_the_count() {
        let counts = [3.0, 5.0, 0.0, 12.0];
        let seen = between_sockets(2e-3, &counts);
        let sum: f64 = counts.iter().zip(&seen).map(|(n, seen)| n * seen).sum();
        assert!((sum / 20.0 - 2e-3).abs() < 1e-12);
        assert!(seen[0] > seen[1] && seen[1] > seen[3]);
    }
}
