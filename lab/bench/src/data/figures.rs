//! Experiments whose outcome is a list of figures, each with a bound: costs of the daemon, and benchmarks.

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use super::reader::{self, text_of};

/// What a figure has to reach.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    /// The bound itself will do.
    AtLeast(f64),
    /// The bound itself is too much.
    Below(f64),
}

impl Bound {
    pub(crate) fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::Below(bound) => value < bound,
        }
    }

    /// For people, with `unit` after the number.
    pub(crate) fn text(self, unit: &str) -> String {
        let shown = |bound: f64| (1e3 * bound).round() / 1e3;
        match self {
            Self::AtLeast(bound) => format!("at least {}{unit}", shown(bound)),
            Self::Below(bound) => format!("below {}{unit}", shown(bound)),
        }
    }
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedFigure {
    /// Its name; with `*` at the end, of every figure that begins so.
    #[serde(rename = "figure")]
    pub(crate) name: String,
    pub(crate) wanted: Bound,
    /// In which the bound is given.
    pub(crate) unit: String,
    /// What the papers report for the same.
    pub(crate) published: Option<String>,
}

/// How a program of the load comes to its end.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    /// Its launcher gets SIGTERM.
    Terminated,
    /// Its launcher is killed; it runs on and ends by itself.
    LauncherKilled,
    /// It ends by itself, or could not be started.
    ByItself,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoadProgram {
    pub(crate) options: Vec<String>,
    pub(crate) words: Vec<String>,
    pub(crate) ending: Ending,
}

/// Figures to measure, and what is expected of them.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct FigureExperiment {
    pub(crate) title: String,
    pub(crate) about: String,
    #[serde(rename = "expect")]
    pub(crate) expected: Vec<ExpectedFigure>,
    #[serde(default)]
    pub(crate) load: Vec<LoadProgram>,
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
    /// That of this package with this name.
    pub(crate) fn find(name: &str) -> anyhow::Result<Self> {
        Self::parse(&format!("{name}.toml"), text_of(name)?)
    }

    /// Reads one from the file called `name`.
    pub(crate) fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        let experiment: Self = reader::read(name, text)?;
        let names: Vec<&String> = experiment.expected.iter().map(|of| &of.name).collect();
        for (place, figure) in names.iter().enumerate() {
            let (is_new, at) = (!names[..place].contains(figure), place);
            ensure!(
                is_new,
                "{name}: expect[{at}].figure: {figure:?} is there twice"
            );
        }
        Ok(experiment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_entry_is_refused_with_its_file_and_key() {
        let good = "title = \"\"\nabout = \"\"\n[[expect]]\nfigure = \"a*\"\nunit = \"ms\"\n\
                    wanted = { below = 1 }\n";
        let read = FigureExperiment::parse("f.toml", good).unwrap();
        let of = &read.expected[0];
        assert_eq!(of.wanted, Bound::Below(1.0));
        assert!(of.covers("a/b") && of.covers("a") && !of.covers("b/a"));
        let entry = good.split_once("[[").unwrap().1;
        for (bad, named) in [
            (good.replace("wanted = { below = 1 }", ""), "expect[0]"),
            (good.replace("below", "above"), "expect[0].wanted"),
            (good.replace("= 1", "= 1, at_least = 0"), "expect[0].wanted"),
            (format!("{good}[[{entry}"), "expect[1].figure"),
        ] {
            let error = format!("{:#}", FigureExperiment::parse("f.toml", &bad).unwrap_err());
            let is_named = error.starts_with("f.toml") && error.contains(named);
            assert!(is_named, "{named}: {error}");
        }
    }

    #[test]
    fn a_value_at_its_bound_is_at_least_it_and_not_below_it() {
        assert!(Bound::AtLeast(2.0).is_met(2.0) && !Bound::AtLeast(2.0).is_met(1.9));
        assert!(!Bound::Below(2.0).is_met(2.0) && Bound::Below(2.0).is_met(1.9));
        assert!(!Bound::AtLeast(2.0).is_met(f64::NAN) && !Bound::Below(2.0).is_met(f64::NAN));
    }

    #[test]
    fn a_bound_is_shown_with_three_places() {
        assert_eq!(Bound::AtLeast(0.952381).text("×"), "at least 0.952×");
        assert_eq!(Bound::Below(15.0).text(" ms"), "below 15 ms");
    }
}
