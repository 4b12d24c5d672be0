//! MAPPER as printed, for reproducing the paper and as a baseline.
//!
//! The shared rules are in [`efficiency`]; here is what the paper decides in its own way:
//!
//! 1. Performance at a count is the mean of the last two samples [MAPPER §3.3, readings R3.11].
//! 2. Step 4: a tried count is better if it brings 5 %; a smaller one may stay if it is about as good
//!    ([`exploration::judge_plain`]). One comparison decides, whatever the scatter.
//! 3. Step 5: another count is tried after a gain, when the phase changed, and at random in the steady
//!    state [MAPPER Algorithm 1 "at_random", readings R3.12].
//! 4. Step 6: efficiencies are compared as they are [MAPPER §3.3 eq. 6].
//! 5. Counts change by four CPUs [MAPPER §3.3, readings R3.8].
//!
//! It uses no reports of serial phases and spare CPUs.

use crate::accounting;
use crate::config::AllocationConfig;
use crate::efficiency::decision::Decision;
use crate::efficiency::exploration::{self, Direction, Judgement, PlainTrial, Verdict};
use crate::efficiency::member::{Member, Mode, State, Trial};
use crate::efficiency::metrics::{self, PointValue};
use crate::policy::{AllocationPolicy, PolicyState, RestoreError};
use mapper_model::{Activity, Allocation, PhaseChange, Reason, Snapshot, Trigger};

/// The name it is selected by.
pub const NAME: &str = "mapper-paper";

/// The policy. See the [module](self).
#[derive(Clone, Debug)]
pub struct MapperPaper {
    config: AllocationConfig,
    state: State,
}

impl MapperPaper {
    /// A policy that has decided nothing yet.
    pub fn new(config: AllocationConfig) -> Self {
        Self {
            config: config.with_published(),
            state: State::default(),
        }
    }
}

impl AllocationPolicy for MapperPaper {
    fn name(&self) -> &'static str {
        NAME
    }

    fn allocate(&mut self, snapshot: &Snapshot<'_>) -> Allocation {
        if !accounting::fits(snapshot) {
            self.state = State::default();
            return accounting::pool(snapshot);
        }
        let State { members, usable } = &mut self.state;
        let changes = members.sync(snapshot.apps.iter().map(|a| a.app), Member::default);
        let usable_before = std::mem::replace(usable, snapshot.usable.len());
        let mut decision = Decision::open(&self.config, snapshot, members, PointValue::LastTwo);
        let changed = decision.membership_changed(changes, usable_before);
        let places = 0..decision.len();
        if snapshot.trigger == Trigger::Interval {
            for place in places.clone() {
                decision.ingest(place);
                if decision.measured_for(place).is_some() {
                    decision.members.at_mut(place).settle();
                }
            }
        }
        if changed {
            decision.resolve_membership(usable_before);
        } else if snapshot.trigger == Trigger::Interval {
            for place in places.clone() {
                let sample = decision.scratch[place].fresh;
                if let Some(breach) = sample.and_then(|sample| decision.breach(place, sample)) {
                    decision.undo(place, breach);
                }
            }
            for place in places.clone() {
                judge(&mut decision, place);
            }
            for place in places {
                request(&mut decision, place);
            }
            decision.run_round(|decision, place, metrics| {
                decision.bidder(place, metrics, decision.spare(place, metrics))
            });
        }
        decision.close(Decision::spare)
    }

    fn save(&self) -> PolicyState {
        PolicyState::of(NAME, &self.state)
    }

    fn restore(&mut self, state: &PolicyState) -> Result<(), RestoreError> {
        self.state = state.read(NAME)?;
        Ok(())
    }
}

/// Judges the trial of an application, if it has one and there is something to judge.
fn judge(decision: &mut Decision<'_>, place: usize) {
    let Some(trial) = decision.measured_trial(place) else {
        return;
    };
    match judgement(decision, place, &trial) {
        Some(judgement) => conclude(decision, place, trial.before.cpus, judgement),
        None => decision.interrupt(place),
    }
}

fn judgement(decision: &Decision<'_>, place: usize, trial: &Trial) -> Option<Judgement> {
    let (cpus, curve) = (decision.count(place), decision.curve(place));
    Some(exploration::judge_plain(&PlainTrial {
        prev_cpus: trial.before.cpus,
        prev_perf: curve.at(trial.before.cpus)?.perf,
        cpus,
        perf: curve.at(cpus)?.perf,
        best: metrics::best(curve, &decision.metrics_rules(place))?.performance,
        min_guaranteed: decision.metrics(place).min_guaranteed,
        threshold: decision.config.threshold,
    }))
}

/// Acts on a judgement. Only a gain goes on at once; any other verdict ends in the steady state.
fn conclude(decision: &mut Decision<'_>, place: usize, from: u32, judgement: Judgement) {
    let cpus = decision.count(place);
    let gain = judgement.gain;
    if matches!(judgement.verdict, Verdict::Continue | Verdict::Keep) {
        let fair = decision.scratch[place].fair;
        let member = decision.members.at_mut(place);
        member.settle();
        member.modest = cpus < from && cpus < fair;
        decision.say(place, Reason::Kept { gain });
    } else {
        if cpus < from {
            decision.remember_breach(place);
        }
        decision.go_back(place);
        decision.say(place, Reason::Returned { to: from, gain });
    }
    let goes_on = judgement.verdict == Verdict::Continue;
    decision.members.at_mut(place).streak = u32::from(goes_on);
    decision.scratch[place].moved |= !goes_on;
}

/// Decides what a steady application tries: fewer CPUs at once, or more, for which it asks.
fn request(decision: &mut Decision<'_>, place: usize) {
    let app = decision.app(place);
    let scratch = &decision.scratch[place];
    let cpus = decision.count(place);
    if scratch.moved
        || scratch.fixed
        || scratch.want > 0
        || app.profile.activity == Activity::Idle
        || decision.members.at(place).mode != Mode::Steady
        || decision.known(place, cpus).is_none()
    {
        return;
    }
    let (config, snapshot) = (decision.config, decision.snapshot);
    let chance = config.reexplore_at_random;
    let member = decision.members.at_mut(place);
    member.steady_for += 1;
    let due = member.streak > 0
        || app.profile.phase == PhaseChange::Changed
        || chance.is_some_and(|chance| chance.happens(app.app, snapshot))
        || (config.reexplore_every).is_some_and(|period| member.steady_for >= period.max(1));
    let direction = exploration::direction(app.profile.bottleneck, cpus, decision.cpus_per_socket);
    if !due || direction == Direction::Stay {
        return;
    }
    let by = decision.base_step(place);
    let target = decision.next_count(place, direction, decision.stride(place, by, by));
    if direction == Direction::Fewer {
        decision.try_fewer(place, target, |_, _, _| false);
    } else if target > cpus {
        decision.scratch[place].want = target - cpus;
        decision.scratch[place].on_trial = true;
    }
    let member = decision.members.at_mut(place);
    member.streak = 0;
    member.steady_for = 0;
}
