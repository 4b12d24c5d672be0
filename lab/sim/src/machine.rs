//! A machine: sockets with cores, a last-level cache and a memory controller each, and links.
//!
//! Every socket is a NUMA node. CPUs are numbered as Linux does on such machines: first one hardware
//! thread of every core, socket by socket, then the second ones in the same order. Where `links` are
//! given the machine is only partly connected: a line then goes over the route with the fewest hops,
//! ties to the lowest node in between [readings "NuCore integer program", Machines].
//!
//! In a machine of *modules* two neighbouring cores share their floating-point unit and their second-level
//! cache. They are cores to every scheduler and policy, and what a hardware thread is to the other of its
//! core to each other, except for how much they slow each other down.
//!
//! Invariant: every node reaches every other; every rate and latency is positive and finite.

use mapper_model::topology::Shape;
use mapper_model::{CpuId, Topology};
use serde::{Deserialize, Serialize};

/// Bytes of a cache line.
pub const LINE_BYTES: f64 = 64.0;

/// What describes a machine, as read from a file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSpec {
    /// Sockets, which are also the memory nodes.
    #[serde(alias = "S")]
    pub sockets: u32,
    /// Cores in each socket.
    #[serde(alias = "P")]
    pub cores_per_socket: u32,
    /// Hardware threads in each core, one or two.
    #[serde(alias = "T")]
    pub threads_per_core: u32,
    /// Clock rate.
    #[serde(alias = "f")]
    pub clock_hz: f64,
    /// Last-level cache of a socket.
    #[serde(alias = "llc")]
    pub llc_mb: f64,
    /// Bandwidth of a node's memory.
    #[serde(alias = "bw")]
    pub memory_bytes_per_s: f64,
    /// Bandwidth of a link in one direction.
    #[serde(alias = "link")]
    pub link_bytes_per_s: f64,
    /// Latency of local memory without load.
    #[serde(alias = "lat")]
    pub latency_s: f64,
    /// What a hop to another node adds.
    #[serde(alias = "rlat")]
    pub remote_latency_s: f64,
    /// By how much a busy core slows down the core part of the other one of its module, whatever runs
    /// there; without it cores share nothing. Core 2k of a socket and the next one are a module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module_slowdown: Option<f64>,
    /// The direct links of a machine that is only partly connected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkSpec>,
}

/// A direct link, in both directions.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// The nodes at its ends.
    pub between: [u32; 2],
    /// Bandwidth in one direction.
    pub bytes_per_s: f64,
}

/// A machine that cannot be.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum MachineError {
    /// A number is out of range.
    #[error("machine {machine:?}: {what} is {value}: give {fix}")]
    Value {
        /// The machine.
        machine: String,
        /// Which number.
        what: &'static str,
        /// What it is.
        value: f64,
        /// What would do.
        fix: &'static str,
    },
    /// A link ends at no node, or at the node where it begins.
    #[error(
        "machine {machine:?}: a link between {from} and {to}: give two different nodes below {nodes}"
    )]
    Link {
        /// The machine.
        machine: String,
        /// One end.
        from: u32,
        /// The other.
        to: u32,
        /// How many nodes there are.
        nodes: u32,
    },
    /// A link is there twice.
    #[error(
        "machine {machine:?}: a second link between {from} and {to}: give one, with the bandwidth of both"
    )]
    LinkTwice {
        /// The machine.
        machine: String,
        /// One end.
        from: u32,
        /// The other.
        to: u32,
    },
    /// No route of one or two hops.
    #[error(
        "machine {machine:?}: no route of at most two hops from node {from} to {to}: add a link"
    )]
    Unreachable {
        /// The machine.
        machine: String,
        /// From here.
        from: usize,
        /// To here.
        to: usize,
    },
}

/// The links that a line passes from one node to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// None: the same node.
    Local,
    /// One link, by index.
    Direct(usize),
    /// Two links, by index.
    Via(usize, usize),
}

