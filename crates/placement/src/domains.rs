//! How many CPUs of each domain an application gets.
//!
//! To gather, an application takes one domain that no other uses, else any domain that holds it, else
//! domains of one socket, else as few sockets as possible, the roomiest first [SAM-MPH §4.4, readings
//! "Order and placement"]; among equal ones where it already is [MAPPER §3.4]. One that grows first fills
//! the domains and then the sockets where it has most.
//!
//! Room depends on the wish: a sharing application takes any free CPU, one that needs the pipeline idle
//! cores, then cores without another hot thread, then what is left.

use crate::demand::{Apart, Demand, Wish};
use crate::layout::UNOWNED;
use crate::machine_view::MachineView;
use mapper_model::NodeId;
use std::cmp::Reverse;

#[derive(Debug, Default)]
pub(crate) struct Domains {
    /// The result: how many more CPUs in each domain.
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
    /// As many for each idle core as the demand puts on one, and those beside its own.
    Budget,
}

impl Domains {
    /// Chooses `need` more CPUs for a demand. `affinity` is how many it has, or had before everything
    /// is placed afresh, in each domain.
    pub(crate) fn choose(
        &mut self,
        view: &MachineView<'_>,
        id: u32,
        demand: &Demand<'_>,
        need: u32,
        affinity: &[u32],
    ) {
        self.take.clear();
        self.take.resize(view.domains.len(), 0);
        let mut left = need;
        for share in demand.by_node.unwrap_or_default() {
            let have = view.on_node(id, share.node);
            let part = left.min(share.cpus.saturating_sub(have));
            left -= self.fill(view, id, demand, part, affinity, Some(share.node));
        }
        self.fill(view, id, demand, left, affinity, None);
    }

    /// Adds up to `need` CPUs within a node, or anywhere. Returns how many it found.
    fn fill(
        &mut self,
        view: &MachineView<'_>,
        id: u32,
        demand: &Demand<'_>,
        need: u32,
        affinity: &[u32],
        node: Option<NodeId>,
    ) -> u32 {
        if need == 0 {
            return 0;
        }
        let tiers: &[Room] = match demand.wish {
            Wish::Spread => return self.spread(view, id, need, affinity, node),
            Wish::Paired | Wish::Together | Wish::Near => &[Room::Free],
            Wish::NearAndCool => &[Room::Open, Room::Free],
            Wish::OwnCores => &[Room::Idle, Room::Open, Room::Free],
            Wish::Compact => &[Room::Budget, Room::Free],
        };
        let mut left = need;
        for &tier in tiers {
            let total = self.measure(view, id, demand, tier, node);
            // Half a demand on good places and half elsewhere is worse than all of it in one place,
            // unless the good places are worth it.
            if matches!(tier, Room::Budget) && total < left {
                continue;
            }
            left -= self.gather(view, id, demand, left.min(total), affinity);
            if left == 0 {
                break;
            }
        }
        need - left
    }

