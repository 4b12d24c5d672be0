//! The machine: hardware threads and what they share.
//!
//! A [`Topology`] is built once from a list of [`HardwareThread`]s (by hwloc, or by
//! [`Topology::regular`]) and is then immutable. It accepts uneven sockets, nodes without CPUs, several
//! last-level caches per socket, SMT of any width, hybrid cores, and any numbering of CPUs.
//!
//! Invariants: every CPU occurs once; core, socket and cache numbers are dense from 0; every core
//! lies within one socket and one last-level cache.

use crate::{CacheId, CoreId, CpuId, CpuSet, NodeId, SocketId};
use serde::{Deserialize, Serialize};

/// The speed of a core relative to the others on hybrid machines: larger is faster, 0 on others.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct CoreRank(pub u8);

/// One hardware thread and where it sits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HardwareThread {
    /// Linux CPU number.
    pub cpu: CpuId,
    /// Physical core, numbered over the whole machine.
    pub core: CoreId,
    /// Socket.
    pub socket: SocketId,
    /// The NUMA node that is local to it.
    pub node: NodeId,
    /// Last-level cache.
    pub cache: CacheId,
    /// Speed class of the core.
    #[serde(default)]
    pub rank: CoreRank,
}

/// A description that is not a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// No hardware thread at all.
    #[error("a topology needs at least one hardware thread")]
    Empty,
    /// A CPU is listed twice.
    #[error("cpu {0} is listed twice")]
    DuplicateCpu(CpuId),
    /// A numbering has a gap.
    #[error("{kind} numbers are not dense: {missing} is missing below {highest}")]
    NotDense {
        /// `core`, `socket` or `cache`.
        kind: &'static str,
        /// The first number that does not occur.
        missing: u32,
        /// The highest number that occurs.
        highest: u32,
    },
    /// One core in two sockets or caches.
    #[error("core {0} lies in two sockets or two last-level caches")]
    SplitCore(CoreId),
    /// The distance matrix does not fit the nodes.
    #[error("{given} distances were given for {nodes} nodes: give {nodes} times {nodes}")]
    Distances {
        /// How many numbers were given.
        given: usize,
        /// How many nodes there are.
        nodes: usize,
    },
}

/// A NUMA node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Node {
    /// Linux node number.
    pub id: NodeId,
    /// Its CPUs; empty for memory-only nodes.
    pub cpus: CpuSet,
    /// Its memory, where known.
    pub memory_bytes: Option<u64>,
}

/// The description of a [`Topology`].
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Description {
    /// Every hardware thread that exists and is online.
    pub threads: Vec<HardwareThread>,
    /// Memory of nodes, also of those without CPUs.
    #[serde(default)]
    pub node_memory: Vec<NodeMemory>,
    /// Distances between nodes in ascending order, row by row, as in the ACPI SLIT; empty when unknown.
    #[serde(default)]
    pub distances: Vec<u32>,
}

/// How much memory a node has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeMemory {
    /// The node.
    pub node: NodeId,
    /// Its memory in bytes.
    pub bytes: u64,
}

/// The machine. See the [module](self).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Description", into = "Description")]
pub struct Topology {
    description: Description,
    // Index into `description.threads` by CPU number.
    by_cpu: Vec<Option<u32>>,
    all: CpuSet,
    cores: Vec<CpuSet>,
    sockets: Vec<CpuSet>,
    caches: Vec<CpuSet>,
    nodes: Vec<Node>,
}

