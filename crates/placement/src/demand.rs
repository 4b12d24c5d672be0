//! What is placed: applications with CPUs of their own, and slots that applications share.
//!
//! A policy turns every share of the allocation into a [`Demand`] with a [`Wish`]; all applications of one
//! slot are one demand of one CPU [readings R3.16].

use crate::layout::{Layout, UNOWNED};
use crate::machine_view::Nature;
use mapper_model::{Allocation, AppView, NodeId, NodeShare, Share, Sharing, Snapshot, Strategy};

/// Where an application wants its threads [SAM-MPH §4.4, MAPPER §3.4].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    /// In one domain, two and more to a core: much sharing, little latency hidden.
    Paired,
    /// In one domain: much sharing.
    Together,
    /// In one domain if possible: some sharing.
    Near,
    /// In one domain as long as no two hot threads meet on a core, else in more domains.
    NearAndCool,
    /// Over all memory controllers.
    Spread,
    /// On idle cores.
    OwnCores,
    /// Undisturbed by others, on few domains: nothing is known of it.
    Compact,
}

/// What is placed. See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand<'a> {
    pub(crate) want: u32,
    pub(crate) wish: Wish,
    /// What it is to others.
    pub(crate) nature: Nature,
    /// How many on each node, where the allocation decided that.
    pub(crate) by_node: Option<&'a [NodeShare]>,
    /// Over how many cores it should be placed; see [`budget_cores`].
    pub(crate) cores: u32,
    /// Whether it looks for a domain that no other demand uses.
    pub(crate) apart: Apart,
    /// Whether the rules for siblings of a core apply.
    pub(crate) siblings: Siblings,
}

/// Whether a demand avoids domains that others use, or takes any domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Apart {
    Wanted,
    Ignored,
}

/// Whether siblings of a core are distinguished, or CPUs are taken in order of their number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Siblings {
    Distinguished,
    Ignored,
}

/// The demands of an allocation, and how they relate to shares and threads.
#[derive(Debug)]
pub(crate) struct Demands<'a> {
    /// The demands in the order of their first share.
    pub(crate) list: Vec<Demand<'a>>,
    /// The demand of each share.
    pub(crate) of_share: Vec<u32>,
    /// The demand that holds each thread now, or none.
    pub(crate) held: Vec<u32>,
}

impl<'a> Demands<'a> {
    /// The demands of `allocation`. `describe` gives the demand of an application, not of a slot.
    pub(crate) fn collect(
        layout: &Layout,
        snapshot: &'a Snapshot<'_>,
        allocation: &'a Allocation,
        mut describe: impl FnMut(&AppView<'a>, &'a Share) -> Demand<'a>,
    ) -> Self {
        let mut demands = Self {
            list: Vec::with_capacity(allocation.shares.len()),
            of_share: Vec::with_capacity(allocation.shares.len()),
            held: vec![UNOWNED; layout.cpu.len()],
        };
        let mut demand_of_slot: Vec<(u32, u32)> = Vec::new();
        for (i, share) in allocation.shares.iter().enumerate() {
            let view = snapshot
                .apps
                .get(i)
                .filter(|v| v.app == share.app)
                .or_else(|| snapshot.apps.iter().find(|v| v.app == share.app));
            let next = demands.list.len() as u32;
            let number = match share.sharing {
                Sharing::Exclusive => {
                    demands.list.push(match view {
                        Some(view) => describe(view, share),
                        None => Demand::plain(share.cpus),
                    });
                    next
                }
                Sharing::Slot(slot) => match demand_of_slot.iter().find(|(s, _)| *s == slot) {
                    Some((_, demand)) => *demand,
                    None => {
                        demand_of_slot.push((slot, next));
                        demands.list.push(Demand::plain(1));
                        next
                    }
                },
            };
            demands.of_share.push(number);
            let Some(view) = view else { continue };
            let fresh_slot = share.sharing == Sharing::Exclusive || number == next;
            if fresh_slot {
                demands.hold(layout, number, view, share.sharing);
            }
        }
        demands
    }

    /// Notes the threads that an application holds, unless another demand already does.
    fn hold(&mut self, layout: &Layout, demand: u32, view: &AppView<'_>, sharing: Sharing) {
        for cpu in view.held {
            let Some(thread) = layout.thread(cpu) else {
                continue;
            };
            let holder = &mut self.held[thread as usize];
            if *holder == UNOWNED {
                *holder = demand;
                if sharing != Sharing::Exclusive {
                    return;
                }
            }
        }
    }

    pub(crate) fn natures(&self) -> Vec<Nature> {
        self.list.iter().map(|u| u.nature).collect()
    }
}

