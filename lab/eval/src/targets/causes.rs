//! Why a number lies outside its band, with the experiment that shows it: `lab/eval/data/causes.toml`.

use super::super::data;
use serde::{Deserialize, Serialize};

const FILE: &str = include_str!("../../data/causes.toml");

/// Why numbers of a target lie outside their bands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cause {
    id: String,
    /// How the names of the numbers begin; nothing: all of them.
    #[serde(default)]
    begins: String,
    pub(crate) cause: String,
    /// What was changed to see it, and what came of it.
    pub(crate) shown: String,
    /// The version of the protocol under which it was found: that of the file.
    #[serde(skip_deserializing)]
    pub(crate) version: u32,
}

/// All causes. The first that fits a number is meant.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Causes {
    /// The version of the protocol under which they were found.
    version: u32,
    #[serde(rename = "cause")]
    all: Vec<Cause>,
}

impl Causes {
    pub(super) fn read() -> anyhow::Result<Self> {
        let mut causes: Self = data::read("causes.toml", FILE)?;
        for cause in &mut causes.all {
            cause.version = causes.version;
        }
        Ok(causes)
    }

    /// Those that hold of what a protocol of this version says and nothing else: all, if they were found under it.
    /// None hold where something was changed: numbers may lie outside for another reason.
    pub(super) fn of_evaluation(mut self, version: Option<u32>) -> Self {
        self.all.retain(|_| version == Some(self.version));
        self
    }

    pub(super) fn of(&self, id: &str, what: &str) -> Option<&Cause> {
        let fits = |cause: &&Cause| cause.id == id && what.starts_with(&cause.begins);
        self.all.iter().find(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::super::published;
    use super::*;

    #[test]
    fn every_cause_is_the_first_for_some_published_number() {
        let causes = Causes::read().unwrap();
        let targets = published::targets().unwrap();
        for cause in &causes.all {
            let meant = targets.iter().any(|target| {
                let mut numbers = target.numbers.iter();
                numbers.any(|n| causes.of(&target.id, &n.what) == Some(cause))
            });
            assert!(meant, "{} {:?} explains nothing", cause.id, cause.begins);
        }
    }

    #[test]
    fn every_number_outside_its_band_in_the_kept_results_has_its_cause() {
        let kept = include_str!("../../data/results-v7.json");
        let kept: serde_json::Value = serde_json::from_str(kept).unwrap();
        let causes = Causes::read().unwrap();
        let targets = kept["targets"].as_array().unwrap();
        assert!(targets.len() > 100);
        for line in targets.iter().filter(|line| line["verdict"] == "outside") {
            let (id, what) = (line["id"].as_str().unwrap(), line["what"].as_str().unwrap());
            assert!(causes.of(id, what).is_some(), "{id} {what} has no cause");
        }
    }
}
