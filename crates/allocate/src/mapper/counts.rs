//! What an application can spare, and by how much its count changes in a trial.

use crate::config::Acceptance;
use crate::efficiency::decision::Decision;
use crate::efficiency::exploration::Direction;
use crate::efficiency::metrics::Metrics;
use mapper_model::Confidence;

/// Standard deviations by which performance is to differ, with perfect scaling, in a trial of fewer CPUs.
const CONTRAST: f64 = 3.5;

pub(super) const fn confidence(decision: &Decision<'_>) -> Confidence {
    let Acceptance::Welch { confidence, .. } = decision.config.acceptance;
    confidence
}

/// Whether an application reports a serial phase, and lends its CPUs.
pub(super) fn is_serial(decision: &Decision<'_>, place: usize) -> bool {
    decision.members.at(place).loans.is_some()
}

/// CPUs that an application reports as not needed now.
pub(super) fn declared(decision: &Decision<'_>, place: usize) -> u32 {
    let scratch = &decision.scratch[place];
    if scratch.fixed || decision.is_exploring(place) {
        return 0;
    }
    let beyond_limit = decision.count(place).saturating_sub(scratch.min);
    let spare = decision.app(place).profile.spare_cpus;
    spare.map_or(0, |cpus| cpus.min(beyond_limit))
}

/// What an application can spare now: what it reports, else what its metrics give.
pub(super) fn spare(decision: &Decision<'_>, place: usize, metrics: &Metrics) -> u32 {
    let declared = declared(decision, place);
    if declared > 0 && !decision.scratch[place].moved {
        return declared;
    }
    let spare = decision.spare(place, metrics);
    if spare < decision.base_step(place).div_ceil(2) {
        // Not worth a migration.
        return 0;
    }
    spare
}

/// How many CPUs fewer show how it scales, without breaking its promise if it scales perfectly.
pub(super) fn contrasting_step(decision: &Decision<'_>, place: usize, cpus: u32) -> u32 {
    let noise = decision.noise(place).relative_sd;
    let cpus = f64::from(cpus);
    let harmless = (1.0 - decision.app(place).spec.qos.get()).clamp(0.0, 1.0) * cpus;
    let step = (CONTRAST * noise * cpus).min(harmless) as u32;
    step.max(decision.base_step(place))
}

/// The next count of an application in a direction: whole sockets if it shares data heavily; else its
/// basic step, doubled with each success in a row up to a quarter of its count, and large enough to show
/// through the scatter.
pub(super) fn next_count(decision: &Decision<'_>, place: usize, direction: Direction) -> u32 {
    let (member, cpus) = (decision.members.at(place), decision.count(place));
    let base = if direction == Direction::Fewer && !member.down.tried_in_vain() {
        contrasting_step(decision, place, cpus)
    } else {
        decision.base_step(place)
    };
    let doubled = if member.heading == direction {
        base.saturating_mul(1 << member.streak.min(8))
    } else {
        base
    };
    let stride = decision.stride(place, base, doubled.min(cpus / 4).max(base));
    decision.next_count(place, direction, stride)
}
