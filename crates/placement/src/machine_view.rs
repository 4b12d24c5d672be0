//! Who sits where while a placement is made.
//!
//! A [`MachineView`] is a [`Layout`] with an owner for every thread, and sums over cores and domains, kept
//! up to date as threads are taken and released. Owners are *demands*.

use crate::layout::{Core, Layout, ThreadIndex, UNOWNED};
use mapper_model::NodeId;

/// Owner of a core whose threads belong to several demands.
pub(crate) const MIXED: u32 = u32::MAX - 1;

/// What a demand is to the others on the view.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Nature {
    /// It keeps its cores busy and suffers from busy siblings.
    pub(crate) hot: bool,
    /// It strains the memory controller of its node.
    pub(crate) streams: bool,
}

/// The occupants of a core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoreState {
    /// FreeCpus taken.
    pub(crate) used: u32,
    /// FreeCpus taken by hot demands.
    pub(crate) hot: u32,
    /// The demand that has all taken threads, [`UNOWNED`] or [`MIXED`].
    pub(crate) owner: u32,
}

/// The occupants of a domain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DomainState {
    /// FreeCpus not taken.
    pub(crate) free: u32,
    /// Cores with no thread taken.
    pub(crate) idle: u32,
    /// Cores with a free thread and without a hot occupant.
    pub(crate) open: u32,
    /// Demands with a thread here.
    pub(crate) demands: u32,
}

/// Who sits where. See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct MachineView<'l> {
    pub(crate) layout: &'l Layout,
    pub(crate) natures: &'l [Nature],
    /// Owner of each thread.
    pub(crate) owner: Vec<u32>,
    pub(crate) cores: Vec<CoreState>,
    pub(crate) domains: Vec<DomainState>,
    /// Demands with a thread in each socket, counted once for each domain.
    pub(crate) socket_demands: Vec<u32>,
    /// FreeCpus of streaming demands on each node.
    pub(crate) node_streams: Vec<u32>,
    // FreeCpus of each demand in each domain, demand by demand.
    counts: Vec<u32>,
}

impl<'l> MachineView<'l> {
    pub(crate) fn new(layout: &'l Layout, natures: &'l [Nature]) -> Self {
        Self {
            layout,
            natures,
            owner: vec![UNOWNED; layout.cpu.len()],
            cores: vec![
                CoreState {
                    used: 0,
                    hot: 0,
                    owner: UNOWNED,
                };
                layout.cores.len()
            ],
            domains: layout
                .domains
                .iter()
                .map(|r| DomainState {
                    free: r.threads,
                    idle: r.cores,
                    open: r.cores,
                    demands: 0,
                })
                .collect(),
            socket_demands: vec![0; layout.sockets as usize],
            node_streams: vec![0; layout.node_threads.len()],
            counts: vec![0; natures.len() * layout.domains.len()],
        }
    }

    /// How many threads the demand has in each domain.
    pub(crate) fn counts(&self, demand: u32) -> &[u32] {
        let domains = self.layout.domains.len();
        &self.counts[demand as usize * domains..][..domains]
    }

    /// How many threads the demand has.
    pub(crate) fn total(&self, demand: u32) -> u32 {
        self.counts(demand).iter().sum()
    }

    /// How many threads the demand has on a node.
    pub(crate) fn on_node(&self, demand: u32, node: NodeId) -> u32 {
        let domains = self.layout.domains.iter().zip(self.counts(demand));
        let here = domains.filter(|(domain, _)| domain.node == node);
        here.map(|(_, count)| *count).sum()
    }

