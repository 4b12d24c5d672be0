//! `cargo xtask tidy`: holds the source to the rules that no compiler checks.
//!
//! What keeps the decision core replayable and every module small enough to be read in one go are
//! rules about the tree as a whole: which crate may know which, what a module may be called, how
//! long a file may grow. They are written down here as data, so that changing one is a visible
//! decision. Every finding is one line `PLACE: what is wrong; what to do`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::workspace;

/// Arguments of `cargo xtask tidy`.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs `cargo xtask tidy`.
pub(crate) fn run(_args: &Args) -> anyhow::Result<()> {
    let findings = findings()?;
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy");
        Ok(())
    } else {
        bail!("{} findings", findings.len())
    }
}

/// A package and the packages of this workspace that it may depend on.
type Row = (&'static str, &'static [&'static str]);

/// The dependency table of ARCHITECTURE.md. Dependencies run one way: a crate knows those to its
/// left in `model ← {monitor, predict} ← {allocate, map} ← pipeline ← {sim, host} ← binaries`.
const ALLOWED: [Row; 26] = [
    ("mapper-model", &[]),
    ("mapper-characterise", &["mapper-model"]),
    ("mapper-predict", &["mapper-model"]),
    (
        "mapper-allocate",
        &["mapper-model", "mapper-characterise", "mapper-predict"],
    ),
    (
        "mapper-placement",
        &["mapper-model", "mapper-characterise", "mapper-predict"],
    ),
    (
        "mapper-pipeline",
        &[
            "mapper-allocate",
            "mapper-placement",
            "mapper-model",
            "mapper-characterise",
            "mapper-predict",
        ],
    ),
    (
        "mapper-sim",
        &[
            "mapper-model",
            "mapper-characterise",
            "mapper-pipeline",
            "mapper-predict",
        ],
    ),
    (
        "mapper-host",
        &[
            "mapper-abi",
            "mapper-model",
            "mapper-characterise",
            "mapper-pipeline",
        ],
    ),
    ("mapper-abi", &["mapper-model"]),
    ("mapper-client", &["mapper-abi"]),
    ("mapper-client-c", &["mapper-client"]),
    ("mapper-control", &["mapper-model"]),
    ("mapper-manual", &[]),
    ("mapper-omp-shim", &["mapper-abi"]),
    (
        "mapper-launch",
        &[
            "mapper-abi",
            "mapper-control",
            "mapper-manual",
            "mapper-model",
        ],
    ),
    // `doctor` looks at the machine itself, with or without a daemon.
    (
        "mapperctl",
        &[
            "mapper-control",
            "mapper-host",
            "mapper-manual",
            "mapper-model",
        ],
    ),
    (
        "mapperd",
        &[
            "mapper-abi",
            "mapper-allocate",
            "mapper-control",
            "mapper-host",
            "mapper-manual",
            "mapper-placement",
            "mapper-model",
            "mapper-characterise",
            "mapper-pipeline",
            "mapper-predict",
        ],
    ),
    // The developer tasks work while the product does not compile.
    ("xtask", &[]),
    ("mapper-report", &[]),
    (
        "mapper-eval",
        &[
            "mapper-allocate",
            "mapper-model",
            "mapper-pipeline",
            "mapper-predict",
            "mapper-report",
            "mapper-sim",
            "mapper-vectors",
        ],
    ),
    (
        "mapper-corun",
        &[
            "mapper-allocate",
            "mapper-control",
            "mapper-model",
            "mapper-report",
        ],
    ),
    ("mapper-conformance", &["mapper-abi", "mapper-report"]),
    ("mapper-vm", &["mapper-report"]),
    (
        "mapper-vectors",
        &[
            "mapper-allocate",
            "mapper-characterise",
            "mapper-model",
            "mapper-placement",
            "mapper-predict",
            "mapper-sim",
        ],
    ),
    (
        "mapper-benches",
        &[
            "mapper-abi",
            "mapper-allocate",
            "mapper-control",
            "mapper-host",
            "mapper-placement",
            "mapper-model",
            "mapper-characterise",
            "mapper-pipeline",
            "mapper-predict",
            "mapper-sim",
        ],
    ),
    // Sees mapper from outside only.
    ("mapper-guest-tests", &["mapper-model"]),
];

/// The decision core: no I/O, no clock.
const PURE: &[&str] = &[
    "mapper-allocate",
    "mapper-placement",
    "mapper-model",
    "mapper-characterise",
    "mapper-pipeline",
    "mapper-predict",
    "mapper-sim",
];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 8] = [
    "common",
    "helper",
    "helpers",
    "manager",
    "misc",
    "util",
    "utils",
    "utilities",
];

/// The longest a source file may be.
const MAX_LINES: usize = 600;

/// Everything that is wrong, one line each.
pub(crate) fn findings() -> anyhow::Result<Vec<String>> {
    let metadata = workspace::cargo()
        .args(["metadata", "--no-deps", "--format-version=1"])
        .output()
        .context("run cargo metadata")?;
    if !metadata.status.success() {
        bail!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&metadata.stderr).trim()
        );
    }
    let metadata: Value =
        serde_json::from_slice(&metadata.stdout).context("read cargo metadata")?;
    let packages = Package::all(&metadata).context("cargo metadata has another form")?;
    let mut findings = Vec::new();
    check_dependencies(&packages, &mut findings);
    for package in &packages {
        check_manifest(package, &mut findings)?;
    }
    let mut sources = Vec::new();
    collect_sources(workspace::root(), &mut sources)?;
    for source in sources {
        let path = source.strip_prefix(workspace::root()).unwrap_or(&source);
        let text =
            fs::read_to_string(&source).with_context(|| format!("read {}", source.display()))?;
        check_source(path, &text, &mut findings);
    }
    findings.sort();
    Ok(findings)
}

