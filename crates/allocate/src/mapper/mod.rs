//! MAPPER for readings that scatter and machines of any size: the default policy.
//!
//! The rules of the paper ([`efficiency`](crate::efficiency), [`mapper_paper`](crate::mapper_paper)) with tests in
//! place of raw comparisons, so that noise moves no CPUs (ADR 13); with *demand*, which makes applications try fewer
//! CPUs when others ask for more; with what programs report of themselves; and with steps by the size of the machine.
//!
//! The order within a decision: ingest the samples; membership, if it changed (then nothing is tried);
//! serial phases; broken promises; verdicts; requests; the round; trials on demand.
//!
//! Invariants (property-tested): in one decision no application both gives and takes by growth, a giver
//! gives at most its spare, and with a curve that does not change the counts come to rest.

mod counts;
mod requests;
mod serial;
mod trials;

use crate::accounting;
use crate::config::AllocationConfig;
use crate::efficiency::decision::Decision;
use crate::efficiency::member::{Member, State};
use crate::efficiency::metrics::PointValue;
use crate::efficiency::promise::Breach;
use crate::policy::{AllocationPolicy, PolicyState, RestoreError};
use mapper_model::{Allocation, Snapshot, Trigger};

/// Times the initial intervals that an application is measured at most.
const MEASURED_AT_MOST: u32 = 4;
/// Part of the threshold to which the mean is to be known before anything is tried.
const KNOWN_TO: f64 = 0.5;

pub(crate) const NAME: &str = "mapper";

/// The policy. See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Mapper {
    config: AllocationConfig,
    state: State,
}

impl Mapper {
    pub(crate) fn new(config: AllocationConfig) -> Self {
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
        if !accounting::fits(snapshot) {
            // With enough CPUs again it starts anew.
            self.state = State::default();
            return accounting::pool(snapshot);
        }
        let State { members, usable } = &mut self.state;
        let changes = members.sync(snapshot.apps.iter().map(|a| a.app), Member::default);
        let usable_before = std::mem::replace(usable, snapshot.usable.len());
        let mut decision = Decision::open(&self.config, snapshot, members, PointValue::Running);
        let changed = decision.membership_changed(changes, usable_before);
        if snapshot.trigger == Trigger::Interval {
            for place in 0..decision.len() {
                decision.ingest(place);
                if is_measured(&decision, place) {
                    decision.members.at_mut(place).settle();
                }
            }
        }
        if changed {
            decision.resolve_membership(usable_before);
        } else if snapshot.trigger == Trigger::Interval {
            serial::follow_serial_phases(&mut decision);
            for place in 0..decision.len() {
                if let Some(breach) = breach(&decision, place) {
                    decision.undo(place, breach);
                }
            }
            for place in 0..decision.len() {
                trials::judge(&mut decision, place);
            }
            for place in 0..decision.len() {
                requests::request(&mut decision, place);
            }
            let unmet = decision.run_round(requests::bidder);
            requests::answer_demand(&mut decision, unmet);
        }
        decision.close(counts::spare)
    }

    fn save(&self) -> PolicyState {
        PolicyState::of(NAME, &self.state)
    }

    fn restore(&mut self, state: &PolicyState) -> Result<(), RestoreError> {
        self.state = state.read(NAME)?;
        Ok(())
    }
}

/// Whether an application has been measured long enough, and its mean is known well enough.
fn is_measured(decision: &Decision<'_>, place: usize) -> bool {
    let Some(done) = decision.measured_for(place) else {
        return false;
    };
    let samples = decision.members.at(place).here.estimate.samples;
    let noise = decision.curve(place).noise();
    let vague =
        noise.margin(samples, counts::confidence(decision)) > KNOWN_TO * decision.config.threshold;
    !vague || done >= MEASURED_AT_MOST * decision.config.initial_intervals
}

/// Whether gifts broke the promise: the mean since is below the floor by more than the scatter explains.
fn breach(decision: &Decision<'_>, place: usize) -> Option<Breach> {
    // One that reports spare CPUs is not kept from its promise by others.
    if counts::declared(decision, place) > 0 || counts::is_serial(decision, place) {
        return None;
    }
    let noise = decision.noise(place);
    let performance = if noise.degrees_of_freedom >= 1.0 {
        let here = &decision.members.at(place).here.estimate;
        here.mean * (1.0 + noise.margin(here.samples, counts::confidence(decision)))
    } else {
        decision.scratch[place].fresh?
    };
    decision.breach(place, performance)
}
