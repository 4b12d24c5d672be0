//! The topology as hwloc finds it, which knows the quirks of firmware and kernels, numbered as [`Topology`] wants it:
//! - *Cores, sockets*: hwloc's logical numbers, which are dense. A hardware thread without a core (some virtual
//!   machines) is a core of its own; without a package, all are in one.
//! - *Node*: the NUMA node whose CPUs include the thread; among several (memory of two kinds on one node) the one with
//!   the fewest CPUs, then the lowest number, which is the ordinary memory.
//! - *Last-level cache*: the outermost cache above the thread, if more than one core shares it. Where every cache is
//!   private to a core (hidden by a hypervisor), the socket counts as one.
//! - *Distances*: the latency matrix of the firmware (SLIT), if it covers every node.
//! - *Rank*: hwloc's efficiency of CPU kinds, on hybrid machines.
//!
//! All CPUs of the machine are listed, also those that this process may not use now: that may change.

use super::{TopologyReadError, TopologySource};
use hwlocality::Topology as Hwloc;
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::distance::DistancesKind;
use hwlocality::object::types::{CacheType, ObjectType};
use hwlocality::topology::builder::BuildFlags;
use mapper_model::topology::{CoreRank, Description, HardwareThread, NodeMemory};
use mapper_model::{CacheId, CoreId, CpuId, NodeId, SocketId, Topology};
use std::collections::BTreeMap;

/// hwloc, on this machine or on a description in one of its own formats.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HwlocSource {
    /// This machine.
    ThisMachine,
    /// hwloc's synthetic format, such as `pack:2 l3:2 core:4 pu:2`.
    Synthetic(String),
}

impl TopologySource for HwlocSource {
    fn describe(&self) -> String {
        match self {
            Self::ThisMachine => "hwloc".to_owned(),
            Self::Synthetic(text) => format!("hwloc synthetic {text:?}"),
        }
    }

    fn read(&self) -> Result<Topology, TopologyReadError> {
        let fail = |action| {
            move |error: &dyn std::fmt::Display| TopologyReadError::Hwloc(action, error.to_string())
        };
        let builder = Hwloc::builder()
            .with_flags(BuildFlags::INCLUDE_DISALLOWED)
            .map_err(|e| fail("set its flags")(&e))?;
        let builder = match self {
            Self::ThisMachine => builder,
            Self::Synthetic(text) => builder
                .from_synthetic(text)
                .map_err(|e| fail("read the synthetic description")(&e))?,
        };
        let hwloc = builder.build().map_err(|e| fail("read the machine")(&e))?;
        Topology::new(describe(&hwloc))
            .map_err(|source| TopologyReadError::NoMachine(self.describe(), source))
    }
}

