//! Whether an application has entered a new phase.
//!
//! MAPPER explores again when performance per CPU moved by more than 5 % or the bottleneck changed
//! [MAPPER §3.3, Algorithm 1 line 13]. On single readings ([`plain`]) that fires on noise. The
//! detector compares each sample with the mean of the first samples of the phase at this CPU count;
//! the deviation must also be significant, and confirmed by the next sample unless samples do not
//! scatter. Until then the sample is held back from the curve; if it is not confirmed, it is dropped.
//!
//! The reference stays where the phase began, so a slow drift adds up; this replaces the paper's random
//! re-exploration "to capture any gradual changes".

use crate::config::PhaseTest;
use mapper_model::{Bottleneck, Confidence, Estimate, Noise, PhaseChange};
use serde::{Deserialize, Serialize};

/// Samples that make the reference.
const REFERENCE_SAMPLES: f64 = 16.0;
/// Fewest samples of a reference before anything is compared with it, once the scatter is known: of
/// many counts that are tried, one begins with an outlier.
const FEWEST_SAMPLES: f64 = 4.0;
/// Degrees of freedom from which on the scatter counts as known.
const FAMILIAR: f64 = 4.0;
/// Weight of the newest sample in the recent mean that is watched for drift.
const RECENT_WEIGHT: f64 = 0.25;
/// Samples that the recent mean is worth: (2 − w) / w.
const RECENT_SAMPLES: f64 = 7.0;
/// Deviation, in thresholds, that is suspicious while the scatter is unknown.
const SUSPICIOUS: f64 = 5.0;
/// What rounding may add to a deviation of exactly the threshold.
const ROUNDING: f64 = 1e-9;

/// Performance at a CPU count, with the bottleneck at that time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PhaseReading {
    /// Performance.
    pub performance: f64,
    /// CPU count.
    pub cpus: u32,
    /// Bottleneck.
    pub bottleneck: Bottleneck,
}

/// MAPPER's rule on two readings: performance per CPU moved by more than the threshold, or the
/// bottleneck changed [MAPPER Algorithm 1 line 13].
pub fn plain(before: &PhaseReading, now: &PhaseReading, threshold: f64) -> PhaseChange {
    let per_cpu = |r: &PhaseReading| r.performance / f64::from(r.cpus.max(1));
    let (old, new) = (per_cpu(before), per_cpu(now));
    let moved = if old > 0.0 {
        (new - old).abs() / old > threshold + ROUNDING
    } else {
        new > 0.0
    };
    if moved || before.bottleneck != now.bottleneck {
        PhaseChange::Changed
    } else {
        PhaseChange::Same
    }
}

/// The meaning of a sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Detection {
    /// It belongs to the phase.
    Same,
    /// It may begin a new phase, or be a hiccup: it is held back.
    Suspect,
    /// A new phase has begun.
    Changed {
        /// New performance over old.
        ratio: f64,
        /// The sample that was held back and belongs to the new phase too.
        held: Option<f64>,
    },
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PhaseDetector {
    cpus: u32,
    reference: Estimate,
    recent: f64,
    suspect: Option<f64>,
}

impl PhaseDetector {
    /// Processes the sample of an interval. `noise` is the scatter known before this sample.
    pub(crate) fn observe(
        &mut self,
        sample: f64,
        cpus: u32,
        noise: Noise,
        threshold: f64,
        test: PhaseTest,
    ) -> Detection {
        if cpus != self.cpus || self.reference.samples == 0.0 || self.reference.mean <= 0.0 {
            // Performance at another count says nothing about the phase.
            self.begin(cpus, &[sample]);
            return Detection::Same;
        }
        let deviation = (sample - self.reference.mean) / self.reference.mean;
        match test {
            PhaseTest::Plain => {
                let ratio = sample / self.reference.mean;
                // The reference of the plain rule is the sample before.
                self.begin(cpus, &[sample]);
                if deviation.abs() > threshold + ROUNDING {
                    Detection::Changed { ratio, held: None }
                } else {
                    Detection::Same
                }
            }
            PhaseTest::Significant { confidence } => {
                self.significant(sample, deviation, noise, threshold, confidence)
            }
        }
    }

    fn significant(
        &mut self,
        sample: f64,
        deviation: f64,
        noise: Noise,
        threshold: f64,
        confidence: Confidence,
    ) -> Detection {
        let one = Estimate {
            mean: sample,
            samples: 1.0,
        };
        let familiar = noise.degrees_of_freedom >= FAMILIAR;
        if familiar && noise.relative_sd > 0.0 && self.reference.samples < FEWEST_SAMPLES {
            self.reference.add(sample);
            self.recent = self.reference.mean;
            return Detection::Same;
        }
        let margin = noise.margin_of_difference(&one, &self.reference, confidence);
        let margin = if familiar {
            margin
        } else {
            margin.min(SUSPICIOUS * threshold)
        };
        if deviation.abs() > threshold.max(margin) + ROUNDING {
            let old = self.reference.mean;
            let scatters = noise.degrees_of_freedom < 1.0 || noise.relative_sd > 0.0;
            return match self.suspect.take() {
                Some(held) if (held > old) == (sample > old) => {
                    self.begin(self.cpus, &[held, sample]);
                    Detection::Changed {
                        ratio: self.reference.mean / old,
                        held: Some(held),
                    }
                }
                _ if !scatters => {
                    self.begin(self.cpus, &[sample]);
                    Detection::Changed {
                        ratio: sample / old,
                        held: None,
                    }
                }
                _ => {
                    self.suspect = Some(sample);
                    Detection::Suspect
                }
            };
        }
        self.suspect = None;
        self.recent += RECENT_WEIGHT * (sample - self.recent);
        if self.reference.samples < REFERENCE_SAMPLES {
            self.reference.add(sample);
        }
        let recent = Estimate {
            mean: self.recent,
            samples: RECENT_SAMPLES,
        };
        let drift = (self.recent - self.reference.mean).abs() / self.reference.mean;
        let margin = noise.margin_of_difference(&recent, &self.reference, confidence);
        if drift > threshold.max(margin) + ROUNDING {
            let ratio = self.recent / self.reference.mean;
            let recent = self.recent;
            self.begin(self.cpus, &[recent]);
            return Detection::Changed { ratio, held: None };
        }
        Detection::Same
    }

