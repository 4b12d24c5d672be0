//! Trials within a decision: judging the ones under way [MAPPER §3.3, readings "State machine"
//! step 4].
//!
//! A trial that a change of phase or source made meaningless is broken off, and so is one of which
//! nothing is heard for many intervals.

use super::evidence::{self, SampledTrial, TestRules};
use super::exploration::{self, Certainty, Direction, Judgement, PlainTrial, Verdict};
use super::fit;
use super::metrics;
use super::state::{Mode, Trial};
use super::turn::Turn;
use crate::config::{Acceptance, Initiative};
use mapper_model::Reason;

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
        let best = metrics::best(curve, &self.metrics_rules(place))?;
        let min_guaranteed = self.metrics(place).min_guaranteed;
        match self.config.acceptance {
            Acceptance::Plain5Percent => Some(exploration::judge_plain(&PlainTrial {
                prev_cpus: trial.before.cpus,
                prev_perf: curve.at(trial.before.cpus)?.perf,
                cpus,
                perf: curve.at(cpus)?.perf,
                best: best.performance,
                min_guaranteed,
                threshold: self.config.threshold,
            })),
            Acceptance::Welch {
                confidence,
                max_samples,
            } => {
                let sampled = SampledTrial {
                    before: trial.before,
                    fit: fit::around(curve, cpus, self.noise(place)),
                    tried: self.members.at(place).here,
                    best: best.performance,
                    best_error: best.relative_error,
                    min_guaranteed,
                };
                let rules = TestRules {
                    threshold: self.config.threshold,
                    required: self.config.required_gain,
                    confidence,
                    max_samples,
                };
                Some(evidence::judge_significant(
                    &sampled,
                    self.noise(place),
                    &rules,
                ))
            }
        }
    }

    /// Acts on a judgement.
    fn conclude(&mut self, place: usize, from: u32, judgement: Judgement) {
        let cpus = self.count(place);
        let upward = cpus > from;
        let base = if upward {
            self.base_step(place)
        } else {
            self.contrasting_step(place, from)
        };
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
}
