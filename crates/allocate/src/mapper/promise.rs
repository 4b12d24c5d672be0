//! The promise: taking in what was measured, and undoing gifts that broke it
//! [MAPPER §3.3, readings "State machine" steps 1 to 3].

use super::metrics;
use super::state::Mode;
use super::turn::Turn;
use crate::ledger::Holder;
use mapper_model::{PhaseChange, Reason};

/// Times the initial intervals that an application is measured at most, however much its samples
/// scatter.
const MEASURED_AT_MOST: u32 = 4;
/// Part of the threshold to which the mean is to be known, at the confidence of the tests, before
/// anything is tried.
const KNOWN_TO: f64 = 0.5;

/// A broken promise.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Breach {
    pub(super) performance: f64,
    pub(super) floor: f64,
}

impl Turn<'_> {
    /// Takes in what the interval brought for one application.
    pub(super) fn take_in(&mut self, place: usize) {
        let profile = self.app(place).profile;
        let cpus = self.count(place);
        let fresh = profile
            .performance
            .filter(|_| profile.measured_cpus == cpus)
            .map(|p| p.value);
        self.sheets[place].fresh = fresh;
        let enough = self.config.initial_intervals;
        if profile.epoch != self.members.at(place).epoch {
            // Other units: what was measured before means nothing now.
            let first = self.members.at(place).epoch == 0;
            self.members.at_mut(place).epoch = profile.epoch;
            if !first {
                self.interrupt(place);
                let fair = self.sheets[place].fair;
                let now = self.count(place);
                let member = self.members.at_mut(place);
                member.settle_at(now);
                member.forget_trials();
                member.broken_at = 0;
                member.gifts.clear();
                if enough > 0 {
                    member.mode = Mode::Measuring { done: 0 };
                }
                // The promise is relative to the fair share, so it is measured there.
                member.modest = false;
                self.sheets[place].want = fair.saturating_sub(now);
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
            member.settle_at(cpus);
            self.sheets[place].new_phase = true;
        }
        member.bottleneck = profile.bottleneck;
        let Some(sample) = fresh else {
            return;
        };
        member.here.estimate.add(sample);
        if let Mode::Measuring { done } = &mut member.mode {
            *done += 1;
            let done = *done;
            let vague = self.confidence().is_some_and(|confidence| {
                let samples = self.members.at(place).here.estimate.samples;
                profile.curve.noise().margin(samples, confidence) > KNOWN_TO * self.config.threshold
            });
            if done >= enough && (!vague || done >= MEASURED_AT_MOST * enough) {
                self.members.at_mut(place).be_steady();
            }
        }
    }

    /// Whether the promise of an application is broken by what it gave away. With tests, the mean
    /// since the gift must be below the floor by more than the scatter explains.
    pub(super) fn breach(&self, place: usize) -> Option<Breach> {
        let sample = self.sheets[place].fresh?;
        let member = self.members.at(place);
        let gave = !member.gifts.is_empty() || self.count(place) < self.sheets[place].fair;
        // Whoever says that it has CPUs to spare is not kept from its promised performance by others.
        let offers = self.declared(place) > 0 || self.is_serial(place);
        if !gave || offers || matches!(member.mode, Mode::Exploring(_)) {
            return None;
        }
        let floor = self.metrics(place).min_guaranteed?;
        let noise = self.noise(place);
        let performance = match self.confidence() {
            Some(confidence) if noise.degrees_of_freedom >= 1.0 => {
                let here = &member.here.estimate;
                here.mean * (1.0 + noise.margin(here.samples, confidence))
            }
            _ => sample,
        };
        metrics::promise_broken(performance, floor, self.config.tolerance).then_some(Breach {
            performance: sample,
            floor,
        })
    }

    /// Undoes the last gift of an application whose promise broke, lets it hold off, and remembers
    /// the count.
    pub(super) fn undo(&mut self, place: usize, breach: Breach) {
        let cpus = self.count(place);
        let member = self.members.at_mut(place);
        member.broken_at = member.broken_at.max(cpus);
        member.holdoff = self.config.holdoff_intervals;
        member.modest = false;
        member.streak = 0;
        member.be_steady();
        let gift = member.gifts.pop();
        self.sheets[place].moved = true;
        self.say(
            place,
            Reason::PromiseBroken {
                performance: breach.performance,
                floor: breach.floor,
            },
        );
        let room = self.sheets[place].max.saturating_sub(cpus);
        let mut owed = gift.map_or(0, |g| g.cpus).min(room);
        if let Some(gift) = gift
            && let Some(taker) = self.place_of(gift.taker)
            && !self.sheets[taker].fixed
        {
            let can = self.count(taker).saturating_sub(self.sheets[taker].min);
            self.members.at_mut(taker).forgo(owed);
            let back = self
                .ledger
                .shift(Holder::App(taker), Holder::App(place), owed.min(can));
            owed -= back;
            if back > 0 {
                let left = self.count(taker);
                let receiver = self.id(place);
                self.members.at_mut(taker).be_steady();
                self.members.at_mut(taker).settle_at(left);
                self.sheets[taker].moved = true;
                self.say(
                    taker,
                    Reason::ReclaimedBy {
                        taker: receiver,
                        cpus: back,
                    },
                );
                self.say(
                    place,
                    Reason::Reclaimed {
                        from: Some(gift.taker),
                        cpus: back,
                    },
                );
            }
        }
        if gift.is_none() {
            owed = self.sheets[place].fair.saturating_sub(cpus);
        }
        let now = self.count(place);
        let room = self.sheets[place].max.saturating_sub(now);
        // What the taker no longer has is asked for in the round, as far as the fair share goes.
        self.sheets[place].want = owed.min(room);
        self.members.at_mut(place).settle_at(now);
    }
}
