//! Experiments whose outcome is a list of figures, each with a bound: costs of the daemon, and benchmarks.

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::bound::{Bound, WrittenBound};
use super::reader;

/// A figure that is expected.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExpectedFigure {
    /// Its name; with `*` at the end, of every figure that begins so.
    pub(crate) name: String,
    pub(crate) bound: Bound,
    /// In which the bound is given.
    pub(crate) unit: String,
    /// What the papers report for the same.
    pub(crate) published: Option<String>,
}

/// Figures to measure, and what is expected of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FigureExperiment {
    pub(crate) title: String,
    pub(crate) about: String,
    pub(crate) expected: Vec<ExpectedFigure>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    title: String,
    about: String,
    expect: Vec<WrittenFigure>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFigure {
    figure: String,
    unit: String,
    at_least: Option<f64>,
    below: Option<f64>,
    published: Option<String>,
}

impl ExpectedFigure {
    /// Whether it is about the figure of this name.
    pub(crate) fn covers(&self, name: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(begin) => name.starts_with(begin),
            None => name == self.name,
        }
    }
}

impl FigureExperiment {
    /// Reads one from the file called `name`.
    ///
    /// # Errors
    /// Names the file, the entry and the key.
    pub(crate) fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        let written: Written = reader::read(name, text)?;
        let mut expected: Vec<ExpectedFigure> = Vec::new();
        for (place, of) in written.expect.into_iter().enumerate() {
            let entry = || format!("{name}: expect {}", place + 1);
            let bound = WrittenBound {
                at_least: of.at_least,
                below: of.below,
            };
            let bound = bound.checked().with_context(entry)?;
            ensure!(
                expected.iter().all(|other| other.name != of.figure),
                "{}: figure: {:?} is there twice",
                entry(),
                of.figure
            );
            expected.push(ExpectedFigure {
                bound: bound.context("below: give a bound").with_context(entry)?,
                name: of.figure,
                unit: of.unit,
                published: of.published,
            });
        }
        Ok(Self {
            title: written.title,
            about: written.about,
            expected,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_entry_is_refused_with_its_file_and_key() {
        let good =
            "title = \"\"\nabout = \"\"\n[[expect]]\nfigure = \"a\"\nunit = \"ms\"\nbelow = 1\n";
        let read = FigureExperiment::parse("f.toml", good).unwrap();
        assert_eq!(read.expected[0].bound, Bound::Below(1.0));
        for (bad, named) in [
            (good.replace("below = 1", ""), "expect 1: below"),
            (good.replace("below", "above"), "expect[0]"),
            (
                format!("{good}[[expect]]\nfigure = \"a\"\nunit = \"\"\nbelow = 2\n"),
                "expect 2: figure",
            ),
        ] {
            let error = format!("{:#}", FigureExperiment::parse("f.toml", &bad).unwrap_err());
            assert!(
                error.starts_with("f.toml") && error.contains(named),
                "{named}: {error}"
            );
        }
    }

    #[test]
    fn a_star_covers_every_figure_that_begins_so() {
        let text = "title = \"\"\nabout = \"\"\n[[expect]]\nfigure = \"nucore/*\"\nunit = \"us\"\nbelow = 1000\n";
        let read = FigureExperiment::parse("f.toml", text).unwrap();
        let nucore = &read.expected[0];
        assert!(nucore.covers("nucore/dgemm") && !nucore.covers("nucor"));
    }
}
