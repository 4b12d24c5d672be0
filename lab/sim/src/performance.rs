//! The performance function: how fast every application runs, given who runs where.
//!
//! A useful instruction of a thread takes cycles in the core, for last-level cache misses, and for sharing data:
//!
//! * core: more when the sibling (of the core, or of the module) is busy and not itself stalled;
//! * memory: misses, more of them when the working sets on a socket exceed its cache, each with the latency to its node
//!   and queueing at that node's memory and on the links between;
//! * sharing: a cost that grows with the number of threads and shrinks with nearness, with queueing on the links.
//!
//! Queueing depends on traffic, which depends on speeds: damped iteration finds the fixed point. Contexts in the same
//! situation (socket, own and sibling's occupation) are computed once.
//!
//! Invariants: every rate is finite and not negative; the utilisation of a memory stays below 1.

use crate::application::Behaviour;
use crate::constants::{Constants, MemoryQueue};
use crate::machine::{LINE_BYTES, Machine};
use crate::occupancy::Occupancy;
use crate::queue::{finite_response_s, open_response_s};
use mapper_model::CpuSet;

/// The most iterations; mostly 40 to 80 reach the fixed point.
const ITERATIONS: usize = 400;
/// Weight of the new value in an iteration while values do not swing.
const STEP: f64 = 0.3;
/// The least weight.
const LEAST_STEP: f64 = 1e-3;
/// Relative change below which the fixed point is reached.
const CONVERGED: f64 = 1e-8;
/// Share of its time that a core works in the first iteration.
const FIRST_ACTIVE: f64 = 0.7;
/// Lines that a coherence event between sockets moves.
const LINES_PER_EVENT: f64 = 1.5;
/// Cycles of an event between sockets, to which queueing on links is related.
const EVENT_CYCLES: f64 = 250.0;

/// How fast an application runs.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Speed {
    /// Useful instructions per second, all threads.
    pub instructions_per_s: f64,
    /// Unhalted cycles per second, all threads.
    pub cycles_per_s: f64,
    /// Cycles per second stalled for memory and for sharing.
    pub stalls_per_s: f64,
    /// Last-level cache misses per second.
    pub misses_per_s: f64,
    /// Coherence events between sockets, per second.
    pub inter_socket_per_s: f64,
    /// Coherence events between cores of a socket, per second.
    pub intra_socket_per_s: f64,
}

impl Speed {
    /// Useful instructions per unhalted cycle; 0 when nothing runs.
    pub fn ipc(&self) -> f64 {
        match self.cycles_per_s > 0.0 {
            true => self.instructions_per_s / self.cycles_per_s,
            false => 0.0,
        }
    }
}

/// The fixed point.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Solution {
    /// One entry for each application.
    pub apps: Vec<Speed>,
    /// Share of the time in which each node's memory is busy.
    pub memory_utilisation: Vec<f64>,
    /// Misses per second of each application on each socket, application by application.
    pub misses_on_socket: Vec<f64>,
}

/// Contexts in the same situation.
struct Group {
    socket: usize,
    contexts: f64,
    /// One of them.
    first: usize,
    entries: std::ops::Range<usize>,
    /// The group of the siblings.
    sibling: Option<usize>,
    /// Share of the time in which its cores work, from the last iteration.
    active: f64,
}

/// An application on the contexts of a group.
struct Entry {
    app: usize,
    group: usize,
    share: f64,
    /// Misses per instruction.
    misses: f64,
    /// Stalls per instruction for partners on other sockets over idle links, and on the own socket.
    inter: f64,
    intra: f64,
    /// Coherence events per instruction, between sockets and within one.
    events: [f64; 2],
    core: f64,
    cycles: f64,
}

/// Computes how fast all applications run. `apps` are in the order of the occupancy.
#[must_use]
pub fn solve(
    machine: &Machine,
    constants: &Constants,
    apps: &[Behaviour],
    occupancy: &Occupancy,
) -> Solution {
    let mut solver = Solver::new(machine, constants, apps, occupancy);
    for _ in 0..ITERATIONS {
        if solver.iterate() < CONVERGED {
            break;
        }
    }
    solver.solution()
}

