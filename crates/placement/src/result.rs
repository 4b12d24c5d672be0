//! From a board to a [`Placement`], with a name for how each application was placed.

use crate::board::{Board, MIXED};
use crate::layout::NOBODY;
use crate::unit::{Unit, Units, Wish};
use mapper_model::{Allocation, AppPlacement, CpuSet, Placement, Sharing, Strategy};

/// The placement of every share. `strategy` names how a unit was placed.
pub(crate) fn to_placement(
    board: &Board<'_>,
    units: &Units<'_>,
    allocation: &Allocation,
    strategy: impl Fn(&Board<'_>, u32, &Unit<'_>) -> Strategy,
) -> Placement {
    let mut sets = vec![CpuSet::new(); units.list.len()];
    for (seat, &unit) in board.owner.iter().enumerate() {
        if unit != NOBODY {
            sets[unit as usize].insert(board.layout.cpu[seat]);
        }
    }
    // Only an allocation that promises more CPUs than there are leaves somebody without; the
    // checker reports the overlap, but a set is never empty.
    for set in &mut sets {
        if set.is_empty() {
            set.extend(board.layout.cpu.first().copied());
        }
    }
    let apps = allocation
        .shares
        .iter()
        .zip(&units.of_share)
        .map(|(share, &unit)| AppPlacement {
            app: share.app,
            cpus: sets[unit as usize].clone(),
            strategy: match share.sharing {
                Sharing::Slot(_) => Strategy::Shared,
                Sharing::Exclusive => strategy(board, unit, &units.list[unit as usize]),
            },
        });
    Placement {
        apps: apps.collect(),
    }
}

impl Board<'_> {
    /// The strategy that a unit was placed by, or [`Strategy::LeastContention`] where it did not
    /// get what it wants.
    pub(crate) fn strategy_of(&self, id: u32, unit: &Unit<'_>) -> Strategy {
        if unit.by_node.is_some() {
            return Strategy::ByNode;
        }
        let fitted = match unit.wish {
            Wish::Paired => (self.in_few_sockets(id, unit), Strategy::SameCore),
            Wish::Together | Wish::Near => (self.in_few_sockets(id, unit), Strategy::SameSocket),
            Wish::NearAndCool if self.in_few_sockets(id, unit) => {
                (self.beside_no_hot_thread(id), Strategy::SameSocket)
            }
            Wish::NearAndCool | Wish::OwnCores => {
                (self.beside_no_hot_thread(id), Strategy::OwnCores)
            }
            Wish::Spread => (self.on_many_nodes(id, unit), Strategy::Spread),
            Wish::Compact => (self.shares_no_core(id), Strategy::OwnCores),
        };
        match fitted {
            (true, strategy) => strategy,
            (false, _) => Strategy::LeastContention,
        }
    }

    /// Whether it is in no more sockets than its CPUs need.
    fn in_few_sockets(&self, id: u32, unit: &Unit<'_>) -> bool {
        let mut seats = vec![0; self.layout.sockets as usize];
        let mut used = vec![false; self.layout.sockets as usize];
        for (region, &count) in self.layout.regions.iter().zip(self.counts(id)) {
            seats[region.socket as usize] += region.seats;
            used[region.socket as usize] |= count > 0;
        }
        seats.sort_unstable_by(|a, b| b.cmp(a));
        let mut missing = unit.want;
        let needed = seats
            .iter()
            .take_while(|&&s| {
                let more = missing > 0;
                missing = missing.saturating_sub(s);
                more
            })
            .count();
        used.iter().filter(|used| **used).count() <= needed
    }

    /// Whether its CPUs are on as many nodes as it can have.
    fn on_many_nodes(&self, id: u32, unit: &Unit<'_>) -> bool {
        let nodes = self.layout.node_seats.len();
        let mut used = vec![false; nodes];
        for (region, &count) in self.layout.regions.iter().zip(self.counts(id)) {
            used[region.node_index as usize] |= count > 0;
        }
        used.iter().filter(|used| **used).count() >= nodes.min(unit.want as usize)
    }

    /// Whether none of its threads shares a core with a hot one.
    fn beside_no_hot_thread(&self, id: u32) -> bool {
        self.own_cores(id).all(|core| {
            let state = self.cores[core];
            state.hot <= 1
        })
    }

    /// Whether none of its cores has a thread of another unit.
    fn shares_no_core(&self, id: u32) -> bool {
        self.own_cores(id)
            .all(|core| self.cores[core].owner != MIXED)
    }

    fn own_cores(&self, id: u32) -> impl Iterator<Item = usize> {
        let layout = self.layout;
        (0..layout.regions.len())
            .filter(move |&r| self.counts(id)[r] > 0)
            .flat_map(move |r| layout.regions[r].range())
            .map(|core| core as usize)
            .filter(move |&core| {
                let owner = self.cores[core].owner;
                let mut seats = layout.cores[core].range();
                owner == id || (owner == MIXED && seats.any(|s| self.owner[s as usize] == id))
            })
    }
}
