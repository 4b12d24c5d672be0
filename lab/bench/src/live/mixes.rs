//! Programs that run together.

use anyhow::{Context as _, bail};

use super::programs::{self, Program};

/// The most programs in a mix: beyond this a run says little about any of them.
const MOST: usize = 8;

/// Programs that are started together.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Mix {
    pub(super) programs: Vec<&'static Program>,
}

/// The mixes that are run unless others are asked for: pairs, threes and fours in which programs meet
/// that wait often and those that never do, OpenMP and other threads, programs that follow and that
/// do not, throughput and latency.
const DEFAULT: [&str; 8] = [
    "matmul+kmeans",
    "md+cg",
    "jacobi+queens",
    "server+matmul",
    "md+queens-elastic+kmeans",
    "server+pipeline+triad",
    "md+cg+matmul+queens",
    "server+jacobi+kmeans+pipeline",
];

impl Mix {
    /// Its name: the programs with a plus between them.
    pub(super) fn name(&self) -> String {
        let names: Vec<&str> = self.programs.iter().map(|program| program.name).collect();
        names.join("+")
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let place = || format!("--mix {text:?}");
        let programs = text
            .split(['+', ','])
            .map(|name| programs::find(name.trim()).with_context(place))
            .collect::<anyhow::Result<Vec<_>>>()?;
        if !(2..=MOST).contains(&programs.len()) {
            bail!(
                "--mix {text:?}: {} of 2 to {MOST} programs; write them like md+cg",
                programs.len()
            );
        }
        Ok(Self { programs })
    }
}

/// The mixes of the command line, each once; the default ones if there are none.
pub(super) fn select(texts: &[String]) -> anyhow::Result<Vec<Mix>> {
    let mut mixes: Vec<Mix> = Vec::new();
    let default: Vec<String> = DEFAULT.map(String::from).to_vec();
    for text in if texts.is_empty() { &default } else { texts } {
        let mix = Mix::parse(text)?;
        if !mixes.contains(&mix) {
            mixes.push(mix);
        }
    }
    Ok(mixes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        format!("{:#}", select(&[text.to_owned()]).unwrap_err())
    }

    #[test]
    fn the_default_mixes_are_valid_and_of_two_three_and_four_programs() {
        let mixes = select(&[]).unwrap();
        assert_eq!(mixes.len(), DEFAULT.len());
        for count in 2..=4 {
            let of = mixes.iter().filter(|mix| mix.programs.len() == count);
            assert!(of.count() >= 2, "{count}");
        }
    }

    #[test]
    fn a_plus_or_a_comma_may_stand_between_programs_and_a_mix_runs_once() {
        let texts = ["md+cg", "md, cg"].map(String::from);
        let mixes = select(&texts).unwrap();
        assert_eq!(mixes.len(), 1);
        assert_eq!(mixes[0].name(), "md+cg");
    }

    #[test]
    fn a_bad_mix_is_refused_with_what_is_wrong() {
        let error = refusal("md+nobody");
        assert!(
            error.contains("nobody") && error.contains("kmeans"),
            "{error}"
        );
        let error = refusal("20 SGD, 20 BSGD");
        assert!(
            error.contains("20 SGD") && error.contains("choose from"),
            "{error}"
        );
        let error = refusal("md");
        assert!(error.contains("1 of 2 to 8 programs"), "{error}");
        assert!(refusal("md+").contains("there is no program \"\""));
    }
}
