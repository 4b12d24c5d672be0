//! MAPPER: CPUs go to those who use them most efficiently, and everybody keeps what he was promised.
//!
//! Problem: applications scale differently, and nobody knows how until they are seen at different
//! CPU counts; yet each is promised a share (85 %) of the performance it would have with a fair
//! share of the machine. Unit: CPUs; performance in the unit of each application's source, never
//! compared across applications. What is compared is *normalized efficiency*: performance per CPU
//! over the best performance per CPU ever seen of that application, 1 at its most efficient count.
//!
//! Approach [MAPPER §3.3, readings "MAPPER allocation"]: an application is measured at its fair
//! share for some intervals; then it tries other counts, one step at a time, in a direction that its
//! bottleneck suggests. CPUs for a larger count come from the free pool, then from less efficient
//! applications, as far as those can spare them without falling below their promises. What turns
//! out to bring nothing is undone, and so is a gift that breaks the giver's promise.
//!
//! | module | holds |
//! |---|---|
//! | [`metrics`] | equations 2 to 6 |
//! | [`exploration`] | direction, step and verdict of trying another count |
//! | [`evidence`] | the verdict where samples scatter |
//! | [`fit`] | what a scattering curve says around one count |
//! | [`stealing`] | one round of CPUs changing hands |
//! | [`membership`] | arrival and departure |
//! | `loans` | what is lent in a serial phase, and how it comes back |
//! | `state`, `turn`, `changes`, `promise`, `trials`, `wishes` | the state machine that plays them together |
//!
//! The order within a decision: take in the samples; membership, if it changed (then nothing is
//! tried); serial phases; broken promises; verdicts; wishes; the round; trials on demand. With
//! [`Acceptance::Plain5Percent`](crate::config::Acceptance) and
//! [`Initiative::Paper`](crate::config::Initiative) the rules are the printed ones; the defaults
//! replace raw comparisons by tests, so that noise moves nobody (docs/book/src/adr/0013), and let demand make
//! applications try fewer CPUs.
//!
//! Invariants (property-tested): those of [`policy`](crate::policy); besides, in one decision nobody
//! both gives and takes by growth, a giver gives at most its spare, and with a curve that does not
//! change the counts come to rest.

mod changes;
pub mod evidence;
pub mod exploration;
pub mod fit;
mod loans;
pub mod membership;
pub mod metrics;
mod promise;
mod state;
pub mod stealing;
mod trials;
mod turn;
mod wishes;

use crate::config::AllocationConfig;
use crate::ledger;
use crate::policy::{AllocationPolicy, PolicyState, RestoreError};
use mapper_model::{Allocation, Snapshot, Trigger};
use state::{Member, State};
use turn::Turn;

/// The name it is selected by.
pub const NAME: &str = "mapper";

/// The policy. See the [module](self).
#[derive(Clone, Debug)]
pub struct Mapper {
    config: AllocationConfig,
    state: State,
}

impl Mapper {
    /// A policy that has decided nothing yet.
    #[must_use]
    pub fn new(config: AllocationConfig) -> Self {
        Self {
            config,
            state: State::default(),
        }
    }
}

impl AllocationPolicy for Mapper {
    fn name(&self) -> &'static str {
        NAME
    }

    fn allocate(&mut self, snapshot: &Snapshot<'_>) -> Allocation {
        if !ledger::fits(snapshot) {
            // Whoever is left when there are CPUs enough again begins anew.
            self.state = State::default();
            return ledger::pool(snapshot);
        }
        let State { members, usable } = &mut self.state;
        let attendance = members.call(snapshot.apps.iter().map(|a| a.app), Member::new);
        let usable_before = std::mem::replace(usable, snapshot.usable.len());
        let mut turn = Turn::open(&self.config, snapshot, members);
        let changed = turn.membership_changed(attendance, usable_before);
        if snapshot.trigger == Trigger::Interval {
            for place in 0..turn.len() {
                turn.take_in(place);
            }
        }
        if changed {
            turn.settle_membership(usable_before);
        } else if snapshot.trigger == Trigger::Interval {
            turn.follow_serial_phases();
            for place in 0..turn.len() {
                if let Some(breach) = turn.breach(place) {
                    turn.undo(place, breach);
                }
            }
            for place in 0..turn.len() {
                turn.judge(place);
            }
            for place in 0..turn.len() {
                turn.aspire(place);
            }
            let unmet = turn.hold_round();
            turn.answer_demand(unmet);
        }
        turn.close()
    }

    fn save(&self) -> PolicyState {
        PolicyState::of(NAME, &self.state)
    }

    fn restore(&mut self, state: &PolicyState) -> Result<(), RestoreError> {
        self.state = state.read(NAME)?;
        Ok(())
    }
}
