//! The verdict on a tried count where samples scatter.
//!
//! The printed rule compares two means of two samples with 5 % [MAPPER §3.3], which accepts and undoes
//! trials by chance where samples scatter as much. Here the trial goes on while the samples do not suffice.
//! Unit: relative performance; elasticity ([`fit`](super::fit)).
//!
//! Every question is whether some quantity is nothing or twice what is required; Wald's sequential test
//! ([`sequential`]) answers it as soon as the likelihood ratio allows: without scatter after one sample,
//! as the printed rule does.
//!
//! * *Growth* is kept if the slope around the tried count is half of perfect scaling, or what the threshold
//!   asks for where that is less [readings R3.8]. The slope rests on everything measured within a factor of
//!   two, but the last step alone must not be plainly in vain.
//! * *Shrinking* is kept if the slope is below one half, and performance is about as good as the best known
//!   (95 %) and above the promise [readings R3.7]. It lasts until the slope is known, unless the loss is
//!   plain, as it also shows others how efficient the application is.
//!
//! An answer is [`Certainty::Clear`] only if it would stand were the slope off by some standard errors;
//! a guess may be tried again after a while.

use super::exploration::{Certainty, Judgement, ROUNDING, Reference, Verdict, relative};
use super::fit::{Elasticity, LocalFit};
use mapper_model::statistics::normal_quantile;
use mapper_model::{Confidence, Noise};

/// The part of perfect scaling that growth must bring and shrinking may cost.
const HALF: f64 = 0.5;
/// Standard error to which a slope must be known before it decides: a sequential test alone soon takes a
/// slope a little below one half for perfect scaling.
const SLOPE_KNOWN_TO: f64 = 0.135;
/// Relative standard error to which performance must be known before it decides.
const LEVEL_KNOWN_TO: f64 = 0.03;
/// Standard errors by which a slope must be on the wrong side for an answer to be beyond doubt.
const BEYOND_DOUBT: f64 = 2.3;
/// Standard errors by which performance must be too low for the trial to end without more samples.
const PLAIN: f64 = 6.0;
/// The same, for it to end before the samples are exhausted.
const LIKELY: f64 = 3.0;
/// Samples at the tried count before its difference to the one before counts.
const FEW: f64 = 3.0;

/// A tried count, for the test.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct SampledTrial {
    pub(crate) before: Reference,
    pub(crate) tried: Reference,
    /// The line around the tried count, where samples scatter.
    pub(crate) fit: Option<LocalFit>,
    /// The best credible performance of any count.
    pub(crate) best: f64,
    /// Its relative standard error, where samples scatter.
    pub(crate) best_error: f64,
    pub(crate) min_guaranteed: Option<f64>,
}

/// The gain that makes a count better, how sure the answer must be, and the samples before a guess.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct TestRules {
    pub(crate) threshold: f64,
    pub(crate) confidence: Confidence,
    pub(crate) max_samples: u32,
}

/// The verdict by test.
pub(crate) fn judge_significant(
    trial: &SampledTrial,
    noise: Noise,
    rules: &TestRules,
) -> Judgement {
    let exhausted = trial.tried.estimate.samples >= f64::from(rules.max_samples);
    let (verdict, certainty) = if trial.tried.cpus > trial.before.cpus {
        judge_growth(trial, noise, rules, exhausted)
    } else {
        judge_shrinking(trial, noise, rules, exhausted)
    };
    Judgement {
        verdict,
        gain: relative(trial.tried.estimate.mean, trial.before.estimate.mean),
        certainty,
    }
}

fn judge_growth(
    trial: &SampledTrial,
    noise: Noise,
    rules: &TestRules,
    exhausted: bool,
) -> (Verdict, Certainty) {
    match growth_is_worth_it(trial, noise, rules) {
        Answer::Yes => (Verdict::Continue, Certainty::Clear),
        Answer::RatherYes if exhausted => (Verdict::Continue, Certainty::Guess),
        Answer::RatherNo if exhausted => (Verdict::Revert, Certainty::Guess),
        Answer::RatherYes | Answer::RatherNo => (Verdict::Undecided, Certainty::Guess),
        Answer::No => {
            let doubtful = slope(trial, noise)
                .is_some_and(|slope| slope.value + BEYOND_DOUBT * slope.standard_error > HALF);
            (Verdict::Revert, certainty(doubtful))
        }
    }
}

