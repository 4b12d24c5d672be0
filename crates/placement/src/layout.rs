//! The usable part of a machine, laid out for placing.
//!
//! A [`Layout`] lists the usable hardware threads as *seats*, sorted so that the seats of a core,
//! the cores of a region and the regions of a socket are contiguous. It is built once per decision
//! from the topology and the usable CPUs; everything else in this crate works on its dense numbers.
//!
//! A *region* is the smallest part of the machine within which threads share a last-level cache
//! and a memory controller: a whole socket on an ordinary machine, one L3 of several on a chiplet
//! machine, one cluster where a socket is split into several NUMA nodes. It is where contention and
//! the cost of sharing change, so it takes the place of the papers' "socket" [SAM-MPH §4.4,
//! MAPPER §3.4]; where an application does not fit into one region, regions of the same socket come
//! next.
//!
//! Invariants: every usable CPU of the topology is one seat; a core lies in one region (that of its
//! first thread) and a region in one socket and one node; CPUs that are not usable do not occur, so
//! a core with an offline sibling has fewer seats.

use mapper_model::{CoreId, CpuId, CpuSet, NodeId, Topology};

/// Index of a usable hardware thread in a [`Layout`].
pub(crate) type Seat = u32;

/// No seat, no unit.
pub(crate) const NOBODY: u32 = u32::MAX;

/// A core with at least one usable thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Core {
    /// Its first seat.
    pub(crate) first: Seat,
    /// How many seats it has.
    pub(crate) seats: u32,
    /// The region it lies in.
    pub(crate) region: u32,
    /// How far it is below the fastest cores of the machine; 0 on ordinary machines.
    pub(crate) slowness: u32,
}

impl Core {
    /// The seats of the core.
    pub(crate) const fn range(&self) -> std::ops::Range<Seat> {
        self.first..self.first + self.seats
    }
}

/// A region with at least one usable thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    /// Its first core.
    pub(crate) first_core: u32,
    /// How many cores it has.
    pub(crate) cores: u32,
    /// How many seats it has.
    pub(crate) seats: u32,
    /// Dense number of its socket among those with usable threads.
    pub(crate) socket: u32,
    /// Its NUMA node.
    pub(crate) node: NodeId,
    /// Dense number of its node among those with usable threads.
    pub(crate) node_index: u32,
}

impl Region {
    /// The cores of the region.
    pub(crate) const fn range(&self) -> std::ops::Range<u32> {
        self.first_core..self.first_core + self.cores
    }
}

