//! Who sits where while a placement is made.
//!
//! A [`Board`] is a [`Layout`] with an owner for every seat, and the sums over cores and regions
//! that the placing rules ask for, kept up to date as seats are taken and released. Owners are
//! *units*: an application with CPUs of its own, or all applications that share one slot.

use crate::layout::{Core, Layout, NOBODY, Seat};

/// Owner of a core whose seats belong to several units.
pub(crate) const MIXED: u32 = u32::MAX - 1;

/// What a unit is to the others on the board.
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
    /// Seats taken.
    pub(crate) used: u32,
    /// Seats taken by hot units.
    pub(crate) hot: u32,
    /// The unit that has all taken seats, [`NOBODY`] or [`MIXED`].
    pub(crate) owner: u32,
}

/// The occupants of a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionState {
    /// Seats not taken.
    pub(crate) free: u32,
    /// Cores with no seat taken.
    pub(crate) idle: u32,
    /// Cores with a free seat and without a hot occupant.
    pub(crate) open: u32,
    /// Units with a seat here.
    pub(crate) units: u32,
}

/// Who sits where. See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Board<'l> {
    pub(crate) layout: &'l Layout,
    pub(crate) natures: &'l [Nature],
    /// Owner of each seat.
    pub(crate) owner: Vec<u32>,
    pub(crate) cores: Vec<CoreState>,
    pub(crate) regions: Vec<RegionState>,
    /// Units with a seat in each socket, counted once for each region.
    pub(crate) socket_units: Vec<u32>,
    /// Seats of streaming units on each node.
    pub(crate) node_streams: Vec<u32>,
    // Seats of each unit in each region, unit by unit.
    counts: Vec<u32>,
}

impl<'l> Board<'l> {
    /// An empty board.
    pub(crate) fn new(layout: &'l Layout, natures: &'l [Nature]) -> Self {
        Self {
            layout,
            natures,
            owner: vec![NOBODY; layout.cpu.len()],
            cores: vec![
                CoreState {
                    used: 0,
                    hot: 0,
                    owner: NOBODY,
                };
                layout.cores.len()
            ],
            regions: layout
                .regions
                .iter()
                .map(|r| RegionState {
                    free: r.seats,
                    idle: r.cores,
                    open: r.cores,
                    units: 0,
                })
                .collect(),
            socket_units: vec![0; layout.sockets as usize],
            node_streams: vec![0; layout.node_seats.len()],
            counts: vec![0; natures.len() * layout.regions.len()],
        }
    }

    /// How many seats the unit has in each region.
    pub(crate) fn counts(&self, unit: u32) -> &[u32] {
        let regions = self.layout.regions.len();
        &self.counts[unit as usize * regions..][..regions]
    }

    /// The core with a number.
    pub(crate) fn core(&self, core: u32) -> &'l Core {
        &self.layout.cores[core as usize]
    }

    /// Free seats of a core.
    pub(crate) fn free_on(&self, core: u32) -> u32 {
        self.core(core).seats - self.cores[core as usize].used
    }

    /// Gives a free seat to a unit.
    pub(crate) fn take(&mut self, unit: u32, seat: Seat) {
        debug_assert_eq!(self.owner[seat as usize], NOBODY);
        self.owner[seat as usize] = unit;
        let nature = self.natures[unit as usize];
        let number = self.layout.core_of[seat as usize];
        let core = self.layout.cores[number as usize];
        let place = self.layout.regions[core.region as usize];
        let state = &mut self.cores[number as usize];
        let region = &mut self.regions[core.region as usize];
        let was_open = state.used < core.seats && state.hot == 0;
        if state.used == 0 {
            region.idle -= 1;
            state.owner = unit;
        } else if state.owner != unit {
            state.owner = MIXED;
        }
        state.used += 1;
        state.hot += u32::from(nature.hot);
        if was_open && !(state.used < core.seats && state.hot == 0) {
            region.open -= 1;
        }
        region.free -= 1;
        if nature.streams {
            self.node_streams[place.node_index as usize] += 1;
        }
        let at = unit as usize * self.layout.regions.len() + core.region as usize;
        let count = &mut self.counts[at];
        if *count == 0 {
            region.units += 1;
            self.socket_units[place.socket as usize] += 1;
        }
        *count += 1;
    }

    /// Takes a seat back from its unit.
    pub(crate) fn release(&mut self, seat: Seat) {
        let unit = self.owner[seat as usize];
        debug_assert_ne!(unit, NOBODY);
        self.owner[seat as usize] = NOBODY;
        let nature = self.natures[unit as usize];
        let number = self.layout.core_of[seat as usize];
        let core = self.layout.cores[number as usize];
        let place = self.layout.regions[core.region as usize];
        let remaining = core_owner(&self.owner[core.first as usize..][..core.seats as usize]);
        let state = &mut self.cores[number as usize];
        let region = &mut self.regions[core.region as usize];
        let was_open = state.used < core.seats && state.hot == 0;
        state.used -= 1;
        state.hot -= u32::from(nature.hot);
        state.owner = remaining;
        if state.used == 0 {
            region.idle += 1;
        }
        if !was_open && state.hot == 0 {
            region.open += 1;
        }
        region.free += 1;
        if nature.streams {
            self.node_streams[place.node_index as usize] -= 1;
        }
        let at = unit as usize * self.layout.regions.len() + core.region as usize;
        let count = &mut self.counts[at];
        *count -= 1;
        if *count == 0 {
            region.units -= 1;
            self.socket_units[place.socket as usize] -= 1;
        }
    }
}