impl Topology {
    /// Checks and indexes a description.
    ///
    /// # Errors
    /// [`TopologyError`] says which invariant of the [module](self) does not hold.
    pub fn new(mut description: Description) -> Result<Self, TopologyError> {
        description.threads.sort_by_key(|t| t.cpu);
        let threads = &description.threads;
        let Some(last) = threads.last() else {
            return Err(TopologyError::Empty);
        };
        let mut by_cpu = vec![None; last.cpu.index() + 1];
        let mut all = CpuSet::new();
        for (i, thread) in threads.iter().enumerate() {
            if !all.insert(thread.cpu) {
                return Err(TopologyError::DuplicateCpu(thread.cpu));
            }
            by_cpu[thread.cpu.index()] = Some(i as u32);
        }
        let cores = dense(threads, "core", |t| t.core.0)?;
        let sockets = dense(threads, "socket", |t| t.socket.0)?;
        let caches = dense(threads, "cache", |t| t.cache.0)?;
        let mut home = vec![None; cores.len()];
        for t in threads {
            match home[t.core.index()] {
                None => home[t.core.index()] = Some((t.socket, t.cache)),
                Some(place) if place != (t.socket, t.cache) => {
                    return Err(TopologyError::SplitCore(t.core));
                }
                Some(_) => {}
            }
        }
        let mut ids: Vec<NodeId> = threads
            .iter()
            .map(|t| t.node)
            .chain(description.node_memory.iter().map(|m| m.node))
            .collect();
        ids.sort();
        ids.dedup();
        let node = |id| {
            let memory = description.node_memory.iter().find(|m| m.node == id);
            let here = threads.iter().filter(|t| t.node == id);
            Node {
                id,
                cpus: here.map(|t| t.cpu).collect(),
                memory_bytes: memory.map(|m| m.bytes),
            }
        };
        let nodes: Vec<Node> = ids.into_iter().map(node).collect();
        let given = description.distances.len();
        if given != 0 && given != nodes.len() * nodes.len() {
            return Err(TopologyError::Distances {
                given,
                nodes: nodes.len(),
            });
        }
        Ok(Self {
            by_cpu,
            all,
            cores,
            sockets,
            caches,
            nodes,
            description,
        })
    }

    /// A regular machine: one node and one last-level cache per socket, and CPU numbers as Linux
    /// on x86 gives them (the first thread of every core, socket by socket, then the second threads).
    /// A zero in the shape counts as 1.
    pub fn regular(shape: Shape) -> Self {
        let (sockets, cores, smt) = (
            shape.sockets.max(1),
            shape.cores_per_socket.max(1),
            shape.threads_per_core.max(1),
        );
        let threads = (0..smt).flat_map(|thread| {
            (0..sockets * cores).map(move |core| HardwareThread {
                cpu: CpuId(thread * sockets * cores + core),
                core: CoreId(core),
                socket: SocketId(core / cores),
                node: NodeId(core / cores),
                cache: CacheId(core / cores),
                rank: CoreRank::default(),
            })
        });
        let description = Description {
            threads: threads.collect(),
            ..Description::default()
        };
        match Self::new(description) {
            Ok(topology) => topology,
            // Every invariant holds by construction: numbers are dense and cores whole.
            Err(error) => unreachable!("regular topology: {error}"),
        }
    }

    /// Its description.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The hardware threads in ascending order of CPU number.
    pub fn threads(&self) -> &[HardwareThread] {
        &self.description.threads
    }

    /// All CPUs.
    pub fn cpus(&self) -> &CpuSet {
        &self.all
    }

    /// Where a CPU sits, or `None` when the machine has no such CPU.
    pub fn thread(&self, cpu: CpuId) -> Option<&HardwareThread> {
        let index = (*self.by_cpu.get(cpu.index())?)?;
        self.description.threads.get(index as usize)
    }

    /// The CPUs of each core, by [`CoreId`].
    pub fn cores(&self) -> &[CpuSet] {
        &self.cores
    }

    /// The CPUs of each socket, by [`SocketId`].
    pub fn sockets(&self) -> &[CpuSet] {
        &self.sockets
    }

    /// The CPUs of each last-level cache, by [`CacheId`].
    pub fn caches(&self) -> &[CpuSet] {
        &self.caches
    }

    /// The NUMA nodes in ascending order of number, also those without CPUs.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The CPUs of a node; empty when there is no such node.
    pub fn node_cpus(&self, node: NodeId) -> &CpuSet {
        static NONE: CpuSet = CpuSet::new();
        self.nodes
            .iter()
            .find(|n| n.id == node)
            .map_or(&NONE, |n| &n.cpus)
    }

    /// The distance between two nodes in units of a tenth of the local one (SLIT), where known.
    pub fn distance(&self, from: NodeId, to: NodeId) -> Option<u32> {
        let place = |id| self.nodes.iter().position(|n| n.id == id);
        self.description
            .distances
            .get(place(from)? * self.nodes.len() + place(to)?)
            .copied()
    }

    /// The widest SMT of the machine: 1 without SMT.
    pub fn threads_per_core(&self) -> u32 {
        self.cores.iter().map(CpuSet::len).max().unwrap_or(1)
    }

    /// The most of `cpus` that one socket holds; at least 1, so that it can be a step.
    pub fn most_in_a_socket(&self, cpus: &CpuSet) -> u32 {
        self.sockets
            .iter()
            .map(|socket| socket.overlap(cpus))
            .max()
            .unwrap_or(1)
            .max(1)
    }
}

