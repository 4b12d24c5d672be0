//! Rules for single files and manifests.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::finding::Finding;
use super::packages::Package;
use super::sources::Source;

/// The decision core: no I/O, no clock.
const PURE: &[&str] = &[
    "mapper-allocate",
    "mapper-characterise",
    "mapper-model",
    "mapper-pipeline",
    "mapper-placement",
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

/// From how many lines on a file is named in a warning.
const MANY_LINES: usize = 700;

/// A warning if a file is long.
pub(super) fn length_warning(path: &Path, source: &Source) -> Option<String> {
    let lines = source.text.lines().count();
    (lines > MANY_LINES).then(|| format!("{}: {lines} lines", path.display()))
}

/// Checks the path of a file and what no parser is needed for.
pub(super) fn check_source(path: &Path, text: &str, findings: &mut Vec<Finding>) {
    let place = path.display();
    for part in path.with_extension("").components() {
        let part = part.as_os_str().to_string_lossy();
        if EMPTY_NAMES.contains(&part.as_ref()) {
            let text = format!("{place}: \"{part}\" says nothing; name it after what it does");
            findings.push(Finding::strict(text));
        }
    }
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("#[ignore") {
            let line = index + 1;
            let text = format!("{place}:{line}: a test that is not run; fix it or remove it");
            findings.push(Finding::strict(text));
        }
    }
}

/// Checks the manifest of a package and what stands beside it.
pub(super) fn check_manifest(package: &Package, findings: &mut Vec<Finding>) -> anyhow::Result<()> {
    let path = &package.manifest;
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let name = &package.name;
    if !text.contains("[lints]\nworkspace = true") {
        findings.push(Finding::strict(format!(
            "{name}: does not use the workspace's lints; add `[lints]` with `workspace = true`"
        )));
    }
    let forbids = path.with_file_name("clippy.toml");
    let is_pure = PURE.contains(&name.as_str());
    if is_pure && !fs::read_to_string(forbids).is_ok_and(|t| t.contains("disallowed-methods")) {
        findings.push(Finding::strict(format!(
            "{name}: is pure, but has no clippy.toml with disallowed-methods; copy that of \
             mapper-model"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check_source(Path::new(path), text, &mut findings);
        findings.into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn an_empty_name_is_found_in_files_and_folders() {
        assert_eq!(found("crates/a/src/utils.rs", "").len(), 1);
        assert_eq!(found("crates/a/src/common/mod.rs", "").len(), 1);
        assert_eq!(found("crates/a/src/command.rs", "").len(), 0);
    }

    #[test]
    fn a_test_that_is_not_run_is_found() {
        let text = ["#[test]", concat!("#[", "ignore]"), "fn a() {}"].join("\n");
        assert_eq!(
            found("a.rs", &text),
            ["a.rs:2: a test that is not run; fix it or remove it"]
        );
    }
}