/// The same with programs that are each spread over a set, with a thread for each CPU.
pub(crate) fn solve_spread(
    machine: &Machine,
    constants: &Constants,
    programs: &[(Behaviour, CpuSet)],
) -> Solution {
    let mut occupancy = Occupancy::idle(machine, programs.len());
    for (at, (_, set)) in programs.iter().enumerate() {
        occupancy.spread(machine, at, f64::from(set.len()), set);
    }
    let apps: Vec<Behaviour> = programs.iter().map(|(app, _)| *app).collect();
    solve(machine, constants, &apps, &occupancy)
}

struct Solver<'a> {
    machine: &'a Machine,
    constants: &'a Constants,
    apps: &'a [Behaviour],
    groups: Vec<Group>,
    entries: Vec<Entry>,
    /// Share of an application's misses on a socket (row) that goes to a node (column), by app.
    shares: Vec<f64>,
    /// Pairs of an application and a socket on which it runs.
    present: Vec<(usize, usize)>,
    /// Misses that may be under way to each node.
    customers: Vec<f64>,
    memory_s: Vec<f64>,
    link_s: Vec<f64>,
    memory_swing: Vec<Swing>,
    link_swing: Vec<Swing>,
    utilisation: Vec<f64>,
    // Scratch: latency between nodes, latency and misses by app and socket, events by socket, load by link, threads
    // that wait at a node.
    latency: Vec<f64>,
    miss_s: Vec<f64>,
    missing: Vec<f64>,
    events: Vec<f64>,
    link_load: Vec<f64>,
    waiting: Vec<f64>,
}

impl<'a> Solver<'a> {
    fn new(
        machine: &'a Machine,
        constants: &'a Constants,
        apps: &'a [Behaviour],
        occupancy: &Occupancy,
    ) -> Self {
        let nodes = machine.nodes();
        let running = Running::of(machine, occupancy, apps.len());
        let miss_rates = miss_rates(machine, apps, &running);
        let (groups, mut entries) = grouped(machine, occupancy, apps.len());
        for at in 0..entries.len() {
            let (app, group) = (entries[at].app, &groups[entries[at].group]);
            let place = app * nodes + group.socket;
            let beside = group.sibling.map_or(0.0, |sibling| {
                let others = entries[groups[sibling].entries.clone()].iter();
                let own = others.filter(|other| other.app == app);
                own.map(|other| other.share).sum()
            });
            let threads = running.total[app];
            let [core, socket, others] = partners(threads, running.on_socket[place], beside);
            let entry = &mut entries[at];
            entry.misses = miss_rates[place];
            let stalls = apps[app].sharing_stalls(threads);
            entry.inter = stalls * others;
            entry.intra = stalls * (constants.intra_socket * socket + constants.within_core * core);
            let per_event = apps[app].stalls_per_event;
            entry.events = [others, socket].map(|share| stalls * share / per_event);
        }
        let places = 0..apps.len() * nodes;
        let present = places.filter(|&place| running.on_socket[place] > 0.0);
        let present = present.map(|place| (place / nodes, place % nodes));
        let shares = apps.iter().flat_map(|app| {
            let pairs = 0..nodes * nodes;
            pairs.map(move |pair| app.share_of_misses(nodes, pair / nodes, pair % nodes))
        });
        let shares: Vec<f64> = shares.collect();
        let mut customers = vec![0.0; nodes];
        for (app, behaviour) in apps.iter().enumerate() {
            for (node, customers) in customers.iter_mut().enumerate() {
                let mut places = app * nodes..(app + 1) * nodes;
                let asks = |place: usize| {
                    running.on_socket[place] > 0.0 && shares[place * nodes + node] > 0.0
                };
                if places.any(asks) {
                    *customers += running.total[app] * behaviour.overlapping_misses;
                }
            }
        }
        Self {
            shares,
            present: present.collect(),
            customers,
            memory_s: vec![LINE_BYTES / machine.spec.memory_bytes_per_s; nodes],
            link_s: machine.link_service_s().to_vec(),
            memory_swing: vec![Swing::default(); nodes],
            link_swing: vec![Swing::default(); machine.link_service_s().len()],
            utilisation: vec![0.0; nodes],
            latency: vec![0.0; nodes * nodes],
            miss_s: vec![0.0; apps.len() * nodes],
            missing: vec![0.0; apps.len() * nodes],
            events: vec![0.0; nodes],
            link_load: vec![0.0; machine.link_service_s().len()],
            waiting: vec![0.0; nodes],
            machine,
            constants,
            apps,
            groups,
            entries,
        }
    }

