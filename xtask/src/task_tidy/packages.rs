//! The packages of the workspace, and the rule that ARCHITECTURE.md says which depends on which.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;

use crate::workspace::{self, output};

/// The heading of the dependency table in ARCHITECTURE.md.
const HEADING: &str = "| package | depends on |";

pub(super) struct Package {
    pub(super) name: String,
    pub(super) manifest: PathBuf,
    /// What it depends on other than in its tests.
    pub(super) dependencies: BTreeSet<String>,
    /// The root files of its library and programs, below the root of the checkout.
    pub(super) roots: Vec<PathBuf>,
}

/// What `cargo metadata` prints, as far as it is used here.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Member>,
}

#[derive(Deserialize)]
struct Member {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    src_path: PathBuf,
}

impl Package {
    pub(super) fn all() -> anyhow::Result<Vec<Self>> {
        let mut cargo = workspace::cargo();
        let metadata = output(cargo.args(["metadata", "--no-deps", "--format-version=1"]))?;
        let metadata: Metadata = serde_json::from_str(&metadata).context("read cargo metadata")?;
        Ok(metadata.packages.into_iter().map(Self::of).collect())
    }

    fn of(member: Member) -> Self {
        let dependencies = member.dependencies.into_iter();
        let used = dependencies.filter(|of| of.kind.as_deref() != Some("dev"));
        let mut targets = member.targets;
        let is_product = |kind: &String| kind == "bin" || kind.ends_with("lib");
        targets.retain(|of| of.kind.iter().any(is_product));
        Self {
            name: member.name,
            manifest: member.manifest_path,
            dependencies: used.map(|of| of.name).collect(),
            roots: targets.iter().map(|of| below_root(&of.src_path)).collect(),
        }
    }

    /// Its folder below the root of the checkout.
    pub(super) fn folder(&self) -> PathBuf {
        below_root(self.manifest.parent().unwrap_or(Path::new("")))
    }
}

fn below_root(path: &Path) -> PathBuf {
    let below = path.strip_prefix(workspace::root());
    below.unwrap_or(path).to_owned()
}

/// Compares the table in the text of ARCHITECTURE.md with the packages.
pub(super) fn check_table(architecture: &str, packages: &[Package]) -> Vec<String> {
    let Some(table) = table(architecture) else {
        return vec![format!(
            "ARCHITECTURE.md: has no table headed \"{HEADING}\"; write it"
        )];
    };
    let mut findings = Vec::new();
    let members: BTreeSet<&str> = packages.iter().map(|package| &*package.name).collect();
    for package in packages {
        let name = &package.name;
        let own: BTreeSet<&str> = package.dependencies.iter().map(String::as_str).collect();
        let own = &own & &members;
        let row = row(name, &own);
        match table.get(&**name) {
            None => findings.push(format!("ARCHITECTURE.md: has no row for {name}; add {row}")),
            Some(written) if *written != own => findings.push(format!(
                "ARCHITECTURE.md: {name} depends on other packages than its row says; write {row}, \
                 or remove the dependency"
            )),
            Some(_) => {}
        }
    }
    for name in table.keys().filter(|name| !members.contains(*name)) {
        findings.push(format!(
            "ARCHITECTURE.md: has a row for {name}, which is no package; remove it"
        ));
    }
    findings
}

/// The rows of the table: a package and what it depends on.
fn table(architecture: &str) -> Option<BTreeMap<&str, BTreeSet<&str>>> {
    let lines = architecture.lines().skip_while(|line| *line != HEADING);
    let rows = lines.skip(2).take_while(|line| line.starts_with('|'));
    let rows = rows.map(|row| {
        // What stands between backticks.
        let mut names = row.split('`').skip(1).step_by(2);
        (names.next().unwrap_or_default(), names.collect())
    });
    architecture.contains(HEADING).then(|| rows.collect())
}

fn row(name: &str, dependencies: &BTreeSet<&str>) -> String {
    let names = dependencies.iter().map(|name| format!("`{name}`"));
    let names: Vec<String> = names.collect();
    match names.is_empty() {
        true => format!("| `{name}` | – |"),
        false => format!("| `{name}` | {} |", names.join(", ")),
    }
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

    #[test]
    fn the_table_has_to_say_what_cargo_says() {
        let packages = [package("a", &["serde"]), package("b", &["a", "serde"])];
        assert_eq!(check_table(TABLE, &packages), [""; 0]);
        for (packages, wanted) in [
            // A dependency too many and one too few.
            (
                [package("a", &["b"]), package("b", &[])],
                ["write | `a` | `b` |", "write | `b` | – |"],
            ),
            // A missing row and one of no package.
            (
                [package("a", &[]), package("c", &[])],
                ["no row for c", "row for b, which is no package"],
            ),
        ] {
            let found = check_table(TABLE, &packages);
            let is_found = |(line, part): (&String, &str)| line.contains(part);
            assert!(found.iter().zip(wanted).all(is_found), "{found:?}");
            assert_eq!(found.len(), 2);
        }
    }
}