/// The one owner of the taken seats of a core.
fn core_owner(seats: &[u32]) -> u32 {
    let mut owners = seats.iter().copied().filter(|owner| *owner != NOBODY);
    let Some(first) = owners.next() else {
        return NOBODY;
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
        fn the_sums_are_those_of_the_seats(steps in proptest::collection::vec((0u32..3, 0u32..24), 0..120)) {
            let topology = Topology::regular(Shape { sockets: 2, cores_per_socket: 3, threads_per_core: 4 });
            let layout = Layout::new(&topology, topology.cpus());
            let natures = [
                Nature { hot: true, streams: false },
                Nature { hot: false, streams: true },
                Nature::default(),
            ];
            let mut board = Board::new(&layout, &natures);
            for (unit, seat) in steps {
                if board.owner[seat as usize] == NOBODY {
                    board.take(unit, seat);
                } else {
                    board.release(seat);
                }
            }
            for (number, core) in layout.cores.iter().enumerate() {
                let owners: Vec<u32> = core
                    .range()
                    .map(|s| board.owner[s as usize])
                    .filter(|o| *o != NOBODY)
                    .collect();
                let state = board.cores[number];
                prop_assert_eq!(state.used as usize, owners.len());
                prop_assert_eq!(state.hot as usize, owners.iter().filter(|o| **o == 0).count());
                let expected = match owners.first() {
                    None => NOBODY,
                    Some(first) if owners.iter().all(|o| o == first) => *first,
                    Some(_) => MIXED,
                };
                prop_assert_eq!(state.owner, expected);
            }
            for (number, region) in layout.regions.iter().enumerate() {
                let state = board.regions[number];
                let cores: Vec<_> = region.range().map(|c| (board.cores[c as usize], layout.cores[c as usize])).collect();
                let counts: Vec<u32> = (0..3u32)
                    .map(|u| {
                        let seats = region.range().flat_map(|c| layout.cores[c as usize].range());
                        seats.filter(|s| board.owner[*s as usize] == u).count() as u32
                    })
                    .collect();
                for (unit, count) in counts.iter().enumerate() {
                    prop_assert_eq!(board.counts(unit as u32)[number], *count);
                }
                prop_assert_eq!(state.free, region.seats - counts.iter().sum::<u32>());
                prop_assert_eq!(state.idle as usize, cores.iter().filter(|(s, _)| s.used == 0).count());
                prop_assert_eq!(
                    state.open as usize,
                    cores.iter().filter(|(s, c)| s.hot == 0 && s.used < c.seats).count()
                );
                prop_assert_eq!(state.units as usize, counts.iter().filter(|c| **c > 0).count());
                prop_assert_eq!(board.node_streams[region.node_index as usize], counts[1]);
                prop_assert_eq!(board.socket_units[region.socket as usize], state.units);
            }
        }
    }
}
