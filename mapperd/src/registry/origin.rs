//! How an application came under management.

use crate::config::accounts::is_privileged;
use crate::registry::process::Process;
use mapper_control::schema::{AdoptRequest, AdoptTarget};
use mapper_host::enforce::{self, Adoptee};
use mapper_model::{AppId, CpuSet};
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    /// A launcher started it.
    Launched { launcher: Process },
    /// It ran already.
    Adopted(Adoption),
    /// It was found by its group alone, so that nothing more is known.
    Recovered,
}

impl Origin {
    pub(crate) const fn launcher(&self) -> Option<Process> {
        match self {
            Self::Launched { launcher } => Some(*launcher),
            Self::Adopted(_) | Self::Recovered => None,
        }
    }

    pub(crate) const fn adoption(&self) -> Option<&Adoption> {
        match self {
            Self::Adopted(adoption) => Some(adoption),
            Self::Launched { .. } | Self::Recovered => None,
        }
    }

    /// The rule that asked for it.
    pub(crate) fn rule(&self) -> Option<&ByRule> {
        self.adoption()?.rule.as_ref()
    }

    /// A client requested its adoption, and a rule fits its group of this inode.
    pub(crate) fn note_fit(&mut self, inode: u64) {
        if let Self::Adopted(adoption) = self {
            adoption.fits_rule = Some(inode);
        }
    }

    /// It was adopted as a rule asks for.
    pub(crate) fn note_rule(&mut self, rule: ByRule) {
        if let Self::Adopted(adoption) = self {
            adoption.rule = Some(rule);
        }
    }
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Adoption {
    pub(crate) target: AdoptTarget,
    /// The user who requested the adoption, and may release it.
    pub(crate) by: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rule: Option<ByRule>,
    /// The inode of its group, if a client requested it and a rule fits, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fits_rule: Option<u64>,
}

impl Adoption {
    /// As the enforcer adopts it.
    pub(crate) fn adoptee(&self, app: AppId, account: u32, usable: CpuSet) -> Adoptee {
        Adoptee {
            app,
            target: of_host(&self.target),
            owner: (!is_privileged(self.by)).then_some(self.by),
            account,
            usable,
        }
    }

    /// The inode of its group, if a rule would adopt it again after its release.
    pub(crate) fn inode(&self) -> Option<u64> {
        let by_rule = self.rule.as_ref().map(|rule| rule.inode);
        by_rule.or(self.fits_rule)
    }
}

/// Of an adoption that a rule of the configuration asks for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct ByRule {
    /// Of the group: another one once what is in it has been started anew.
    pub(crate) inode: u64,
    /// The user for whom it counts.
    pub(crate) user: u32,
    /// With what it was adopted.
    pub(crate) request: AdoptRequest,
}

pub(crate) fn of_host(target: &AdoptTarget) -> enforce::AdoptTarget {
    match target {
        AdoptTarget::Pid(pid) => enforce::AdoptTarget::Pid(*pid),
        AdoptTarget::Cgroup(path) => enforce::AdoptTarget::Cgroup(path.into()),
        AdoptTarget::Unit(name) => enforce::AdoptTarget::Unit(name.clone()),
    }
}
