//! The speeds under the static fair share, which promises are shares of.
//!
//! At the same count a program may run at very different speeds: the fair share gives it one context of
//! many cores beside others, other placements whole cores or one socket. So a new mix of programs is
//! measured under the static fair share, in its placement, for some seconds, once it has lasted a minute
//! (that may cost a program that shares much half of its speed). Then a promise is a share of that speed;
//! and when the best division is worth less than the fair share, or cannot keep a promise, the mix goes
//! back to it and stays there ([`Stage::Fallen`]). Results are kept by the programs of a mix.

use super::tally::RatePoint;
use mapper_model::ProgramKey;
use serde::{Deserialize, Serialize};

const REMEMBERED: usize = 64;

/// The stage of the programs that run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    /// They are measured under the static fair share.
    Reference,
    /// CPUs are divided by what is expected.
    #[default]
    Dividing,
    /// They keep the static fair share: nothing better keeps the promises.
    Fallen,
}

impl Stage {
    /// Whether CPUs are chosen as the static fair share would.
    pub(crate) const fn is_fair(self) -> bool {
        matches!(self, Self::Reference | Self::Fallen)
    }
}

/// Programs that ran together: their speeds under the static fair share, and the stage reached.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Mix {
    #[serde(alias = "names")]
    programs: Vec<ProgramKey>,
    references: Vec<Option<RatePoint>>,
    stage: Stage,
}

/// The known mixes, the latest last.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Mixes(Vec<Mix>);

/// The programs in the order in which a mix has them, with the place of each.
fn sorted(programs: &[ProgramKey]) -> Vec<(&ProgramKey, usize)> {
    let mut order: Vec<(&ProgramKey, usize)> = programs.iter().zip(0..).collect();
    order.sort();
    order
}

impl Mixes {
    /// Keeps the results of these programs.
    pub(crate) fn keep(
        &mut self,
        programs: &[ProgramKey],
        references: &[Option<RatePoint>],
        stage: Stage,
    ) {
        let order = sorted(programs);
        let mix = Mix {
            programs: order
                .iter()
                .map(|(program, _)| (*program).clone())
                .collect(),
            references: order
                .iter()
                .map(|(_, place)| references.get(*place).copied().flatten())
                .collect(),
            stage,
        };
        self.0.retain(|known| known.programs != mix.programs);
        self.0.push(mix);
        let surplus = self.0.len().saturating_sub(REMEMBERED);
        self.0.drain(..surplus);
    }

    /// What is known of these programs, in their order.
    pub(crate) fn find(&self, programs: &[ProgramKey]) -> Option<(Vec<Option<RatePoint>>, Stage)> {
        let order = sorted(programs);
        let known = self.0.iter().find(|mix| {
            mix.programs
                .iter()
                .eq(order.iter().map(|(program, _)| *program))
        })?;
        let mut references = vec![None; programs.len()];
        for (&(_, place), reference) in order.iter().zip(&known.references) {
            references[place] = *reference;
        }
        Some((references, known.stage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapper_next::tally::Split;
    use mapper_model::AppName;

    fn names(names: &[&str]) -> Vec<ProgramKey> {
        let key = |name: &&str| ProgramKey::Name(AppName::new(name).unwrap());
        names.iter().map(key).collect()
    }

    fn reference(rate: f64) -> Option<RatePoint> {
        Split::of(&[(40, rate)], 0.0, 0.0).points.pop()
    }

    #[test]
    fn a_mix_is_found_in_any_order() {
        let mut mixes = Mixes::default();
        let [one, two] = [1.0, 2.0].map(reference);
        mixes.keep(&names(&["a", "b"]), &[one, two], Stage::Fallen);
        let found = mixes.find(&names(&["b", "a"]));
        assert_eq!(found, Some((vec![two, one], Stage::Fallen)));
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
