//! The packages of the workspace, and the rule that ARCHITECTURE.md says which depends on which.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::finding::Finding;
use crate::workspace;

/// The heading of the dependency table in ARCHITECTURE.md.
const HEADING: &str = "| package | depends on |";

/// A member of the workspace.
pub(super) struct Package {
    pub(super) name: String,
    pub(super) manifest: PathBuf,
    /// What it depends on other than in its tests.
    pub(super) dependencies: BTreeSet<String>,
    /// The root files of its library and programs, below the root of the checkout.
    pub(super) roots: Vec<PathBuf>,
}

impl Package {
    /// All members of the workspace.
    pub(super) fn all() -> anyhow::Result<Vec<Self>> {
        let mut cargo = workspace::cargo();
        let metadata = cargo.args(["metadata", "--no-deps", "--format-version=1"]);
        let metadata = metadata.output().context("run cargo metadata")?;
        if !metadata.status.success() {
            let message = String::from_utf8_lossy(&metadata.stderr);
            bail!("cargo metadata failed: {}", message.trim());
        }
        let metadata: Value =
            serde_json::from_slice(&metadata.stdout).context("read cargo metadata")?;
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let packages: Option<Vec<Self>> = packages.map(Self::of).collect();
        packages.context("cargo metadata has another form")
    }

    fn of(package: &Value) -> Option<Self> {
        let dependencies = package["dependencies"].as_array()?.iter();
        let targets = package["targets"].as_array()?.iter();
        let is_product = |target: &&Value| {
            let kinds = target["kind"].as_array().into_iter().flatten();
            kinds
                .filter_map(Value::as_str)
                .any(|kind| kind == "bin" || kind.ends_with("lib"))
        };
        Some(Self {
            name: package["name"].as_str()?.to_owned(),
            manifest: package["manifest_path"].as_str()?.into(),
            dependencies: dependencies
                .filter(|dependency| dependency["kind"] != "dev")
                .filter_map(|dependency| dependency["name"].as_str().map(str::to_owned))
                .collect(),
            roots: targets
                .filter(is_product)
                .filter_map(|target| target["src_path"].as_str())
                .map(|path| below_root(Path::new(path)))
                .collect(),
        })
    }

    /// Its folder below the root of the checkout.
    pub(super) fn folder(&self) -> PathBuf {
        below_root(self.manifest.parent().unwrap_or(Path::new("")))
    }
}

fn below_root(path: &Path) -> PathBuf {
    path.strip_prefix(workspace::root())
        .unwrap_or(path)
        .to_owned()
}

/// Compares the table in the text of ARCHITECTURE.md with the packages.
pub(super) fn check_table(architecture: &str, packages: &[Package], findings: &mut Vec<Finding>) {
    let Some(table) = table(architecture) else {
        let text = format!("ARCHITECTURE.md: has no table headed \"{HEADING}\"; write it");
        findings.push(Finding::strict(text));
        return;
    };
    let members: BTreeSet<&str> = packages.iter().map(|package| &*package.name).collect();
    for package in packages {
        let name = &package.name;
        let own: BTreeSet<&str> = package.dependencies.iter().map(String::as_str).collect();
        let own = &own & &members;
        let Some(written) = table.get(&**name) else {
            let row = row(name, &own);
            let text = format!("ARCHITECTURE.md: has no row for {name}; add {row}");
            findings.push(Finding::strict(text));
            continue;
        };
        if *written != own {
            let row = row(name, &own);
            let text = format!(
                "ARCHITECTURE.md: {name} depends on other packages than its row says; write {row}, \
                 or remove the dependency"
            );
            findings.push(Finding::strict(text));
        }
    }
    for name in table.keys().filter(|name| !members.contains(*name)) {
        let text = format!("ARCHITECTURE.md: has a row for {name}, which is no package; remove it");
        findings.push(Finding::strict(text));
    }
}

/// The rows of the table: a package and what it depends on.
fn table(architecture: &str) -> Option<BTreeMap<&str, BTreeSet<&str>>> {
    let lines = architecture.lines().skip_while(|line| *line != HEADING);
    let rows = lines.skip(2).take_while(|line| line.starts_with('|'));
    let rows = rows.map(|row| {
        let mut cells = row.split('|').skip(1);
        let package = cells.next().unwrap_or_default();
        let dependencies = cells.next().unwrap_or_default();
        (
            names_in(package).next().unwrap_or_default(),
            names_in(dependencies).collect(),
        )
    });
    architecture.contains(HEADING).then(|| rows.collect())
}

/// What stands between backticks.
fn names_in(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn row(name: &str, dependencies: &BTreeSet<&str>) -> String {
    let dependencies: Vec<String> = dependencies
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    let dependencies = if dependencies.is_empty() {
        "–".to_owned()
    } else {
        dependencies.join(", ")
    };
    format!("| `{name}` | {dependencies} |")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str =
        "# Text\n\n| package | depends on |\n|---|---|\n| `a` | – |\n| `b` | `a` |\n\nmore";

    fn package(name: &str, dependencies: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            manifest: PathBuf::new(),
            dependencies: dependencies.iter().map(|&name| name.to_owned()).collect(),
            roots: Vec::new(),
        }
    }

    fn found(text: &str, packages: &[Package]) -> Vec<String> {
        let mut findings = Vec::new();
        check_table(text, packages, &mut findings);
        findings.into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn a_table_that_says_what_cargo_says_is_right() {
        let packages = [package("a", &["serde"]), package("b", &["a", "serde"])];
        assert_eq!(found(TABLE, &packages), [""; 0]);
    }

    #[test]
    fn a_dependency_too_many_and_one_too_few_are_found() {
        let found = found(TABLE, &[package("a", &["b"]), package("b", &[])]);
        assert!(found[0].contains("write | `a` | `b` |"), "{found:?}");
        assert!(found[1].contains("write | `b` | – |"), "{found:?}");
    }

    #[test]
    fn a_missing_row_and_one_of_no_package_are_found() {
        let found = found(TABLE, &[package("a", &[]), package("c", &[])]);
        assert!(found[0].contains("no row for c"), "{found:?}");
        assert!(
            found[1].contains("row for b, which is no package"),
            "{found:?}"
        );
    }
}