    /// One iteration; returns the largest relative change.
    fn iterate(&mut self) -> f64 {
        self.find_latencies();
        let change = self.find_speeds();
        self.find_loads();
        change.max(self.find_response_times())
    }

    fn find_latencies(&mut self) {
        let nodes = self.machine.nodes();
        let spec = &self.machine.spec;
        for from in 0..nodes {
            for node in 0..nodes {
                // The line comes from the node to the socket.
                let route = self.machine.route(node, from);
                let links: f64 = route.iter().map(|link| self.link_s[*link]).sum();
                self.latency[from * nodes + node] = spec.latency_s
                    + route.len() as f64 * spec.remote_latency_s
                    + self.memory_s[node]
                    + links;
            }
        }
        for &(app, socket) in &self.present {
            let shares = &self.shares[(app * nodes + socket) * nodes..][..nodes];
            let latencies = &self.latency[socket * nodes..][..nodes];
            self.miss_s[app * nodes + socket] =
                shares.iter().zip(latencies).map(|(s, l)| s * l).sum();
        }
    }

    /// Cycles per instruction of every entry; returns the largest relative change.
    fn find_speeds(&mut self) -> f64 {
        let nodes = self.machine.nodes();
        let clock = self.machine.spec.clock_hz;
        let queueing = 1.0 + mean_way_s(self.machine, &self.link_s) * clock / EVENT_CYCLES;
        self.missing.fill(0.0);
        self.events.fill(0.0);
        let mut change: f64 = 0.0;
        for at in 0..self.entries.len() {
            let entry = &self.entries[at];
            let group = &self.groups[entry.group];
            let app = &self.apps[entry.app];
            let rivals = group.sibling.map_or(0.0, |s| self.groups[s].active);
            let slowdown = self.machine.sibling_slowdown(app.smt_slowdown);
            let core = app.core_cycles * (1.0 + slowdown * rivals.min(1.0));
            let place = entry.app * nodes + group.socket;
            let memory = entry.misses * clock * self.miss_s[place] / app.overlapping_misses;
            let cycles = core + memory + entry.inter * queueing + entry.intra;
            let rate = group.contexts * entry.share * clock / cycles;
            self.missing[place] += rate * entry.misses;
            self.events[group.socket] += rate * entry.events[0];
            let before = entry.cycles;
            change = change.max((cycles - before).abs() / cycles);
            let entry = &mut self.entries[at];
            entry.core = core;
            entry.cycles = cycles;
        }
        // The siblings see each other as they were in the iteration before.
        for group in &mut self.groups {
            let entries = self.entries[group.entries.clone()].iter();
            let active = entries.map(|entry| entry.share * entry.core / entry.cycles);
            group.active = active.sum();
        }
        change
    }