    pub(crate) fn core(&self, core: u32) -> &'l Core {
        &self.layout.cores[core as usize]
    }

    pub(crate) fn free_on(&self, core: u32) -> u32 {
        self.core(core).threads - self.cores[core as usize].used
    }

    pub(crate) fn take(&mut self, demand: u32, thread: ThreadIndex) {
        debug_assert_eq!(self.owner[thread as usize], UNOWNED);
        self.owner[thread as usize] = demand;
        let nature = self.natures[demand as usize];
        let number = self.layout.core_of[thread as usize];
        let core = self.layout.cores[number as usize];
        let place = self.layout.domains[core.domain as usize];
        let state = &mut self.cores[number as usize];
        let domain = &mut self.domains[core.domain as usize];
        let was_open = state.used < core.threads && state.hot == 0;
        if state.used == 0 {
            domain.idle -= 1;
            state.owner = demand;
        } else if state.owner != demand {
            state.owner = MIXED;
        }
        state.used += 1;
        state.hot += u32::from(nature.hot);
        if was_open && !(state.used < core.threads && state.hot == 0) {
            domain.open -= 1;
        }
        domain.free -= 1;
        if nature.streams {
            self.node_streams[place.node_index as usize] += 1;
        }
        let at = demand as usize * self.layout.domains.len() + core.domain as usize;
        let count = &mut self.counts[at];
        if *count == 0 {
            domain.demands += 1;
            self.socket_demands[place.socket as usize] += 1;
        }
        *count += 1;
    }

    pub(crate) fn release(&mut self, thread: ThreadIndex) {
        let demand = self.owner[thread as usize];
        debug_assert_ne!(demand, UNOWNED);
        self.owner[thread as usize] = UNOWNED;
        let nature = self.natures[demand as usize];
        let number = self.layout.core_of[thread as usize];
        let core = self.layout.cores[number as usize];
        let place = self.layout.domains[core.domain as usize];
        let remaining = core_owner(&self.owner[core.first as usize..][..core.threads as usize]);
        let state = &mut self.cores[number as usize];
        let domain = &mut self.domains[core.domain as usize];
        let was_open = state.used < core.threads && state.hot == 0;
        state.used -= 1;
        state.hot -= u32::from(nature.hot);
        state.owner = remaining;
        if state.used == 0 {
            domain.idle += 1;
        }
        if !was_open && state.hot == 0 {
            domain.open += 1;
        }
        domain.free += 1;
        if nature.streams {
            self.node_streams[place.node_index as usize] -= 1;
        }
        let at = demand as usize * self.layout.domains.len() + core.domain as usize;
        let count = &mut self.counts[at];
        *count -= 1;
        if *count == 0 {
            domain.demands -= 1;
            self.socket_demands[place.socket as usize] -= 1;
        }
    }
}

/// The one owner of the taken threads of a core.
fn core_owner(threads: &[u32]) -> u32 {
    let mut owners = threads.iter().copied().filter(|owner| *owner != UNOWNED);
    let Some(first) = owners.next() else {
        return UNOWNED;
    };
    if owners.all(|owner| owner == first) {
        first
    } else {
        MIXED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::Topology;
    use mapper_model::topology::Shape;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_sums_are_those_of_the_threads(steps in proptest::collection::vec((0u32..3, 0u32..24), 0..120)) {
            let topology = Topology::regular(Shape { sockets: 2, cores_per_socket: 3, threads_per_core: 4 });
            let layout = Layout::new(&topology, topology.cpus());
            let natures = [
                Nature { hot: true, streams: false },
                Nature { hot: false, streams: true },
                Nature::default(),
            ];
            let mut view = MachineView::new(&layout, &natures);
            for (demand, thread) in steps {
                if view.owner[thread as usize] == UNOWNED {
                    view.take(demand, thread);
                } else {
                    view.release(thread);
                }
            }
            for (number, core) in layout.cores.iter().enumerate() {
                let owners: Vec<u32> = core
                    .range()
                    .map(|s| view.owner[s as usize])
                    .filter(|o| *o != UNOWNED)
                    .collect();
                let state = view.cores[number];
                prop_assert_eq!(state.used as usize, owners.len());
                prop_assert_eq!(state.hot as usize, owners.iter().filter(|o| **o == 0).count());
                let expected = match owners.first() {
                    None => UNOWNED,
                    Some(first) if owners.iter().all(|o| o == first) => *first,
                    Some(_) => MIXED,
                };
                prop_assert_eq!(state.owner, expected);
            }
            for (number, domain) in layout.domains.iter().enumerate() {
                let state = view.domains[number];
                let cores: Vec<_> = domain.range().map(|c| (view.cores[c as usize], layout.cores[c as usize])).collect();
                let counts: Vec<u32> = (0..3u32)
                    .map(|u| {
                        let threads = domain.range().flat_map(|c| layout.cores[c as usize].range());
                        threads.filter(|s| view.owner[*s as usize] == u).count() as u32
                    })
                    .collect();
                for (demand, count) in counts.iter().enumerate() {
                    prop_assert_eq!(view.counts(demand as u32)[number], *count);
                }
                prop_assert_eq!(state.free, domain.threads - counts.iter().sum::<u32>());
                prop_assert_eq!(state.idle as usize, cores.iter().filter(|(s, _)| s.used == 0).count());
                prop_assert_eq!(
                    state.open as usize,
                    cores.iter().filter(|(s, c)| s.hot == 0 && s.used < c.threads).count()
                );
                prop_assert_eq!(state.demands as usize, counts.iter().filter(|c| **c > 0).count());
                prop_assert_eq!(view.node_streams[domain.node_index as usize], counts[1]);
                prop_assert_eq!(view.socket_demands[domain.socket as usize], state.demands);
            }
        }
    }
}