fn judge_shrinking(
    trial: &SampledTrial,
    noise: Noise,
    rules: &TestRules,
    exhausted: bool,
) -> (Verdict, Certainty) {
    if is_better(trial, noise, rules) {
        return (Verdict::Continue, Certainty::Clear);
    }
    let level = is_about_as_good(trial, noise, rules);
    let loss = loss_is_worth_it(trial, noise, rules);
    let slope = slope(trial, noise);
    let measured = slope.is_none_or(|slope| slope.standard_error <= SLOPE_KNOWN_TO);
    if (level.answer == Answer::No || loss == Answer::No) && (measured || level.plain || exhausted)
    {
        let doubtful = level.answer != Answer::No
            && slope.is_some_and(|slope| slope.value - BEYOND_DOUBT * slope.standard_error < HALF);
        (Verdict::Revert, certainty(doubtful))
    } else if level.answer == Answer::Yes && loss == Answer::Yes {
        (Verdict::Keep, Certainty::Clear)
    } else if exhausted {
        (Verdict::Revert, Certainty::Guess)
    } else {
        (Verdict::Undecided, Certainty::Guess)
    }
}

const fn certainty(doubtful: bool) -> Certainty {
    if doubtful {
        Certainty::Guess
    } else {
        Certainty::Clear
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Yes,
    RatherYes,
    RatherNo,
    No,
}

impl Answer {
    /// The same, but not clear.
    const fn softened(self) -> Self {
        match self {
            Self::Yes => Self::RatherYes,
            Self::No => Self::RatherNo,
            rather => rather,
        }
    }

    const fn opposite(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::RatherYes => Self::RatherNo,
            Self::RatherNo => Self::RatherYes,
            Self::No => Self::Yes,
        }
    }
}

/// Wald's sequential test of 0 against twice what is required, at this standard error.
fn sequential(value: f64, required: f64, error: f64, confidence: Confidence) -> Answer {
    let p = confidence.get();
    let margin = (p / (1.0 - p)).ln() * error * error / (2.0 * required.abs()).max(1e-6);
    let beyond = value - required;
    if beyond >= margin - ROUNDING {
        Answer::Yes
    } else if beyond < -margin {
        Answer::No
    } else if beyond >= 0.0 {
        Answer::RatherYes
    } else {
        Answer::RatherNo
    }
}

/// The slope around the tried count; its error is enlarged, as the scatter is only estimated.
fn slope(trial: &SampledTrial, noise: Noise) -> Option<Elasticity> {
    let slope = trial.fit?.elasticity?;
    Some(Elasticity {
        standard_error: slope.standard_error * inflation(noise),
        ..slope
    })
}

/// How much wider than the normal distribution Student's is.
fn inflation(noise: Noise) -> f64 {
    let confidence = Confidence::USUAL;
    noise.quantile(confidence) / normal_quantile(confidence.get())
}

/// A margin as a standard error.
fn standard_error(margin: f64, confidence: Confidence) -> f64 {
    margin / normal_quantile(confidence.get())
}

/// The standard error of the relative difference of the tried count and the one before.
fn error_of_difference(trial: &SampledTrial, noise: Noise, rules: &TestRules) -> f64 {
    let (tried, before) = (&trial.tried.estimate, &trial.before.estimate);
    let margin = noise.margin_of_difference(tried, before, rules.confidence);
    standard_error(margin, rules.confidence)
}

/// Whether the slope around the tried count reaches what is required, once it is known well enough.
fn by_slope(slope: Elasticity, required: f64, confidence: Confidence) -> Answer {
    let answer = sequential(slope.value, required, slope.standard_error, confidence);
    if slope.standard_error > SLOPE_KNOWN_TO {
        answer.softened()
    } else {
        answer
    }
}

/// Whether the larger count brings what it must.
fn growth_is_worth_it(trial: &SampledTrial, noise: Noise, rules: &TestRules) -> Answer {
    let (tried, before) = (&trial.tried, &trial.before);
    let step = f64::from(tried.cpus - before.cpus) / f64::from(before.cpus.max(1));
    let required = rules.threshold.min(HALF * step);
    let gain = relative(tried.estimate.mean, before.estimate.mean);
    let error = (1.0 + gain) * error_of_difference(trial, noise, rules);
    let alone = sequential(gain, required, error, rules.confidence);
    match slope(trial, noise) {
        // The last step must not be plainly in vain, however well it scaled before.
        Some(_) if alone == Answer::No && tried.estimate.samples >= FEW => Answer::No,
        Some(slope) => by_slope(slope, required / step, rules.confidence),
        None => alone,
    }
}

/// Whether a smaller count is better than the one before.
fn is_better(trial: &SampledTrial, noise: Noise, rules: &TestRules) -> bool {
    let (tried, before) = (&trial.tried.estimate, &trial.before.estimate);
    let gain = relative(tried.mean, before.mean);
    let margin = noise.margin_of_difference(tried, before, rules.confidence);
    gain >= rules.threshold - ROUNDING && gain >= (1.0 + gain) * margin
}

/// Whether performance at the smaller count will do.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Level {
    answer: Answer,
    /// It is so low that no more samples are needed.
    plain: bool,
}

