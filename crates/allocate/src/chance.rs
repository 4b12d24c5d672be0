//! Chance: how often a policy tries something although nothing tells it to.
//!
//! A draw is a function of a seed, the application and the decision, and of nothing that is kept: the
//! same snapshots give the same decisions, and a policy whose state was taken over draws what it would
//! have drawn. Draws for different applications, decisions and seeds are unrelated (SplitMix64).

use mapper_model::bounds::OutOfRange;
use mapper_model::{AppId, Snapshot};
use serde::{Deserialize, Serialize};

/// A probability: above 0 and at most 1.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(with = "f64")
)]
#[serde(try_from = "f64", into = "f64")]
pub struct Probability(f64);

impl Probability {
    /// 0.3, with which MAPPER's code and the hill climbing it is compared with disturb an application in
    /// each interval [readings R3.12].
    pub const OF_MAPPER: Self = Self(0.3);

    /// Checks the value.
    ///
    /// # Errors
    /// [`OutOfRange`] names the value and what is accepted.
    pub fn new(value: f64) -> Result<Self, OutOfRange> {
        if value > 0.0 && value <= 1.0 {
            Ok(Self(value))
        } else {
            Err(OutOfRange {
                what: "probability",
                value: value.to_string(),
                hint: "give a number above 0 and at most 1, such as 0.3, or leave the key out",
            })
        }
    }
}

impl TryFrom<f64> for Probability {
    type Error = OutOfRange;
    fn try_from(value: f64) -> Result<Self, OutOfRange> {
        Self::new(value)
    }
}

impl From<Probability> for f64 {
    fn from(value: Probability) -> Self {
        value.0
    }
}

/// Something that happens with this probability for each application in each decision.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AtRandom {
    /// How often.
    pub probability: Probability,
    /// Another seed, another row of draws.
    #[serde(default)]
    pub seed: u64,
}

impl AtRandom {
    /// Whether it happens for an application in the decision of a snapshot.
    #[must_use]
    pub fn happens(&self, app: AppId, snapshot: &Snapshot<'_>) -> bool {
        self.drawn(app, snapshot.tick) < self.probability.0
    }

    /// From 0 up to 1.
    fn drawn(&self, app: AppId, tick: u64) -> f64 {
        let bits = mixed(mixed(mixed(self.seed) ^ app.0) ^ tick);
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The numbers of SplitMix64 behind this state.
const fn mixed(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn often(seed: u64) -> AtRandom {
        AtRandom {
            probability: Probability::OF_MAPPER,
            seed,
        }
    }

    #[test]
    fn of_ten_thousand_draws_three_in_ten_come_up_for_every_application_and_seed() {
        for (seed, app) in [(0, 1), (1, 1), (1, 2), (u64::MAX, 7)] {
            let chance = often(seed);
            let hits = (1..=10_000).filter(|tick| chance.drawn(AppId(app), *tick) < 0.3);
            let share = hits.count() as f64 / 1e4;
            // Three standard errors.
            assert!((share - 0.3).abs() < 0.014, "{seed} {app}: {share}");
        }
    }

    #[test]
    fn two_applications_two_decisions_and_two_seeds_have_draws_of_their_own() {
        let row = |seed: u64, app: u64, shift: u64| -> Vec<bool> {
            let drawn = |tick| often(seed).drawn(AppId(app), tick + shift) < 0.3;
            (1..=200).map(drawn).collect()
        };
        let one = row(1, 1, 0);
        assert_eq!(one, row(1, 1, 0));
        for other in [row(1, 2, 0), row(2, 1, 0), row(1, 1, 1)] {
            let both = one.iter().zip(&other).filter(|(a, b)| **a && **b).count();
            // Of 200 pairs 18 come up by chance; 60 do where the rows are one.
            assert!(both < 32, "{both}");
        }
    }

    #[test]
    fn what_is_no_probability_is_refused_with_the_value() {
        for value in [0.0, -0.1, 1.1, f64::NAN] {
            let told = Probability::new(value).unwrap_err().to_string();
            assert!(told.contains(&value.to_string()), "{told}");
        }
        let told = serde_json::from_str::<AtRandom>(r#"{"probability": 30}"#).unwrap_err();
        assert!(told.to_string().contains("30"), "{told}");
    }
}