    /// Computes the room of every domain; returns the sum.
    fn measure(
        &mut self,
        view: &MachineView<'_>,
        id: u32,
        demand: &Demand<'_>,
        kind: Room,
        node: Option<NodeId>,
    ) -> u32 {
        self.room.clear();
        let mut total = 0;
        let per_core = demand.want.div_ceil(demand.cores.max(1));
        for (r, (domain, state)) in view.layout.domains.iter().zip(&view.domains).enumerate() {
            let taken = self.take[r];
            let room = if node.is_some_and(|n| n != domain.node) {
                0
            } else {
                let free = state.free - taken;
                match kind {
                    Room::Free => free,
                    Room::Open => state.open.saturating_sub(taken).min(free),
                    Room::Idle => state.idle.saturating_sub(taken).min(free),
                    Room::Budget => {
                        let beside = if per_core > 1 && view.counts(id)[r] > 0 {
                            beside_own(view, id, r)
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
        view: &MachineView<'_>,
        id: u32,
        demand: &Demand<'_>,
        need: u32,
        affinity: &[u32],
    ) -> u32 {
        let domains = &view.layout.domains;
        self.socket_room.clear();
        self.socket_room.resize(view.layout.sockets as usize, 0);
        self.socket_affinity.clear();
        self.socket_affinity.resize(view.layout.sockets as usize, 0);
        for (r, domain) in domains.iter().enumerate() {
            self.socket_room[domain.socket as usize] += self.room[r];
            self.socket_affinity[domain.socket as usize] += affinity[r];
        }
        let mut left = need;
        let grows = view
            .counts(id)
            .iter()
            .zip(&self.take)
            .any(|(a, b)| a + b > 0);
        if grows {
            self.order.clear();
            self.order.extend(
                (0..domains.len() as u32)
                    .filter(|&r| self.socket_affinity[domains[r as usize].socket as usize] > 0),
            );
            let (order, sockets) = (&mut self.order, &self.socket_affinity);
            order.sort_unstable_by_key(|&r| {
                let socket = domains[r as usize].socket;
                (
                    Reverse(sockets[socket as usize]),
                    Reverse(affinity[r as usize]),
                    r,
                )
            });
            left = self.drain(view, left);
        }
        if left == 0 {
            return need;
        }

        let apart = |used: bool| demand.apart == Apart::Wanted && used;
        let one = (0..domains.len())
            .filter(|&r| self.room[r] >= left)
            .min_by_key(|&r| {
                (
                    apart(view.domains[r].demands > 0),
                    Reverse(affinity[r]),
                    apart(view.socket_demands[domains[r].socket as usize] > 0),
                    r,
                )
            });
        if let Some(r) = one {
            self.take[r] += left;
            return need;
        }

        let mut sockets: Vec<u32> = (0..view.layout.sockets).collect();
        let one = sockets
            .iter()
            .copied()
            .filter(|&s| self.socket_room[s as usize] >= left)
            .min_by_key(|&s| {
                (
                    apart(view.socket_demands[s as usize] > 0),
                    Reverse(self.socket_affinity[s as usize]),
                    s,
                )
            });
        match one {
            Some(s) => sockets = vec![s],
            None => {
                let mut idle = vec![0; sockets.len()];
                for (domain, state) in domains.iter().zip(&view.domains) {
                    idle[domain.socket as usize] += state.idle;
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
                (0..domains.len() as u32).filter(|&r| domains[r as usize].socket == socket),
            );
            let room = &self.room;
            self.order.sort_unstable_by_key(|&r| {
                (
                    Reverse(affinity[r as usize]),
                    Reverse(room[r as usize]),
                    Reverse(view.domains[r as usize].idle),
                    r,
                )
            });
            left = self.drain(view, left);
            if left == 0 {
                break;
            }
        }
        need - left
    }

    /// Takes up to `need` from the domains in `order`; returns what is still needed.
    fn drain(&mut self, view: &MachineView<'_>, mut need: u32) -> u32 {
        for &r in &self.order {
            let part = need.min(self.room[r as usize]);
            self.take[r as usize] += part;
            self.room[r as usize] -= part;
            self.socket_room[view.layout.domains[r as usize].socket as usize] -= part;
            need -= part;
        }
        need
    }

    /// One CPU after the other where the demand has fewest: by node, as memory controllers are there, then
    /// by domain; among equal ones where it was before, then where fewest others stream, then where most
    /// cores are idle.
    fn spread(
        &mut self,
        view: &MachineView<'_>,
        id: u32,
        need: u32,
        affinity: &[u32],
        node: Option<NodeId>,
    ) -> u32 {
        let layout = view.layout;
        let mut on_node = vec![0; layout.node_threads.len()];
        for (r, domain) in layout.domains.iter().enumerate() {
            on_node[domain.node_index as usize] += view.counts(id)[r] + self.take[r];
        }
        for done in 0..need {
            let best = (0..layout.domains.len())
                .filter(|&r| node.is_none_or(|n| n == layout.domains[r].node))
                .filter(|&r| view.domains[r].free > self.take[r])
                .min_by_key(|&r| {
                    let place = layout.domains[r].node_index as usize;
                    let own = view.counts(id)[r] + self.take[r];
                    (
                        on_node[place],
                        own,
                        affinity[r] <= own,
                        view.node_streams[place],
                        Reverse(view.domains[r].idle.saturating_sub(self.take[r])),
                        r,
                    )
                });
            let Some(r) = best else {
                return done;
            };
            self.take[r] += 1;
            on_node[layout.domains[r].node_index as usize] += 1;
        }
        need
    }
}

/// Free threads of a domain on cores that the demand has to itself.
fn beside_own(view: &MachineView<'_>, id: u32, domain: usize) -> u32 {
    view.layout.domains[domain]
        .range()
        .filter(|&core| view.cores[core as usize].owner == id && id != UNOWNED)
        .map(|core| view.free_on(core))
        .sum()
}
