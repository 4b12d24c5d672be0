//! `cargo xtask tidy --sizes`: lines by package, and the limits of their sums.
//!
//! Counted are the lines of the Rust files below `src`, tests within them as well; `tests` folders are not.

use std::path::Path;

use super::packages::Package;
use super::sources::Sources;

/// Packages whose lines have a limit together.
struct Part {
    name: &'static str,
    limit: usize,
    /// Folders that its packages lie in.
    folders: &'static [&'static str],
}

const PARTS: [Part; 3] = [
    Part {
        name: "product",
        limit: 80_000,
        folders: &[
            "crates",
            "mapperd",
            "mapper-launch",
            "mapperctl",
            "omp-shim",
        ],
    },
    Part {
        name: "laboratory",
        limit: 24_000,
        folders: &["lab"],
    },
    Part {
        name: "xtask",
        limit: 3_000,
        folders: &["xtask"],
    },
];

/// The report.
pub(super) fn report(packages: &[Package], sources: &Sources) -> String {
    let mut report = String::new();
    let mut sums = [0; PARTS.len()];
    let mut packages: Vec<_> = packages
        .iter()
        .map(|package| (package.folder(), package))
        .collect();
    packages.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (folder, package) in packages {
        let lines = lines(sources, &folder.join("src"));
        report += &format!("{lines:7}  {} ({})\n", package.name, folder.display());
        let part = PARTS
            .iter()
            .position(|part| part.folders.iter().any(|f| folder.starts_with(f)));
        if let Some(part) = part {
            sums[part] += lines;
        }
    }
    for (part, sum) in PARTS.iter().zip(sums) {
        let verdict = if sum > part.limit { ", too many" } else { "" };
        report += &format!(
            "{sum:7}  {} in all (limit {}{verdict})\n",
            part.name, part.limit
        );
    }
    report
}

fn lines(sources: &Sources, folder: &Path) -> usize {
    let files = sources
        .rust
        .iter()
        .filter(|(path, _)| path.starts_with(folder));
    files.map(|(_, source)| source.text.lines().count()).sum()
}
