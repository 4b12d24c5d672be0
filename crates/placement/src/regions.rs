//! How many CPUs of each region an application gets.
//!
//! To gather, an application takes one region that no other application uses, else any region that
//! holds it, else regions of one socket, else as few sockets as possible, the roomiest first
//! [SAM-MPH §4.4, readings "Order and placement"]. Among equal ones it takes those where it already
//! is [MAPPER §3.4]. An application that grows first fills the regions and then the sockets where
//! it has most.
//!
//! What counts as room depends on the wish: a sharing application takes any free CPU of its region,
//! one that needs the pipeline looks for idle cores, then for cores without another hot thread, and
//! only then for what is left.

use crate::board::Board;
use crate::layout::NOBODY;
use crate::unit::{Apart, Unit, Wish};
use mapper_model::NodeId;
use std::cmp::Reverse;

/// Chooses regions. Holds no state between calls but buffers.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    /// The result: how many more CPUs in each region.
    pub(crate) take: Vec<u32>,
    room: Vec<u32>,
    socket_room: Vec<u32>,
    socket_affinity: Vec<u32>,
    order: Vec<u32>,
}

/// Which free CPUs count as room.
#[derive(Clone, Copy, Debug)]
enum Room {
    /// All.
    Free,
    /// One for each core without a hot occupant.
    Open,
    /// One for each idle core.
    Idle,
    /// As many for each idle core as the unit puts on one, and those beside its own.
    Budget,
}

impl Regions {
    /// Chooses `need` more CPUs for a unit. `affinity` is how many it has, or had before everything
    /// is placed afresh, in each region.
    pub(crate) fn choose(
        &mut self,
        board: &Board<'_>,
        id: u32,
        unit: &Unit<'_>,
        need: u32,
        affinity: &[u32],
    ) {
        self.take.clear();
        self.take.resize(board.regions.len(), 0);
        let mut left = need;
        for share in unit.by_node.unwrap_or_default() {
            let regions = &board.layout.regions;
            let have: u32 = (regions.iter().zip(board.counts(id)))
                .filter(|(region, _)| region.node == share.node)
                .map(|(_, count)| *count)
                .sum();
            let part = left.min(share.cpus.saturating_sub(have));
            left -= self.fill(board, id, unit, part, affinity, Some(share.node));
        }
        self.fill(board, id, unit, left, affinity, None);
    }

    /// Adds up to `need` CPUs within a node, or anywhere. Returns how many it found.
    fn fill(
        &mut self,
        board: &Board<'_>,
        id: u32,
        unit: &Unit<'_>,
        need: u32,
        affinity: &[u32],
        node: Option<NodeId>,
    ) -> u32 {
        if need == 0 {
            return 0;
        }
        let tiers: &[Room] = match unit.wish {
            Wish::Spread => return self.spread(board, id, need, affinity, node),
            Wish::Paired | Wish::Together | Wish::Near => &[Room::Free],
            Wish::NearAndCool => &[Room::Open, Room::Free],
            Wish::OwnCores => &[Room::Idle, Room::Open, Room::Free],
            Wish::Compact => &[Room::Budget, Room::Free],
        };
        let mut left = need;
        for &tier in tiers {
            let total = self.measure(board, id, unit, tier, node);
            // Half a unit on good places and half elsewhere is worse than all of it in one place,
            // unless the good places are worth it.
            if matches!(tier, Room::Budget) && total < left {
                continue;
            }
            left -= self.gather(board, id, unit, left.min(total), affinity);
            if left == 0 {
                break;
            }
        }
        need - left
    }

    /// Computes the room of every region; returns the sum.
    fn measure(
        &mut self,
        board: &Board<'_>,
        id: u32,
        unit: &Unit<'_>,
        kind: Room,
        node: Option<NodeId>,
    ) -> u32 {
        self.room.clear();
        let mut total = 0;
        let per_core = unit.want.div_ceil(unit.cores.max(1));
        for (r, (region, state)) in board.layout.regions.iter().zip(&board.regions).enumerate() {
            let taken = self.take[r];
            let room = if node.is_some_and(|n| n != region.node) {
                0
            } else {
                let free = state.free - taken;
                match kind {
                    Room::Free => free,
                    Room::Open => state.open.saturating_sub(taken).min(free),
                    Room::Idle => state.idle.saturating_sub(taken).min(free),
                    Room::Budget => {
                        let beside = if per_core > 1 && board.counts(id)[r] > 0 {
                            beside_own(board, id, r)
                        } else {
                            0
                        };
                        (state.idle * per_core + beside)
                            .saturating_sub(taken)
                            .min(free)
                    }
                }
            };
            self.room.push(room);
            total += room;
        }
        total
    }

