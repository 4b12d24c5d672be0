//! Rules for single files and manifests.

use fs_err as fs;
use std::path::Path;

use super::packages::Package;
use super::rules::Rules;
use super::sources::Source;

/// From how many lines on a file is named in a warning.
const MANY_LINES: usize = 700;

/// A warning if a file is long.
pub(super) fn length_warning(path: &Path, source: &Source) -> Option<String> {
    let lines = source.text.lines().count();
    (lines > MANY_LINES).then(|| format!("{}: {lines} lines", path.display()))
}

/// Checks the path of a file and what no parser is needed for.
pub(super) fn check_source(rules: &Rules, path: &Path, text: &str) -> Vec<String> {
    let place = path.display();
    let mut findings = Vec::new();
    for part in path.with_extension("").components() {
        let part = part.as_os_str().to_string_lossy();
        if rules.empty_names.iter().any(|name| *name == part) {
            findings.push(format!(
                "{place}: \"{part}\" says nothing; name it after what it does"
            ));
        }
    }
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("#[ignore") {
            let line = index + 1;
            findings.push(format!(
                "{place}:{line}: a test that is not run; fix it or remove it"
            ));
        }
    }
    findings
}

/// Checks the manifest of a package and what stands beside it.
pub(super) fn check_manifest(rules: &Rules, package: &Package) -> anyhow::Result<Vec<String>> {
    let mut findings = Vec::new();
    let path = &package.manifest;
    let text = fs::read_to_string(path)?;
    let name = &package.name;
    if !text.contains("[lints]\nworkspace = true") {
        findings.push(format!(
            "{name}: does not use the workspace's lints; add `[lints]` with `workspace = true`"
        ));
    }
    let forbids = path.with_file_name("clippy.toml");
    let is_pure = rules.pure.contains(name);
    if is_pure && !fs::read_to_string(forbids).is_ok_and(|t| t.contains("disallowed-methods")) {
        findings.push(format!(
            "{name}: is pure, but has no clippy.toml with disallowed-methods; copy that of \
             mapper-model"
        ));
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check_source(&Rules::read().unwrap(), Path::new(path), text)
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
