//! Reads a TOML file into a type; an error names the file and the key.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde::de::DeserializeOwned;

/// The contents of the file called `name`.
pub(crate) fn read<T: DeserializeOwned>(name: &str, text: &str) -> Result<T> {
    let parsed = toml::Deserializer::parse(text);
    let deserializer = parsed.map_err(|error| anyhow!("{name}: {error}"))?;
    serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let (path, reason) = (error.path().to_string(), error.inner().message().to_owned());
        anyhow!("{name}: {path}: {reason}")
    })
}

const EXPERIMENTS: [(&str, &str); 7] = [
    ("bench", include_str!("../../experiments/bench.toml")),
    ("demo", include_str!("../../experiments/demo.toml")),
    ("live", include_str!("../../experiments/live.toml")),
    ("measure", include_str!("../../experiments/measure.toml")),
    ("real", include_str!("../../experiments/real.toml")),
    ("soak", include_str!("../../experiments/soak.toml")),
    ("teams", include_str!("../../experiments/teams.toml")),
];

/// The text of an experiment of this package.
pub(crate) fn text_of(experiment: &str) -> Result<&'static str> {
    let texts = EXPERIMENTS.map(|(name, text)| (name.to_owned(), text));
    entry(texts.into(), "experiment", experiment)
}

/// The entry of a name in a table of things that are called `what`.
pub(crate) fn entry<T>(mut table: BTreeMap<String, T>, what: &str, name: &str) -> Result<T> {
    let found = table.remove(name);
    found.with_context(|| unknown(what, name, table.keys()))
}

/// That there is no such name, with those that there are.
pub(crate) fn unknown<'a>(
    what: &str,
    name: &str,
    valid: impl IntoIterator<Item = &'a String>,
) -> String {
    let valid: Vec<&str> = valid.into_iter().map(String::as_str).collect();
    let valid = valid.join(", ");
    format!("there is no {what} {name:?}; choose from {valid}")
}

/// Refuses a value outside its range by its name, with what is `wanted` instead.
pub(crate) fn in_range(
    name: &str,
    value: f64,
    range: RangeInclusive<f64>,
    wanted: &str,
) -> Result<()> {
    ensure!(range.contains(&value), "{name} {value}: {wanted}");
    Ok(())
}

/// Each of them once, in their order.
pub(crate) fn once_each<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut kept = Vec::new();
    for one in all {
        if !kept.contains(&one) {
            kept.push(one);
        }
    }
    kept
}
