//! How fast every program runs in a situation: which program is in which part, on which CPUs.
//!
//! Combines the schedulers ([`Occupancy`]), the performance function and the losses by waiting, relative to the speeds alone
//! on the machine. Situations repeat, so results are kept.

use crate::application::AppModel;
use crate::counters::Requested;
use crate::cycle::{Cycle, Part};
use crate::lending::{self, Loan, Party};
use crate::machine::{LINE_BYTES, Machine};
use crate::occupancy::Occupancy;
use crate::performance::{Events, Solution, solve};
use crate::scenario::{Job, Lending, Scenario, Teams};
use crate::service;
use crate::waiting::{self, Kept};
use mapper_model::{CpuSet, IdleTime};
use std::collections::BTreeMap;

/// The least time in which a runtime notices that its allocation has changed.
const LEAST_REACTION_S: f64 = 1e-3;
/// Rounds that bring the load of a service and its speed together.
const SERVICE_ROUNDS: usize = 4;

/// A program with everything that is constant while it runs.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Its place among the programs of the scenario.
    pub(crate) number: usize,
    pub(crate) job: Job,
    pub(crate) threads: u32,
    pub(crate) cycle: Cycle,
    /// Useful instructions per second alone on the machine, by part.
    pub(crate) alone: Vec<f64>,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Pace {
    /// Progress per second, in seconds of the run alone.
    pub(crate) progress: f64,
    /// What counters see, per second.
    pub(crate) events: Events,
    /// Memory traffic by node, per second; empty if not reported.
    pub(crate) requested: Vec<Requested>,
    pub(crate) p99_s: Option<f64>,
    /// Share of its time that a thread would lose with its data on another node.
    pub(crate) remote_penalty: f64,
    pub(crate) loan: Loan,
}

/// A program's part, and its CPUs unless plain Linux places it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) program: &'a Program,
    pub(crate) part: usize,
    pub(crate) set: Option<&'a CpuSet>,
    /// What it may use besides, if the decision said so.
    pub(crate) idle_time: Option<&'a IdleTime>,
}

impl<'a> Place<'a> {
    fn part(&self) -> &'a Part {
        &self.program.cycle.parts()[self.part]
    }

    const fn app(&self) -> &'a AppModel {
        &self.program.job.app
    }
}

pub(crate) struct Speeds<'a> {
    scenario: &'a Scenario,
    kept: BTreeMap<Vec<u64>, Vec<Pace>>,
}

impl<'a> Speeds<'a> {
    pub(crate) const fn new(scenario: &'a Scenario) -> Self {
        Self {
            scenario,
            kept: BTreeMap::new(),
        }
    }

