//! Chance: how often a policy tries something without a reason.
//!
//! A draw is a function of a seed, the application and the decision, so the same snapshots give the same decisions, and
//! a restored policy draws the same. Draws of different applications, decisions and seeds are unrelated (SplitMix64).

use mapper_model::random::SplitMix64;
use mapper_model::{AppId, Snapshot, checked_f64};
use serde::{Deserialize, Serialize};

checked_f64! {
    /// A probability: above 0 and at most 1.
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "f64"))]
    Probability, "probability", |value| value > 0.0 && value <= 1.0,
    "give a number above 0 and at most 1, such as 0.3, or leave the key out"
}

impl Probability {
    /// 0.3 in each interval, as in MAPPER's code and hill climbing [readings R3.12].
    pub const OF_MAPPER: Self = Self(0.3);
}

/// An event with this probability for each application in each decision.
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
    pub(crate) fn happens(&self, app: AppId, snapshot: &Snapshot<'_>) -> bool {
        self.drawn(app, snapshot.tick) < self.probability.get()
    }

    /// From 0 up to 1.
    fn drawn(&self, app: AppId, tick: u64) -> f64 {
        let mixed = |state| SplitMix64::new(state).next_u64();
        SplitMix64::new(mixed(mixed(self.seed) ^ app.0) ^ tick).unit()
    }
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
            let error = Probability::new(value).unwrap_err().to_string();
            assert!(error.contains(&value.to_string()), "{error}");
        }
        let error = serde_json::from_str::<AtRandom>(r#"{"probability": 30}"#).unwrap_err();
        assert!(error.to_string().contains("30"), "{error}");
    }
}
