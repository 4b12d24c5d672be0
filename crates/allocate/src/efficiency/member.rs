//! The memory of MAPPER's rules for each application.

use super::exploration::{Certainty, Direction, Reference};
use super::loans::{Gift, Loans};
use crate::table::AppTable;
use mapper_model::{AppId, AppView, Bottleneck, CpuSet, Estimate, Qos, Resizing, Weight};
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct State {
    /// In the order of the last snapshot.
    pub(crate) members: AppTable<Member>,
    /// Usable CPUs at the last decision.
    pub(crate) usable: u32,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) standing: Standing,
    /// Its request at the last decision; a change of it is a membership change.
    pub(crate) terms: Option<Request>,
    /// The count it was given by the last decision.
    pub(crate) cpus: u32,
    pub(crate) fair: u32,
    /// [`Profile::epoch`](mapper_model::Profile::epoch) of its curve.
    pub(crate) epoch: u64,
    pub(crate) mode: Mode,
    /// The samples since it has had its present count.
    pub(crate) here: Reference,
    /// Intervals for which it gives nothing.
    pub(crate) holdoff: u32,
    /// Gifts that did not come back, the latest last.
    pub(crate) gifts: Vec<Gift>,
    /// Its loans while a serial phase lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) loans: Option<Loans>,
    /// The largest count at which its promise broke in this phase; 0 when it never did.
    pub(crate) broken_at: u32,
    /// It is below its fair share by its own choice.
    pub(crate) modest: bool,
    pub(crate) up: TrialHistory,
    pub(crate) down: TrialHistory,
    /// Successful trials in a row in the same direction.
    pub(crate) streak: u32,
    pub(crate) heading: Direction,
    pub(crate) bottleneck: Bottleneck,
    pub(crate) steady_for: u32,
    /// The phase it is in by its regions, from 1; 0 where that is not known.
    #[serde(default)]
    pub(crate) phase: u32,
    /// Trial results of the phases it left, the last one last.
    #[serde(default)]
    left: Vec<LeftPhase>,
}

/// Trial results of a phase when it was left.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct LeftPhase {
    number: u32,
    up: TrialHistory,
    down: TrialHistory,
    broken_at: u32,
}

/// Phases whose trials are remembered, as many as curves are kept of.
const MOST_LEFT: usize = 7;

/// Whether the policy has decided on an application before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Standing {
    #[default]
    Newcomer,
    Known,
}

/// The request of an application.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    qos: Qos,
    weight: Weight,
    min: u32,
    max: Option<u32>,
    resizing: Resizing,
}

impl Request {
    pub(crate) fn of(app: &AppView<'_>) -> Self {
        let AppView { spec, allowed, .. } = app;
        let limits = [spec.cpus.max(), allowed.map(CpuSet::len)];
        Self {
            qos: spec.qos,
            weight: spec.weight,
            min: spec.cpus.min(),
            max: limits.into_iter().flatten().min(),
            resizing: spec.resizing,
        }
    }
}

/// The state machine of one application.
///
/// ```text
/// Measuring ──(measured long enough)──► Steady ──(trial begins)──► Exploring
///     ▲                                   ▲  ▲                        │
///     └──(count or unit changed)──────────┘  └──(kept, or undone)─────┘
/// ```
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// It is being measured at its count and neither tries nor gives.
    Measuring { done: u32 },
    /// Nothing is being tried.
    Steady,
    /// It tries another count.
    Exploring(Trial),
}
impl Default for Mode {
    fn default() -> Self {
        Self::Measuring { done: 0 }
    }
}
/// A count that is being tried: the one the application holds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Trial {
    pub(crate) before: Reference,
    /// Where the CPUs of an upward trial came from.
    pub(crate) sources: Vec<Source>,
    /// Intervals without a sample.
    pub(crate) waited: u32,
}

/// CPUs lent for a trial; without a giver they are from the free pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Source {
    pub(crate) giver: Option<AppId>,
    pub(crate) cpus: u32,
}

/// What is known of trying in one direction.
///
/// A trial in vain closes its direction from the count where it began, until the phase or the
/// membership changes; a guess may be repeated after a while. With more trials in vain the rests get
/// longer.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TrialHistory {
    closed_at: Option<u32>,
    /// Intervals until a guess may be repeated.
    doubt: u32,
    /// Intervals until anything may be tried.
    rest: u32,
    fruitless: u32,
}

impl TrialHistory {
    pub(crate) fn open_above(&self, cpus: u32) -> bool {
        self.rest == 0 && self.closed_at.is_none_or(|at| cpus < at)
    }

    pub(crate) fn open_below(&self, cpus: u32) -> bool {
        self.rest == 0 && self.closed_at.is_none_or(|at| cpus > at)
    }

    pub(crate) const fn tried_in_vain(&self) -> bool {
        self.fruitless > 0
    }

