//! Runs a scenario from event to event.
//!
//! Between two events all speeds are constant, so the next event can be computed: a part of a cycle ends, a program ends, a
//! decision is due. (The specification has fixed steps; this is their limit, and any [`Scenario::longest_step_s`] gives the
//! same.) Time lost to changes of CPU sets is a debt that is paid before progress continues. A program that starts again is a
//! new application to the governor, as it would be to the daemon.

use crate::counters::Bank;
use crate::cycle::Position;
use crate::governor::{Fixed, Governor, Overhead};
use crate::lending::{Loan, Moves};
use crate::noise::Noise;
use crate::performance::Events;
use crate::scenario::{AppOutcome, GivenUp, Lending, Method, Outcome, Sample, Scenario, Teams};
use crate::service;
use crate::speeds::{Pace, Place, Program, Speeds};
use mapper_model::{
    AppId, AppName, AppObservation, AppSpec, CpuId, CpuSet, IdleTime, IdleTimeUse, Observation,
    Reading, TeamMode, Trigger,
};

/// Events after which a run is stopped: something makes no progress. The longest run of the papers' evaluations, with
/// decisions every 20 ms, has 95,709.
const MOST_EVENTS: u64 = 4_000_000;
/// Nearer events are due.
const NOW_S: f64 = 1e-9;
const ORIGIN_NS: u64 = 1_000_000_000;
/// The largest share that a program loses to decisions.
const MOST_LOST: f64 = 0.9;
const SERVICES_ALONE_S: f64 = 60.0;

/// Runs a scenario under a governor, or under plain Linux.
#[must_use]
pub fn run(scenario: &Scenario, governor: Option<&mut dyn Governor>) -> Outcome {
    let mut run = Run::new(scenario, governor);
    run.start();
    let mut events = 0;
    while run.goes_on() && events < MOST_EVENTS {
        run.pass();
        events += 1;
    }
    run.outcome.given_up = run.goes_on().then(|| run.given_up(events));
    run.finish()
}

/// Runs a scenario with each program on a set that never changes.
#[must_use]
pub fn on_sets(scenario: &Scenario, sets: Vec<CpuSet>) -> Outcome {
    let names = scenario.jobs.iter().map(|job| job.name.clone());
    let mut fixed = Fixed(names.zip(sets).collect());
    run(scenario, Some(&mut fixed))
}

struct Live {
    program: usize,
    id: AppId,
    progress_s: f64,
    /// Progress at which the present run ends.
    end_s: f64,
    set: Option<CpuSet>,
    debt_s: f64,
    bank: Bank,
    spec: AppSpec,
    loan: Loan,
    /// What it may use besides its own CPUs.
    idle_time: IdleTime,
}

/// Counts of a program over all its runs.
#[derive(Clone, Default)]
struct Record {
    outcome: AppOutcome,
    lived_s: f64,
    progress_s: f64,
    /// Latencies, each with its duration.
    latencies: Vec<(f64, f64)>,
    cpu_seconds: f64,
    events: Events,
}

struct Run<'a, 'g> {
    scenario: &'a Scenario,
    governor: Option<&'g mut dyn Governor>,
    overhead: Overhead,
    speeds: Speeds<'a>,
    programs: Vec<Program>,
    live: Vec<Live>,
    /// Programs that have not arrived yet, the next one last.
    coming: Vec<usize>,
    records: Vec<Record>,
    /// The program whose runs end the scenario.
    longest: Option<usize>,
    until_s: f64,
    now_s: f64,
    interval_s: f64,
    next_tick_s: f64,
    last_reading_s: f64,
    tick: u64,
    next_id: u64,
    paces: Vec<Pace>,
    outcome: Outcome,
}

