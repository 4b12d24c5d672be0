//! Trying another count: in which direction, by how much, and whether it was worth it
//! [MAPPER §3.3, readings "State machine" steps 4 and 5].
//!
//! *Direction* by bottleneck: an application short of memory bandwidth tries fewer CPUs; one that
//! shares data tries fewer while it spans more than one socket, and more up to one socket; any other
//! tries more [readings R3.9, R3.10]. *Step*: a few CPUs; for sharing-heavy applications, whole
//! sockets.
//!
//! *Verdict*, as printed ([`judge_plain`]): a gain of 5 % is kept and the search goes on the same
//! way; a smaller count that is about as good (95 % of the best known, and above the promise) is
//! kept too, as it frees CPUs [readings R3.7]; anything else is undone.
//!
//! *Verdict by test* ([`judge_significant`]): the same three outcomes and a fourth, that the samples
//! do not tell yet. The mean at the tried count is compared with the mean before after every sample;
//! the trial ends as soon as the answer is clear, or with the better guess after a number of
//! samples. That there *is* an effect is clear when it is beyond the margin of a Welch test with
//! pooled scatter. That there is *none* is clear when the likelihood ratio of no effect against twice
//! the required one says so (Wald's sequential test), which takes far fewer samples than to prove
//! the effect to be small. Without scatter the answer is clear after one sample, and is the printed
//! rule's. Two refinements matter at scale:
//!
//! * What growth must bring is the threshold, or half of what perfect scaling would bring where that
//!   is less [readings R3.8]; and what shrinking may cost is half of what it would cost with perfect
//!   scaling. (By the threshold alone, one CPU of twenty less is always about as good.)
//! * When the step is so small that its gain would drown in the scatter, the tried count is compared
//!   with an earlier, lower count of the same climb ([`Reference`]) instead of the one just before.

use crate::config::RequiredGain;
use mapper_model::statistics::normal_quantile;
use mapper_model::{Bottleneck, Confidence, Estimate, Noise};
use serde::{Deserialize, Serialize};

/// What rounding may add to a gain of exactly the threshold.
const ROUNDING: f64 = 1e-9;
/// The part of perfect scaling that growth must bring.
const HALF: f64 = 0.5;

/// Which way to change a count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Towards fewer CPUs.
    Fewer,
    /// The count is right as it is.
    Stay,
    /// Towards more CPUs.
    More,
}

/// The direction that the bottleneck suggests [MAPPER §3.3, readings R3.9].
#[must_use]
pub const fn direction(bottleneck: Bottleneck, cpus: u32, cpus_per_socket: u32) -> Direction {
    match bottleneck {
        Bottleneck::Memory => Direction::Fewer,
        Bottleneck::Sharing if cpus > cpus_per_socket => Direction::Fewer,
        Bottleneck::Sharing if cpus == cpus_per_socket => Direction::Stay,
        Bottleneck::Sharing | Bottleneck::Compute | Bottleneck::None => Direction::More,
    }
}

/// How counts are stepped through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stride {
    /// By this many CPUs.
    Cpus(u32),
    /// To the next multiple of a socket's CPUs; below one socket by this many.
    Sockets {
        /// CPUs of a socket.
        cpus_per_socket: u32,
        /// Step below one socket.
        below: u32,
    },
}

/// The next count in a direction, within 1 and `usable` [readings "State machine" step 5].
#[must_use]
pub fn step(cpus: u32, direction: Direction, stride: Stride, usable: u32) -> u32 {
    let next = match (direction, stride) {
        (Direction::Stay, _) => cpus,
        (Direction::More, Stride::Cpus(by)) => cpus.saturating_add(by),
        (Direction::Fewer, Stride::Cpus(by)) => cpus.saturating_sub(by),
        (
            Direction::More,
            Stride::Sockets {
                cpus_per_socket,
                below,
            },
        ) => {
            let socket = cpus_per_socket.max(1);
            if cpus < socket {
                cpus.saturating_add(below).min(socket)
            } else {
                (cpus / socket + 1).saturating_mul(socket)
            }
        }
        (
            Direction::Fewer,
            Stride::Sockets {
                cpus_per_socket,
                below,
            },
        ) => {
            let socket = cpus_per_socket.max(1);
            if cpus <= socket {
                cpus.saturating_sub(below)
            } else {
                (cpus - 1) / socket * socket
            }
        }
    };
    next.clamp(1, usable.max(1))
}