    fn find_loads(&mut self) {
        let nodes = self.machine.nodes();
        self.utilisation.fill(0.0);
        self.waiting.fill(0.0);
        self.link_load.fill(0.0);
        for &(app, socket) in &self.present {
            let missing = self.missing[app * nodes + socket];
            for node in 0..nodes {
                let load = missing * self.shares[(app * nodes + socket) * nodes + node];
                self.utilisation[node] += load;
                self.waiting[node] +=
                    load * self.latency[socket * nodes + node] / self.apps[app].overlapping_misses;
                for link in self.machine.route(node, socket) {
                    self.link_load[*link] += load;
                }
            }
        }
        if nodes > 1 {
            for (socket, events) in self.events.iter().enumerate() {
                let lines = LINES_PER_EVENT * events / (nodes - 1) as f64;
                if lines > 0.0 {
                    // The route of a node to itself has no links.
                    let routes = (0..nodes).map(|node| self.machine.route(node, socket));
                    for link in routes.flatten() {
                        self.link_load[*link] += lines;
                    }
                }
            }
        }
    }

    /// Moves response times towards what the loads make of them; returns the largest change.
    fn find_response_times(&mut self) -> f64 {
        let mut change: f64 = 0.0;
        let loss = self.constants.row_buffer_loss;
        for node in 0..self.machine.nodes() {
            let streams = (self.waiting[node] - 1.0).max(0.0) / self.constants.row_buffer_threads;
            let service = LINE_BYTES
                / (self.machine.spec.memory_bytes_per_s * (1.0 - loss * streams.min(1.0)));
            let (count, response_s) = (self.customers[node], self.memory_s[node]);
            let arrive_per_s = self.utilisation[node];
            let busy = arrive_per_s * service;
            self.utilisation[node] = busy;
            let target = match self.constants.memory_queue {
                MemoryQueue::Open => open_response_s(self.constants, service, busy),
                MemoryQueue::Finite => finite_response_s(count, arrive_per_s, response_s, service),
            };
            let swing = &mut self.memory_swing[node];
            change = change.max(swing.towards(&mut self.memory_s[node], target));
        }
        for (link, service) in self.machine.link_service_s().iter().enumerate() {
            let busy = self.link_load[link] * service;
            let target = open_response_s(self.constants, *service, busy);
            let swing = &mut self.link_swing[link];
            change = change.max(swing.towards(&mut self.link_s[link], target));
        }
        change
    }

    fn solution(self) -> Solution {
        let clock = self.machine.spec.clock_hz;
        let mut apps = vec![Speed::default(); self.apps.len()];
        for entry in &self.entries {
            let group = &self.groups[entry.group];
            let cycles = group.contexts * entry.share * clock;
            let rate = cycles / entry.cycles;
            let speed = &mut apps[entry.app];
            speed.instructions_per_s += rate;
            speed.cycles_per_s += cycles;
            speed.stalls_per_s += cycles - rate * entry.core;
            speed.misses_per_s += rate * entry.misses;
            speed.inter_socket_per_s += rate * entry.events[0];
            speed.intra_socket_per_s += rate * entry.events[1];
        }
        Solution {
            apps,
            memory_utilisation: self.utilisation,
            misses_on_socket: self.missing,
        }
    }
}

/// Time of a line on links, averaged over all entries of the matrix of nodes: the diagonal is always idle; a route of
/// two hops waits at both links [specification, "Coherence": Rl̄].
fn mean_way_s(machine: &Machine, link_s: &[f64]) -> f64 {
    let nodes = machine.nodes();
    let idle = LINE_BYTES / machine.spec.link_bytes_per_s;
    let links = link_s.iter().zip(machine.ways_over_link());
    let passed: f64 = links.map(|(response_s, ways)| response_s * ways).sum();
    (passed + nodes as f64 * idle) / (nodes * nodes) as f64
}

/// The approach of a response time to its fixed point, in shorter steps when it swings about it.
#[derive(Clone, Copy)]
struct Swing {
    step: f64,
    last: f64,
}

impl Default for Swing {
    fn default() -> Self {
        Self {
            step: STEP,
            last: 0.0,
        }
    }
}

impl Swing {
    fn towards(&mut self, response_s: &mut f64, target_s: f64) -> f64 {
        let distance = target_s - *response_s;
        self.step = match distance * self.last < 0.0 {
            true => (0.5 * self.step).max(LEAST_STEP),
            false => (1.1 * self.step).min(STEP),
        };
        self.last = distance;
        let step = self.step * distance;
        *response_s += step;
        step.abs() / *response_s
    }
}