impl<'a, 'g> Run<'a, 'g> {
    fn new(scenario: &'a Scenario, governor: Option<&'g mut dyn Governor>) -> Self {
        let speeds = Speeds::new(scenario);
        let jobs = scenario.jobs.iter().enumerate();
        let programs: Vec<Program> = jobs.map(|(n, job)| speeds.program(job, n)).collect();
        // Alone, including the arrival of late programs.
        let ends_s = |p: usize| {
            let job = &scenario.jobs[p];
            match scenario.method {
                Method::LongestTimes(n) => job.arrives_s + f64::from(n) * job.app.standalone_s,
                _ => job.app.standalone_s,
            }
        };
        let longest = (0..programs.len())
            .filter(|&p| programs[p].job.app.service.is_none())
            .max_by(|&a, &b| ends_s(a).total_cmp(&ends_s(b)).then(b.cmp(&a)));
        let arrivals = scenario.jobs.iter().map(|job| job.arrives_s);
        let until_s = match (scenario.method, longest) {
            (Method::For(seconds), _) => seconds,
            (_, None) => SERVICES_ALONE_S + arrivals.fold(0.0, f64::max),
            _ => f64::INFINITY,
        };
        let decides = governor.as_ref();
        let interval_s = decides.map_or(f64::INFINITY, |g| g.interval_s());
        Self {
            overhead: decides.map_or(Overhead::default(), |g| g.overhead()),
            governor,
            speeds,
            records: vec![Record::default(); programs.len()],
            programs,
            live: Vec::new(),
            coming: Vec::new(),
            longest,
            until_s,
            now_s: 0.0,
            interval_s,
            next_tick_s: interval_s,
            last_reading_s: 0.0,
            tick: 0,
            next_id: 1,
            paces: Vec::new(),
            outcome: Outcome::default(),
            scenario,
        }
    }

    fn start(&mut self) {
        self.coming = (0..self.programs.len()).collect();
        let arrives_s = |p: &usize| self.programs[*p].job.arrives_s;
        let later = |a: &usize, b: &usize| arrives_s(b).total_cmp(&arrives_s(a)).then(b.cmp(a));
        self.coming.sort_by(later);
        self.receive();
        self.decide(Trigger::Membership);
        self.outcome.rewrites = 0;
        self.outcome.moved_contexts = 0;
        self.sample();
    }

    fn next_arrival_s(&self) -> f64 {
        if self.scenario.method == Method::InTurn && !self.live.is_empty() {
            return f64::INFINITY;
        }
        let arrives_s = |&program: &usize| self.programs[program].job.arrives_s;
        self.coming.last().map_or(f64::INFINITY, arrives_s)
    }

    /// Starts the programs that have arrived; returns whether any did.
    fn receive(&mut self) -> bool {
        let mut came = false;
        while self.next_arrival_s() <= self.now_s + NOW_S
            && let Some(program) = self.coming.pop()
        {
            let live = self.born(program, 0.0);
            let place = self.live.partition_point(|l| l.program < program);
            self.live.insert(place, live);
            let outcome = &mut self.records[program].outcome;
            outcome.begin_s.get_or_insert(self.now_s);
            came = true;
        }
        came
    }

    /// A run of a program that has made this progress in earlier runs.
    fn born(&mut self, program: usize, progress_s: f64) -> Live {
        let id = self.next_id;
        self.next_id += 1;
        let Program { job, threads, .. } = &self.programs[program];
        let mut spec = AppSpec::named(AppName::from_lossy(&job.name));
        spec.qos = job.qos;
        spec.cpus = job.cpus;
        if job.app.openmp && self.scenario.teams == Teams::Follow {
            spec.teams = TeamMode::Follow;
        }
        if self.scenario.lending == Lending::IdleTime {
            spec.idle_time = IdleTimeUse::WhileLeft;
        }
        let noise = Noise::new(self.scenario.seed, id);
        Live {
            program,
            id: AppId(id),
            progress_s,
            end_s: progress_s + job.app.standalone_s,
            set: None,
            debt_s: 0.0,
            bank: Bank::new(*threads, (id as u32).wrapping_mul(10_000), noise),
            spec,
            loan: Loan::default(),
            idle_time: IdleTime::default(),
        }
    }

    fn goes_on(&self) -> bool {
        let finished = self.live.is_empty() && self.coming.is_empty();
        if finished || self.now_s >= self.until_s - NOW_S {
            return false;
        }
        match (self.scenario.method, self.longest) {
            (Method::LongestTimes(times), Some(longest)) => {
                self.records[longest].outcome.runs < times
            }
            _ => true,
        }
    }