/// The usable part of a machine. See the [module](self).
#[derive(Debug)]
pub(crate) struct Layout {
    /// CPU of each seat.
    pub(crate) cpu: Vec<CpuId>,
    /// Core of each seat.
    pub(crate) core_of: Vec<u32>,
    /// The cores, region by region.
    pub(crate) cores: Vec<Core>,
    /// The regions, socket by socket.
    pub(crate) regions: Vec<Region>,
    /// How many sockets have usable threads.
    pub(crate) sockets: u32,
    /// Usable threads of each node that has any.
    pub(crate) node_seats: Vec<u32>,
    /// The most seats a core has.
    pub(crate) widest_core: u32,
    // Seat by CPU number, `NOBODY` where the CPU is not usable.
    seat_of: Vec<Seat>,
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
                    seats: 0,
                });
            }
            places[*slot as usize].seats += 1;
        }
        places.sort_unstable_by_key(|p| (p.socket, p.node, p.cache, p.core));

        let mut cores = Vec::with_capacity(places.len());
        let mut regions: Vec<Region> = Vec::new();
        let mut nodes: Vec<NodeId> = Vec::new();
        let mut node_seats: Vec<u32> = Vec::new();
        let (mut sockets, mut seat, mut widest_core) = (0, 0, 1);
        for (i, p) in places.iter().enumerate() {
            let before = i.checked_sub(1).map(|i| &places[i]);
            if before.is_none_or(|b| (b.socket, b.node, b.cache) != (p.socket, p.node, p.cache)) {
                sockets += u32::from(before.is_none_or(|b| b.socket != p.socket));
                let node_index = nodes.iter().position(|n| *n == p.node).unwrap_or_else(|| {
                    nodes.push(p.node);
                    node_seats.push(0);
                    nodes.len() - 1
                });
                regions.push(Region {
                    first_core: i as u32,
                    cores: 0,
                    seats: 0,
                    socket: sockets - 1,
                    node: p.node,
                    node_index: node_index as u32,
                });
            }
            let number = regions.len() as u32 - 1;
            let region = &mut regions[number as usize];
            region.cores += 1;
            region.seats += p.seats;
            node_seats[region.node_index as usize] += p.seats;
            widest_core = widest_core.max(p.seats);
            cores.push(Core {
                first: seat,
                seats: p.seats,
                region: number,
                slowness: u32::from(fastest - p.rank),
            });
            place_of_core[p.core.index()] = i as u32;
            seat += p.seats;
        }

        let mut cpu = vec![CpuId(0); seat as usize];
        let mut core_of = vec![0; seat as usize];
        let mut seat_of = vec![NOBODY; threads.last().map_or(0, |t| t.cpu.index() + 1)];
        let mut next: Vec<Seat> = cores.iter().map(|c: &Core| c.first).collect();
        for t in threads.iter().filter(|t| usable.contains(t.cpu)) {
            let core = place_of_core[t.core.index()];
            let seat = &mut next[core as usize];
            cpu[*seat as usize] = t.cpu;
            core_of[*seat as usize] = core;
            seat_of[t.cpu.index()] = *seat;
            *seat += 1;
        }
        Self {
            cpu,
            core_of,
            cores,
            regions,
            sockets,
            node_seats,
            widest_core,
            seat_of,
        }
    }

    /// The seat of a CPU, if it is usable.
    pub(crate) fn seat(&self, cpu: CpuId) -> Option<Seat> {
        self.seat_of
            .get(cpu.index())
            .copied()
            .filter(|seat| *seat != NOBODY)
    }

    /// The region of a seat.
    pub(crate) fn region_of(&self, seat: Seat) -> u32 {
        self.cores[self.core_of[seat as usize] as usize].region
    }
}

// Where a core sits, before regions are numbered.
struct Place {
    socket: u32,
    cache: u32,
    node: NodeId,
    core: CoreId,
    rank: u8,
    seats: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::topology::{CoreRank, Description, HardwareThread, Shape};
    use mapper_model::{CacheId, SocketId};

    #[test]
    fn a_socket_is_one_region_on_an_ordinary_machine() {
        let topology = Topology::regular(Shape {
            sockets: 2,
            cores_per_socket: 2,
            threads_per_core: 2,
        });
        let layout = Layout::new(&topology, &"0-3,5-7".parse().unwrap());
        let cpus: Vec<u32> = layout.cpu.iter().map(|c| c.0).collect();
        // CPU 4, the sibling of CPU 0, is not usable.
        assert_eq!(cpus, [0, 1, 5, 2, 6, 3, 7]);
        assert_eq!(layout.regions.len(), 2);
        assert_eq!(
            (layout.regions[0].seats, layout.regions[1].seats),
            (3, 4),
            "{layout:?}"
        );
        assert_eq!(layout.seat(CpuId(4)), None);
        assert_eq!(layout.seat(CpuId(99)), None);
        assert_eq!(layout.region_of(layout.seat(CpuId(6)).unwrap()), 1);
    }

    #[test]
    fn caches_and_nodes_split_a_socket_into_regions() {
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
        assert_eq!((layout.regions.len(), layout.sockets), (4, 1));
        assert_eq!(layout.node_seats, [2, 2]);
        assert_eq!(layout.regions[3].node, NodeId(3));
        let slow: Vec<u32> = layout.cores.iter().map(|c| c.slowness).collect();
        assert_eq!(slow, [0, 1, 1, 1]);
    }
}
