//! The usable part of a machine, laid out for placing.
//!
//! A [`Layout`] lists the usable hardware threads, sorted so that the threads of a core, the cores of a
//! domain and the domains of a socket are contiguous. It is built once per decision.
//!
//! A *domain* is the smallest part of the machine within which threads share a last-level cache and a
//! memory controller: a socket on an ordinary machine, one L3 of several on a chiplet machine, a NUMA node
//! where a socket has several. It takes the place of the papers' "socket" [SAM-MPH §4.4, MAPPER §3.4];
//! domains of the same socket come next.
//!
//! Invariants: every usable CPU of the topology is one thread; a core lies in one domain (that of its first
//! thread) and a domain in one socket and one node; other CPUs do not occur.

use mapper_model::{CoreId, CpuId, CpuSet, NodeId, Topology};

/// Index of a usable hardware thread in a [`Layout`].
pub(crate) type ThreadIndex = u32;

/// No thread, no demand.
pub(crate) const UNOWNED: u32 = u32::MAX;

/// A core with at least one usable thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Core {
    pub(crate) first: ThreadIndex,
    pub(crate) threads: u32,
    pub(crate) domain: u32,
    /// How far it is below the fastest cores of the machine; 0 on ordinary machines.
    pub(crate) slowness: u32,
}

impl Core {
    /// The threads of the core.
    pub(crate) const fn range(&self) -> std::ops::Range<ThreadIndex> {
        self.first..self.first + self.threads
    }
}

/// A domain with at least one usable thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Domain {
    pub(crate) first_core: u32,
    pub(crate) cores: u32,
    pub(crate) threads: u32,
    /// Dense number of its socket among those with usable threads.
    pub(crate) socket: u32,
    pub(crate) node: NodeId,
    /// Dense number of its node among those with usable threads.
    pub(crate) node_index: u32,
}

impl Domain {
    pub(crate) const fn range(&self) -> std::ops::Range<u32> {
        self.first_core..self.first_core + self.cores
    }
}

/// The usable part of a machine. See the [module](self).
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) cpu: Vec<CpuId>,
    pub(crate) core_of: Vec<u32>,
    /// The cores, domain by domain.
    pub(crate) cores: Vec<Core>,
    /// The domains, socket by socket.
    pub(crate) domains: Vec<Domain>,
    /// How many sockets have usable threads.
    pub(crate) sockets: u32,
    /// Usable threads of each node that has any.
    pub(crate) node_threads: Vec<u32>,
    /// The most threads a core has.
    pub(crate) widest_core: u32,
    // Thread by CPU number, `UNOWNED` where the CPU is not usable.
    thread_of: Vec<ThreadIndex>,
}