struct Running {
    on_socket: Vec<f64>,
    total: Vec<f64>,
}

impl Running {
    fn of(machine: &Machine, occupancy: &Occupancy, apps: usize) -> Self {
        let nodes = machine.nodes();
        let mut on_socket = vec![0.0; apps * nodes];
        for context in 0..machine.contexts() as usize {
            let socket = machine.socket_of(context);
            for (app, share) in occupancy.row(context).iter().enumerate() {
                on_socket[app * nodes + socket] += share;
            }
        }
        let total = on_socket.chunks_exact(nodes).map(|s| s.iter().sum());
        Self {
            total: total.collect(),
            on_socket,
        }
    }
}

/// Misses per instruction by application and socket.
fn miss_rates(machine: &Machine, apps: &[Behaviour], running: &Running) -> Vec<f64> {
    let nodes = machine.nodes();
    let mut rates = vec![0.0; apps.len() * nodes];
    for socket in 0..nodes {
        let here = |app: usize| running.on_socket[app * nodes + socket];
        let present = apps.iter().enumerate().filter(|(app, _)| here(*app) > 0.0);
        let demand = present.map(|(app, a)| a.shared_set_mb + a.working_set_mb * here(app));
        let demand_mb = demand.sum::<f64>().max(1e-12);
        let overflow = (1.0 - machine.spec.llc_mb / demand_mb).max(0.0);
        for (app, behaviour) in apps.iter().enumerate() {
            let [low, high] = behaviour.misses;
            rates[app * nodes + socket] = low + (high - low) * overflow;
        }
    }
    rates
}

/// The shares of a thread's partners in its core, else in its socket, and in other sockets, if all threads share with all:
/// `threads` in all, `here` of them on the socket, `beside` on the sibling context.
fn partners(threads: f64, here: f64, beside: f64) -> [f64; 3] {
    let others = threads - 1.0;
    if others <= 0.0 {
        return [0.0; 3];
    }
    let own_core = (beside / others).min(1.0);
    let own_socket = ((here - 1.0 - beside).max(0.0) / others).min(1.0 - own_core);
    [own_core, own_socket, 1.0 - own_core - own_socket]
}

/// Puts contexts in the same situation together.
fn grouped(machine: &Machine, occupancy: &Occupancy, apps: usize) -> (Vec<Group>, Vec<Entry>) {
    let contexts = machine.contexts() as usize;
    let mut groups: Vec<Group> = Vec::new();
    let mut entries = Vec::new();
    let mut group_of = Vec::with_capacity(contexts);
    let idle = vec![0.0; apps];
    let beside = |context: usize| {
        let sibling = machine.sibling_of(context);
        sibling.map_or(idle.as_slice(), |sibling| occupancy.row(sibling))
    };
    for context in 0..contexts {
        let socket = machine.socket_of(context);
        let row = occupancy.row(context);
        let same = |group: &Group| {
            group.socket == socket
                && occupancy.row(group.first) == row
                && beside(group.first) == beside(context)
        };
        if let Some(at) = groups.iter().rposition(same) {
            groups[at].contexts += 1.0;
            group_of.push(at);
            continue;
        }
        let begin = entries.len();
        for (app, &share) in row.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            entries.push(Entry {
                app,
                group: groups.len(),
                share,
                misses: 0.0,
                inter: 0.0,
                intra: 0.0,
                events: [0.0; 2],
                core: 1.0,
                cycles: f64::INFINITY,
            });
        }
        group_of.push(groups.len());
        groups.push(Group {
            socket,
            contexts: 1.0,
            first: context,
            active: FIRST_ACTIVE * row.iter().sum::<f64>(),
            entries: begin..entries.len(),
            sibling: None,
        });
    }
    for group in &mut groups {
        group.sibling = machine.sibling_of(group.first).map(|s| group_of[s]);
    }
    (groups, entries)
}

#[cfg(test)]
mod tests;