/// Whether the smaller count keeps the promise and is about as good as the best.
fn is_about_as_good(trial: &SampledTrial, noise: Noise, rules: &TestRules) -> Level {
    let about_as_good = (1.0 - rules.threshold) * trial.best;
    let wanted = trial
        .min_guaranteed
        .map_or(about_as_good, |min| min.max(about_as_good));
    let tried = &trial.tried.estimate;
    let (performance, error) = if let Some(fit) = &trial.fit {
        let error = fit.relative_error.hypot(trial.best_error);
        (fit.performance, error * inflation(noise))
    } else {
        let margin = noise.margin(tried.samples, rules.confidence);
        (tried.mean, standard_error(margin, rules.confidence))
    };
    let slack = (performance - wanted * (1.0 - ROUNDING)) / performance.max(1e-300);
    // Nothing lost is the threshold above what is wanted.
    let answer = sequential(
        slack + rules.threshold,
        rules.threshold,
        error,
        rules.confidence,
    );
    let low_by = |errors: f64| slack < -errors * error;
    let plain = answer == Answer::No && low_by(PLAIN);
    // Returning closes the direction, so a near miss is measured for as long as possible.
    let near_miss = answer == Answer::No && error > 0.0 && !low_by(LIKELY);
    let vague = error > LEVEL_KNOWN_TO || near_miss;
    Level {
        answer: if vague && !plain {
            answer.softened()
        } else {
            answer
        },
        plain,
    }
}

/// Whether the smaller count costs less than half of what the CPUs were worth with perfect scaling.
fn loss_is_worth_it(trial: &SampledTrial, noise: Noise, rules: &TestRules) -> Answer {
    if let Some(slope) = slope(trial, noise) {
        return by_slope(slope, HALF, rules.confidence).opposite();
    }
    let (tried, before) = (&trial.tried, &trial.before);
    let step = f64::from(before.cpus - tried.cpus) / f64::from(before.cpus.max(1));
    let loss = -relative(tried.estimate.mean, before.estimate.mean);
    let error = error_of_difference(trial, noise, rules);
    // A loss of exactly one half is too much.
    sequential(loss - 2.0 * ROUNDING, HALF * step, error, rules.confidence).opposite()
}

#[cfg(test)]
mod tests {
    use super::super::exploration::tests::plain;
    use super::*;
    use mapper_model::Estimate;

    fn sampled(from: u32, to: u32, before: f64, tried: f64, samples: f64) -> SampledTrial {
        let reference = |cpus, mean, samples| Reference {
            cpus,
            estimate: Estimate { mean, samples },
        };
        SampledTrial {
            before: reference(from, before, 8.0),
            fit: None,
            tried: reference(to, tried, samples),
            best: before.max(tried),
            best_error: 0.0,
            min_guaranteed: None,
        }
    }

    /// The judgement of a trial with samples of this scatter.
    fn judge(trial: &SampledTrial, relative_sd: f64) -> Judgement {
        let noise = Noise {
            relative_sd,
            degrees_of_freedom: 12.0,
        };
        let rules = TestRules {
            threshold: 0.05,
            confidence: Confidence::HIGH,
            max_samples: 12,
        };
        judge_significant(trial, noise, &rules)
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
            let judged = judge(&sampled(40, to, 30.0, perf, 1.0), 0.0);
            assert_eq!(judged.verdict, plain(40, to, perf), "{to} {perf}");
        }
    }

    #[test]
    fn an_open_question_is_measured_again_and_in_the_end_guessed() {
        let judge = |samples| {
            let judged = judge(&sampled(40, 44, 30.0, 31.8, samples), 0.05);
            (judged.verdict, judged.certainty)
        };
        assert_eq!(judge(1.0).0, Verdict::Undecided);
        assert_eq!(judge(12.0), (Verdict::Continue, Certainty::Guess));
    }

    #[test]
    fn a_large_difference_is_clear_after_one_sample_even_with_noise() {
        let judged = judge(&sampled(2, 1, 30.0, 15.0, 1.0), 0.05);
        assert_eq!(judged.verdict, Verdict::Revert);
    }

    #[test]
    fn one_cpu_of_twenty_is_not_given_up_for_a_loss_of_all_it_was_worth() {
        let verdict = |perf| judge(&sampled(20, 19, 20.0, perf, 1.0), 0.0).verdict;
        // By the printed rule it is.
        assert_eq!(plain(20, 19, 28.6), Verdict::Keep);
        assert_eq!(verdict(19.0), Verdict::Revert);
        assert_eq!(verdict(19.8), Verdict::Keep);
    }

    #[test]
    fn half_of_perfect_scaling_suffices_where_that_is_less_than_the_threshold() {
        let judged = judge(&sampled(76, 79, 76.0, 79.0, 1.0), 0.0);
        assert_eq!(judged.verdict, Verdict::Continue);
        // By the printed rule it does not.
        assert_eq!(plain(76, 79, 31.2), Verdict::Revert);
    }
}
