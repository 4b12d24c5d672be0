//! A case of a file, and what computes its answer.

use super::compare::Tolerance;
use anyhow::Context as _;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// An array of cases, or one case that is an object of its own.
pub(super) struct Group {
    /// Its key in the file.
    pub(super) key: &'static str,
    /// What computes the answer.
    pub(super) answer: Answer,
    /// How close numbers must be; whole numbers must be equal.
    pub(super) tolerance: Tolerance,
}

/// Computes what the code makes of a case of a file.
pub(super) type Answer = fn(file: &Value, case: &Value) -> anyhow::Result<Answered>;

/// Expected and computed, in the same form. Keys that are not expected are not compared.
pub(super) struct Answered {
    pub(super) expected: Value,
    pub(super) got: Value,
}

/// The inputs of a case; an error names the place.
pub(super) fn inputs<T: DeserializeOwned>(case: &Value) -> anyhow::Result<T> {
    field(case, "inputs")
}

/// A part of a case; an error names the place.
pub(super) fn field<T: DeserializeOwned>(case: &Value, key: &str) -> anyhow::Result<T> {
    let value = case.get(key).with_context(|| format!("{key} is missing"))?;
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." {
            key.to_owned()
        } else {
            format!("{key}.{path}")
        };
        anyhow::anyhow!("{place}: {}", error.into_inner())
    })
}

/// What a case expects, beside what came out.
pub(super) fn against_expect(case: &Value, got: Value) -> anyhow::Result<Answered> {
    let expected = case.get("expect").context("expect is missing")?.clone();
    Ok(Answered { expected, got })
}
