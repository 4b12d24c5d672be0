//! Machines for property tests (feature `testing`).
//!
//! Real machines are more varied than [`Topology::regular`]. [`machines`] describes them by a few
//! numbers, so that a failing test shrinks to a small one.
use crate::random::SplitMix64;
use crate::topology::{CoreRank, Description, HardwareThread, NodeMemory};
use crate::{CacheId, CoreId, CpuId, CpuSet, NodeId, SocketId, Topology};
use proptest::prelude::*;

/// How CPUs are numbered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Numbering {
    /// First threads of all cores, then second threads, as on x86 servers.
    ThreadsLast,
    /// The threads of a core side by side.
    ThreadsFirst,
    /// Without any order, and with gaps.
    Wild,
}

/// A machine in a few numbers.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Sockets.
    pub sockets: u32,
    /// Last-level caches in each socket.
    pub caches_per_socket: u32,
    /// Cores on each cache, on the largest socket.
    pub cores_per_cache: u32,
    /// Threads of each core.
    pub threads_per_core: u32,
    /// Nodes in each socket, at most one a cache.
    pub nodes_per_socket: u32,
    /// Nodes without CPUs.
    pub memory_nodes: u32,
    /// Whether sockets have different numbers of cores.
    pub uneven: bool,
    /// Whether every second core is slower and has one thread only.
    pub hybrid: bool,
    /// How CPUs are numbered.
    pub numbering: Numbering,
    /// Seed of its randomness.
    pub seed: u64,
}

impl Machine {
    /// The machine as a topology.
    ///
    /// # Panics
    /// Never: every description made here is a machine.
    pub fn topology(&self) -> Topology {
        let mut numbers = SplitMix64::new(self.seed);
        let mut threads = Vec::new();
        let (mut core, mut cache) = (0, 0);
        for socket in 0..self.sockets {
            for cache_here in 0..self.caches_per_socket {
                let cores = if self.uneven {
                    1 + numbers.below(self.cores_per_cache)
                } else {
                    self.cores_per_cache
                };
                for core_here in 0..cores {
                    let slow = self.hybrid && core_here % 2 == 1;
                    let width = if slow { 1 } else { self.threads_per_core };
                    for thread in 0..width {
                        let nodes = self.nodes_per_socket.min(self.caches_per_socket);
                        let node = socket * nodes + cache_here * nodes / self.caches_per_socket;
                        let place = HardwareThread {
                            cpu: CpuId(0),
                            core: CoreId(core),
                            socket: SocketId(socket),
                            node: NodeId(node),
                            cache: CacheId(cache),
                            rank: CoreRank(u8::from(!slow)),
                        };
                        threads.push((thread, place));
                    }
                    core += 1;
                }
                cache += 1;
            }
        }
        match self.numbering {
            Numbering::ThreadsFirst => {}
            Numbering::ThreadsLast => threads.sort_by_key(|(thread, _)| *thread),
            Numbering::Wild => {
                for i in (1..threads.len()).rev() {
                    threads.swap(i, numbers.below(i as u32 + 1) as usize);
                }
            }
        }
        let mut cpu = 0;
        for (_, place) in &mut threads {
            place.cpu = CpuId(cpu);
            cpu += 1;
            if self.numbering == Numbering::Wild {
                cpu += numbers.below(3);
            }
        }
        let first_memory_node = self.sockets * self.caches_per_socket;
        let description = Description {
            threads: threads.into_iter().map(|(_, place)| place).collect(),
            node_memory: (0..self.memory_nodes)
                .map(|n| NodeMemory {
                    node: NodeId(first_memory_node + n),
                    bytes: 1 << 34,
                })
                .collect(),
            distances: Vec::new(),
        };
        match Topology::new(description) {
            Ok(topology) => topology,
            Err(error) => unreachable!("machine for tests: {error}"),
        }
    }
}

/// Machines of up to 8 sockets and 2,048 CPUs.
pub fn machines() -> impl Strategy<Value = Machine> {
    (
        (1u32..=8, 1u32..=4, 1u32..=16),
        proptest::sample::select(vec![1u32, 2, 4]),
        (1u32..=2, 0u32..=2),
        (
            proptest::bool::weighted(0.2),
            proptest::bool::weighted(0.2),
            any::<u64>(),
        ),
        proptest::sample::select(vec![
            Numbering::ThreadsLast,
            Numbering::ThreadsFirst,
            Numbering::Wild,
        ]),
    )
        .prop_map(
            |(
                (sockets, caches_per_socket, cores_per_cache),
                threads_per_core,
                (nodes_per_socket, memory_nodes),
                (uneven, hybrid, seed),
                numbering,
            )| Machine {
                sockets,
                caches_per_socket,
                cores_per_cache,
                threads_per_core,
                nodes_per_socket,
                memory_nodes,
                uneven,
                hybrid,
                numbering,
                seed,
            },
        )
}

/// The CPUs that may be used: all of them, most of them, or few, at least one.
pub fn usable(topology: &Topology, numbers: &mut SplitMix64) -> CpuSet {
    let all = topology.cpus();
    let share = match numbers.below(4) {
        0 | 1 => 1.0,
        2 => 0.9,
        _ => numbers.unit(),
    };
    let mut some: CpuSet = all.iter().filter(|_| numbers.unit() < share).collect();
    some.extend(all.iter().nth(numbers.below(all.len()) as usize));
    some
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest! {
        #[test]
        fn every_description_is_a_machine(machine in machines()) {
            let topology = machine.topology();
            prop_assert!(topology.cpus().len() <= 2048);
            let usable = usable(&topology, &mut SplitMix64::new(machine.seed));
            prop_assert!(!usable.is_empty() && usable.is_subset(topology.cpus()));
        }
    }
}