/// What becomes of a tried count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is better: keep it and go on the same way.
    Continue,
    /// It is smaller and about as good: keep it and be steady.
    Keep,
    /// It is no better: go back and be steady.
    Revert,
    /// The samples do not tell yet.
    Undecided,
}

/// How sure a verdict is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// The difference is significant.
    Clear,
    /// It is the better guess after as many samples as were allowed.
    Guess,
}

/// A verdict with its grounds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Relative gain over the count before.
    pub gain: f64,
    /// How sure it is.
    pub certainty: Certainty,
}

/// A tried count, for the printed rule.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlainTrial {
    /// The count before.
    pub prev_cpus: u32,
    /// Performance there.
    pub prev_perf: f64,
    /// The tried count.
    pub cpus: u32,
    /// Performance there.
    pub perf: f64,
    /// The best performance known at any count.
    pub best: f64,
    /// The promise, where known.
    pub min_guaranteed: Option<f64>,
    /// The gain that makes a count better.
    pub threshold: f64,
}

/// The rule as printed [MAPPER §3.3, readings R3.7].
#[must_use]
pub fn judge_plain(trial: &PlainTrial) -> Judgement {
    let gain = relative(trial.perf, trial.prev_perf);
    let keeps_promise = trial.min_guaranteed.is_none_or(|min| trial.perf >= min);
    let verdict = if gain >= trial.threshold - ROUNDING {
        Verdict::Continue
    } else if trial.cpus < trial.prev_cpus
        && trial.perf >= (1.0 - trial.threshold) * trial.best * (1.0 - ROUNDING)
        && keeps_promise
    {
        Verdict::Keep
    } else {
        Verdict::Revert
    };
    Judgement {
        verdict,
        gain,
        certainty: Certainty::Clear,
    }
}

fn relative(new: f64, old: f64) -> f64 {
    if old > 0.0 {
        (new - old) / old
    } else if new > 0.0 {
        1.0
    } else {
        0.0
    }
}

/// The count that a tried one is compared with.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Reference {
    /// The count.
    pub cpus: u32,
    /// Performance there.
    pub estimate: Estimate,
}

/// A tried count, for the test.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SampledTrial {
    /// The count before, with its performance.
    pub before: Reference,
    /// An earlier count of the same climb to compare with instead, when the step is too small to
    /// show in the scatter.
    pub anchor: Option<Reference>,
    /// The tried count, with the samples taken there since.
    pub tried: Reference,
    /// The best performance that can be believed of any count.
    pub best: f64,
    /// The promise, where known.
    pub min_guaranteed: Option<f64>,
}

/// The rules of the test.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TestRules {
    /// The gain that makes a count better.
    pub threshold: f64,
    /// What growth must bring.
    pub required: RequiredGain,
    /// How sure the answer must be.
    pub confidence: Confidence,
    /// Samples after which the better guess is taken.
    pub max_samples: u32,
}

/// The rule by test.
#[must_use]
pub fn judge_significant(trial: &SampledTrial, noise: Noise, rules: &TestRules) -> Judgement {
    let gain = relative(trial.tried.estimate.mean, trial.before.estimate.mean);
    let exhausted = trial.tried.estimate.samples >= f64::from(rules.max_samples);
    let (verdict, certainty) = if trial.tried.cpus > trial.before.cpus {
        judge_growth(trial, noise, rules, exhausted)
    } else {
        judge_shrinking(trial, noise, rules, gain, exhausted)
    };
    Judgement {
        verdict,
        gain,
        certainty,
    }
}

fn judge_growth(
    trial: &SampledTrial,
    noise: Noise,
    rules: &TestRules,
    exhausted: bool,
) -> (Verdict, Certainty) {
    let reference = trial.anchor.unwrap_or(trial.before);
    let gain = relative(trial.tried.estimate.mean, reference.estimate.mean);
    let linear = f64::from(trial.tried.cpus - reference.cpus) / f64::from(reference.cpus.max(1));
    let required = match (rules.required, trial.anchor) {
        (RequiredGain::Threshold, None) => rules.threshold,
        (RequiredGain::HalfOfLinear, None) => rules.threshold.min(HALF * linear),
        // Over several steps: as much of perfect scaling as over one.
        (_, Some(_)) => HALF * linear,
    };
    // The margin is relative to each mean; the gain, to the reference.
    let margin = (1.0 + gain)
        * noise.margin_of_difference(&trial.tried.estimate, &reference.estimate, rules.confidence);
    let enough = gain >= required - ROUNDING;
    if enough && gain >= margin {
        (Verdict::Continue, Certainty::Clear)
    } else if !enough && gain <= required - no_effect_margin(margin, required, rules.confidence) {
        (Verdict::Revert, Certainty::Clear)
    } else if !exhausted {
        (Verdict::Undecided, Certainty::Guess)
    } else if enough {
        (Verdict::Continue, Certainty::Guess)
    } else {
        (Verdict::Revert, Certainty::Guess)
    }
}