fn describe(hwloc: &Hwloc) -> Description {
    let nodes = Nodes::of(hwloc);
    let ranks = ranks(hwloc);
    let [mut cores, mut sockets, mut caches] = [const { Numbers(BTreeMap::new()) }; 3];
    let mut threads = Vec::new();
    for pu in hwloc.objects_with_type(ObjectType::PU) {
        let Some(cpu) = pu.os_index().and_then(|index| u32::try_from(index).ok()) else {
            continue;
        };
        let of_kind = |kind| {
            let object = pu.first_ancestor_with_type(kind)?;
            Some(Place::Object(object.logical_index()))
        };
        let socket = sockets.of(of_kind(ObjectType::Package).unwrap_or(Place::None));
        let core = of_kind(ObjectType::Core).unwrap_or(Place::Cpu(cpu));
        let cache = last_level_cache(pu).map_or(Place::Socket(socket), |cache| {
            Place::Cache(cache.global_persistent_index())
        });
        threads.push(HardwareThread {
            cpu: CpuId(cpu),
            core: CoreId(cores.of(core)),
            socket: SocketId(socket),
            node: nodes.of_cpu(cpu),
            cache: CacheId(caches.of(cache)),
            rank: CoreRank(ranks.get(&cpu).copied().unwrap_or(0)),
        });
    }
    Description {
        threads,
        node_memory: nodes.memory,
        distances: nodes.distances,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Place {
    None,
    Object(usize),
    Cpu(u32),
    /// A cache, by hwloc's unique number (logical numbers repeat between levels).
    Cache(u64),
    Socket(u32),
}

#[derive(Default)]
struct Numbers(BTreeMap<Place, u32>);

impl Numbers {
    fn of(&mut self, place: Place) -> u32 {
        // There are fewer objects than CPU numbers, which are 32 bits wide.
        let next = self.0.len() as u32;
        *self.0.entry(place).or_insert(next)
    }
}

fn last_level_cache(pu: &TopologyObject) -> Option<&TopologyObject> {
    let core = pu.first_ancestor_with_type(ObjectType::Core).unwrap_or(pu);
    let outermost = pu.ancestors().filter(|object| is_data_cache(object)).last();
    outermost.filter(|cache| match (cache.cpuset(), core.cpuset()) {
        (Some(of_cache), Some(of_core)) => *of_cache != *of_core,
        _ => false,
    })
}

fn is_data_cache(object: &TopologyObject) -> bool {
    matches!(
        object.attributes(),
        Some(ObjectAttributes::Cache(cache)) if cache.cache_type() != CacheType::Instruction
    )
}

fn ranks(hwloc: &Hwloc) -> BTreeMap<u32, u8> {
    let mut ranks = BTreeMap::new();
    if let Ok(kinds) = hwloc.cpu_kinds() {
        for kind in kinds {
            let rank = kind
                .efficiency
                .map_or(0, |e| u8::try_from(e).unwrap_or(u8::MAX));
            for cpu in kind.cpuset.iter_set() {
                if let Ok(cpu) = u32::try_from(usize::from(cpu)) {
                    ranks.insert(cpu, rank);
                }
            }
        }
    }
    ranks
}

struct Nodes {
    by_cpu: BTreeMap<u32, NodeId>,
    memory: Vec<NodeMemory>,
    distances: Vec<u32>,
}

impl Nodes {
    fn of(hwloc: &Hwloc) -> Self {
        let mut nodes: Vec<(NodeId, &TopologyObject, Vec<u32>)> = hwloc
            .objects_with_type(ObjectType::NUMANode)
            .filter_map(|node| {
                let id = NodeId(u32::try_from(node.os_index()?).ok()?);
                let cpus = node
                    .cpuset()
                    .map(|set| {
                        set.iter_set()
                            .filter_map(|cpu| u32::try_from(usize::from(cpu)).ok())
                            .collect()
                    })
                    .unwrap_or_default();
                Some((id, node, cpus))
            })
            .collect();
        nodes.sort_by_key(|(id, ..)| *id);
        let memory = nodes
            .iter()
            .map(|(id, node, _)| NodeMemory {
                node: *id,
                bytes: match node.attributes() {
                    Some(ObjectAttributes::NUMANode(numa)) => {
                        numa.local_memory().map_or(0, std::num::NonZero::get)
                    }
                    _ => 0,
                },
            })
            .collect();
        let distances = distances(
            hwloc,
            &nodes.iter().map(|(_, node, _)| *node).collect::<Vec<_>>(),
        );
        // The smallest node of a CPU is the first to claim it.
        nodes.sort_by_key(|(id, _, cpus)| (cpus.len(), *id));
        let mut by_cpu = BTreeMap::new();
        for (id, _, cpus) in &nodes {
            for cpu in cpus {
                by_cpu.entry(*cpu).or_insert(*id);
            }
        }
        Self {
            by_cpu,
            memory,
            distances,
        }
    }

    /// A CPU without local memory counts to the lowest node: there has to be one.
    fn of_cpu(&self, cpu: u32) -> NodeId {
        self.by_cpu
            .get(&cpu)
            .copied()
            .or_else(|| self.memory.first().map(|m| m.node))
            .unwrap_or_default()
    }
}

/// The firmware's latencies between the nodes, row by row, or nothing if they do not cover all.
fn distances(hwloc: &Hwloc, nodes: &[&TopologyObject]) -> Vec<u32> {
    let kind = Some(DistancesKind::MEANS_LATENCY);
    let Ok(matrices) = hwloc.distances_with_type(kind, ObjectType::NUMANode) else {
        return Vec::new();
    };
    for matrix in &matrices {
        let mut row_by_row = Vec::with_capacity(nodes.len() * nodes.len());
        for from in nodes {
            for to in nodes {
                match matrix.object_pair_distance((from, to)) {
                    Some((there, _back)) => {
                        row_by_row.push(u32::try_from(there).unwrap_or(u32::MAX));
                    }
                    None => break,
                }
            }
        }
        if row_by_row.len() == nodes.len() * nodes.len() {
            return row_by_row;
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn synthetic(text: &str) -> Topology {
        HwlocSource::Synthetic(text.to_owned()).read().unwrap()
    }

    #[test]
    fn this_machine_has_the_cpus_that_the_kernel_lists() {
        let topology = HwlocSource::ThisMachine.read().unwrap();
        let online = std::path::Path::new("/sys/devices/system/cpu/online");
        let online = crate::procfs::read_cpu_list(online).unwrap();
        let cpus = topology.cpus();
        assert!(online.is_subset(cpus), "{online} {cpus}");
        let mut nodes = topology.nodes().iter();
        assert!(nodes.any(|n| n.memory_bytes.is_some_and(|b| b > 0)));
    }

    #[test]
    fn siblings_with_the_usual_numbering_of_linux_are_found() {
        let t = synthetic(
            "pack:2 numa:1 l3:1 core:4 pu:2(indexes=0,8,1,9,2,10,3,11,4,12,5,13,6,14,7,15)",
        );
        assert_eq!(t.cores()[0].to_string(), "0,8");
        assert_eq!(t.sockets()[1].to_string(), "4-7,12-15");
        assert_eq!(t.nodes().len(), 2);
        assert_eq!(t.threads_per_core(), 2);
    }

    #[test]
    fn several_last_level_caches_in_a_socket_are_distinct() {
        let t = synthetic("pack:2 l3:4 core:3 pu:1");
        assert_eq!(t.caches().len(), 8);
        assert_eq!(t.caches()[1].to_string(), "3-5");
        assert_eq!(t.sockets().len(), 2);
    }

    #[test]
    fn caches_private_to_a_core_are_no_last_level() {
        let t = synthetic("pack:2 core:4 l2:1 l1:1 pu:2");
        assert_eq!(t.caches(), t.sockets());
    }

    #[test]
    fn sub_numa_nodes_within_a_socket_are_distinct() {
        let t = synthetic("pack:2 group:2 numa:1 core:2 pu:1");
        assert_eq!(t.nodes().len(), 4);
        assert_eq!(t.node_cpus(NodeId(1)).to_string(), "2-3");
        assert_eq!(t.sockets()[0].to_string(), "0-3");
    }

    #[test]
    fn a_machine_without_packages_or_cores_is_one_socket() {
        let t = synthetic("pu:3");
        assert_eq!(t.sockets().len(), 1);
        assert_eq!(t.cores().len(), 3);
        assert_eq!(t.caches().len(), 1);
    }

    #[test]
    fn a_bad_synthetic_description_is_refused() {
        let source = HwlocSource::Synthetic("nonsense".into());
        let error = source.read().unwrap_err().to_string();
        assert!(error.starts_with("hwloc cannot"), "{error}");
    }
}
