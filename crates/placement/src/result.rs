//! From a view to a [`Placement`], with a name for how each application was placed.

use crate::demand::{Demand, Demands, Wish};
use crate::layout::UNOWNED;
use crate::machine_view::{MIXED, MachineView};
use mapper_model::{Allocation, AppPlacement, CpuSet, Placement, Sharing, Strategy};

/// The placement of every share. `strategy` names how a demand was placed.
pub(crate) fn to_placement(
    view: &MachineView<'_>,
    demands: &Demands<'_>,
    allocation: &Allocation,
    strategy: impl Fn(&MachineView<'_>, u32, &Demand<'_>) -> Strategy,
) -> Placement {
    let mut sets = vec![CpuSet::new(); demands.list.len()];
    for (thread, &demand) in view.owner.iter().enumerate() {
        if demand != UNOWNED {
            sets[demand as usize].insert(view.layout.cpu[thread]);
        }
    }
    // Only an allocation that promises more CPUs than there are leaves an application without; the
    // checker reports the overlap, but a set is never empty.
    for set in &mut sets {
        if set.is_empty() {
            set.extend(view.layout.cpu.first().copied());
        }
    }
    let apps = allocation
        .shares
        .iter()
        .zip(&demands.of_share)
        .map(|(share, &demand)| AppPlacement {
            app: share.app,
            cpus: sets[demand as usize].clone(),
            strategy: match share.sharing {
                Sharing::Slot(_) => Strategy::Shared,
                Sharing::Exclusive => strategy(view, demand, &demands.list[demand as usize]),
            },
        });
    Placement {
        apps: apps.collect(),
    }
}

impl MachineView<'_> {
    /// The strategy of a demand, or [`Strategy::LeastContention`] where it did not get what it wants.
    pub(crate) fn strategy_of(&self, id: u32, demand: &Demand<'_>) -> Strategy {
        if demand.by_node.is_some() {
            return Strategy::ByNode;
        }
        let fitted = match demand.wish {
            Wish::Paired => (self.in_few_sockets(id, demand), Strategy::SameCore),
            Wish::Together | Wish::Near => (self.in_few_sockets(id, demand), Strategy::SameSocket),
            Wish::NearAndCool if self.in_few_sockets(id, demand) => {
                (self.beside_no_hot_thread(id), Strategy::SameSocket)
            }
            Wish::NearAndCool | Wish::OwnCores => {
                (self.beside_no_hot_thread(id), Strategy::OwnCores)
            }
            Wish::Spread => (self.on_many_nodes(id, demand), Strategy::Spread),
            Wish::Compact => (self.shares_no_core(id), Strategy::OwnCores),
        };
        match fitted {
            (true, strategy) => strategy,
            (false, _) => Strategy::LeastContention,
        }
    }

    /// Whether it is in no more sockets than its CPUs need.
    fn in_few_sockets(&self, id: u32, demand: &Demand<'_>) -> bool {
        let mut threads = vec![0; self.layout.sockets as usize];
        let mut used = vec![false; self.layout.sockets as usize];
        for (domain, &count) in self.layout.domains.iter().zip(self.counts(id)) {
            threads[domain.socket as usize] += domain.threads;
            used[domain.socket as usize] |= count > 0;
        }
        threads.sort_unstable_by(|a, b| b.cmp(a));
        let mut missing = demand.want;
        let needed = threads
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
    fn on_many_nodes(&self, id: u32, demand: &Demand<'_>) -> bool {
        let nodes = self.layout.node_threads.len();
        let mut used = vec![false; nodes];
        for (domain, &count) in self.layout.domains.iter().zip(self.counts(id)) {
            used[domain.node_index as usize] |= count > 0;
        }
        used.iter().filter(|used| **used).count() >= nodes.min(demand.want as usize)
    }

    /// Whether none of its threads shares a core with a hot one.
    fn beside_no_hot_thread(&self, id: u32) -> bool {
        self.own_cores(id).all(|core| {
            let state = self.cores[core];
            state.hot <= 1
        })
    }

    /// Whether none of its cores has a thread of another demand.
    fn shares_no_core(&self, id: u32) -> bool {
        self.own_cores(id)
            .all(|core| self.cores[core].owner != MIXED)
    }

    fn own_cores(&self, id: u32) -> impl Iterator<Item = usize> {
        let layout = self.layout;
        (0..layout.domains.len())
            .filter(move |&r| self.counts(id)[r] > 0)
            .flat_map(move |r| layout.domains[r].range())
            .map(|core| core as usize)
            .filter(move |&core| {
                let owner = self.cores[core].owner;
                let mut threads = layout.cores[core].range();
                owner == id || (owner == MIXED && threads.any(|s| self.owner[s as usize] == id))
            })
    }
}