/// A member of the workspace.
struct Package {
    name: String,
    manifest: PathBuf,
    /// What it depends on other than in its tests.
    dependencies: BTreeSet<String>,
}

impl Package {
    fn all(metadata: &Value) -> Option<Vec<Self>> {
        let packages = metadata["packages"].as_array()?.iter();
        packages.map(Self::of).collect()
    }

    fn of(package: &Value) -> Option<Self> {
        let dependencies = package["dependencies"].as_array()?.iter();
        Some(Self {
            name: package["name"].as_str()?.to_owned(),
            manifest: package["manifest_path"].as_str()?.into(),
            dependencies: dependencies
                .filter(|dependency| dependency["kind"] != "dev")
                .filter_map(|dependency| dependency["name"].as_str().map(str::to_owned))
                .collect(),
        })
    }
}

fn check_dependencies(packages: &[Package], findings: &mut Vec<String>) {
    let members: BTreeSet<&str> = packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    for package in packages {
        let name = &package.name;
        let Some((_, allowed)) = ALLOWED.iter().find(|(row, _)| row == name) else {
            findings.push(format!(
                "{name}: not in the dependency table; add it to ARCHITECTURE.md and to task_tidy.rs"
            ));
            continue;
        };
        for dependency in &package.dependencies {
            if members.contains(dependency.as_str()) && !allowed.contains(&dependency.as_str()) {
                findings.push(format!(
                    "{name}: depends on {dependency}, which the dependency table of \
                     ARCHITECTURE.md does not allow"
                ));
            }
        }
    }
}

fn check_manifest(package: &Package, findings: &mut Vec<String>) -> anyhow::Result<()> {
    let path = &package.manifest;
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let name = &package.name;
    if !text.contains("[lints]\nworkspace = true") {
        findings.push(format!(
            "{name}: does not use the workspace's lints; add `[lints]` with `workspace = true`"
        ));
    }
    let forbids = path.with_file_name("clippy.toml");
    let is_pure = PURE.contains(&name.as_str());
    if is_pure && !fs::read_to_string(forbids).is_ok_and(|t| t.contains("disallowed-methods")) {
        findings.push(format!(
            "{name}: is pure, but has no clippy.toml with disallowed-methods; copy that of \
             mapper-model"
        ));
    }
    Ok(())
}

