//! Trials within a decision: judging the ones under way, and beginning new ones
//! [MAPPER §3.3, readings "State machine" steps 4 to 6].
//!
//! What is not in the paper: *demand*. Two applications that were only ever seen at their fair
//! shares both have a normalized efficiency of 1, so neither may take from the other, however
//! differently they scale. So when somebody asks for CPUs that nobody can spare, the others try
//! fewer for a while: who is about as good with fewer keeps that and frees the rest, who is not
//! returns at once, and both now have an efficiency that means something. While an application tries
//! fewer, the CPUs it may need back are given to nobody. [`Initiative::Paper`] switches this off.

use super::exploration::{
    self, Certainty, Direction, Judgement, PlainTrial, Reference, SampledTrial, TestRules, Verdict,
};
use super::metrics::{self, Metrics};
use super::state::{Mode, Source, Trial};
use super::stealing::{self, Bidder, Move, Passes, Purpose};
use super::turn::Turn;
use crate::config::{Acceptance, Initiative};
use crate::ledger::Holder;
use mapper_model::{Confidence, CurvePoint, PhaseChange, Reason};

/// Intervals without a sample after which a trial is given up.
const GIVEN_UP_AFTER: u32 = 10;

impl Turn<'_> {
    /// Judges the trial of an application, if it has one and there is something to judge.
    pub(super) fn judge(&mut self, place: usize) {
        let Mode::Exploring(trial) = &mut self.members.at_mut(place).mode else {
            return;
        };
        let from = trial.before.cpus;
        if self.sheets[place].new_phase {
            // What it is compared with belongs to another phase.
            self.interrupt(place);
            return;
        }
        if self.sheets[place].fresh.is_none() {
            trial.waited += 1;
            if trial.waited >= GIVEN_UP_AFTER {
                self.go_back(place);
                self.say(
                    place,
                    Reason::Returned {
                        to: from,
                        gain: 0.0,
                    },
                );
            }
            return;
        }
        trial.waited = 0;
        let trial = trial.clone();
        let Some(judgement) = self.judgement(place, &trial) else {
            self.interrupt(place);
            return;
        };
        self.conclude(place, from, judgement);
    }

    fn judgement(&self, place: usize, trial: &Trial) -> Option<Judgement> {
        let cpus = self.count(place);
        let curve = self.curve(place);
        let value = self.value();
        let relative_sd = self.relative_sd(place);
        let credible = |point: &CurvePoint| metrics::credible(point, value, relative_sd);
        let best = curve
            .points()
            .iter()
            .max_by(|a, b| credible(a).total_cmp(&credible(b)))?;
        let min_guaranteed = self.metrics(place).min_guaranteed;
        match self.config.acceptance {
            Acceptance::Plain5Percent => Some(exploration::judge_plain(&PlainTrial {
                prev_cpus: trial.before.cpus,
                prev_perf: curve.at(trial.before.cpus)?.perf,
                cpus,
                perf: curve.at(cpus)?.perf,
                best: best.perf,
                min_guaranteed,
                threshold: self.config.threshold,
            })),
            Acceptance::Welch {
                confidence,
                max_samples,
            } => {
                let sampled = SampledTrial {
                    before: trial.before,
                    anchor: self.anchor(place, trial.before.cpus, max_samples),
                    tried: self.members.at(place).here,
                    best: credible(best),
                    min_guaranteed,
                };
                let rules = TestRules {
                    threshold: self.config.threshold,
                    required: self.config.required_gain,
                    confidence,
                    max_samples,
                };
                Some(exploration::judge_significant(
                    &sampled,
                    self.noise(place),
                    &rules,
                ))
            }
        }
    }

    /// The count to compare with when a step up is too small to show: the nearest one of this climb
    /// that is far enough below, else the one where the climb began.
    fn anchor(&self, place: usize, from: u32, max_samples: u32) -> Option<Reference> {
        let cpus = self.count(place);
        let needed = exploration::discernible_step(self.noise(place), f64::from(max_samples));
        let far = |count: u32| f64::from(cpus - count) >= needed * f64::from(count);
        if cpus <= from || far(from) {
            return None;
        }
        let climb = self.members.at(place).climb_from..from;
        let mut below = None;
        for point in self.curve(place).points().iter().rev() {
            if climb.contains(&point.cpus) && point.samples >= 2.0 {
                below = Some(Reference {
                    cpus: point.cpus,
                    estimate: point.estimate(),
                });
                if far(point.cpus) {
                    break;
                }
            }
        }
        below
    }

    /// Acts on a judgement.
    fn conclude(&mut self, place: usize, from: u32, judgement: Judgement) {
        let cpus = self.count(place);
        let upward = cpus > from;
        let base = self.discernible_step(place);
        let gain = judgement.gain;
        match judgement.verdict {
            Verdict::Undecided => self.say(place, Reason::Undecided { gain }),
            Verdict::Continue | Verdict::Keep => {
                let fair = self.sheets[place].fair;
                let member = self.members.at_mut(place);
                member.be_steady();
                let heading = if upward {
                    Direction::More
                } else {
                    Direction::Fewer
                };
                if member.heading != heading {
                    member.streak = 0;
                }
                member.heading = heading;
                member.streak += 1;
                if upward {
                    member.up.succeed();
                    // Fewer is known to be worse.
                    member.down.close(cpus);
                } else {
                    member.down.succeed();
                    // More is known not to be worth it.
                    member.up.close(cpus);
                }
                member.modest = !upward && cpus < fair;
                if !upward {
                    member.climb_from = 0;
                }
                self.say(place, Reason::Kept { gain });
                self.rest_after(place, judgement.verdict);
            }
            Verdict::Revert => {
                if !upward {
                    self.sheets[place].returned = true;
                    self.remember_breach(place);
                }
                self.go_back(place);
                let member = self.members.at_mut(place);
                member.streak = 0;
                // A stride that was too long says nothing of a shorter one.
                let too_long = self.config.initiative == Initiative::Demand
                    && cpus.abs_diff(from) > base
                    && judgement.certainty == Certainty::Clear;
                match (upward, too_long) {
                    (_, true) => {}
                    (true, false) => member.up.in_vain(from, judgement.certainty),
                    (false, false) => member.down.in_vain(from, judgement.certainty),
                }
                self.say(place, Reason::Returned { to: from, gain });
                self.rest_after(place, judgement.verdict);
            }
        }
    }

    /// Remembers the tried count if the promise broke there.
    fn remember_breach(&mut self, place: usize) {
        let cpus = self.count(place);
        let floor = self.metrics(place).min_guaranteed;
        let tolerance = self.config.tolerance;
        let member = self.members.at_mut(place);
        let mean = member.here.estimate.mean;
        if floor.is_some_and(|floor| metrics::promise_broken(mean, floor, tolerance)) {
            member.broken_at = member.broken_at.max(cpus);
        }
    }

    /// By the printed rules only a gain goes on at once; any other verdict ends in the steady state.
    fn rest_after(&mut self, place: usize, verdict: Verdict) {
        if self.config.initiative == Initiative::Paper && verdict != Verdict::Continue {
            self.members.at_mut(place).streak = 0;
            self.sheets[place].moved = true;
        }
    }

    /// Decides what a steady application tries: fewer CPUs at once, or more, for which it asks.
    pub(super) fn aspire(&mut self, place: usize) {
        let bottleneck = self.app(place).profile.bottleneck;
        let cpus = self.count(place);
        if self.sheets[place].moved
            || self.sheets[place].fixed
            || self.sheets[place].want > 0
            || self.members.at(place).mode != Mode::Steady
            || self.known(place, cpus).is_none()
        {
            return;
        }
        let member = self.members.at_mut(place);
        member.steady_for += 1;
        let due = self
            .config
            .reexplore_every
            .is_some_and(|period| member.steady_for >= period.max(1));
        if due {
            member.up.renew();
            member.down.renew();
        }
        let direction = exploration::direction(bottleneck, cpus, self.cpus_per_socket);
        let wanted = match (self.config.initiative, direction) {
            (_, Direction::Stay) => false,
            (Initiative::Paper, _) => {
                let changed = self.app(place).profile.phase == PhaseChange::Changed;
                due || changed || self.members.at(place).streak > 0
            }
            (Initiative::Demand, Direction::More) => self.members.at(place).up.open_above(cpus),
            (Initiative::Demand, Direction::Fewer) => self.members.at(place).down.open_below(cpus),
        };
        if !wanted {
            return;
        }
        let target = self.target(place, direction);
        match direction {
            Direction::Fewer => self.try_fewer(place, target),
            Direction::More if target > cpus => {
                self.sheets[place].want = target - cpus;
                self.sheets[place].on_trial = true;
            }
            Direction::More | Direction::Stay => {}
        }
        // The printed rules go on in the same direction only right after a success.
        if self.config.initiative == Initiative::Paper {
            self.members.at_mut(place).streak = 0;
            self.members.at_mut(place).steady_for = 0;
        }
    }

    /// The next count of an application in a direction, within its limits.
    fn target(&self, place: usize, direction: Direction) -> u32 {
        let sheet = &self.sheets[place];
        let next = exploration::step(
            self.count(place),
            direction,
            self.stride(place, direction),
            self.usable,
        );
        next.min(sheet.max)
            .max(sheet.min.min(self.count(place)))
            .max(1)
    }

    /// Begins to try fewer CPUs.
    fn try_fewer(&mut self, place: usize, target: u32) {
        let cpus = self.count(place);
        // Not where the promise is known to break.
        let target = target.max(self.members.at(place).broken_at + 1);
        let Some(before) = self.known(place, cpus) else {
            return;
        };
        // Not again in the same decision: an interval at the old count lies between two trials.
        if target >= cpus || self.sheets[place].returned {
            return;
        }
        self.ledger
            .shift(Holder::App(place), Holder::Pool, cpus - target);
        self.members.at_mut(place).mode = Mode::Exploring(Trial {
            before,
            sources: Vec::new(),
            waited: 0,
        });
        self.members.at_mut(place).settle_at(target);
        self.sheets[place].moved = true;
        let bottleneck = self.app(place).profile.bottleneck;
        self.say(
            place,
            Reason::Exploring {
                from: cpus,
                to: target,
                bottleneck,
            },
        );
    }

    /// Holds the round in which CPUs change hands, and begins the trials of those who grow. Returns
    /// what was asked for on trial and not to be had.
    pub(super) fn hold_round(&mut self) -> u32 {
        if self.sheets.iter().all(|s| s.want == 0) {
            return 0;
        }
        let metrics: Vec<Metrics> = (0..self.len())
            .map(|place| self.kept_metrics(place))
            .collect();
        let bidders: Vec<Bidder> = metrics
            .iter()
            .enumerate()
            .map(|(place, metrics)| self.bidder(place, metrics))
            .collect();
        let budget = self.config.budget(self.usable, self.cpus_per_socket);
        let round = stealing::round(self.free(), &bidders, Passes::All { budget });
        let before: Vec<u32> = bidders.iter().map(|b| b.cur).collect();
        for step in &round.moves {
            let from = step.from.map_or(Holder::Pool, Holder::App);
            self.ledger.shift(from, Holder::App(step.to), step.cpus);
            self.record(step, &metrics, &bidders);
        }
        let mut unmet = 0;
        for (place, from) in before.into_iter().enumerate() {
            unmet += self.begin_growth(place, from, &round.moves);
        }
        unmet
    }

    fn bidder(&self, place: usize, metrics: &Metrics) -> Bidder {
        let sheet = &self.sheets[place];
        let cur = self.count(place);
        let shielded = sheet.fixed || sheet.moved || self.reserves(place);
        // Where the curve already tells how efficient it would be at the count it asks for, that
        // counts: otherwise two applications could take the same CPUs from each other for ever.
        let foreseen = (sheet.want > 0)
            .then(|| metrics::interpolated(self.curve(place), cur + sheet.want, self.value()))
            .flatten()
            .zip(metrics.max_eff.filter(|max| *max > 0.0))
            .map(|(p, max)| p / f64::from(cur + sheet.want) / max);
        let norm_eff = match (metrics.norm_eff, foreseen) {
            (Some(now), Some(then)) => Some(now.min(then)),
            (now, _) => now,
        };
        Bidder {
            cur,
            fair: if shielded {
                sheet.fair.max(cur)
            } else {
                sheet.fair
            },
            want: sheet.want,
            norm_eff,
            margin: self.efficiency_margin(place, metrics),
            spare: self.spare(place, metrics),
        }
    }

    /// Whether an application is in the middle of a trial, in which its count must not change.
    fn reserves(&self, place: usize) -> bool {
        matches!(self.members.at(place).mode, Mode::Exploring(_))
    }

    /// How far off a normalized efficiency may be.
    fn efficiency_margin(&self, place: usize, metrics: &Metrics) -> f64 {
        let noise = self.noise(place);
        match (self.confidence(), self.known(place, self.count(place))) {
            (Some(_), Some(here)) if noise.degrees_of_freedom >= 1.0 => {
                let confidence = Confidence::USUAL;
                // The efficiency it is normalized by is as uncertain as its own.
                metrics.norm_eff.unwrap_or(0.0)
                    * noise.margin_of_difference(&here.estimate, &here.estimate, confidence)
            }
            (Some(_), _) => 1.0,
            (None, _) => 0.0,
        }
    }

    /// Says why CPUs moved, and remembers gifts.
    fn record(&mut self, step: &Move, metrics: &[Metrics], bidders: &[Bidder]) {
        let taker = self.id(step.to);
        let cpus = step.cpus;
        let Some(giver) = step.from else {
            let reason = match step.purpose {
                Purpose::Reclaim => Reason::Reclaimed { from: None, cpus },
                Purpose::Growth => Reason::TookFree { cpus },
            };
            self.say(step.to, reason);
            return;
        };
        let giver_id = self.id(giver);
        let now = self.count(giver);
        self.sheets[giver].moved = true;
        self.members.at_mut(giver).settle_at(now);
        if step.purpose == Purpose::Reclaim {
            self.say(giver, Reason::ReclaimedBy { taker, cpus });
            let from = Some(giver_id);
            self.say(step.to, Reason::Reclaimed { from, cpus });
            return;
        }
        let (taker_eff, own_eff) = (
            bidders[step.to].norm_eff.unwrap_or(0.0),
            bidders[giver].norm_eff.unwrap_or(0.0),
        );
        let expected = metrics::interpolated(self.curve(giver), now, self.value()).or_else(|| {
            let before = bidders[giver].cur.max(1);
            metrics[giver]
                .performance
                .map(|p| p * f64::from(now) / f64::from(before))
        });
        let member = self.members.at_mut(giver);
        member.give(taker, cpus);
        // It gave because others use these CPUs better: it does not ask for them back.
        member.up.close(now);
        self.say(
            giver,
            Reason::GaveTo {
                taker,
                cpus,
                taker_eff,
                own_eff,
                floor: metrics[giver].min_guaranteed,
                expected,
            },
        );
        self.say(
            step.to,
            Reason::TookFrom {
                giver: giver_id,
                cpus,
                giver_eff: own_eff,
                own_eff: taker_eff,
            },
        );
    }

    /// Begins the trial of an application that grew. Returns what it asked for in vain.
    fn begin_growth(&mut self, place: usize, from: u32, moves: &[Move]) -> u32 {
        let cpus = self.count(place);
        let want = self.sheets[place].want;
        let unmet = want.saturating_sub(cpus.saturating_sub(from));
        if want == 0 || cpus < from {
            return 0;
        }
        if cpus > from {
            self.sheets[place].moved = true;
            self.members.at_mut(place).modest = false;
        }
        if !self.sheets[place].on_trial {
            if cpus > from {
                self.members.at_mut(place).settle_at(cpus);
            }
            return 0;
        }
        let Some(before) = self.known(place, from).filter(|_| cpus > from) else {
            self.say(place, Reason::NothingToSpare { wanted: want });
            return unmet;
        };
        let sources = moves
            .iter()
            .filter(|m| m.to == place)
            .map(|m| Source {
                giver: m.from.map(|giver| self.id(giver)),
                cpus: m.cpus,
            })
            .collect();
        let bottleneck = self.app(place).profile.bottleneck;
        let member = self.members.at_mut(place);
        if member.climb_from == 0 || member.climb_from > from {
            member.climb_from = from;
        }
        member.mode = Mode::Exploring(Trial {
            before,
            sources,
            waited: 0,
        });
        member.settle_at(cpus);
        self.say(
            place,
            Reason::Exploring {
                from,
                to: cpus,
                bottleneck,
            },
        );
        unmet
    }

    /// Lets those who could do with less try it, when others ask for more than there is.
    pub(super) fn answer_demand(&mut self, unmet: u32) {
        if self.config.initiative == Initiative::Paper {
            return;
        }
        // Whoever is growing will ask again.
        let growing: u32 = (0..self.len())
            .map(|place| match &self.members.at(place).mode {
                Mode::Exploring(trial) if self.count(place) > trial.before.cpus => {
                    let next = self.target(place, Direction::More);
                    next - self.count(place)
                }
                _ => 0,
            })
            .sum();
        let mut demand = unmet
            .saturating_add(growing)
            .saturating_sub(self.free())
            .saturating_sub(self.reserved())
            .min(self.config.budget(self.usable, self.cpus_per_socket));
        if demand == 0 {
            return;
        }
        for place in 0..self.len() {
            let (sheet, member) = (&self.sheets[place], self.members.at(place));
            let cpus = self.count(place);
            let others_ask = unmet + growing > if sheet.on_trial { sheet.want } else { 0 };
            if demand == 0
                || sheet.moved
                || sheet.fixed
                || member.mode != Mode::Steady
                || member.holdoff > 0
                || !member.down.open_below(cpus)
                || !others_ask
            {
                continue;
            }
            let target = self.target(place, Direction::Fewer);
            self.try_fewer(place, target);
            demand = demand.saturating_sub(cpus - self.count(place));
        }
    }
}
