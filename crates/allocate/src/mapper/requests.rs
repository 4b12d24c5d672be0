//! Requests within a decision: which application tries what, its part in the round, and what follows from
//! unmet requests [MAPPER §3.3, readings "State machine" steps 5 and 6].
//!
//! Not in the paper: *demand*. Two applications that were only seen at their fair shares both have a normalized
//! efficiency of 1, so neither may take from the other. So when an application asks for CPUs that none can spare, the
//! others try fewer for a while. One that is about as good with fewer keeps that and frees the rest; any other returns;
//! and both now have an efficiency that means something. CPUs that may be needed back are given to no other.

use super::counts;
use crate::efficiency::decision::Decision;
use crate::efficiency::exploration::{self, Direction};
use crate::efficiency::fit;
use crate::efficiency::member::Mode;
use crate::efficiency::metrics::{self, Metrics};
use crate::efficiency::stealing::{Bidder, Scaling};
use mapper_model::{Activity, Confidence};

/// Standard errors by which an expectation must fall short to make a trial unnecessary.
const BEYOND_DOUBT: f64 = 2.0;

/// Decides what a steady application tries: fewer CPUs at once, or more, for which it asks.
pub(super) fn request(decision: &mut Decision<'_>, place: usize) {
    let bottleneck = decision.app(place).profile.bottleneck;
    let cpus = decision.count(place);
    if decision.scratch[place].moved
        // It has nothing to do with more, and shows nothing with fewer.
        || is_idle(decision, place)
        || decision.scratch[place].fixed
        || decision.scratch[place].want > 0
        || counts::declared(decision, place) > 0
        || counts::is_serial(decision, place)
        || decision.members.at(place).mode != Mode::Steady
        || decision.known(place, cpus).is_none()
    {
        return;
    }
    let at_random = decision
        .config
        .reexplore_at_random
        .is_some_and(|chance| chance.happens(decision.id(place), decision.snapshot));
    let member = decision.members.at_mut(place);
    member.steady_for += 1;
    let due = decision
        .config
        .reexplore_every
        .is_some_and(|period| member.steady_for >= period.max(1))
        || at_random;
    if due {
        member.up.renew();
        member.down.renew();
    }
    let direction = exploration::direction(bottleneck, cpus, decision.cpus_per_socket);
    let member = decision.members.at(place);
    let wanted = match direction {
        Direction::Stay => false,
        Direction::More => member.up.open_above(cpus),
        Direction::Fewer => member.down.open_below(cpus),
    };
    if !wanted {
        return;
    }
    let target = counts::next_count(decision, place, direction);
    match direction {
        Direction::Fewer => decision.try_fewer(place, target, surely_in_vain),
        Direction::More if target > cpus => {
            decision.scratch[place].want = target - cpus;
            decision.scratch[place].on_trial = true;
        }
        Direction::More | Direction::Stay => {}
    }
}

fn is_idle(decision: &Decision<'_>, place: usize) -> bool {
    decision.app(place).profile.activity == Activity::Idle
}

/// Whether the curve shows beyond doubt, without a trial, that fewer CPUs would cost too much.
fn surely_in_vain(decision: &Decision<'_>, place: usize, target: u32) -> bool {
    let rules = decision.metrics_rules(place);
    let (curve, cpus) = (decision.curve(place), decision.count(place));
    let Some(fit) = fit::around(curve, cpus, rules.noise) else {
        return false;
    };
    let (Some(slope), Some(best)) = (fit.elasticity, metrics::best(curve, &rules)) else {
        return false;
    };
    let distance = (f64::from(target) / f64::from(cpus)).ln();
    let expected = fit.performance * (slope.value * distance).exp();
    let error = (slope.standard_error * distance)
        .hypot(fit.relative_error)
        .hypot(best.relative_error);
    let wanted = (1.0 - decision.config.threshold) * best.performance;
    expected * (1.0 + BEYOND_DOUBT * error) < wanted
}

/// An application's part in a round. Declared spare CPUs are no use to it, however it scales.
pub(super) fn bidder(decision: &Decision<'_>, place: usize, metrics: &Metrics) -> Bidder {
    let bidder = decision.bidder(place, metrics, counts::spare(decision, place, metrics));
    if counts::declared(decision, place) > 0 {
        return Bidder {
            norm_eff: Some(0.0),
            ..bidder
        };
    }
    Bidder {
        margin: efficiency_margin(decision, place, metrics),
        // Used only of those that ask or can give.
        scaling: (bidder.want > 0 || bidder.spare > 0)
            .then(|| scaling(decision, place))
            .flatten(),
        ..bidder
    }
}

/// How far off a normalized efficiency may be.
fn efficiency_margin(decision: &Decision<'_>, place: usize, metrics: &Metrics) -> f64 {
    let noise = decision.noise(place);
    if noise.degrees_of_freedom < 1.0 || metrics.performance.is_none() {
        return 1.0;
    }
    let sure = noise.quantile(Confidence::USUAL);
    metrics.norm_eff.unwrap_or(0.0) * metrics.norm_eff_error * sure
}

/// How an application scales around its present count, where its samples scatter.
fn scaling(decision: &Decision<'_>, place: usize) -> Option<Scaling> {
    let noise = decision.noise(place);
    let slope = fit::around(decision.curve(place), decision.count(place), noise)?.elasticity?;
    Some(Scaling {
        elasticity: slope.value,
        margin: slope.standard_error * noise.quantile(Confidence::HIGH),
    })
}

/// Lets applications that could do with less try it, when others ask for more than there is.
pub(super) fn answer_demand(decision: &mut Decision<'_>, unmet: u32) {
    // What is growing will ask again.
    let growing: u32 = (0..decision.len())
        .map(|place| match &decision.members.at(place).mode {
            Mode::Exploring(trial) if decision.count(place) > trial.before.cpus => {
                let next = counts::next_count(decision, place, Direction::More);
                next - decision.count(place)
            }
            _ => 0,
        })
        .sum();
    let budget = decision
        .config
        .budget(decision.usable, decision.cpus_per_socket);
    let mut demand = unmet
        .saturating_add(growing)
        .saturating_sub(decision.free())
        .saturating_sub(decision.reserved())
        .min(budget);
    if demand == 0 {
        return;
    }
    for place in 0..decision.len() {
        let (scratch, member) = (&decision.scratch[place], decision.members.at(place));
        let cpus = decision.count(place);
        let others_ask = unmet + growing > if scratch.on_trial { scratch.want } else { 0 };
        if demand == 0
            || scratch.moved
            || is_idle(decision, place)
            // What it does not need it lends.
            || counts::is_serial(decision, place)
            || scratch.fixed
            || member.mode != Mode::Steady
            || member.holdoff > 0
            || !member.down.open_below(cpus)
            || !others_ask
        {
            continue;
        }
        let target = counts::next_count(decision, place, Direction::Fewer);
        decision.try_fewer(place, target, surely_in_vain);
        demand = demand.saturating_sub(cpus - decision.count(place));
    }
}
