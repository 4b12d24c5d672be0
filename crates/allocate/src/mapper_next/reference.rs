//! What every application would have under the static fair share, which is what promises are shares of.
//!
//! At the same count a program may run at very different speeds: the fair share gives it one context of many
//! cores beside others, other placements whole cores or one socket. So a mix of programs that is met for the
//! first time is measured under the static fair share, in its placement, for some seconds: when it has lasted a
//! minute, since that costs an application that shares much half of the time, and short mixes would never get it back.
//! From then on a promise is a share of that speed, wherever the program is; and when the best division that
//! is still to be expected is worth less than the fair share, or cannot keep a promise, the mix goes back to
//! it and stays there ([`Stage::Fallen`]). What was found of a mix is kept under the names of its programs.

use super::tally::RatePoint;
use mapper_model::AppName;
use serde::{Deserialize, Serialize};

/// Mixes that are remembered.
const REMEMBERED: usize = 64;

/// What is being done with those that are here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// They are measured under the static fair share.
    Reference,
    /// CPUs are divided by what is expected.
    #[default]
    Dividing,
    /// They have the static fair share for good: nothing better keeps the promises.
    Fallen,
}

impl Stage {
    /// Whether CPUs are chosen as the static fair share would.
    #[must_use]
    pub const fn is_fair(self) -> bool {
        matches!(self, Self::Reference | Self::Fallen)
    }
}

/// Programs that ran together.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Mix {
    /// Their names, sorted.
    names: Vec<AppName>,
    /// The speed of each under the static fair share.
    references: Vec<Option<RatePoint>>,
    /// Where they came to.
    stage: Stage,
}

/// The mixes that are known, the latest last.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Mixes(Vec<Mix>);

/// The names in the order in which a mix has them, with the place of each.
fn sorted(names: &[AppName]) -> Vec<(&AppName, usize)> {
    let mut order: Vec<(&AppName, usize)> = names.iter().zip(0..).collect();
    order.sort();
    order
}

impl Mixes {
    /// Keeps what was found of the programs of these names.
    pub fn keep(&mut self, names: &[AppName], references: &[Option<RatePoint>], stage: Stage) {
        let order = sorted(names);
        let mix = Mix {
            names: order.iter().map(|(name, _)| (*name).clone()).collect(),
            references: order
                .iter()
                .map(|(_, place)| references.get(*place).copied().flatten())
                .collect(),
            stage,
        };
        self.0.retain(|known| known.names != mix.names);
        self.0.push(mix);
        let surplus = self.0.len().saturating_sub(REMEMBERED);
        self.0.drain(..surplus);
    }

    /// What is known of the programs of these names, in their order.
    #[must_use]
    pub fn find(&self, names: &[AppName]) -> Option<(Vec<Option<RatePoint>>, Stage)> {
        let order = sorted(names);
        let known = self
            .0
            .iter()
            .find(|mix| mix.names.iter().eq(order.iter().map(|(name, _)| *name)))?;
        let mut references = vec![None; names.len()];
        for (&(_, place), reference) in order.iter().zip(&known.references) {
            references[place] = *reference;
        }
        Some((references, known.stage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<AppName> {
        names.iter().map(|n| AppName::new(n).unwrap()).collect()
    }

    fn reference(rate: f64) -> Option<RatePoint> {
        Some(RatePoint {
            cpus: 40,
            rate,
            error: None,
            worked: 1.0,
            width: 40.0,
        })
    }

    #[test]
    fn a_mix_is_found_in_any_order() {
        let mut mixes = Mixes::default();
        mixes.keep(
            &names(&["a", "b"]),
            &[reference(1.0), reference(2.0)],
            Stage::Fallen,
        );
        let found = mixes.find(&names(&["b", "a"]));
        assert_eq!(
            found,
            Some((vec![reference(2.0), reference(1.0)], Stage::Fallen))
        );
        assert_eq!(mixes.find(&names(&["a"])), None);
    }

    #[test]
    fn only_the_latest_mixes_are_kept() {
        let mut mixes = Mixes::default();
        for n in 0..=REMEMBERED {
            mixes.keep(&names(&[&format!("a{n}")]), &[None], Stage::Dividing);
        }
        assert_eq!(mixes.0.len(), REMEMBERED);
        assert_eq!(mixes.find(&names(&["a0"])), None);
    }
}