impl Route {
    /// The links, by index.
    pub fn links(self) -> impl Iterator<Item = usize> {
        let (first, second) = match self {
            Self::Local => (None, None),
            Self::Direct(link) => (Some(link), None),
            Self::Via(first, second) => (Some(first), Some(second)),
        };
        first.into_iter().chain(second)
    }

    /// How many links.
    #[must_use]
    pub const fn hops(self) -> u32 {
        match self {
            Self::Local => 0,
            Self::Direct(_) => 1,
            Self::Via(..) => 2,
        }
    }
}

/// A machine ready for use. See the [module](self).
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// What it was made from.
    pub spec: MachineSpec,
    topology: Topology,
    /// Seconds that a link takes for a line.
    link_s: Vec<f64>,
    /// From row to column.
    routes: Vec<Route>,
    /// By link, how many ways from a node to another pass it.
    ways_over_link: Vec<f64>,
}

impl Machine {
    /// Checks a description.
    ///
    /// # Errors
    /// [`MachineError`] names the machine, the number and what would do.
    pub fn new(name: &str, spec: MachineSpec) -> Result<Self, MachineError> {
        check_numbers(name, &spec)?;
        let nodes = spec.sockets as usize;
        let mut link_s = Vec::new();
        let mut direct = vec![None; nodes * nodes];
        let mut connect = |from: usize, to: usize, bytes_per_s: f64| {
            direct[from * nodes + to] = Some(link_s.len());
            link_s.push(LINE_BYTES / bytes_per_s);
        };
        if spec.links.is_empty() {
            for from in 0..nodes {
                for to in (0..nodes).filter(|&to| to != from) {
                    connect(from, to, spec.link_bytes_per_s);
                }
            }
        }
        for (at, link) in spec.links.iter().enumerate() {
            let [from, to] = link.between;
            if from == to || from >= spec.sockets || to >= spec.sockets {
                let (machine, nodes) = (name.to_owned(), spec.sockets);
                return Err(MachineError::Link {
                    machine,
                    from,
                    to,
                    nodes,
                });
            }
            positive(name, "bytes_per_s of a link", link.bytes_per_s)?;
            let same =
                |other: &LinkSpec| other.between == [from, to] || other.between == [to, from];
            if spec.links.iter().take(at).any(same) {
                let machine = name.to_owned();
                return Err(MachineError::LinkTwice { machine, from, to });
            }
            connect(from as usize, to as usize, link.bytes_per_s);
            connect(to as usize, from as usize, link.bytes_per_s);
        }
        let mut routes = Vec::with_capacity(nodes * nodes);
        for from in 0..nodes {
            for to in 0..nodes {
                let over = |via: usize| {
                    Some(Route::Via(
                        direct[from * nodes + via]?,
                        direct[via * nodes + to]?,
                    ))
                };
                let route = if from == to {
                    Some(Route::Local)
                } else {
                    direct[from * nodes + to]
                        .map(Route::Direct)
                        .or_else(|| (0..nodes).find_map(over))
                };
                routes.push(route.ok_or_else(|| MachineError::Unreachable {
                    machine: name.to_owned(),
                    from,
                    to,
                })?);
            }
        }
        let mut ways_over_link = vec![0.0; link_s.len()];
        for link in routes.iter().flat_map(|route| route.links()) {
            ways_over_link[link] += 1.0;
        }
        let topology = Topology::regular(Shape {
            sockets: spec.sockets,
            cores_per_socket: spec.cores_per_socket,
            threads_per_core: spec.threads_per_core,
        });
        Ok(Self {
            name: name.to_owned(),
            spec,
            topology,
            link_s,
            routes,
            ways_over_link,
        })
    }

    /// How policies see it.
    #[must_use]
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// How many hardware contexts it has.
    #[must_use]
    pub const fn contexts(&self) -> u32 {
        self.spec.sockets * self.spec.cores_per_socket * self.spec.threads_per_core
    }

    /// How many cores it has.
    #[must_use]
    pub const fn cores(&self) -> u32 {
        self.spec.sockets * self.spec.cores_per_socket
    }

    /// How many nodes it has.
    #[must_use]
    pub const fn nodes(&self) -> usize {
        self.spec.sockets as usize
    }