/// How far on the near side of the required effect an estimate must lie for it to be clear that
/// there is none: the boundary of Wald's sequential test of no effect against twice the required
/// one. `margin` is that of Welch's test, from which the standard error is taken.
fn no_effect_margin(margin: f64, required: f64, confidence: Confidence) -> f64 {
    if margin == 0.0 {
        return 0.0;
    }
    let p = confidence.get();
    let standard_error = margin / normal_quantile(p);
    (p / (1.0 - p)).ln() * standard_error * standard_error / (2.0 * required).max(1e-6)
}

fn judge_shrinking(
    trial: &SampledTrial,
    noise: Noise,
    rules: &TestRules,
    gain: f64,
    exhausted: bool,
) -> (Verdict, Certainty) {
    let (tried, before) = (&trial.tried.estimate, &trial.before.estimate);
    let margin_before = noise.margin_of_difference(tried, before, rules.confidence);
    if gain >= rules.threshold - ROUNDING && gain >= (1.0 + gain) * margin_before {
        return (Verdict::Continue, Certainty::Clear);
    }
    // What it must reach: to be about as good as the best, to keep the promise, and not to lose
    // what the CPUs were worth.
    let about_as_good = (1.0 - rules.threshold) * trial.best;
    let wanted = trial
        .min_guaranteed
        .map_or(about_as_good, |min| min.max(about_as_good));
    let margin_tried = noise.margin(tried.samples, rules.confidence);
    let linear = f64::from(trial.before.cpus - trial.tried.cpus) / f64::from(trial.before.cpus);
    let allowed = match rules.required {
        RequiredGain::Threshold => rules.threshold,
        RequiredGain::HalfOfLinear => HALF * linear,
    };
    let worth = match rules.required {
        RequiredGain::Threshold => 0.0,
        RequiredGain::HalfOfLinear => (1.0 - allowed) * before.mean,
    };
    // Each with the loss that it allows, for the test that nothing is lost.
    let conditions = [
        (wanted, margin_tried, rules.threshold),
        (worth, margin_before, allowed),
    ];
    let slack = |needed: f64| (tried.mean - needed * (1.0 - ROUNDING)) / tried.mean.max(1e-300);
    let reached = |needed: f64| slack(needed) >= 0.0;
    if conditions.iter().all(|&(needed, margin, allowed)| {
        reached(needed) && slack(needed) >= no_effect_margin(margin, allowed, rules.confidence)
    }) {
        (Verdict::Keep, Certainty::Clear)
    } else if conditions
        .iter()
        .any(|&(needed, margin, _)| tried.mean * (1.0 + margin) < needed * (1.0 - ROUNDING))
    {
        (Verdict::Revert, Certainty::Clear)
    } else if !exhausted {
        (Verdict::Undecided, Certainty::Guess)
    } else if conditions.iter().all(|&(needed, ..)| reached(needed)) {
        (Verdict::Keep, Certainty::Guess)
    } else {
        (Verdict::Revert, Certainty::Guess)
    }
}