    const fn machine(&self) -> &'a Machine {
        &self.scenario.machine
    }

    /// A program ready to run: its speed alone is measured here.
    pub(crate) fn program(&self, job: &Job, number: usize) -> Program {
        let offset = self.scenario.constants.cycle_offset * number as f64;
        let mut program = Program {
            number,
            threads: job.threads_on(self.machine()),
            cycle: Cycle::of(&job.app, self.scenario.constants.cycle_s, offset),
            job: job.clone(),
            alone: Vec::new(),
        };
        let alone = |part: usize| {
            let place = Place {
                program: &program,
                part,
                set: None,
                idle_time: None,
            };
            let paces = self.find(&[place]);
            // As long as the speed alone is unknown, progress is in instructions.
            paces.first().map_or(1.0, |pace| pace.progress)
        };
        program.alone = (0..program.cycle.parts().len()).map(alone).collect();
        program
    }

    pub(crate) fn paces(&mut self, places: &[Place<'_>]) -> &[Pace] {
        let mut key = Vec::with_capacity(places.len() * 4);
        for place in places {
            key.push(place.program.number as u64);
            key.push(place.part as u64);
            let words = place.set.map(CpuSet::as_words);
            key.push(words.map_or(u64::MAX, |words| words.len() as u64));
            key.extend_from_slice(words.unwrap_or(&[]));
            let idle = place.idle_time.filter(|idle| !idle.is_none());
            key.push(idle.map_or(0, |idle| u64::from(idle.count)));
            key.extend_from_slice(idle.map_or(&[], |idle| idle.cpus.as_words()));
        }
        if !self.kept.contains_key(&key) {
            let paces = self.find(places);
            self.kept.insert(key.clone(), paces);
        }
        self.kept.get(&key).map_or(&[], Vec::as_slice)
    }

    fn find(&self, places: &[Place<'_>]) -> Vec<Pace> {
        let behaviours: Vec<_> = places.iter().map(|place| place.part().behaviour).collect();
        let mut runnable: Vec<f64> = places.iter().map(|place| self.runnable(place)).collect();
        let serves = |at: &usize| places[*at].app().service.is_some();
        let services: Vec<usize> = (0..places.len()).filter(serves).collect();
        let mut occupancy = Occupancy::idle(self.machine(), 0);
        let (mut solution, mut computing) = (Solution::default(), Vec::new());
        let rounds = if services.is_empty() {
            1
        } else {
            SERVICE_ROUNDS
        };
        for round in 0..rounds {
            for &at in services.iter().filter(|_| round > 0) {
                let Place { program, part, .. } = places[at];
                if let Some(wanted) = program.alone.get(part) {
                    let ipc = solution.apps[at].ipc().max(1e-9);
                    let busy = wanted / ipc / self.machine().spec.clock_hz;
                    runnable[at] = busy.clamp(1e-3, f64::from(program.threads));
                }
            }
            let of = places.iter().zip(&runnable);
            let computes = of.map(|(place, &runnable)| match place.part().parallel {
                true => place.app().computing(runnable),
                false => runnable,
            });
            computing = computes.collect();
            occupancy = self.occupancy(places, &computing);
            solution = solve(
                self.machine(),
                &self.scenario.constants,
                &behaviours,
                &occupancy,
            );
        }
        let threads = places.iter().map(|place| self.runnable_threads(place));
        let (total, threads) = (runnable.iter().sum(), threads.sum());
        let nodes = self.machine().nodes();
        let pace = |(at, place): (usize, &Place<'_>)| {
            let loan = |set| Loan::of(&occupancy, at, set, self.waiting(computing[at], set));
            let seen = Seen {
                runnable: runnable[at],
                waiting: (runnable[at] - computing[at]).max(0.0),
                running: occupancy.running(at),
                total,
                threads,
                speed: solution.apps[at],
                loan: place.set.map_or_else(Loan::default, loan),
                misses_on_socket: &solution.misses_on_socket[at * nodes..][..nodes],
            };
            self.pace(place, &seen)
        };
        places.iter().enumerate().map(pace).collect()
    }

    fn runnable(&self, place: &Place<'_>) -> f64 {
        let (app, program) = (place.app(), place.program);
        if !place.part().parallel {
            return 1.0;
        }
        if let Some(requests) = app.requests() {
            return requests.arrivals_per_s * requests.demand_s;
        }
        let threads = match place.set {
            Some(set) if app.openmp && self.scenario.teams == Teams::Follow => {
                let more = place.idle_time.map_or(0, |idle| idle.count);
                program.threads.min(set.len() + more)
            }
            _ => program.threads,
        };
        f64::from(threads) * app.duty
    }

    /// Threads that may want to run at the same time.
    pub(crate) fn runnable_threads(&self, place: &Place<'_>) -> f64 {
        match place.app().service {
            Some(_) => f64::from(place.program.threads) * place.app().duty,
            None => self.runnable(place),
        }
    }

    /// Threads without a CPU of their own set. At no cost, none of a program that was put on one node.
    fn waiting(&self, runnable: f64, set: &CpuSet) -> f64 {
        let mut nodes = self.machine().topology().sockets().iter();
        let is_free = self.scenario.lending == Lending::WholeCores;
        match is_free && nodes.any(|node| set.is_subset(node)) {
            true => 0.0,
            false => (runnable - f64::from(set.len())).max(0.0),
        }
    }

    fn occupancy(&self, places: &[Place<'_>], runnable: &[f64]) -> Occupancy {
        let machine = self.machine();
        if places.iter().all(|place| place.set.is_none()) {
            return Occupancy::pool(machine, runnable);
        }
        let mut occupancy = Occupancy::idle(machine, places.len());
        for (at, place) in places.iter().enumerate() {
            let set = place.set.unwrap_or_else(|| machine.topology().cpus());
            match place.app().service {
                Some(_) => occupancy.spread(machine, at, runnable[at], set),
                None => occupancy.confine(machine, at, runnable[at], set),
            }
        }
        occupancy.divide();
        let parties = places.iter().enumerate().filter_map(|(app, place)| {
            let own = place.set?;
            Some(Party {
                app,
                own,
                idle_time: place.idle_time,
                waiting: self.waiting(runnable[app], own),
                meets: place.app().barrier_s.is_some(),
            })
        });
        let parties: Vec<Party<'_>> = parties.collect();
        match self.scenario.lending {
            Lending::Never => {}
            Lending::WholeCores => lending::lend_cores(&mut occupancy, machine, &parties),
            Lending::IdleTime => lending::lend(&mut occupancy, machine, &parties),
        }
        occupancy
    }

    fn pace(&self, place: &Place<'_>, seen: &Seen<'_>) -> Pace {
        let (app, program) = (place.app(), place.program);
        let contexts = f64::from(self.machine().contexts());
        let (cpus, crowding) = match place.set {
            Some(set) => {
                let cpus = f64::from(set.len()).max(seen.running);
                (cpus, seen.runnable / cpus)
            }
            None => (contexts, seen.total / contexts),
        };
        let constants = &self.scenario.constants;
        let kept = match (place.set, place.part().parallel) {
            (Some(_), true) => waiting::on_own_cpus(constants, app, crowding),
            (None, true) => waiting::in_pool(constants, app, crowding),
            (None, false) => Kept {
                at_barriers: 1.0,
                ..waiting::in_pool(constants, app, crowding)
            },
            (Some(_), false) => Kept::ALL,
        };
        let speed = seen.speed;
        let remote_penalty = self.remote_penalty(app, &speed);
        let balanced = match place.set {
            None if crowding > 1.0 => 1.0 - self.balancer_loss(program, remote_penalty),
            _ => 1.0,
        };
        let useful = speed.instructions * kept.share() * balanced;
        let spinning = |cycles: f64| if app.spin { cycles } else { 0.0 };
        let at_barriers = spinning(speed.cycles * (1.0 - kept.at_barriers));
        // Threads without a chunk spin until the slowest has done its own.
        let at_loops = spinning(seen.waiting * self.machine().spec.clock_hz);
        let spin_ipc = constants.spin_ipc;
        let spun = at_barriers * spin_ipc + at_loops * spin_ipc;
        let alone = program.alone.get(place.part).copied();
        // A service does no more than is requested.
        let done = match (app.service, alone) {
            (Some(_), Some(alone)) => useful.min(alone),
            _ => useful,
        };
        let latency = app.requests().zip(alone).map(|(requests, alone)| {
            let queued = seen.threads / contexts;
            let delay_s = if place.set.is_none() && queued > 1.0 {
                constants.wake_delay_slices * (queued - 1.0) * constants.slice_s(queued)
            } else {
                0.0
            };
            // A request takes longer when its instructions take more cycles.
            let instructions = alone / requests.arrivals_per_s;
            let now_s = instructions / speed.ipc().max(1e-9) / self.machine().spec.clock_hz;
            let waits_s = service::waiting_p99_s(requests.arrivals_per_s, now_s, cpus);
            let p99_s = requests.tail_s * now_s / requests.demand_s + waits_s + delay_s;
            (p99_s, requests.tail_s / p99_s)
        });
        let scale = kept.share() * balanced;
        let mut events = Events::default();
        events.add(&speed, scale);
        events.cycles = speed.cycles + at_loops;
        events.instructions = done + spun;
        Pace {
            progress: latency.map_or(done / alone.unwrap_or(1.0), |(_, progress)| progress),
            events,
            requested: self.requested(place, seen, scale),
            p99_s: latency.map(|(p99_s, _)| p99_s),
            remote_penalty,
            loan: seen.loan,
        }
    }

    /// Memory traffic by node, if it is reported.
    fn requested(&self, place: &Place<'_>, seen: &Seen<'_>, scale: f64) -> Vec<Requested> {
        if !self.scenario.traffic_by_node {
            return Vec::new();
        }
        let (behaviour, nodes) = (place.part().behaviour, self.machine().nodes());
        let of = |(node, misses): (usize, &f64)| {
            let total = misses * scale * LINE_BYTES;
            Requested {
                total,
                own: total * behaviour.share_of_misses(nodes, node, node),
            }
        };
        seen.misses_on_socket.iter().enumerate().map(of).collect()
    }

    /// Share of its time that an application loses to Linux's load balancer with more runnable threads than contexts; with
    /// fewer there is nothing to move.
    ///
    /// [Specification, "Linux CFS"]: 2 moves per thread and second, half of them across sockets. Each costs what any move
    /// costs ("Migration"): the core part; across sockets also the cache, and for 100 ms the latency to the old node.
    fn balancer_loss(&self, program: &Program, remote_penalty: f64) -> f64 {
        let constants = &self.scenario.constants;
        let across_s = self.refill_s(program) + remote_penalty * constants.move_node_s;
        (constants.balancer_moves_per_s * (constants.move_core_s + 0.5 * across_s)).min(1.0)
    }

    /// Time in which a thread on a new socket fills its cache.
    pub(crate) fn refill_s(&self, program: &Program) -> f64 {
        let app = &program.job.app;
        let mb = app.working_set_mb + app.shared_set_mb / f64::from(program.threads);
        mb * 1e6 / self.scenario.constants.refill_bytes_per_s
    }

    /// Time lost until a team has the size of a smaller set: more threads than CPUs until the next parallel construct.
    pub(crate) fn adapting_s(&self, program: &Program, old: &CpuSet, new: &CpuSet) -> f64 {
        let app = &program.job.app;
        if !app.openmp || self.scenario.teams == Teams::Fixed || new.len() >= old.len() {
            return 0.0;
        }
        let crowding = f64::from(old.len()) / f64::from(new.len().max(1));
        let kept = waiting::on_own_cpus(&self.scenario.constants, app, crowding);
        app.barrier_s.unwrap_or(0.0).max(LEAST_REACTION_S) * (1.0 - kept.share())
    }

    /// Share of its time that a thread loses while its data are on its old node: the share that was local there is
    /// remote, and of the rest, spread evenly, one part is now local. Data on one home node stay where they are.
    fn remote_penalty(&self, app: &AppModel, speed: &Events) -> f64 {
        let others = self.machine().nodes() - 1;
        if speed.cycles <= 0.0 || others == 0 || app.home_node.is_some() {
            return 0.0;
        }
        let gone_away = app.local_share - (1.0 - app.local_share) / others as f64;
        let misses = speed.misses / speed.cycles * self.machine().spec.clock_hz;
        let extra =
            misses * gone_away.max(0.0) * self.machine().mean_remote_s() / app.overlapping_misses;
        extra / (1.0 + extra)
    }
}

struct Seen<'a> {
    runnable: f64,
    /// Of these, threads that wait for the slowest of an uneven loop.
    waiting: f64,
    /// Threads that run, on own and borrowed CPUs.
    running: f64,
    /// Runnable threads of all places.
    total: f64,
    /// Threads that a woken one may find before it, including those of services.
    threads: f64,
    speed: Events,
    loan: Loan,
    misses_on_socket: &'a [f64],
}

#[cfg(test)]
mod tests;
