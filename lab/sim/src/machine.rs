//! A machine: sockets with cores, a last-level cache and a memory controller each, and links.
//!
//! Every socket is a NUMA node. CPUs are numbered as Linux does: first one hardware thread of every core, socket
//! by socket, then the second ones in the same order. Given `links` make a machine partly connected: a line then
//! takes the route with the fewest hops, ties to the lowest node in between [readings, NuCore machines].
//!
//! In a machine of *modules* two neighbouring cores share floating-point unit and second-level cache. They are
//! separate cores to every policy; the model treats each as the other's sibling, with the machine's slowdown.
//!
//! Invariant: every node reaches every other; every rate and latency is positive and finite.

use mapper_model::topology::Shape;
use mapper_model::{CpuId, Topology};
use serde::{Deserialize, Serialize};

/// Bytes of a cache line.
pub const LINE_BYTES: f64 = 64.0;

/// A machine as read from a file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSpec {
    /// Sockets, each a memory node.
    #[serde(alias = "S")]
    pub sockets: u32,
    /// Cores of a socket.
    #[serde(alias = "P")]
    pub cores_per_socket: u32,
    /// Hardware threads of a core, one or two.
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
    /// By how much a busy core slows down the core part of the other one of its module: core 2k of a socket and
    /// the next one. Without it cores share nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module_slowdown: Option<f64>,
    /// The direct links of a partly connected machine.
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

/// An invalid description of a machine.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("machine {0:?}: {1}")]
pub struct MachineError(String, String);

/// A checked machine. See the [module](self).
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// What it was made from.
    pub spec: MachineSpec,
    topology: Topology,
    link_s: Vec<f64>,
    /// The links of each route, from row to column.
    routes: Vec<Vec<usize>>,
    /// By link, how many routes pass it: 1 where each pair of nodes has a link of its own.
    pub(crate) ways_over_link: Vec<f64>,
}

impl Machine {
    /// Checks a description.
    ///
    /// # Errors
    /// [`MachineError`] names the machine, the number and what to give.
    pub fn new(name: &str, spec: MachineSpec) -> Result<Self, MachineError> {
        let refused = |problem| MachineError(name.to_owned(), problem);
        check_numbers(&spec).map_err(refused)?;
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
                return Err(refused(format!(
                    "a link between {from} and {to}: give two different nodes below {nodes}"
                )));
            }
            positive("bytes_per_s of a link", link.bytes_per_s).map_err(refused)?;
            let mut earlier = spec.links[..at].iter().map(|link| link.between);
            if earlier.any(|other| other == [from, to] || other == [to, from]) {
                return Err(refused(format!(
                    "a second link between {from} and {to}: give one, with the bandwidth of both"
                )));
            }
            connect(from as usize, to as usize, link.bytes_per_s);
            connect(to as usize, from as usize, link.bytes_per_s);
        }
        let mut routes = Vec::with_capacity(nodes * nodes);
        for from in 0..nodes {
            for to in 0..nodes {
                let link = |from: usize, to: usize| direct[from * nodes + to];
                let over = |via| Some(vec![link(from, via)?, link(via, to)?]);
                let route = match link(from, to) {
                    _ if from == to => Some(Vec::new()),
                    Some(link) => Some(vec![link]),
                    None => (0..nodes).find_map(over),
                };
                let none = "no route of at most two hops from node";
                let none = || refused(format!("{none} {from} to {to}: add a link"));
                routes.push(route.ok_or_else(none)?);
            }
        }
        let mut ways_over_link = vec![0.0; link_s.len()];
        for link in routes.iter().flatten() {
            ways_over_link[*link] += 1.0;
        }
        let shape = Shape {
            sockets: spec.sockets,
            cores_per_socket: spec.cores_per_socket,
            threads_per_core: spec.threads_per_core,
        };
        Ok(Self {
            name: name.to_owned(),
            topology: Topology::regular(shape),
            spec,
            link_s,
            routes,
            ways_over_link,
        })
    }

    /// The topology that policies see.
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Its hardware contexts.
    pub const fn contexts(&self) -> u32 {
        self.spec.sockets * self.spec.cores_per_socket * self.spec.threads_per_core
    }

    /// Its cores.
    pub const fn cores(&self) -> u32 {
        self.spec.sockets * self.spec.cores_per_socket
    }

    /// Its nodes.
    pub const fn nodes(&self) -> usize {
        self.spec.sockets as usize
    }

    pub(crate) const fn socket_of(&self, context: usize) -> usize {
        context % self.cores() as usize / self.spec.cores_per_socket as usize
    }

    /// The context with which this one shares a core or, on a machine of modules, a module.
    pub(crate) const fn sibling_of(&self, context: usize) -> Option<usize> {
        let cores = self.cores() as usize;
        match self.spec.threads_per_core {
            2 if context < cores => Some(context + cores),
            2 => Some(context - cores),
            // Sockets have an even number of cores, so the numbers of a module differ in the last bit.
            _ if self.spec.module_slowdown.is_some() => Some(context ^ 1),
            _ => None,
        }
    }

    /// By how much a busy sibling slows a thread's core part down: the machine's value in a module, the
    /// application's in a core.
    pub(crate) fn sibling_slowdown(&self, of_app: f64) -> f64 {
        self.spec.module_slowdown.unwrap_or(of_app)
    }

    /// The context at a place: socket, core within it, thread within that; `None` beyond the machine.
    pub const fn context_at(&self, place: [u32; 3]) -> Option<CpuId> {
        let [socket, core, thread] = place;
        let (cores, threads) = (self.spec.cores_per_socket, self.spec.threads_per_core);
        if socket >= self.spec.sockets || core >= cores || thread >= threads {
            return None;
        }
        Some(CpuId(thread * self.cores() + socket * cores + core))
    }

    /// Seconds that each link takes for a line.
    pub fn link_service_s(&self) -> &[f64] {
        &self.link_s
    }

    /// Extra seconds of a line from another node over idle links, averaged over all pairs of nodes; 0 for one node.
    pub fn mean_remote_s(&self) -> f64 {
        let pairs = self.nodes() * (self.nodes() - 1);
        if pairs == 0 {
            return 0.0;
        }
        let latency_s = self.spec.remote_latency_s;
        let links = self.link_s.iter().zip(&self.ways_over_link);
        let all_s = links.map(|(service_s, ways)| (latency_s + service_s) * ways);
        all_s.sum::<f64>() / pairs as f64
    }

    pub(crate) const fn core_of(&self, context: usize) -> usize {
        context % self.cores() as usize
    }

    /// The links that a line passes from one node to another, by index: up to two.
    pub fn route(&self, from: usize, to: usize) -> &[usize] {
        let route = self.routes.get(from * self.nodes() + to);
        route.map_or(&[], Vec::as_slice)
    }
}

