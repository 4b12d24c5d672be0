//! Fair share: CPUs in proportion to weight, until an application comes or leaves
//! [MAPPER §4.3, §3.3 eq. 1]. MAPPER's promise refers to it.
//!
//! Limits of the applications are kept; what rounding leaves over goes one by one to those that were rounded down most.

use crate::accounting::{self, CpuAccounting, Note};
use crate::config::AllocationConfig;
use crate::entitlement::{self, Entitlement};
use crate::policy::{AllocationPolicy, PolicyState, RestoreError};
use crate::shares::{self, Claim};
use mapper_model::{Allocation, Reason, Snapshot};

pub(crate) const NAME: &str = "fair";

/// The policy. It remembers nothing.
#[derive(Clone, Debug)]
pub(crate) struct Fair {
    config: AllocationConfig,
}

impl Fair {
    pub(crate) const fn new(config: AllocationConfig) -> Self {
        Self { config }
    }
}

/// Fair shares with nothing left over unless every application is at its limit.
pub(crate) fn full_shares(usable: u32, entitled: &[Entitlement]) -> Vec<u32> {
    let mut shares: Vec<u32> = entitled.iter().map(|e| e.fair).collect();
    let claims: Vec<Claim> = entitled.iter().map(Entitlement::claim).collect();
    shares::hand_out_remainder(usable, &claims, &mut shares);
    shares
}

/// The notes on shares that follow from entitlement alone.
pub(crate) fn notes(
    snapshot: &Snapshot<'_>,
    entitled: &[Entitlement],
    targets: &[u32],
) -> Vec<Note> {
    snapshot
        .apps
        .iter()
        .zip(entitled)
        .zip(targets)
        .map(|((app, entitled), &target)| {
            let (usable, apps) = (snapshot.usable.len(), snapshot.apps.len());
            let begin = accounting::begin(app, entitled.fair, usable);
            let mut reasons: Vec<Reason> = begin.into_iter().collect();
            if reasons.is_empty() && app.held.len() != target {
                reasons.push(Reason::Model {
                    rule: format!("its share of {usable} CPUs among {apps} applications"),
                });
            }
            match entitled.fixed {
                true => reasons.push(Reason::NeverResized),
                false => reasons.extend(accounting::own_limit(app, target)),
            }
            if reasons.is_empty() {
                reasons.push(Reason::Steady);
            }
            Note {
                fair: entitled.fair,
                state: "steady",
                reasons,
                ..Note::default()
            }
        })
        .collect()
}

impl AllocationPolicy for Fair {
    fn name(&self) -> &'static str {
        NAME
    }

    fn allocate(&mut self, snapshot: &Snapshot<'_>) -> Allocation {
        if !accounting::fits(snapshot) {
            return accounting::pool(snapshot);
        }
        let entitled = entitlement::entitlements(snapshot, self.config.min_cpus);
        let targets = full_shares(snapshot.usable.len(), &entitled);
        let mut accounts = CpuAccounting::open(snapshot);
        accounts.settle(&targets);
        let mut notes = notes(snapshot, &entitled, &targets);
        accounts.explain_transfers(&mut notes);
        accounts.close(notes)
    }

    fn save(&self) -> PolicyState {
        PolicyState::of(NAME, &())
    }

    fn restore(&mut self, state: &PolicyState) -> Result<(), RestoreError> {
        state.read::<()>(NAME)
    }
}
