//! What of the rules is data, `xtask/tidy.toml`, and lines by package (`cargo xtask tidy --sizes`).

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::Deserialize;

use super::packages::Package;
use super::sources::Sources;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rules {
    /// Packages without I/O and clock.
    pub(super) pure: Vec<String>,
    pub(super) empty_names: Vec<String>,
    #[serde(rename = "part")]
    parts: Vec<Part>,
    /// Words that users do not read, and what to write instead.
    pub(super) words: BTreeMap<String, String>,
}

/// Packages whose lines have a limit together.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    name: String,
    limit: usize,
    /// Folders that its packages lie in.
    folders: Vec<String>,
}

impl Rules {
    pub(super) fn read() -> anyhow::Result<Self> {
        toml::from_str(include_str!("../../tidy.toml")).context("read xtask/tidy.toml")
    }

    /// Lines of the Rust files below `src`, tests within them as well; `tests` folders are not counted.
    pub(super) fn sizes(&self, packages: &[Package], sources: &Sources) -> String {
        let mut report = String::new();
        let mut sums = vec![0; self.parts.len()];
        let mut packages: Vec<&Package> = packages.iter().collect();
        packages.sort_by_key(|package| package.folder());
        for package in packages {
            let folder = package.folder();
            let files = sources.rust.iter();
            let files = files.filter(|(path, _)| path.starts_with(folder.join("src")));
            let lines: usize = files.map(|(_, source)| source.text.lines().count()).sum();
            report += &format!("{lines:7}  {} ({})\n", package.name, folder.display());
            for (part, sum) in self.parts.iter().zip(&mut sums) {
                if part.folders.iter().any(|of| folder.starts_with(of)) {
                    *sum += lines;
                }
            }
        }
        for (Part { name, limit, .. }, sum) in self.parts.iter().zip(sums) {
            let verdict = if sum > *limit { ", too many" } else { "" };
            report += &format!("{sum:7}  {name} in all (limit {limit}{verdict})\n");
        }
        report
    }
}