fn positive(what: &str, value: f64) -> Result<(), String> {
    match value > 0.0 && value.is_finite() {
        true => Ok(()),
        false => Err(format!("{what} is {value}: give a positive number")),
    }
}

fn check_numbers(spec: &MachineSpec) -> Result<(), String> {
    for (what, value) in [
        ("clock_hz", spec.clock_hz),
        ("llc_mb", spec.llc_mb),
        ("memory_bytes_per_s", spec.memory_bytes_per_s),
        ("link_bytes_per_s", spec.link_bytes_per_s),
        ("latency_s", spec.latency_s),
        ("remote_latency_s", spec.remote_latency_s),
    ] {
        positive(what, value)?;
    }
    if let Some(slowdown) = spec.module_slowdown {
        let whole = spec.threads_per_core == 1 && spec.cores_per_socket.is_multiple_of(2);
        if !(whole && slowdown >= 0.0 && slowdown.is_finite()) {
            return Err(format!(
                "module_slowdown is {slowdown}: give 0 or more, one thread per core and an even number of cores \
                 per socket, or leave it out"
            ));
        }
    }
    for (what, value, most, fix) in [
        ("sockets", spec.sockets, 64, "1 to 64"),
        ("cores_per_socket", spec.cores_per_socket, 256, "1 to 256"),
        ("threads_per_core", spec.threads_per_core, 2, "1 or 2"),
    ] {
        if value == 0 || value > most {
            return Err(format!("{what} is {value}: give {fix}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{hsw80, machine};

    #[test]
    fn contexts_are_numbered_as_the_topology_numbers_cpus() {
        let machine = hsw80();
        let thread = |context: usize| *machine.topology().thread(CpuId(context as u32)).unwrap();
        for context in 0..machine.contexts() as usize {
            assert_eq!(
                thread(context).socket.0 as usize,
                machine.socket_of(context)
            );
            let sibling = machine.sibling_of(context).unwrap();
            assert_ne!(sibling, context);
            assert_eq!(thread(sibling).core, thread(context).core);
        }
        assert_eq!(machine.context_at([1, 2, 1]), Some(CpuId(52)));
        assert_eq!(machine.context_at([4, 0, 0]), None);
    }

    #[test]
    fn neighbouring_cores_of_a_socket_are_one_module() {
        let modules = machine("amd64");
        for context in 0..modules.contexts() as usize {
            let other = modules.sibling_of(context).unwrap();
            assert_eq!(context / 2, other / 2);
            assert_eq!(modules.sibling_of(other), Some(context));
            assert_eq!(modules.socket_of(other), modules.socket_of(context));
            assert_ne!(modules.core_of(other), modules.core_of(context));
        }
        assert_eq!(machine("hsw72").sibling_of(0), None);
    }

    #[test]
    fn a_partly_connected_machine_routes_over_the_lowest_neighbour() {
        let machine = machine("opt48");
        assert_eq!(machine.route(1, 2).len(), 1);
        for (from, to) in [(0, 7), (5, 6), (7, 0)] {
            assert_eq!(machine.route(from, to).len(), 2, "{from} to {to}");
        }
        let first = |from, to| machine.route(from, to)[0];
        assert_eq!(first(0, 7), first(0, 1));
        assert!(machine.link_service_s()[first(3, 4)] < machine.link_service_s()[first(1, 2)]);
    }

    #[test]
    fn an_invalid_machine_is_refused_with_the_value() {
        for (change, part) in [
            ("sockets = 0", "sockets is 0: give 1 to 64"),
            ("clock_hz = nan", "clock_hz is NaN"),
            (
                "threads_per_core = 1\ncores_per_socket = 9\nmodule_slowdown = 0.2",
                "module_slowdown is 0.2: give 0 or more, one thread per core and an even number",
            ),
            (
                "threads_per_core = 1\nmodule_slowdown = -0.1",
                "module_slowdown is -0.1",
            ),
            (
                "links = [{ between = [0, 2], bytes_per_s = 1e9 }]",
                "below 2",
            ),
            (
                "links = [{ between = [0, 1], bytes_per_s = 1e9 }, { between = [1, 0], bytes_per_s = 1e9 }]",
                "second link between 1 and 0: give one",
            ),
            (
                "sockets = 3\nlinks = [{ between = [0, 1], bytes_per_s = 1e9 }]",
                "from node 0 to 2",
            ),
        ] {
            let mut table = toml::Table::try_from(machine("ivb40").spec).unwrap();
            table.extend(toml::from_str::<toml::Table>(change).unwrap());
            let refused = Machine::new("mine", table.try_into().unwrap());
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
