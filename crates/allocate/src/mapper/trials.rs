//! Trials within a decision: judging the ones under way by the test [MAPPER §3.3, readings "State machine" step 4].

use super::counts;
use crate::config::Acceptance;
use crate::efficiency::decision::Decision;
use crate::efficiency::evidence::{self, SampledTrial, TestRules};
use crate::efficiency::exploration::{Certainty, Direction, Judgement, Verdict};
use crate::efficiency::member::Trial;
use crate::efficiency::{fit, metrics};
use mapper_model::Reason;

/// Judges the trial of an application, if it has one and there is something to judge.
pub(super) fn judge(decision: &mut Decision<'_>, place: usize) {
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
    let best = metrics::best(curve, &decision.metrics_rules(place))?;
    let noise = decision.noise(place);
    let sampled = SampledTrial {
        before: trial.before,
        fit: fit::around(curve, cpus, noise),
        tried: decision.members.at(place).here,
        best: best.performance,
        best_error: best.relative_error,
        min_guaranteed: decision.metrics(place).min_guaranteed,
    };
    let Acceptance::Welch {
        confidence,
        max_samples,
    } = decision.config.acceptance;
    let rules = TestRules {
        threshold: decision.config.threshold,
        confidence,
        max_samples,
    };
    Some(evidence::judge_significant(&sampled, noise, &rules))
}

fn conclude(decision: &mut Decision<'_>, place: usize, from: u32, judgement: Judgement) {
    let cpus = decision.count(place);
    let upward = cpus > from;
    let gain = judgement.gain;
    match judgement.verdict {
        Verdict::Undecided => decision.say(place, Reason::Undecided { gain }),
        Verdict::Continue | Verdict::Keep => {
            let fair = decision.scratch[place].fair;
            let member = decision.members.at_mut(place);
            member.settle();
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
            decision.say(place, Reason::Kept { gain });
        }
        Verdict::Revert => {
            let base = if upward {
                decision.base_step(place)
            } else {
                counts::contrasting_step(decision, place, from)
            };
            if !upward {
                decision.scratch[place].returned = true;
                decision.remember_breach(place);
            }
            decision.go_back(place);
            let member = decision.members.at_mut(place);
            member.streak = 0;
            // A stride that was too long says nothing about a shorter one.
            if cpus.abs_diff(from) <= base || judgement.certainty == Certainty::Guess {
                let tried = if upward {
                    &mut member.up
                } else {
                    &mut member.down
                };
                tried.in_vain(from, judgement.certainty);
            }
            decision.say(place, Reason::Returned { to: from, gain });
        }
    }
}