    /// The socket of a context.
    #[must_use]
    pub const fn socket_of(&self, context: usize) -> usize {
        context % self.cores() as usize / self.spec.cores_per_socket as usize
    }

    /// The context with which this one shares a core or, on a machine of modules, a module.
    #[must_use]
    pub const fn sibling_of(&self, context: usize) -> Option<usize> {
        let cores = self.cores() as usize;
        match self.spec.threads_per_core {
            2 if context < cores => Some(context + cores),
            2 => Some(context - cores),
            // Sockets have an even number of cores, so the numbers of a module differ in the last bit.
            _ if self.spec.module_slowdown.is_some() => Some(context ^ 1),
            _ => None,
        }
    }

    /// By how much a busy sibling slows a thread's core part down: what is the application's own in a
    /// core is the machine's in a module.
    #[must_use]
    pub fn sibling_slowdown(&self, of_app: f64) -> f64 {
        self.spec.module_slowdown.unwrap_or(of_app)
    }

    /// The context at a place: socket, core within it, thread within that. `None` when the machine
    /// has no such place.
    #[must_use]
    pub const fn context_at(&self, place: [u32; 3]) -> Option<CpuId> {
        let [socket, core, thread] = place;
        let (cores, threads) = (self.spec.cores_per_socket, self.spec.threads_per_core);
        if socket >= self.spec.sockets || core >= cores || thread >= threads {
            return None;
        }
        Some(CpuId(thread * self.cores() + socket * cores + core))
    }

    /// Seconds that each link takes for a line.
    #[must_use]
    pub fn link_service_s(&self) -> &[f64] {
        &self.link_s
    }

    /// By link, from how many nodes to how many others in all a line passes it: 1 where each pair of
    /// nodes has a link of its own.
    #[must_use]
    pub fn ways_over_link(&self) -> &[f64] {
        &self.ways_over_link
    }

    /// What a line takes longer on idle links from another node than from the own one, in seconds,
    /// averaged over all pairs of nodes; 0 where there is only one.
    #[must_use]
    pub fn mean_remote_s(&self) -> f64 {
        let pairs = self.nodes() * (self.nodes() - 1);
        if pairs == 0 {
            return 0.0;
        }
        let hop_s =
            |(service_s, ways): (&f64, &f64)| (self.spec.remote_latency_s + service_s) * ways;
        let all_s: f64 = self
            .link_s
            .iter()
            .zip(&self.ways_over_link)
            .map(hop_s)
            .sum();
        all_s / pairs as f64
    }

    /// The core of a context.
    #[must_use]
    pub const fn core_of(&self, context: usize) -> usize {
        context % self.cores() as usize
    }

    /// The way of a line from one node to another.
    #[must_use]
    pub fn route(&self, from: usize, to: usize) -> Route {
        self.routes
            .get(from * self.nodes() + to)
            .copied()
            .unwrap_or(Route::Local)
    }
}

fn positive(machine: &str, what: &'static str, value: f64) -> Result<(), MachineError> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(MachineError::Value {
        machine: machine.to_owned(),
        what,
        value,
        fix: "a positive number",
    })
}