    /// A trial that began at this count was in vain.
    pub(crate) fn in_vain(&mut self, at: u32, certainty: Certainty) {
        self.closed_at = Some(at);
        self.fruitless = self.fruitless.saturating_add(1);
        let doublings = self.fruitless.min(6);
        self.rest = if self.fruitless > 2 {
            1 << doublings
        } else {
            0
        };
        self.doubt = match certainty {
            Certainty::Clear => 0,
            Certainty::Guess => 20 << (doublings - 1),
        };
    }

    /// Nothing can be gained this way from this count on, as is known without a trial.
    pub(crate) fn close(&mut self, at: u32) {
        self.closed_at = Some(at);
        self.doubt = 0;
    }

    pub(crate) fn succeed(&mut self) {
        *self = Self::default();
    }

    /// The phase changed: what was known no longer holds, but the rest remains.
    pub(crate) fn renew(&mut self) {
        self.closed_at = None;
        self.doubt = 0;
    }

    /// An interval has passed.
    pub(crate) fn pass(&mut self) {
        self.rest = self.rest.saturating_sub(1);
        if self.doubt > 0 {
            self.doubt -= 1;
            if self.doubt == 0 {
                self.closed_at = None;
            }
        }
    }
}

impl Member {
    /// Its count has changed, or the samples at it no longer count.
    pub(crate) fn restart_samples(&mut self, cpus: u32) {
        self.here = Reference {
            cpus,
            estimate: Estimate::default(),
        };
    }

    pub(crate) fn settle(&mut self) {
        self.mode = Mode::Steady;
        self.steady_for = 0;
    }

    /// What was known of trying no longer holds.
    pub(crate) fn forget_trials(&mut self) {
        self.up.succeed();
        self.down.succeed();
        self.streak = 0;
        self.left.clear();
    }

    /// It is in another phase by its regions: trial results belong to the one before.
    pub(crate) fn leave_phase(&mut self, next: u32) {
        let number = std::mem::replace(&mut self.phase, next);
        if number == 0 {
            return;
        }
        self.left.retain(|left| left.number != number);
        if self.left.len() == MOST_LEFT {
            self.left.remove(0);
        }
        self.left.push(LeftPhase {
            number,
            up: self.up.clone(),
            down: self.down.clone(),
            broken_at: self.broken_at,
        });
    }

    /// It is back in a phase: its trial results hold again.
    pub(crate) fn resume_phase(&mut self) {
        let known = self.left.iter().position(|left| left.number == self.phase);
        match known.map(|place| self.left.remove(place)) {
            Some(left) => {
                self.up = left.up;
                self.down = left.down;
                self.broken_at = left.broken_at;
            }
            None => {
                self.up.renew();
                self.down.renew();
                self.broken_at = 0;
            }
        }
    }

    pub(crate) fn give(&mut self, taker: AppId, cpus: u32) {
        // Gifts older than these are beyond undoing.
        const REMEMBERED: usize = 16;
        if self.gifts.len() == REMEMBERED {
            self.gifts.remove(0);
        }
        self.gifts.push(Gift { taker, cpus });
    }

    /// So many of its CPUs were owed to others, and do not come back after a serial phase.
    pub(crate) const fn forgo(&mut self, cpus: u32) {
        if let Some(loans) = &mut self.loans {
            loans.forgo(cpus);
        }
    }

    /// Removes a loan or gift that came back.
    pub(crate) fn take_back(&mut self, taker: AppId, cpus: u32) {
        let mut cpus = cpus;
        if let Some(loans) = &mut self.loans {
            cpus -= loans.strike(taker, cpus);
        }
        for gift in self.gifts.iter_mut().rev().filter(|g| g.taker == taker) {
            let part = cpus.min(gift.cpus);
            gift.cpus -= part;
            cpus -= part;
        }
        self.gifts.retain(|g| g.cpus > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_trials_showed_of_a_phase_holds_again_in_it_until_it_is_forgotten() {
        let mut member = Member::default();
        member.leave_phase(1);
        member.up.in_vain(8, Certainty::Clear);
        member.broken_at = 5;
        member.leave_phase(2);
        member.up.renew();
        member.broken_at = 0;
        assert!(member.up.open_above(8));
        member.leave_phase(1);
        member.resume_phase();
        assert!(!member.up.open_above(8) && member.broken_at == 5);
        // And of the other.
        member.leave_phase(2);
        member.resume_phase();
        assert!(member.up.open_above(8) && member.broken_at == 0);
        member.forget_trials();
        member.leave_phase(1);
        member.resume_phase();
        assert!(member.up.open_above(8) && member.broken_at == 0);
    }

    #[test]
    fn only_so_many_phases_are_remembered() {
        let mut member = Member::default();
        for number in 1..100 {
            member.leave_phase(number);
        }
        assert_eq!(member.left.len(), MOST_LEFT);
    }
}
