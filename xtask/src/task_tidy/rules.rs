//! What of the rules is data: `xtask/tidy.toml`.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rules {
    /// Packages without I/O and clock.
    pub(super) pure: Vec<String>,
    pub(super) empty_names: Vec<String>,
    #[serde(rename = "part")]
    pub(super) parts: Vec<Part>,
    /// Words that users do not read, and what to write instead.
    pub(super) words: BTreeMap<String, String>,
}

/// Packages whose lines have a limit together.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) limit: usize,
    /// Folders that its packages lie in.
    pub(super) folders: Vec<String>,
}

impl Rules {
    pub(super) fn read() -> anyhow::Result<Self> {
        toml::from_str(include_str!("../../tidy.toml")).context("read xtask/tidy.toml")
    }
}