/// The shape of a regular machine, for [`Topology::regular`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Shape {
    /// Sockets.
    pub sockets: u32,
    /// Physical cores in each socket.
    pub cores_per_socket: u32,
    /// Hardware threads in each core.
    pub threads_per_core: u32,
}

fn dense(
    threads: &[HardwareThread],
    kind: &'static str,
    number: impl Fn(&HardwareThread) -> u32,
) -> Result<Vec<CpuSet>, TopologyError> {
    let highest = threads.iter().map(&number).max().unwrap_or(0);
    // There cannot be more groups than threads; checked first so that a wild number costs nothing.
    if highest as usize >= threads.len() {
        let mut present: Vec<u32> = threads.iter().map(&number).collect();
        present.sort_unstable();
        present.dedup();
        let missing = present
            .iter()
            .zip(0u32..)
            .find(|(have, want)| **have != *want)
            .map_or(0, |(_, want)| want);
        return Err(TopologyError::NotDense {
            kind,
            missing,
            highest,
        });
    }
    let mut sets = vec![CpuSet::new(); highest as usize + 1];
    for thread in threads {
        sets[number(thread) as usize].insert(thread.cpu);
    }
    match sets.iter().position(CpuSet::is_empty) {
        Some(missing) => Err(TopologyError::NotDense {
            kind,
            missing: missing as u32,
            highest,
        }),
        None => Ok(sets),
    }
}

impl TryFrom<Description> for Topology {
    type Error = TopologyError;
    fn try_from(description: Description) -> Result<Self, TopologyError> {
        Self::new(description)
    }
}

impl From<Topology> for Description {
    fn from(topology: Topology) -> Self {
        topology.description
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regular(sockets: u32, cores_per_socket: u32, threads_per_core: u32) -> Topology {
        Topology::regular(Shape {
            sockets,
            cores_per_socket,
            threads_per_core,
        })
    }

    #[test]
    fn siblings_of_a_regular_machine_are_numbered_as_linux_does() {
        let t = regular(2, 10, 2);
        assert_eq!(t.cpus().to_string(), "0-39");
        assert_eq!(t.cores()[3].to_string(), "3,23");
        assert_eq!(t.sockets()[1].to_string(), "10-19,30-39");
        assert_eq!(t.thread(CpuId(33)).unwrap().socket, SocketId(1));
        assert_eq!(t.thread(CpuId(40)), None);
    }

    #[test]
    fn a_socket_counts_with_its_usable_cpus() {
        let t = regular(2, 10, 1);
        assert_eq!(t.most_in_a_socket(t.cpus()), 10);
        let some: CpuSet = (2..8).chain(12..15).map(CpuId).collect();
        assert_eq!(t.most_in_a_socket(&some), 6);
        assert_eq!(t.most_in_a_socket(&CpuSet::default()), 1);
    }

    #[test]
    fn a_description_that_is_no_machine_is_refused() {
        let thread = |cpu, core, socket| HardwareThread {
            cpu: CpuId(cpu),
            core: CoreId(core),
            socket: SocketId(socket),
            node: NodeId(0),
            cache: CacheId(socket),
            rank: CoreRank(0),
        };
        let make = |threads: Vec<_>| {
            Topology::new(Description {
                threads,
                ..Default::default()
            })
        };
        assert_eq!(make(vec![]), Err(TopologyError::Empty));
        assert_eq!(
            make(vec![thread(0, 0, 0), thread(0, 0, 0)]),
            Err(TopologyError::DuplicateCpu(CpuId(0)))
        );
        assert_eq!(
            make(vec![thread(0, 0, 0), thread(1, 0, 1)]),
            Err(TopologyError::SplitCore(CoreId(0)))
        );
        assert!(matches!(
            make(vec![thread(0, 0, 0), thread(1, u32::MAX, 0)]),
            Err(TopologyError::NotDense {
                kind: "core",
                missing: 1,
                ..
            })
        ));
    }

    #[test]
    fn a_memory_only_node_has_no_cpus() {
        let mut description = regular(1, 2, 1).description().clone();
        description.node_memory.push(NodeMemory {
            node: NodeId(2),
            bytes: 1 << 30,
        });
        description.distances = vec![10, 20, 20, 10];
        let t = Topology::new(description).unwrap();
        assert!(t.node_cpus(NodeId(2)).is_empty());
        assert_eq!(t.nodes().len(), 2);
        assert_eq!(t.distance(NodeId(0), NodeId(2)), Some(20));
        let text = serde_json::to_string(&t).unwrap();
        assert_eq!(serde_json::from_str::<Topology>(&text).unwrap(), t);
    }
}
