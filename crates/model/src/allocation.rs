//! How many CPUs each application may use: the output of an allocation policy.

use crate::{Activity, AppId, AppSpec, Explanation, NodeId, Reason};
use serde::{Deserialize, Serialize};

/// The decision of an allocation policy: one share per application, in order of arrival.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Allocation {
    /// One share per application of the snapshot, in the same order.
    pub shares: Vec<Share>,
    /// CPUs that changed hands, in the order in which the policy moved them.
    pub transfers: Vec<Transfer>,
    /// CPUs that no application was given.
    pub free: u32,
    /// The rule by which the CPUs are to be chosen.
    #[serde(default, skip_serializing_if = "Placing::is_default")]
    pub placing: Placing,
}

/// The rule by which the CPUs of an allocation are to be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placing {
    /// The placement policy's.
    #[default]
    Policy,
    /// As the static fair share is [MAPPER §4.3]: all sockets, empty cores first; held CPUs are kept.
    FairShare,
    /// The same on an empty machine.
    FairShareAfresh,
}

impl Placing {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The decision for one application.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Share {
    /// The application.
    pub app: AppId,
    /// How many CPUs, from 1.
    pub cpus: u32,
    /// Whether they are its own.
    pub sharing: Sharing,
    /// CPUs on each node, where the policy decides that too (NuPoCo, NuCore); they add up to `cpus`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_node: Option<Vec<NodeShare>>,
    /// The fair share it is measured against [MAPPER eq. 1].
    pub fair: u32,
    /// The performance it is promised in the unit of its source, once known [MAPPER eq. 3].
    pub floor: Option<f64>,
    /// CPUs it can give up without falling below the promise [MAPPER eq. 5].
    pub spare: u32,
    /// Normalized efficiency at its present count [MAPPER eq. 6], where known.
    pub norm_eff: Option<f64>,
    /// State of the policy for this application, such as `steady` or `exploring`.
    pub state: String,
    /// Why.
    pub explanation: Explanation,
}

impl Share {
    /// Adds the reasons that hold under every policy: it has less than its own lower limit; it is idle,
    /// which replaces that it is measured or steady.
    #[must_use]
    pub fn with_reasons_of(mut self, spec: &AppSpec, activity: Activity) -> Self {
        let reasons = &mut self.explanation.reasons;
        if self.cpus < spec.cpus.min() {
            reasons.push(Reason::BelowOwnLimit {
                min: spec.cpus.min(),
            });
        }
        if activity == Activity::Idle {
            reasons.retain(|reason| !matches!(reason, Reason::Measuring { .. } | Reason::Steady));
            reasons.push(Reason::Idle);
        }
        self
    }
}

/// Whether an application has its CPUs to itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// The CPUs belong to this application alone.
    #[default]
    Exclusive,
    /// More applications than CPUs: one CPU is counted for it, which others of the same slot count, too [readings R3.16].
    /// They run on the CPUs of all slots.
    Slot(u32),
}

/// CPUs on one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeShare {
    /// The node.
    pub node: NodeId,
    /// How many CPUs there.
    pub cpus: u32,
}

/// CPUs that changed hands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Transfer {
    /// The giver; `None` is the free pool.
    pub from: Option<AppId>,
    /// The taker; `None` is the free pool.
    pub to: Option<AppId>,
    /// How many.
    pub cpus: u32,
}