    fn pass(&mut self) {
        let position = |live: &Live| self.programs[live.program].cycle.position(live.progress_s);
        let positions: Vec<Position> = self.live.iter().map(position).collect();
        let live = self.live.iter().zip(&positions);
        let places = live.map(|(live, position)| Place {
            program: &self.programs[live.program],
            part: position.part,
            set: live.set.as_ref(),
            idle_time: Some(&live.idle_time),
        });
        let places: Vec<Place<'_>> = places.collect();
        self.paces.clear();
        let paces = self.speeds.paces(&places);
        self.paces.extend_from_slice(paces);
        self.settle_loans(&positions);
        for at in 0..self.live.len() {
            self.paces[at].progress *= 1.0 - self.lost_to_decisions(&self.live[at]);
        }
        let mut step_s = (self.next_tick_s - self.now_s)
            .min(self.until_s - self.now_s)
            .min(self.next_arrival_s() - self.now_s);
        if let Some(longest_s) = self.scenario.longest_step_s {
            step_s = step_s.min(longest_s);
        }
        for ((live, position), pace) in self.live.iter().zip(&positions).zip(&self.paces) {
            if self.programs[live.program].job.app.service.is_none() {
                let left_s = position.left_s.min(live.end_s - live.progress_s);
                step_s = step_s.min(live.debt_s + left_s / pace.progress.max(1e-12));
            }
        }
        self.advance(step_s.max(0.0), &positions);
        self.now_s += step_s.max(0.0);
        let ended = self.end_runs();
        let changed = self.receive() || ended;
        if self.now_s >= self.next_tick_s - NOW_S {
            self.decide(Trigger::Interval);
            self.next_tick_s += self.interval_s;
        } else if changed && self.goes_on() {
            self.decide(Trigger::Membership);
        }
        if changed {
            self.sample();
        }
    }

    /// Charges programs for idle CPUs that were lent or taken back.
    fn settle_loans(&mut self, positions: &[Position]) {
        if self.scenario.lending == Lending::Never {
            return;
        }
        let constants = &self.scenario.constants;
        for ((live, pace), position) in self.live.iter_mut().zip(&self.paces).zip(positions) {
            let program = &self.programs[live.program];
            let moves = Moves {
                core_s: constants.move_core_s,
                refill_s: self.speeds.refill_s(program),
                far_s: pace.remote_penalty * constants.move_node_s,
                meets: program.job.app.barrier_s.is_some(),
            };
            let mut before = live.loan;
            if !program.cycle.parts()[position.part].parallel {
                // A sleeping team does not miss what it had borrowed.
                before.borrowed = pace.loan.borrowed;
            }
            if self.scenario.lending != Lending::WholeCores {
                live.debt_s += pace.loan.costs(&before, moves);
            }
            live.loan = pace.loan;
        }
    }

    fn advance(&mut self, step_s: f64, positions: &[Position]) {
        let contexts = self.scenario.machine.contexts();
        for ((live, pace), position) in self.live.iter_mut().zip(&self.paces).zip(positions) {
            let program = &self.programs[live.program];
            let paid_s = live.debt_s.min(step_s);
            live.debt_s -= paid_s;
            let work_s = step_s - paid_s;
            let progress_s = work_s * pace.progress;
            live.progress_s += progress_s;
            let parallel = program.cycle.parts()[position.part].parallel;
            live.bank.count(parallel, &pace.events, work_s);
            live.bank.count_traffic(&pace.requested, work_s);
            // Lost time still occupies the CPUs.
            let idle = Events {
                cycles: pace.events.cycles,
                ..Events::default()
            };
            live.bank.count(parallel, &idle, paid_s);
            let record = &mut self.records[live.program];
            record.lived_s += step_s;
            record.events.add(&pace.events, work_s);
            record.progress_s += progress_s;
            if let Some(p99_s) = pace.p99_s {
                if program.job.app.reports_latency {
                    live.bank.serve(p99_s, step_s);
                }
                let mut known = record.latencies.iter_mut();
                match known.find(|(known_s, _)| *known_s == p99_s) {
                    Some((_, seconds)) => *seconds += step_s,
                    None => record.latencies.push((p99_s, step_s)),
                }
            }
            let cpus = live.set.as_ref().map_or(contexts, CpuSet::len);
            record.cpu_seconds += f64::from(cpus) * step_s;
        }
    }

    fn threads(&self) -> u32 {
        let of = |live: &Live| self.programs[live.program].threads;
        self.live.iter().map(of).sum()
    }

