//! Mixes that nobody chose: drawn by a seed, so that a policy can be held against what it was not made for.
//! The seed stands in the protocol before the mixes are first run.

use anyhow::bail;
use mapper_sim::noise::Noise;
use serde::{Deserialize, Serialize};

/// The stream of random numbers by which programs are drawn.
const PURPOSE: u64 = 0x6d69_7865;
/// Programs in a mix: from two on, so many more at most, in turn.
const SIZES: usize = 3;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Drawn {
    pub(super) seed: u64,
    /// How many mixes: of two, three and four programs in turn.
    pub(super) mixes: usize,
    /// Out of these programs, none twice in a mix.
    pub(super) from: Vec<String>,
}

impl Drawn {
    pub(super) fn mixes(&self) -> anyhow::Result<Vec<String>> {
        let most = SIZES + 1;
        if self.from.len() < most {
            bail!(
                "mixes are drawn from {} programs: name at least {most}",
                self.from.len()
            );
        }
        let mut random = Noise::new(self.seed, PURPOSE);
        let mixes = (0..self.mixes).map(|at| {
            let mut left: Vec<&str> = self.from.iter().map(String::as_str).collect();
            let programs = (0..2 + at % SIZES).map(|_| {
                let at = (random.unit() * left.len() as f64) as usize;
                left.remove(at.min(left.len() - 1))
            });
            programs.collect::<Vec<_>>().join(", ")
        });
        Ok(mixes.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn drawn(seed: u64) -> Drawn {
        Drawn {
            seed,
            mixes: 30,
            from: ["a", "b", "c", "d", "e"].map(String::from).to_vec(),
        }
    }

    #[test]
    fn a_seed_draws_the_same_mixes_of_two_to_four_different_programs_each_time() {
        let mixes = drawn(1).mixes().unwrap();
        assert_eq!(mixes, drawn(1).mixes().unwrap());
        assert_ne!(mixes, drawn(2).mixes().unwrap());
        for (at, mix) in mixes.iter().enumerate() {
            let programs: BTreeSet<&str> = mix.split(", ").collect();
            assert_eq!(programs.len(), 2 + at % 3, "{mix}");
        }
    }

    #[test]
    fn too_few_programs_to_draw_from_are_an_error_that_tells_how_many_it_takes() {
        let mut few = drawn(1);
        few.from.truncate(3);
        let error = few.mixes().unwrap_err().to_string();
        assert!(error.contains("at least 4"), "{error}");
    }
}
