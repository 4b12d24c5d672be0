//! Data that are compiled in: the files of `lab/eval/data`.

use anyhow::{Context as _, anyhow};
use serde::de::DeserializeOwned;
use std::sync::LazyLock;

/// What a file of `lab/eval/data` says.
///
/// # Errors
/// Names the file, the line and the key.
pub(super) fn read<T: DeserializeOwned>(file: &str, text: &str) -> anyhow::Result<T> {
    toml::from_str(text).with_context(|| format!("lab/eval/data/{file}"))
}

/// Data that are read when they are first needed.
pub(super) type Kept<T> = LazyLock<anyhow::Result<T>>;

/// What was read, or why it could not be.
pub(super) fn kept<T>(data: &'static Kept<T>) -> anyhow::Result<&'static T> {
    data.as_ref().map_err(|error| anyhow!("{error:#}"))
}
