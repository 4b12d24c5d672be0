//! `cargo xtask tidy --sizes`: lines by package, and the limits of their sums.
//!
//! Counted are the lines of the Rust files below `src`, tests within them as well; `tests` folders are not.

use std::path::Path;

use super::packages::Package;
use super::rules::{Part, Rules};
use super::sources::Sources;

pub(super) fn report(rules: &Rules, packages: &[Package], sources: &Sources) -> String {
    let mut report = String::new();
    let mut sums = vec![0; rules.parts.len()];
    let mut packages: Vec<&Package> = packages.iter().collect();
    packages.sort_by_key(|package| package.folder());
    for package in packages {
        let folder = package.folder();
        let lines = lines(sources, &folder.join("src"));
        report += &format!("{lines:7}  {} ({})\n", package.name, folder.display());
        for (part, sum) in rules.parts.iter().zip(&mut sums) {
            if part.folders.iter().any(|of| folder.starts_with(of)) {
                *sum += lines;
            }
        }
    }
    for (part, sum) in rules.parts.iter().zip(sums) {
        let verdict = if sum > part.limit { ", too many" } else { "" };
        let Part { name, limit, .. } = part;
        report += &format!("{sum:7}  {name} in all (limit {limit}{verdict})\n");
    }
    report
}

fn lines(sources: &Sources, folder: &Path) -> usize {
    let files = sources.rust.iter();
    let files = files.filter(|(path, _)| path.starts_with(folder));
    files.map(|(_, source)| source.text.lines().count()).sum()
}
