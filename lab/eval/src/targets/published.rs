//! The published numbers as data: `lab/eval/data/published`.
//!
//! A target is a claim of a paper with one or more numbers. Each number has a name, what the paper prints, the band
//! within which the model agrees, and what of the results it is compared with ([`Measure`]). A question that is answered
//! with yes or no has neither number nor band. The bands were set before the model existed.

use super::super::data;
use super::measure::Measure;
use anyhow::ensure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../../data/published/", $name)))
    };
}

/// The files, in the order in which their numbers are reported.
const FILES: [(&str, &str); 5] = [
    file!("mapper.toml"),
    file!("sam.toml"),
    file!("nupoco.toml"),
    file!("nucore.toml"),
    file!("exact.toml"),
];

/// What is judged nowhere.
const UNJUDGED: &str = include_str!("../../data/published/unjudged.toml");

/// Whether a target may set parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Use {
    Calibrate,
    Validate,
    /// The paper's own formulas give it, without a run: shows only that they were read as they were meant.
    Exact,
    /// It is an input: what the code has is the published number, and shows nothing.
    Taken,
}

/// Published numbers that belong together.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Target {
    pub(super) id: String,
    pub(super) source: String,
    pub(super) uses: Use,
    pub(super) numbers: Vec<Number>,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, try_from = "Entry")]
pub(super) struct Number {
    pub(super) what: String,
    pub(super) paper: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) model: Measure,
}

/// A number as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    what: String,
    paper: Option<f64>,
    band: Option<[f64; 2]>,
    model: Measure,
}

impl TryFrom<Entry> for Number {
    type Error = String;

    fn try_from(entry: Entry) -> Result<Self, String> {
        let what = entry.what;
        let (paper, [low, high]) = match (entry.paper, entry.band) {
            (Some(paper), Some(band)) => (paper, band),
            // Yes.
            (None, None) => (1.0, [1.0, 1.0]),
            (Some(_), None) => return Err(format!("{what:?}: band is missing")),
            (None, Some(_)) => return Err(format!("{what:?}: paper is missing")),
        };
        if !(paper.is_finite() && low <= high) {
            return Err(format!("{what:?}: band [{low}, {high}] is empty"));
        }
        let model = entry.model;
        Ok(Self {
            what,
            paper,
            low,
            high,
            model,
        })
    }
}

/// Published numbers that an evaluation holds against nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Unjudged {
    pub(crate) ids: String,
    pub(crate) what: String,
    pub(crate) why: String,
}

pub(super) fn targets() -> anyhow::Result<Vec<Target>> {
    let mut targets: Vec<Target> = Vec::new();
    let mut names = BTreeSet::new();
    for (file, text) in FILES {
        for target in read(file, text)? {
            for number in &target.numbers {
                let (id, what) = (&target.id, &number.what);
                let once = names.insert((id.clone(), what.clone()));
                ensure!(once, "{file}: {id} has {what:?} twice");
            }
            targets.push(target);
        }
    }
    Ok(targets)
}

fn read(file: &str, text: &str) -> anyhow::Result<Vec<Target>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        target: Vec<Target>,
    }
    Ok(data::read::<File>(&format!("published/{file}"), text)?.target)
}

/// What no evaluation judges.
pub(crate) fn unjudged() -> anyhow::Result<Vec<Unjudged>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        unjudged: Vec<Unjudged>,
    }
    Ok(data::read::<File>("published/unjudged.toml", UNJUDGED)?.unjudged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(numbers: &str) -> String {
        let text = format!(
            "[[target]]\nid = \"X-1\"\nsource = \"s\"\nuses = \"validate\"\nnumbers = [{numbers}]\n"
        );
        format!("{:#}", read("x.toml", &text).unwrap_err())
    }

    #[test]
    fn a_wrong_entry_is_refused_with_file_entry_and_key() {
        let runs = "model = { runs = { suites = [], policy = 'p' } }";
        for (entry, named) in [
            (&*format!("paper = 1.0, {runs}"), "\"w\": band is missing"),
            (&format!("band = [1, 2], {runs}"), "\"w\": paper is missing"),
            (
                &format!("paper = 1, band = [2, 1], {runs}"),
                "\"w\": band [2, 1] is empty",
            ),
            (&format!("papr = 1.0, {runs}"), "papr"),
            ("model = { rns = {} }", "rns"),
            ("model = { runs = { suites = [] } }", "policy"),
        ] {
            let error = refused(&format!("{{ what = \"w\", {entry} }}"));
            assert!(error.contains("x.toml") && error.contains(named), "{error}");
            assert!(error.contains("line 5"), "{error}");
        }
    }

    #[test]
    fn a_question_has_neither_number_nor_band() {
        let text = "[[target]]\nid = \"X-1\"\nsource = \"s\"\nuses = \"exact\"\nnumbers = [\n\
            { what = \"w\", model = { same_core_from = {} } }]\n";
        let number = read("x.toml", text).unwrap().remove(0).numbers.remove(0);
        assert_eq!((number.paper, number.low, number.high), (1.0, 1.0, 1.0));
    }
}
