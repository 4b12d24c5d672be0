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

/// Events of all threads of an application, per second or in a time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Events {
    /// Useful instructions.
    pub instructions: f64,
    /// Unhalted cycles.
    pub cycles: f64,
    /// Cycles stalled for memory and for sharing.
    pub stalls: f64,
    /// Last-level cache misses.
    pub misses: f64,
    /// Coherence events between sockets.
    pub inter_socket: f64,
    /// Coherence events between cores of a socket.
    pub intra_socket: f64,
}

impl Events {
    /// Useful instructions per unhalted cycle; 0 when nothing runs.
    pub fn ipc(&self) -> f64 {
        match self.cycles > 0.0 {
            true => self.instructions / self.cycles,
            false => 0.0,
        }
    }

    pub(crate) fn add(&mut self, rates: &Self, seconds: f64) {
        self.instructions += rates.instructions * seconds;
        self.cycles += rates.cycles * seconds;
        self.stalls += rates.stalls * seconds;
        self.misses += rates.misses * seconds;
        self.inter_socket += rates.inter_socket * seconds;
        self.intra_socket += rates.intra_socket * seconds;
    }
}

/// The fixed point.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Solution {
    /// What each application does in a second.
    pub apps: Vec<Events>,
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
    memories: Vec<Response>,
    links: Vec<Response>,
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
        let on_socket = on_socket(machine, occupancy, apps.len());
        let total = on_socket.chunks_exact(nodes).map(|s| s.iter().sum());
        let total: Vec<f64> = total.collect();
        let miss_rates = miss_rates(machine, apps, &on_socket);
        let groups = grouped(machine, occupancy);
        let mut entries = Vec::new();
        for (at, group) in groups.iter().enumerate() {
            let beside = beside(machine, occupancy, group.first);
            let row = occupancy.row(group.first).iter().enumerate();
            for (app, &share) in row.filter(|(_, share)| **share > 0.0) {
                let (place, threads) = (app * nodes + group.socket, total[app]);
                let beside = beside.get(app).copied().unwrap_or(0.0);
                let [core, socket, others] = partners(threads, on_socket[place], beside);
                let stalls = apps[app].sharing_stalls(threads);
                let nearer = constants.intra_socket * socket + constants.within_core * core;
                let per_event = apps[app].stalls_per_event;
                entries.push(Entry {
                    app,
                    group: at,
                    share,
                    misses: miss_rates[place],
                    inter: stalls * others,
                    intra: stalls * nearer,
                    events: [others, socket].map(|share| stalls * share / per_event),
                    core: 1.0,
                    cycles: f64::INFINITY,
                });
            }
        }
        let places = 0..apps.len() * nodes;
        let present = places.filter(|&place| on_socket[place] > 0.0);
        let present: Vec<_> = present
            .map(|place| (place / nodes, place % nodes))
            .collect();
        let shares = apps.iter().flat_map(|app| {
            let pairs = 0..nodes * nodes;
            pairs.map(move |pair| app.share_of_misses(nodes, pair / nodes, pair % nodes))
        });
        let shares: Vec<f64> = shares.collect();
        let mut customers = vec![0.0; nodes];
        for (app, behaviour) in apps.iter().enumerate() {
            for (node, customers) in customers.iter_mut().enumerate() {
                let asks = |&(of, socket): &(usize, usize)| {
                    of == app && shares[(app * nodes + socket) * nodes + node] > 0.0
                };
                if present.iter().any(asks) {
                    *customers += total[app] * behaviour.overlapping_misses;
                }
            }
        }
        let links = machine.link_service_s();
        Self {
            shares,
            present,
            customers,
            memories: vec![Response::of(LINE_BYTES / machine.spec.memory_bytes_per_s); nodes],
            links: links
                .iter()
                .map(|service_s| Response::of(*service_s))
                .collect(),
            utilisation: vec![0.0; nodes],
            latency: vec![0.0; nodes * nodes],
            miss_s: vec![0.0; apps.len() * nodes],
            missing: vec![0.0; apps.len() * nodes],
            events: vec![0.0; nodes],
            link_load: vec![0.0; links.len()],
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
                let links: f64 = route.iter().map(|link| self.links[*link].seconds).sum();
                self.latency[from * nodes + node] = spec.latency_s
                    + route.len() as f64 * spec.remote_latency_s
                    + self.memories[node].seconds
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
        let queueing = 1.0 + mean_way_s(self.machine, &self.links) * clock / EVENT_CYCLES;
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
        self.groups.iter_mut().for_each(|group| group.active = 0.0);
        for entry in &self.entries {
            self.groups[entry.group].active += entry.share * entry.core / entry.cycles;
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
            let memory = &mut self.memories[node];
            let (count, response_s) = (self.customers[node], memory.seconds);
            let arrive_per_s = self.utilisation[node];
            let busy = arrive_per_s * service;
            self.utilisation[node] = busy;
            let target = match self.constants.memory_queue {
                MemoryQueue::Open => open_response_s(self.constants, service, busy),
                MemoryQueue::Finite => finite_response_s(count, arrive_per_s, response_s, service),
            };
            change = change.max(memory.approach(target));
        }
        let services = self.machine.link_service_s().iter().zip(&self.link_load);
        for (link, (service, load)) in self.links.iter_mut().zip(services) {
            let target = open_response_s(self.constants, *service, load * service);
            change = change.max(link.approach(target));
        }
        change
    }

    fn solution(self) -> Solution {
        let clock = self.machine.spec.clock_hz;
        let mut apps = vec![Events::default(); self.apps.len()];
        for entry in &self.entries {
            let group = &self.groups[entry.group];
            let cycles = group.contexts * entry.share * clock;
            let rate = cycles / entry.cycles;
            let speed = &mut apps[entry.app];
            speed.instructions += rate;
            speed.cycles += cycles;
            speed.stalls += cycles - rate * entry.core;
            speed.misses += rate * entry.misses;
            speed.inter_socket += rate * entry.events[0];
            speed.intra_socket += rate * entry.events[1];
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
fn mean_way_s(machine: &Machine, links: &[Response]) -> f64 {
    let nodes = machine.nodes();
    let idle = LINE_BYTES / machine.spec.link_bytes_per_s;
    let links = links.iter().zip(&machine.ways_over_link);
    let passed: f64 = links.map(|(link, ways)| link.seconds * ways).sum();
    (passed + nodes as f64 * idle) / (nodes * nodes) as f64
}

/// A response time on its approach to its fixed point, in shorter steps when it swings about it.
#[derive(Clone, Copy)]
struct Response {
    seconds: f64,
    step: f64,
    last: f64,
}

impl Response {
    const fn of(seconds: f64) -> Self {
        let (step, last) = (STEP, 0.0);
        Self {
            seconds,
            step,
            last,
        }
    }

    /// Moves towards this time; returns the relative change.
    fn approach(&mut self, target_s: f64) -> f64 {
        let distance = target_s - self.seconds;
        self.step = match distance * self.last < 0.0 {
            true => (0.5 * self.step).max(LEAST_STEP),
            false => (1.1 * self.step).min(STEP),
        };
        self.last = distance;
        let step = self.step * distance;
        self.seconds += step;
        step.abs() / self.seconds
    }
}

/// Running threads by application and socket.
fn on_socket(machine: &Machine, occupancy: &Occupancy, apps: usize) -> Vec<f64> {
    let nodes = machine.nodes();
    let mut on_socket = vec![0.0; apps * nodes];
    for context in 0..machine.contexts() as usize {
        let socket = machine.socket_of(context);
        for (app, share) in occupancy.row(context).iter().enumerate() {
            on_socket[app * nodes + socket] += share;
        }
    }
    on_socket
}

/// Misses per instruction by application and socket.
fn miss_rates(machine: &Machine, apps: &[Behaviour], on_socket: &[f64]) -> Vec<f64> {
    let nodes = machine.nodes();
    let mut rates = vec![0.0; apps.len() * nodes];
    for socket in 0..nodes {
        let here = |app: usize| on_socket[app * nodes + socket];
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

/// The shares of a context's sibling, by application; none without one.
fn beside<'a>(machine: &Machine, occupancy: &'a Occupancy, context: usize) -> &'a [f64] {
    let sibling = machine.sibling_of(context);
    sibling.map_or(&[], |sibling| occupancy.row(sibling))
}

/// Puts contexts in the same situation together.
fn grouped(machine: &Machine, occupancy: &Occupancy) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut group_of = Vec::new();
    for context in 0..machine.contexts() as usize {
        let (socket, row) = (machine.socket_of(context), occupancy.row(context));
        let siblings = beside(machine, occupancy, context);
        let same = |group: &Group| {
            group.socket == socket
                && occupancy.row(group.first) == row
                && beside(machine, occupancy, group.first) == siblings
        };
        let at = groups.iter().rposition(same).unwrap_or(groups.len());
        if at == groups.len() {
            groups.push(Group {
                socket,
                contexts: 0.0,
                first: context,
                active: FIRST_ACTIVE * row.iter().sum::<f64>(),
                sibling: None,
            });
        }
        groups[at].contexts += 1.0;
        group_of.push(at);
    }
    for group in &mut groups {
        group.sibling = machine.sibling_of(group.first).map(|s| group_of[s]);
    }
    groups
}

#[cfg(test)]
mod tests;
