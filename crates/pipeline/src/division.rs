//! What the policies decide of one snapshot, and who shares CPUs.

use crate::allowed::{Allowed, Shared};
use mapper_allocate::{AllocationPolicy, accounting};
use mapper_model::{
    AppPlacement, AppView, CpuSet, Observation, Share, Sharing, Snapshot, Strategy, Transfer,
};
use mapper_placement::PlacementPolicy;

/// What was decided, in the order of the observation.
#[derive(Default)]
pub(crate) struct Division {
    pub(crate) shares: Vec<Share>,
    pub(crate) placed: Vec<AppPlacement>,
    pub(crate) transfers: Vec<Transfer>,
}

impl Division {
    /// Applications that have slots run on the CPUs of all slots, as far as each may use them and as many as it may have.
    /// One that waits for its disk or for input so leaves its CPU to the others, and the kernel divides the rest evenly,
    /// which slots of one CPU cannot do for three applications on two CPUs.
    pub(crate) fn share_all(&mut self, observation: &Observation, usable: &CpuSet) {
        let has_slot = |share: &Share| matches!(share.sharing, Sharing::Slot(_));
        let mut slots = CpuSet::new();
        for (share, place) in self.shares.iter().zip(&self.placed) {
            if has_slot(share) {
                slots.insert_all(&place.cpus);
            }
        }
        let placed = self.shares.iter().zip(&mut self.placed);
        for ((share, place), observed) in placed.zip(&observation.apps) {
            if has_slot(share) {
                let allowed = observed.allowed.as_ref();
                let allowed = allowed.filter(|set| !set.is_disjoint(usable));
                let cpus = allowed.map_or_else(|| slots.clone(), |set| set.intersection(&slots));
                let most = observed.spec.cpus.max().unwrap_or(u32::MAX);
                let room = most.saturating_sub(place.cpus.len());
                let more = cpus.difference(&place.cpus);
                place.cpus.extend(more.iter().take(room as usize));
            }
        }
    }
}

/// The two policies, which decide one after the other.
pub(crate) struct Policies<'a> {
    pub(crate) allocation: &'a mut dyn AllocationPolicy,
    pub(crate) mapping: &'a dyn PlacementPolicy,
}

impl Policies<'_> {
    pub(crate) fn decide(&mut self, snapshot: &Snapshot<'_>) -> Division {
        let allocation = self.allocation.allocate(snapshot);
        let placement = mapper_placement::place(self.mapping, snapshot, &allocation);
        Division {
            shares: allocation.shares,
            placed: placement.apps,
            transfers: allocation.transfers,
        }
    }

    /// Decides for those that can have CPUs of their own; the others share as `allowed` says.
    pub(crate) fn decide_for_others(
        &mut self,
        snapshot: &Snapshot<'_>,
        allowed: &Allowed,
        observation: &Observation,
        usable: &CpuSet,
    ) -> Division {
        let shared = (0..snapshot.apps.len()).map(|place| allowed.shared(observation, place));
        let shared: Vec<Option<Shared>> = shared.collect();
        let apps = snapshot.apps.iter().zip(&shared);
        let others = apps.filter(|(_, shared)| shared.is_none());
        let others: Vec<AppView<'_>> = others.map(|(view, _)| *view).collect();
        let decided = if others.is_empty() {
            Division::default()
        } else {
            self.decide(&Snapshot {
                apps: &others,
                ..*snapshot
            })
        };
        let mut of_others = decided.shares.into_iter().zip(decided.placed);
        let all = snapshot
            .apps
            .iter()
            .zip(shared)
            .filter_map(|(view, shared)| {
                let Some(Shared { slot, cpus, why }) = shared else {
                    return of_others.next();
                };
                let share = accounting::sharing(view, usable.len(), slot, cpus.len(), why);
                let place = AppPlacement {
                    app: view.app,
                    cpus,
                    strategy: Strategy::Shared,
                };
                Some((share, place))
            });
        let (shares, placed) = all.unzip();
        Division {
            shares,
            placed,
            transfers: decided.transfers,
        }
    }
}