/// How large a step from a reference must be, relative to it, for half of its gain to be told from
/// noise with this many samples on both sides.
#[must_use]
pub fn discernible_step(noise: Noise, samples: f64) -> f64 {
    if noise.degrees_of_freedom < 1.0 {
        return 0.0;
    }
    // Half the gain should be two standard errors of the difference.
    2.0 / HALF * noise.relative_sd * (2.0 / samples.max(1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOCKETS: Stride = Stride::Sockets {
        cpus_per_socket: 20,
        below: 4,
    };

    #[test]
    fn sharing_heavy_applications_step_by_whole_sockets() {
        let down = |cpus| step(cpus, Direction::Fewer, SOCKETS, 80);
        assert_eq!([80, 60, 50, 21, 20, 3].map(down), [60, 40, 40, 20, 16, 1]);
        let up = |cpus| step(cpus, Direction::More, SOCKETS, 80);
        assert_eq!([4, 18, 20, 50, 79].map(up), [8, 20, 40, 60, 80]);
    }

    #[test]
    fn a_sharing_application_is_drawn_to_one_socket() {
        let to = |cpus| direction(Bottleneck::Sharing, cpus, 20);
        assert_eq!(to(40), Direction::Fewer);
        assert_eq!(to(20), Direction::Stay);
        assert_eq!(to(12), Direction::More);
    }

    fn plain(prev_cpus: u32, cpus: u32, perf: f64) -> Verdict {
        judge_plain(&PlainTrial {
            prev_cpus,
            prev_perf: 30.0,
            cpus,
            perf,
            best: perf.max(30.0),
            min_guaranteed: Some(25.5),
            threshold: 0.05,
        })
        .verdict
    }

    #[test]
    fn a_smaller_count_that_is_about_as_good_is_kept_and_a_larger_one_is_not() {
        assert_eq!(plain(40, 36, 29.0), Verdict::Keep);
        assert_eq!(plain(40, 36, 28.5), Verdict::Keep);
        assert_eq!(plain(40, 36, 28.4), Verdict::Revert);
        assert_eq!(plain(40, 44, 31.0), Verdict::Revert);
        assert_eq!(plain(40, 36, 31.5), Verdict::Continue);
    }

    fn sampled(from: u32, to: u32, before: f64, tried: f64, samples: f64) -> SampledTrial {
        let reference = |cpus, mean, samples| Reference {
            cpus,
            estimate: Estimate { mean, samples },
        };
        SampledTrial {
            before: reference(from, before, 8.0),
            anchor: None,
            tried: reference(to, tried, samples),
            best: before.max(tried),
            min_guaranteed: None,
        }
    }

    fn rules() -> TestRules {
        TestRules {
            threshold: 0.05,
            required: RequiredGain::Threshold,
            confidence: Confidence::HIGH,
            max_samples: 12,
        }
    }

    fn noise(relative_sd: f64) -> Noise {
        Noise {
            relative_sd,
            degrees_of_freedom: 12.0,
        }
    }

    #[test]
    fn without_scatter_the_test_gives_the_printed_rule_at_once() {
        for (to, perf) in [
            (44, 32.0),
            (44, 31.5),
            (44, 31.0),
            (44, 28.0),
            (36, 32.0),
            (36, 29.0),
            (36, 28.0),
        ] {
            let judged = judge_significant(&sampled(40, to, 30.0, perf, 1.0), noise(0.0), &rules());
            assert_eq!(judged.verdict, plain(40, to, perf), "{to} {perf}");
        }
    }

    #[test]
    fn what_the_samples_do_not_tell_is_measured_again_and_in_the_end_guessed() {
        let judge = |samples| {
            let judged =
                judge_significant(&sampled(40, 44, 30.0, 31.8, samples), noise(0.05), &rules());
            (judged.verdict, judged.certainty)
        };
        assert_eq!(judge(1.0).0, Verdict::Undecided);
        assert_eq!(judge(12.0), (Verdict::Continue, Certainty::Guess));
    }

    #[test]
    fn a_large_difference_is_clear_after_one_sample_even_with_noise() {
        let judge = |perf| {
            judge_significant(&sampled(2, 1, 30.0, perf, 1.0), noise(0.05), &rules()).verdict
        };
        assert_eq!(judge(15.0), Verdict::Revert);
    }

    #[test]
    fn one_cpu_of_twenty_is_not_given_up_for_a_loss_of_all_it_was_worth() {
        let mut rules = rules();
        let verdict = |rules: &TestRules, perf| {
            judge_significant(&sampled(20, 19, 20.0, perf, 1.0), noise(0.0), rules).verdict
        };
        assert_eq!(verdict(&rules, 19.0), Verdict::Keep);
        rules.required = RequiredGain::HalfOfLinear;
        assert_eq!(verdict(&rules, 19.0), Verdict::Revert);
        assert_eq!(verdict(&rules, 19.8), Verdict::Keep);
    }

    #[test]
    fn half_of_perfect_scaling_suffices_where_that_is_less_than_the_threshold() {
        let mut rules = rules();
        let trial = sampled(76, 79, 76.0, 79.0, 1.0);
        let verdict = |rules: &TestRules| judge_significant(&trial, noise(0.0), rules).verdict;
        assert_eq!(verdict(&rules), Verdict::Revert);
        rules.required = RequiredGain::HalfOfLinear;
        assert_eq!(verdict(&rules), Verdict::Continue);
    }
}
