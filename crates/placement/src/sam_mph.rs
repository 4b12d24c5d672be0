//! SAM-MPH with MAPPER's residency refinement, and its ablations.
//!
//! Applications choose their CPUs in the order of [`priority`], each by what its threads suffer from most
//! [SAM-MPH §4.4, MAPPER §3.4]:
//!
//! | application | where |
//! |---|---|
//! | much sharing | one domain; siblings of a core if it stalls more than 550 cycles per event and runs at most 0.9 instructions per cycle, else separate cores as far as there are |
//! | some sharing | the same, separate cores |
//! | some sharing, busy | the same, but in more domains rather than with two busy threads on a core |
//! | memory bandwidth | over all memory controllers |
//! | compute | idle cores, else beside threads that are not busy |
//! | unknown | on few domains, cores not shared with others |
//!
//! Applications keep their CPUs unless moving pays (module `place`); CPUs per node that the allocation decided come
//! first. On hybrid machines the faster cores go to those that choose first, but slower ones to applications bound by
//! memory. The ablations are those of [SAM-MPH §5]: SAM knows neither groups, latency tolerance, history nor siblings;
//! M adds groups and latency tolerance, P the history, H the siblings.

use crate::config::PlacementConfig;
use crate::demand::{Apart, Demand, Demands, Siblings, Wish, budget_cores};
use crate::layout::Layout;
use crate::machine_view::Nature;
use crate::order::{Traits, priority};
use crate::place::{improve, keep};
use crate::policy::PlacementPolicy;
use crate::result::to_placement;
use crate::spread::spread;
use mapper_model::{
    Allocation, Bottleneck, MachineProfile, Placement, Placing, SharingClass, Snapshot,
};

/// Which parts of SAM-MPH are in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Variant {
    /// Sharing-aware only: every sharing application onto few sockets, in order of arrival.
    Sam,
    /// With groups, and latency tolerance as priority.
    SamM,
    /// With the history of ten intervals.
    SamMp,
    /// With the rules for siblings of a core: everything.
    SamMph,
}

impl Variant {
    const fn name(self) -> &'static str {
        match self {
            Self::Sam => "sam",
            Self::SamM => "sam_m",
            Self::SamMp => "sam_mp",
            Self::SamMph => "sam_mph",
        }
    }

    const fn siblings(self) -> Siblings {
        match self {
            Self::SamMph => Siblings::Distinguished,
            _ => Siblings::Ignored,
        }
    }

    const fn apart(self) -> Apart {
        match self {
            Self::Sam => Apart::Ignored,
            _ => Apart::Wanted,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct SamMph {
    variant: Variant,
    config: PlacementConfig,
}

impl SamMph {
    /// The policy with some or all of its parts.
    pub(crate) fn new(variant: Variant, config: &PlacementConfig) -> Self {
        Self {
            variant,
            config: config.clone(),
        }
    }
}

impl PlacementPolicy for SamMph {
    fn name(&self) -> &'static str {
        self.variant.name()
    }

    fn place(&self, snapshot: &Snapshot<'_>, allocation: &Allocation) -> Placement {
        if allocation.placing != Placing::Policy {
            return spread(snapshot, allocation);
        }
        let layout = Layout::new(snapshot.topology, snapshot.usable);
        let mut traits = Vec::with_capacity(allocation.shares.len());
        let mut demands = Demands::collect(&layout, snapshot, allocation, |view, share| {
            let t = match self.variant {
                Variant::Sam | Variant::SamM => Traits::of_interval(view.profile, snapshot.machine),
                Variant::SamMp | Variant::SamMph => Traits::of(view.profile),
            };
            traits.push(t);
            let siblings = self.variant.siblings();
            let hot = siblings == Siblings::Distinguished && is_hot(&t);
            let wish = wish(&t, hot, siblings, snapshot.machine);
            Demand {
                want: share.cpus,
                wish,
                nature: Nature {
                    hot,
                    streams: wish == Wish::Spread,
                },
                by_node: share.by_node.as_deref(),
                cores: share.cpus,
                apart: self.variant.apart(),
                siblings,
            }
        });
        // Slots are all alike; only applications with CPUs of their own have an order.
        let slots = traits.len() != demands.list.len();
        let mut order: Vec<usize> = if slots || self.variant == Variant::Sam {
            (0..demands.list.len()).collect()
        } else {
            priority(&traits)
        };
        order.sort_by_key(|&demand| demands.list[demand].by_node.is_none());
        budget_cores(&layout, &mut demands.list, &order);
        let natures = demands.natures();
        let kept = keep(&layout, &natures, &demands, &order);
        let view = if slots {
            kept
        } else {
            improve(kept, &demands, &order, self.config.move_cost)
        };
        to_placement(&view, &demands, allocation, |view, id, demand| {
            view.strategy_of(id, demand)
        })
    }
}

/// Whether its threads keep their cores busy [SAM-MPH §3.2].
fn is_hot(traits: &Traits) -> bool {
    traits.ipc_high
        || (traits.class == SharingClass::Low && traits.bottleneck == Bottleneck::Compute)
}

fn wish(traits: &Traits, hot: bool, siblings: Siblings, machine: &MachineProfile) -> Wish {
    let stalls = traits.spc.is_some_and(|spc| spc > machine.spc_same_core);
    match (traits.class, traits.bottleneck) {
        (SharingClass::High, _) if stalls && !hot && siblings == Siblings::Distinguished => {
            Wish::Paired
        }
        (SharingClass::High, _) => Wish::Together,
        (SharingClass::Medium, _) if hot => Wish::NearAndCool,
        (SharingClass::Medium, _) => Wish::Near,
        (SharingClass::Low, Bottleneck::Memory) => Wish::Spread,
        (SharingClass::Low, _) if hot => Wish::OwnCores,
        (SharingClass::Low, _) => Wish::Compact,
    }
}