    /// Adds `need` CPUs out of `room`, which holds that many.
    fn gather(
        &mut self,
        board: &Board<'_>,
        id: u32,
        unit: &Unit<'_>,
        need: u32,
        affinity: &[u32],
    ) -> u32 {
        let regions = &board.layout.regions;
        self.socket_room.clear();
        self.socket_room.resize(board.layout.sockets as usize, 0);
        self.socket_affinity.clear();
        self.socket_affinity
            .resize(board.layout.sockets as usize, 0);
        for (r, region) in regions.iter().enumerate() {
            self.socket_room[region.socket as usize] += self.room[r];
            self.socket_affinity[region.socket as usize] += affinity[r];
        }
        let mut left = need;
        let grows = board
            .counts(id)
            .iter()
            .zip(&self.take)
            .any(|(a, b)| a + b > 0);
        if grows {
            self.order.clear();
            self.order.extend(
                (0..regions.len() as u32)
                    .filter(|&r| self.socket_affinity[regions[r as usize].socket as usize] > 0),
            );
            let (order, sockets) = (&mut self.order, &self.socket_affinity);
            order.sort_unstable_by_key(|&r| {
                let socket = regions[r as usize].socket;
                (
                    Reverse(sockets[socket as usize]),
                    Reverse(affinity[r as usize]),
                    r,
                )
            });
            left = self.drain(board, left);
        }
        if left == 0 {
            return need;
        }

        let apart = |used: bool| unit.apart == Apart::Wanted && used;
        let one = (0..regions.len())
            .filter(|&r| self.room[r] >= left)
            .min_by_key(|&r| {
                (
                    apart(board.regions[r].units > 0),
                    Reverse(affinity[r]),
                    apart(board.socket_units[regions[r].socket as usize] > 0),
                    r,
                )
            });
        if let Some(r) = one {
            self.take[r] += left;
            return need;
        }

        let mut sockets: Vec<u32> = (0..board.layout.sockets).collect();
        let one = sockets
            .iter()
            .copied()
            .filter(|&s| self.socket_room[s as usize] >= left)
            .min_by_key(|&s| {
                (
                    apart(board.socket_units[s as usize] > 0),
                    Reverse(self.socket_affinity[s as usize]),
                    s,
                )
            });
        match one {
            Some(s) => sockets = vec![s],
            None => {
                let mut idle = vec![0; sockets.len()];
                for (region, state) in regions.iter().zip(&board.regions) {
                    idle[region.socket as usize] += state.idle;
                }
                sockets.sort_by_key(|&s| {
                    (
                        Reverse(self.socket_room[s as usize]),
                        Reverse(self.socket_affinity[s as usize]),
                        Reverse(idle[s as usize]),
                        s,
                    )
                });
            }
        }
        for socket in sockets {
            self.order.clear();
            self.order.extend(
                (0..regions.len() as u32).filter(|&r| regions[r as usize].socket == socket),
            );
            let room = &self.room;
            self.order.sort_unstable_by_key(|&r| {
                (
                    Reverse(affinity[r as usize]),
                    Reverse(room[r as usize]),
                    Reverse(board.regions[r as usize].idle),
                    r,
                )
            });
            left = self.drain(board, left);
            if left == 0 {
                break;
            }
        }
        need - left
    }

    /// Takes up to `need` from the regions in `order`; returns what is still needed.
    fn drain(&mut self, board: &Board<'_>, mut need: u32) -> u32 {
        for &r in &self.order {
            let part = need.min(self.room[r as usize]);
            self.take[r as usize] += part;
            self.room[r as usize] -= part;
            self.socket_room[board.layout.regions[r as usize].socket as usize] -= part;
            need -= part;
        }
        need
    }

    /// One CPU after the other where the unit has fewest: first by node, as that is where memory
    /// controllers are, then by region; among equal ones where it was before, then where fewest
    /// others stream, then where most cores are idle.
    fn spread(
        &mut self,
        board: &Board<'_>,
        id: u32,
        need: u32,
        affinity: &[u32],
        node: Option<NodeId>,
    ) -> u32 {
        let layout = board.layout;
        let mut on_node = vec![0; layout.node_seats.len()];
        for (r, region) in layout.regions.iter().enumerate() {
            on_node[region.node_index as usize] += board.counts(id)[r] + self.take[r];
        }
        for done in 0..need {
            let best = (0..layout.regions.len())
                .filter(|&r| node.is_none_or(|n| n == layout.regions[r].node))
                .filter(|&r| board.regions[r].free > self.take[r])
                .min_by_key(|&r| {
                    let place = layout.regions[r].node_index as usize;
                    let own = board.counts(id)[r] + self.take[r];
                    (
                        on_node[place],
                        own,
                        affinity[r] <= own,
                        board.node_streams[place],
                        Reverse(board.regions[r].idle.saturating_sub(self.take[r])),
                        r,
                    )
                });
            let Some(r) = best else {
                return done;
            };
            self.take[r] += 1;
            on_node[layout.regions[r].node_index as usize] += 1;
        }
        need
    }
}

/// Free seats of a region on cores that the unit has to itself.
fn beside_own(board: &Board<'_>, id: u32, region: usize) -> u32 {
    board.layout.regions[region]
        .range()
        .filter(|&core| board.cores[core as usize].owner == id && id != NOBODY)
        .map(|core| board.free_on(core))
        .sum()
}