fn check_numbers(machine: &str, spec: &MachineSpec) -> Result<(), MachineError> {
    for (what, value) in [
        ("clock_hz", spec.clock_hz),
        ("llc_mb", spec.llc_mb),
        ("memory_bytes_per_s", spec.memory_bytes_per_s),
        ("link_bytes_per_s", spec.link_bytes_per_s),
        ("latency_s", spec.latency_s),
        ("remote_latency_s", spec.remote_latency_s),
    ] {
        positive(machine, what, value)?;
    }
    if let Some(slowdown) = spec.module_slowdown {
        let whole = spec.threads_per_core == 1 && spec.cores_per_socket.is_multiple_of(2);
        if !(whole && slowdown >= 0.0 && slowdown.is_finite()) {
            return Err(MachineError::Value {
                machine: machine.to_owned(),
                what: "module_slowdown",
                value: slowdown,
                fix: "0 or more, one thread per core and an even number of cores per socket, or leave it out",
            });
        }
    }
    for (what, value, most, fix) in [
        ("sockets", spec.sockets, 64, "1 to 64"),
        ("cores_per_socket", spec.cores_per_socket, 256, "1 to 256"),
        ("threads_per_core", spec.threads_per_core, 2, "1 or 2"),
    ] {
        if value == 0 || value > most {
            return Err(MachineError::Value {
                machine: machine.to_owned(),
                what,
                value: f64::from(value),
                fix,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    #[test]
    fn contexts_are_numbered_as_the_topology_numbers_cpus() {
        let machine = presets::machine("hsw80").unwrap();
        for context in 0..machine.contexts() as usize {
            let thread = machine
                .topology()
                .thread(CpuId(context as u32))
                .copied()
                .unwrap();
            assert_eq!(thread.socket.0 as usize, machine.socket_of(context));
            let sibling = machine.sibling_of(context).unwrap();
            let other = machine.topology().thread(CpuId(sibling as u32)).unwrap();
            assert_eq!((other.core, sibling == context), (thread.core, false));
        }
        assert_eq!(machine.context_at([1, 2, 1]), Some(CpuId(52)));
        assert_eq!(machine.context_at([4, 0, 0]), None);
    }

    #[test]
    fn neighbouring_cores_of_a_socket_are_a_module_and_nobody_elses() {
        let machine = presets::machine("amd64").unwrap();
        for context in 0..machine.contexts() as usize {
            let other = machine.sibling_of(context).unwrap();
            assert_eq!(context / 2, other / 2);
            assert_eq!(machine.sibling_of(other), Some(context));
            assert_eq!(machine.socket_of(other), machine.socket_of(context));
            assert_ne!(machine.core_of(other), machine.core_of(context));
        }
        let without = presets::machine("hsw72").unwrap();
        assert_eq!(without.sibling_of(0), None);
    }

    #[test]
    fn a_partly_connected_machine_routes_over_the_lowest_neighbour() {
        let machine = presets::machine("opt48").unwrap();
        assert_eq!(machine.route(1, 2).hops(), 1);
        for (from, to) in [(0, 7), (5, 6), (7, 0)] {
            assert_eq!(machine.route(from, to).hops(), 2, "{from} to {to}");
        }
        let first = |from, to| machine.route(from, to).links().next().unwrap();
        assert_eq!(first(0, 7), first(0, 1));
        assert!(machine.link_service_s()[first(3, 4)] < machine.link_service_s()[first(1, 2)]);
    }

    #[test]
    fn a_machine_that_cannot_be_is_refused_with_the_value() {
        let spec = presets::machine("ivb40").unwrap().spec;
        let told = |spoil: &dyn Fn(&mut MachineSpec)| {
            let mut spec = spec.clone();
            spoil(&mut spec);
            Machine::new("mine", spec).unwrap_err().to_string()
        };
        assert!(told(&|s| s.sockets = 0).contains("sockets is 0: give 1 to 64"));
        assert!(told(&|s| s.clock_hz = f64::NAN).contains("clock_hz is NaN"));
        let odd = told(&|s| {
            (s.module_slowdown, s.threads_per_core, s.cores_per_socket) = (Some(0.2), 1, 9);
        });
        assert!(
            odd.contains("module_slowdown is 0.2") && odd.contains("an even number"),
            "{odd}"
        );
        let negative = told(&|s| {
            (s.module_slowdown, s.threads_per_core) = (Some(-0.1), 1);
        });
        assert!(negative.contains("module_slowdown is -0.1"), "{negative}");
        let link = |between| LinkSpec {
            between,
            bytes_per_s: 1e9,
        };
        assert!(told(&|s| s.links = vec![link([0, 2])]).contains("below 2"));
        let twice = told(&|s| s.links = vec![link([0, 1]), link([1, 0])]);
        assert!(
            twice.contains("second link between 1 and 0: give one"),
            "{twice}"
        );
        assert!(
            told(&|s| {
                s.sockets = 3;
                s.links = vec![link([0, 1])];
            })
            .contains("from node 0 to 2")
        );
    }
}