    /// Share of its progress that a program loses to the decisions.
    fn lost_to_decisions(&self, live: &Live) -> f64 {
        let mut lost = self.overhead.everywhere;
        if self.overhead.decision_s > 0.0 && self.interval_s.is_finite() {
            let share = self.overhead.pass_s(self.threads()) / self.interval_s;
            // The daemon runs on the first context.
            match &live.set {
                Some(set) if !set.contains(CpuId(0)) => {}
                // At a barrier all threads wait for the slowest.
                _ if self.programs[live.program].job.app.barrier_s.is_some() => lost += share,
                Some(set) => lost += share / f64::from(set.len().max(1)),
                None => lost += share / f64::from(self.scenario.machine.contexts()),
            }
        }
        lost.min(MOST_LOST)
    }

    /// Ends runs that are complete and starts what follows them; returns whether any did.
    fn end_runs(&mut self) -> bool {
        let mut changed = false;
        for at in (0..self.live.len()).rev() {
            let (program, progress_s) = (self.live[at].program, self.live[at].progress_s);
            let service = self.programs[program].job.app.service.is_some();
            if service || progress_s < self.live[at].end_s - NOW_S {
                continue;
            }
            changed = true;
            let outcome = &mut self.records[program].outcome;
            outcome.runs += 1;
            outcome.first_end_s.get_or_insert(self.now_s);
            match self.scenario.method {
                Method::LongestTimes(_) | Method::For(_) => {
                    self.live[at] = self.born(program, progress_s);
                }
                Method::EachOnce | Method::InTurn => drop(self.live.remove(at)),
            }
        }
        // Services end with the last other program.
        let serves = |live: &Live| self.programs[live.program].job.app.service.is_some();
        let only_services = self.live.iter().all(serves);
        if only_services && self.coming.is_empty() && self.until_s.is_infinite() {
            self.live.clear();
        }
        changed
    }

    fn decide(&mut self, trigger: Trigger) {
        if self.governor.is_none() || self.live.is_empty() {
            return;
        }
        self.tick += 1;
        let observation = self.observe(trigger);
        let pass_s = self.overhead.pass_s(self.threads());
        let Some(governor) = &mut self.governor else {
            return;
        };
        let decision = governor.decide(&observation);
        if trigger == Trigger::Interval {
            governor.charge(pass_s);
            self.interval_s = governor.interval_s();
        }
        self.outcome.decisions += 1;
        let mut moved = false;
        for live in &mut self.live {
            let given = decision.idle_times.iter().find(|(app, _)| *app == live.id);
            let given = given.map_or_else(IdleTime::default, |(_, given)| given.clone());
            if given.cpus != live.idle_time.cpus {
                live.debt_s += self.scenario.constants.cpuset_s;
            }
            live.idle_time = given;
        }
        for (app, set) in decision.cpus {
            if let Some(at) = self.live.iter().position(|live| live.id == app)
                && !(set.is_empty() || self.live[at].set.as_ref() == Some(&set))
            {
                moved = true;
                // A program that starts again is given one, too, as on a machine [MAPPER Table 4, FAIR].
                self.outcome.rewrites += 1;
                self.move_to(at, set);
            }
        }
        if moved {
            self.sample();
        }
    }

    fn observe(&mut self, trigger: Trigger) -> Observation {
        let since_s = self.now_s - self.last_reading_s;
        self.last_reading_s = self.now_s;
        let (constants, machine) = (&self.scenario.constants, &self.scenario.machine);
        let now_ns = ORIGIN_NS + (self.now_s * 1e9).round() as u64;
        let mut apps = Vec::with_capacity(self.live.len());
        for live in &mut self.live {
            let program = &self.programs[live.program];
            let place = Place {
                program,
                part: program.cycle.position(live.progress_s).part,
                set: live.set.as_ref(),
                idle_time: Some(&live.idle_time),
            };
            let runnable = self.speeds.runnable_threads(&place);
            let clock_hz = machine.spec.clock_hz;
            let mut reading = match since_s > 0.0 || trigger == Trigger::Membership {
                true => live.bank.read(constants, clock_hz, since_s, runnable),
                false => Reading::default(),
            };
            reading.reported = live.bank.report(now_ns);
            apps.push(AppObservation {
                app: live.id,
                spec: live.spec.clone(),
                effective: live.set.clone().unwrap_or_default(),
                allowed: None,
                fixed: None,
                reading,
            });
        }
        Observation {
            tick: self.tick,
            now_ns,
            trigger,
            usable: machine.topology().cpus().clone(),
            apps,
        }
    }