/// All Rust files below a folder, without what is built and what is hidden.
fn collect_sources(folder: &Path, sources: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let reading = || format!("read {}", folder.display());
    for entry in fs::read_dir(folder).with_context(reading)? {
        let entry = entry.with_context(reading)?;
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if entry.file_type().with_context(reading)?.is_dir() {
            if name != "target" && !name.starts_with('.') {
                collect_sources(&path, sources)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(path);
        }
    }
    Ok(())
}

fn check_source(path: &Path, text: &str, findings: &mut Vec<String>) {
    let place = path.display();
    let lines = text.lines().count();
    if lines > MAX_LINES {
        findings.push(format!(
            "{place}: {lines} lines, more than {MAX_LINES}; split it by idea"
        ));
    }
    for part in path.with_extension("").components() {
        let part = part.as_os_str().to_string_lossy();
        if EMPTY_NAMES.contains(&part.as_ref()) {
            findings.push(format!(
                "{place}: \"{part}\" says nothing; name it after what it does"
            ));
        }
    }
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("#[ignore") {
            findings.push(format!(
                "{place}:{}: a test that is not run; mend it or remove it",
                index + 1
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check_source(Path::new(path), text, &mut findings);
        findings
    }

    fn package(name: &str, dependencies: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            manifest: PathBuf::new(),
            dependencies: dependencies.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    #[test]
    fn a_dependency_against_the_stream_is_found() {
        let packages = [
            package("mapper-model", &["mapper-pipeline", "serde"]),
            package("mapper-pipeline", &["mapper-model"]),
        ];
        let mut findings = Vec::new();
        check_dependencies(&packages, &mut findings);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("mapper-model: depends on mapper-pipeline"));
    }

    #[test]
    fn a_package_outside_the_table_is_found() {
        let mut findings = Vec::new();
        check_dependencies(&[package("mapper-extra", &[])], &mut findings);
        assert!(findings[0].starts_with("mapper-extra: not in the dependency table"));
    }

    #[test]
    fn allocate_and_map_do_not_know_each_other() {
        let packages = [
            package("mapper-allocate", &["mapper-placement"]),
            package("mapper-placement", &["mapper-allocate"]),
        ];
        let mut findings = Vec::new();
        check_dependencies(&packages, &mut findings);
        assert_eq!(findings.len(), 2, "{findings:?}");
    }

    #[test]
    fn the_table_has_no_cycle() {
        // Striking out, again and again, the packages that depend on none that is left must leave
        // none over.
        let mut left: Vec<Row> = ALLOWED.to_vec();
        while !left.is_empty() {
            let names: Vec<&str> = left.iter().map(|(name, _)| *name).collect();
            let before = left.len();
            left.retain(|(name, allowed)| {
                allowed
                    .iter()
                    .any(|other| other != name && names.contains(other))
            });
            assert!(left.len() < before, "cycle among {names:?}");
        }
    }

    #[test]
    fn an_empty_name_is_found_in_files_and_folders() {
        assert_eq!(found("crates/a/src/utils.rs", "").len(), 1);
        assert_eq!(found("crates/a/src/common/mod.rs", "").len(), 1);
        assert_eq!(found("crates/a/src/command.rs", "").len(), 0);
    }

    #[test]
    fn a_file_may_have_as_many_lines_as_allowed_and_no_more() {
        assert_eq!(found("a.rs", &"\n".repeat(MAX_LINES)).len(), 0);
        assert_eq!(found("a.rs", &"\n".repeat(MAX_LINES + 1)).len(), 1);
    }

    #[test]
    fn a_test_that_is_not_run_is_found() {
        let text = ["#[test]", concat!("#[", "ignore]"), "fn a() {}"].join("\n");
        assert_eq!(
            found("a.rs", &text),
            ["a.rs:2: a test that is not run; mend it or remove it"]
        );
    }
}