impl Layout {
    /// Lays out the CPUs of `topology` that are in `usable`.
    pub(crate) fn new(topology: &Topology, usable: &CpuSet) -> Self {
        let threads = topology.threads();
        // The place of every core with a usable thread, as a sortable key. Thread lists are in
        // ascending order of CPU, so the first thread of a core decides its node.
        let mut place_of_core = vec![u32::MAX; topology.cores().len()];
        let mut places: Vec<Place> = Vec::with_capacity(place_of_core.len());
        let mut fastest = 0;
        for t in threads.iter().filter(|t| usable.contains(t.cpu)) {
            let slot = &mut place_of_core[t.core.index()];
            if *slot == u32::MAX {
                *slot = places.len() as u32;
                fastest = fastest.max(t.rank.0);
                places.push(Place {
                    socket: t.socket.0,
                    cache: t.cache.0,
                    node: t.node,
                    core: t.core,
                    rank: t.rank.0,
                    threads: 0,
                });
            }
            places[*slot as usize].threads += 1;
        }
        places.sort_unstable_by_key(|p| (p.socket, p.node, p.cache, p.core));

        let mut cores = Vec::with_capacity(places.len());
        let mut domains: Vec<Domain> = Vec::new();
        let mut nodes: Vec<NodeId> = Vec::new();
        let mut node_threads: Vec<u32> = Vec::new();
        let (mut sockets, mut thread, mut widest_core) = (0, 0, 1);
        for (i, p) in places.iter().enumerate() {
            let before = i.checked_sub(1).map(|i| &places[i]);
            if before.is_none_or(|b| (b.socket, b.node, b.cache) != (p.socket, p.node, p.cache)) {
                sockets += u32::from(before.is_none_or(|b| b.socket != p.socket));
                let node_index = nodes.iter().position(|n| *n == p.node).unwrap_or_else(|| {
                    nodes.push(p.node);
                    node_threads.push(0);
                    nodes.len() - 1
                });
                domains.push(Domain {
                    first_core: i as u32,
                    cores: 0,
                    threads: 0,
                    socket: sockets - 1,
                    node: p.node,
                    node_index: node_index as u32,
                });
            }
            let number = domains.len() as u32 - 1;
            let domain = &mut domains[number as usize];
            domain.cores += 1;
            domain.threads += p.threads;
            node_threads[domain.node_index as usize] += p.threads;
            widest_core = widest_core.max(p.threads);
            cores.push(Core {
                first: thread,
                threads: p.threads,
                domain: number,
                slowness: u32::from(fastest - p.rank),
            });
            place_of_core[p.core.index()] = i as u32;
            thread += p.threads;
        }

        let mut cpu = vec![CpuId(0); thread as usize];
        let mut core_of = vec![0; thread as usize];
        let mut thread_of = vec![UNOWNED; threads.last().map_or(0, |t| t.cpu.index() + 1)];
        let mut next: Vec<ThreadIndex> = cores.iter().map(|c: &Core| c.first).collect();
        for t in threads.iter().filter(|t| usable.contains(t.cpu)) {
            let core = place_of_core[t.core.index()];
            let thread = &mut next[core as usize];
            cpu[*thread as usize] = t.cpu;
            core_of[*thread as usize] = core;
            thread_of[t.cpu.index()] = *thread;
            *thread += 1;
        }
        Self {
            cpu,
            core_of,
            cores,
            domains,
            sockets,
            node_threads,
            widest_core,
            thread_of,
        }
    }

    pub(crate) fn thread(&self, cpu: CpuId) -> Option<ThreadIndex> {
        self.thread_of
            .get(cpu.index())
            .copied()
            .filter(|thread| *thread != UNOWNED)
    }

    pub(crate) fn domain_of(&self, thread: ThreadIndex) -> u32 {
        self.cores[self.core_of[thread as usize] as usize].domain
    }
}

// Where a core sits, before domains are numbered.
struct Place {
    socket: u32,
    cache: u32,
    node: NodeId,
    core: CoreId,
    rank: u8,
    threads: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::topology::{CoreRank, Description, HardwareThread, Shape};
    use mapper_model::{CacheId, SocketId};

    #[test]
    fn a_socket_is_one_domain_on_an_ordinary_machine() {
        let topology = Topology::regular(Shape {
            sockets: 2,
            cores_per_socket: 2,
            threads_per_core: 2,
        });
        let layout = Layout::new(&topology, &"0-3,5-7".parse().unwrap());
        let cpus: Vec<u32> = layout.cpu.iter().map(|c| c.0).collect();
        // CPU 4, the sibling of CPU 0, is not usable.
        assert_eq!(cpus, [0, 1, 5, 2, 6, 3, 7]);
        assert_eq!(layout.domains.len(), 2);
        assert_eq!(
            (layout.domains[0].threads, layout.domains[1].threads),
            (3, 4),
            "{layout:?}"
        );
        assert_eq!(layout.thread(CpuId(4)), None);
        assert_eq!(layout.thread(CpuId(99)), None);
        assert_eq!(layout.domain_of(layout.thread(CpuId(6)).unwrap()), 1);
    }

    #[test]
    fn caches_and_nodes_split_a_socket_into_domains() {
        // One socket, two nodes, two caches on each, one core a cache.
        let thread = |n: u32| HardwareThread {
            cpu: CpuId(n),
            core: CoreId(n),
            socket: SocketId(0),
            node: NodeId(n / 2 * 3),
            cache: CacheId(n),
            rank: CoreRank(u8::from(n == 0)),
        };
        let topology = Topology::new(Description {
            threads: (0..4).map(thread).collect(),
            ..Description::default()
        })
        .unwrap();
        let layout = Layout::new(&topology, topology.cpus());
        assert_eq!((layout.domains.len(), layout.sockets), (4, 1));
        assert_eq!(layout.node_threads, [2, 2]);
        assert_eq!(layout.domains[3].node, NodeId(3));
        let slow: Vec<u32> = layout.cores.iter().map(|c| c.slowness).collect();
        assert_eq!(slow, [0, 1, 1, 1]);
    }
}