    /// Gives a program another set and charges it for the change.
    fn move_to(&mut self, at: usize, set: CpuSet) {
        let constants = &self.scenario.constants;
        let live = &mut self.live[at];
        if let Some(old) = &live.set {
            let program = &self.programs[live.program];
            self.outcome.moved_contexts += u64::from(set.difference(old).len());
            let machine = &self.scenario.machine;
            // A move within a core is free.
            let to_other_cores =
                share_that_moves(old, &set, machine.cores() as usize, |c| machine.core_of(c));
            let across = share_that_moves(old, &set, machine.nodes(), |c| machine.socket_of(c));
            let refill_s = self.speeds.refill_s(program);
            let penalty = self.paces.get(at).map_or(0.0, |pace| pace.remote_penalty);
            live.debt_s += constants.cpuset_s
                + to_other_cores * constants.move_core_s
                + across * (refill_s + penalty * constants.move_node_s)
                + self.speeds.adapting_s(program, old, &set);
        }
        self.records[live.program].outcome.held = Some(set.clone());
        live.set = Some(set);
    }

    fn sample(&mut self) {
        if !self.scenario.timeline {
            return;
        }
        let all = self.scenario.machine.topology().cpus();
        let mut sets = vec![CpuSet::default(); self.programs.len()];
        for live in &self.live {
            sets[live.program] = live.set.as_ref().unwrap_or(all).clone();
        }
        let at_s = self.now_s;
        match self.outcome.timeline.last_mut() {
            Some(last) if last.at_s >= at_s - NOW_S => last.sets = sets,
            Some(last) if last.sets == sets => {}
            _ => self.outcome.timeline.push(Sample { at_s, sets }),
        }
    }

    fn given_up(&self, steps: u64) -> GivenUp {
        let left_s = |live: &&Live| live.end_s - live.progress_s;
        let live = self.live.iter();
        let furthest = live.max_by(|a, b| left_s(a).total_cmp(&left_s(b)));
        let waited_for = match self.scenario.method {
            Method::LongestTimes(_) => self.longest,
            _ => furthest.map(|live| live.program),
        };
        let program = waited_for.or(self.coming.last().copied()).unwrap_or(0);
        let record = &self.records[program];
        GivenUp {
            steps,
            program: self.programs[program].job.name.clone(),
            speed: record.progress_s / record.lived_s.max(1e-12),
        }
    }

    fn finish(mut self) -> Outcome {
        self.outcome.elapsed_s = self.now_s;
        for (job, record) in self.scenario.jobs.iter().zip(self.records) {
            let lived_s = record.lived_s.max(1e-12);
            let cycles = record.events.cycles.max(1e-12);
            let p99_s = service::overall_p99_s(&record.latencies);
            let latency = job.app.requests().zip(p99_s);
            let progress = record.progress_s / lived_s;
            let speed = latency.map_or(progress, |(requests, p99_s)| requests.tail_s / p99_s);
            self.outcome.apps.push(AppOutcome {
                name: job.name.clone(),
                speed,
                p99_s,
                mean_cpus: record.cpu_seconds / lived_s,
                intra_socket_per_cycle: record.events.intra_socket / cycles,
                inter_socket_per_cycle: record.events.inter_socket / cycles,
                ..record.outcome
            });
        }
        self.outcome
    }
}

/// Share of the threads that have to change to another of so many places: threads are spread evenly over a set, before and
/// after.
fn share_that_moves(
    old: &CpuSet,
    new: &CpuSet,
    places: usize,
    place_of: impl Fn(usize) -> usize,
) -> f64 {
    let mut more = vec![0.0; places];
    for (set, sign) in [(new, 1.0), (old, -1.0)] {
        let each = sign / f64::from(set.len().max(1));
        for cpu in set {
            more[place_of(cpu.index())] += each;
        }
    }
    // Less is a rounding error.
    more.into_iter().filter(|more| *more > 1e-12).sum()
}

#[cfg(test)]
mod tests;