    /// Forgets the phase: the next sample begins one.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    fn begin(&mut self, cpus: u32, samples: &[f64]) {
        self.cpus = cpus;
        self.suspect = None;
        self.reference = Estimate::default();
        for sample in samples {
            self.reference.add(*sample);
        }
        self.recent = self.reference.mean;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::PerformanceCurve;

    const TEST: PhaseTest = PhaseTest::Significant {
        confidence: Confidence::VERY_HIGH,
    };

    /// Runs samples at one count through detector and curve, as the characteriser does.
    fn changes(samples: impl IntoIterator<Item = f64>) -> Vec<usize> {
        let mut detector = PhaseDetector::default();
        let mut curve = PerformanceCurve::new();
        let mut changes = Vec::new();
        for (i, sample) in samples.into_iter().enumerate() {
            match detector.observe(sample, 8, curve.noise(), 0.05, TEST) {
                Detection::Same => curve.record(8, sample, 0, 1.0 / 16.0),
                Detection::Suspect => {}
                Detection::Changed { ratio, held } => {
                    changes.push(i);
                    curve.rescale(ratio);
                    for s in held.into_iter().chain([sample]) {
                        curve.record(8, s, 0, 1.0 / 16.0);
                    }
                }
            }
        }
        changes
    }

    /// A reproducible scatter, roughly normal, with mean 0 and standard deviation 1.
    fn scatter(seed: u64) -> impl Iterator<Item = f64> {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        std::iter::repeat_with(move || {
            let mut sum = 0.0;
            for _ in 0..12 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                sum += (state >> 11) as f64 / (1u64 << 53) as f64;
            }
            sum - 6.0
        })
    }

    #[test]
    fn five_per_cent_is_no_change_and_a_little_more_is() {
        let reading = |performance, bottleneck| PhaseReading {
            performance,
            cpus: 40,
            bottleneck,
        };
        let before = reading(40.0, Bottleneck::None);
        let seen = [
            reading(42.0, Bottleneck::None),
            reading(42.1, Bottleneck::None),
            reading(37.9, Bottleneck::None),
            reading(40.0, Bottleneck::Memory),
        ]
        .map(|now| plain(&before, &now, 0.05));
        use PhaseChange::{Changed, Same};
        assert_eq!(seen, [Same, Changed, Changed, Changed]);
    }

    #[test]
    fn without_scatter_a_step_is_seen_at_once() {
        assert_eq!(changes([10.0; 6].into_iter().chain([10.6; 6])), [6]);
        assert!(changes([10.0; 6].into_iter().chain([10.4; 6])).is_empty());
    }

    #[test]
    fn five_per_cent_noise_is_no_phase_in_a_thousand_intervals() {
        for seed in 1..40 {
            let noisy = scatter(seed).map(|z| 100.0 * (1.0 + 0.05 * z)).take(1000);
            let changes = changes(noisy);
            assert!(changes.len() <= 1, "seed {seed}: {changes:?}");
        }
    }

    /// Intervals of a phase change among 60 samples with this mean (by interval) and scatter.
    fn changes_of(seed: u64, mean: impl Fn(usize) -> f64, sd: f64) -> Vec<usize> {
        let samples = scatter(seed).enumerate();
        changes(samples.map(|(i, z)| mean(i) * (1.0 + sd * z)).take(60))
    }

    #[test]
    fn a_step_of_a_third_is_seen_within_two_intervals_through_noise() {
        for seed in 1..40 {
            let seen = changes_of(seed, |i| if i < 30 { 100.0 } else { 66.0 }, 0.03);
            let first = seen.first().copied();
            assert!(first.is_some_and(|i| (30..=32).contains(&i)), "{seed}");
        }
    }

    #[test]
    fn one_hiccup_is_not_a_phase() {
        for seed in 1..20 {
            let seen = changes_of(seed, |i| if i == 30 { 20.0 } else { 100.0 }, 0.02);
            assert!(seen.is_empty(), "seed {seed}");
        }
    }

    #[test]
    fn a_slow_drift_adds_up_to_a_phase() {
        let drifting = scatter(3)
            .enumerate()
            .map(|(i, z)| 100.0 * (1.0 - 0.002 * i as f64) * (1.0 + 0.01 * z))
            .take(100);
        let seen = changes(drifting);
        assert!(!seen.is_empty() && seen.len() < 8, "{seen:?}");
    }

    #[test]
    fn a_slow_start_does_not_count_as_scatter() {
        // The first interval held the serial start of the program.
        assert_eq!(changes([3.0, 10.0, 10.1, 9.9, 10.0, 10.1]), [2]);
    }
}
