//! The promise: ingesting samples, and undoing gifts that broke it [MAPPER §3.3, readings "State
//! machine" steps 1 to 3].

use super::decision::Decision;
use super::member::Mode;
use super::metrics;
use crate::accounting::Holder;
use mapper_model::{PhaseChange, Reason};

/// A broken promise.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Breach {
    pub(crate) performance: f64,
    pub(crate) floor: f64,
}

impl Decision<'_> {
    /// Ingests the interval of one application.
    pub(crate) fn ingest(&mut self, place: usize) {
        let profile = self.app(place).profile;
        let cpus = self.count(place);
        let fresh = profile
            .performance
            .filter(|_| profile.measured_cpus == cpus)
            .map(|p| p.value);
        self.scratch[place].fresh = fresh;
        let enough = self.config.initial_intervals;
        if profile.epoch != self.members.at(place).epoch {
            // Other units: old measurements mean nothing now.
            let first = self.members.at(place).epoch == 0;
            self.members.at_mut(place).epoch = profile.epoch;
            if !first {
                self.interrupt(place);
                let fair = self.scratch[place].fair;
                let now = self.count(place);
                let member = self.members.at_mut(place);
                member.restart_samples(now);
                member.forget_trials();
                member.broken_at = 0;
                member.gifts.clear();
                if enough > 0 {
                    member.mode = Mode::Measuring { done: 0 };
                }
                // The promise is relative to the fair share, so it is measured there.
                member.modest = false;
                self.scratch[place].want = fair.saturating_sub(now);
                if now != cpus {
                    return;
                }
            }
        }
        let member = self.members.at_mut(place);
        member.holdoff = member.holdoff.saturating_sub(1);
        member.up.pass();
        member.down.pass();
        let bottleneck_alone =
            profile.phase == PhaseChange::Changed && member.bottleneck != profile.bottleneck;
        let phase = profile.region_phase.map_or(0, |phase| phase.number);
        if phase != member.phase {
            member.leave_phase(phase);
        }
        match profile.phase {
            PhaseChange::Same => {}
            PhaseChange::Changed => {
                member.up.renew();
                member.down.renew();
                member.streak = 0;
                // Another bottleneck alone does not make what was measured obsolete.
                if !bottleneck_alone {
                    member.broken_at = 0;
                }
            }
            PhaseChange::Returned => {
                member.resume_phase();
                member.streak = 0;
            }
        }
        if profile.phase != PhaseChange::Same && !bottleneck_alone {
            member.restart_samples(cpus);
            self.scratch[place].new_phase = true;
        }
        member.bottleneck = profile.bottleneck;
        let Some(sample) = fresh else {
            return;
        };
        member.here.estimate.add(sample);
        if let Mode::Measuring { done } = &mut member.mode {
            *done += 1;
        }
    }

    /// Intervals measured at the present count, if enough and with a new sample.
    pub(crate) fn measured_for(&self, place: usize) -> Option<u32> {
        self.scratch[place].fresh?;
        match self.members.at(place).mode {
            Mode::Measuring { done } => (done >= self.config.initial_intervals).then_some(done),
            Mode::Exploring(_) | Mode::Steady => None,
        }
    }

    /// Whether an application's gifts broke its promise. `performance` is compared with the floor.
    pub(crate) fn breach(&self, place: usize, performance: f64) -> Option<Breach> {
        let sample = self.scratch[place].fresh?;
        let member = self.members.at(place);
        let gave = !member.gifts.is_empty() || self.count(place) < self.scratch[place].fair;
        if !gave || self.is_exploring(place) {
            return None;
        }
        let floor = self.metrics(place).min_guaranteed?;
        metrics::promise_broken(performance, floor, self.config.tolerance).then_some(Breach {
            performance: sample,
            floor,
        })
    }

    /// Remembers the count that an application holds if its promise broke there.
    pub(crate) fn remember_breach(&mut self, place: usize) {
        let cpus = self.count(place);
        let floor = self.metrics(place).min_guaranteed;
        let tolerance = self.config.tolerance;
        let member = self.members.at_mut(place);
        let mean = member.here.estimate.mean;
        if floor.is_some_and(|floor| metrics::promise_broken(mean, floor, tolerance)) {
            member.broken_at = member.broken_at.max(cpus);
        }
    }

    /// Undoes the last gift of an application whose promise broke; it holds off and remembers the count.
    pub(crate) fn undo(&mut self, place: usize, breach: Breach) {
        let cpus = self.count(place);
        let member = self.members.at_mut(place);
        member.broken_at = member.broken_at.max(cpus);
        member.holdoff = self.config.holdoff_intervals;
        member.modest = false;
        member.streak = 0;
        member.settle();
        let gift = member.gifts.pop();
        self.scratch[place].moved = true;
        let Breach { performance, floor } = breach;
        self.say(place, Reason::PromiseBroken { performance, floor });
        let room = self.scratch[place].max.saturating_sub(cpus);
        let mut owed = gift.map_or(0, |g| g.cpus).min(room);
        if let Some(gift) = gift
            && let Some(taker) = self.place_of(gift.taker)
            && !self.scratch[taker].fixed
        {
            let can = self.count(taker).saturating_sub(self.scratch[taker].min);
            self.members.at_mut(taker).forgo(owed);
            let (from, to) = (Holder::App(taker), Holder::App(place));
            let back = self.accounts.shift(from, to, owed.min(can));
            owed -= back;
            if back > 0 {
                let left = self.count(taker);
                let (cpus, from) = (back, Some(gift.taker));
                let receiver = self.id(place);
                self.members.at_mut(taker).settle();
                self.members.at_mut(taker).restart_samples(left);
                self.scratch[taker].moved = true;
                self.say(
                    taker,
                    Reason::ReclaimedBy {
                        taker: receiver,
                        cpus,
                    },
                );
                self.say(place, Reason::Reclaimed { from, cpus });
            }
        }
        if gift.is_none() {
            owed = self.scratch[place].fair.saturating_sub(cpus);
        }
        let now = self.count(place);
        let room = self.scratch[place].max.saturating_sub(now);
        // What the taker no longer has is requested in the round, up to the fair share.
        self.scratch[place].want = owed.min(room);
        self.members.at_mut(place).restart_samples(now);
    }
}