impl Demand<'_> {
    /// A demand of which nothing is known.
    pub(crate) const fn plain(want: u32) -> Self {
        Self {
            want,
            wish: Wish::Compact,
            nature: Nature {
                hot: false,
                streams: false,
            },
            by_node: None,
            cores: want,
            apart: Apart::Wanted,
            siblings: Siblings::Distinguished,
        }
    }

    /// How many CPUs it is to have on a node, where the allocation decided that.
    pub(crate) fn wanted_on(&self, node: NodeId) -> Option<u32> {
        let share = |share: &&NodeShare| share.node == node;
        let mut shares = self.by_node?.iter();
        Some(shares.find(share).map_or(0, |share| share.cpus))
    }

    /// The name of its placing, unless the allocation decided the nodes.
    pub(crate) const fn strategy(&self, otherwise: Strategy) -> Strategy {
        match self.by_node {
            Some(_) => Strategy::ByNode,
            None => otherwise,
        }
    }

    /// The fewest and the most cores the demand may be placed on.
    fn core_range(&self, widest: u32) -> (u32, u32) {
        let packed = self.want.div_ceil(widest);
        match self.wish {
            Wish::Paired => (packed, packed),
            _ if self.nature.hot => (self.want, self.want),
            _ => (packed, self.want),
        }
    }

    /// Over how many of the cores of a domain `count` of its CPUs should be placed.
    pub(crate) fn cores_for(&self, count: u32) -> u32 {
        let share = u64::from(count) * u64::from(self.cores);
        share.div_ceil(u64::from(self.want.max(1))) as u32
    }
}

/// Decides over how many cores each demand is placed, so that demands share no core while that is
/// possible.
///
/// With a core for every CPU, each demand gets one. Otherwise demands that suffer from busy siblings still
/// get one, the others use whole cores, and cores left over go to them in order of priority. If that is
/// not possible, demands that are not hot take as many cores as there are and leave the siblings to hot
/// ones, which rather share a core with a cool thread of another application than with one of their own
/// [SAM-MPH §5.3].
pub(crate) fn budget_cores(layout: &Layout, demands: &mut [Demand<'_>], order: &[usize]) {
    let (available, widest) = (layout.cores.len() as u32, layout.widest_core);
    let fewest: u32 = demands.iter().map(|u| u.core_range(widest).0).sum();
    let most: u32 = demands.iter().map(|u| u.core_range(widest).1).sum();
    let mut left = if most <= available {
        available
    } else if fewest <= available {
        available - fewest
    } else if demands.iter().any(|u| u.nature.hot) {
        u32::MAX
    } else {
        0
    };
    for &demand in order {
        let demand = &mut demands[demand];
        let (fewest, most) = demand.core_range(widest);
        let more = left.min(most - fewest);
        demand.cores = fewest + more;
        left -= more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::Topology;
    use mapper_model::topology::Shape;

    fn budgets(wants: &[(u32, Wish, bool)]) -> Vec<u32> {
        let topology = Topology::regular(Shape {
            sockets: 2,
            cores_per_socket: 10,
            threads_per_core: 2,
        });
        let layout = Layout::new(&topology, topology.cpus());
        let mut demands: Vec<Demand<'_>> = wants
            .iter()
            .map(|&(want, wish, hot)| Demand {
                wish,
                nature: Nature {
                    hot,
                    streams: false,
                },
                ..Demand::plain(want)
            })
            .collect();
        let order: Vec<usize> = (0..demands.len()).collect();
        budget_cores(&layout, &mut demands, &order);
        demands.iter().map(|u| u.cores).collect()
    }

    #[test]
    fn each_cpu_gets_a_core_of_its_own_while_there_are_enough() {
        let near = |n| (n, Wish::Near, false);
        assert_eq!(budgets(&[near(10), near(10)]), [10, 10]);
        assert_eq!(budgets(&[(10, Wish::Paired, false), near(10)]), [5, 10]);
    }

    #[test]
    fn cores_are_shared_with_nobody_while_that_is_possible() {
        let near = |n| (n, Wish::Near, false);
        // 7 + 7 + 6 cores at least: all 20.
        assert_eq!(budgets(&[near(14), near(14), near(12)]), [7, 7, 6]);
        // 5 + 4 + 5 cores at least, 6 left: in order.
        assert_eq!(budgets(&[near(10), near(8), near(10)]), [10, 5, 5]);
    }

    #[test]
    fn hot_threads_get_the_siblings_of_cool_ones_when_cores_run_out() {
        let near = |n| (n, Wish::Near, false);
        assert_eq!(
            budgets(&[near(14), near(14), (12, Wish::NearAndCool, true)]),
            [14, 14, 12]
        );
    }
}
