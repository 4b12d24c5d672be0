//! A newer libomp than clang's own, for the shim's tests.
//!
//! Debian's packages of two libomps exclude each other, so the newer one is not installed: its files are
//! unpacked below the build folder, where `omp-shim/tests/shim/newer_libomp.rs` looks for them. It is
//! fetched once, some 0.6 MB.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::workspace;

/// The newest that Debian 12 has.
const PACKAGE: &str = "libomp5-19";

/// Where its files are.
pub(super) fn folder() -> PathBuf {
    workspace::target_dir().join("runtimes").join(PACKAGE)
}

/// Fetches it if it is not there yet. Where that fails the test that needs it fails, and says what to do.
pub(super) fn fetch() {
    let folder = folder();
    if folder.exists() {
        return;
    }
    eprintln!("fetching {PACKAGE}");
    if let Err(error) = fetch_to(&folder) {
        eprintln!(
            "note: {PACKAGE} was not fetched, tests with a newer libomp will fail: {error:#}"
        );
    }
}

fn fetch_to(folder: &Path) -> anyhow::Result<()> {
    let parent = folder.parent().unwrap_or(folder);
    std::fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
    // Beside its place, so that it can be moved there whole.
    let scratch = tempfile::tempdir_in(parent).context("make a temporary folder")?;
    run(Command::new("apt-get")
        .args(["download", PACKAGE])
        .current_dir(scratch.path()))?;
    let package = only_package(scratch.path())?;
    let files = scratch.path().join("files");
    run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&files))?;
    std::fs::rename(&files, folder).with_context(|| format!("move to {}", folder.display()))
}

/// The package file in a folder.
fn only_package(folder: &Path) -> anyhow::Result<PathBuf> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    for entry in entries {
        let path = entry
            .with_context(|| format!("read {}", folder.display()))?
            .path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            return Ok(path);
        }
    }
    bail!("{}: apt-get left no package", folder.display())
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start {}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let program = command.get_program().display();
    bail!("{program}: {}", said.lines().last().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_is_told_with_its_last_words() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo first >&2; echo last words >&2; exit 3"]);
        let error = run(&mut command).unwrap_err();
        assert_eq!(error.to_string(), "sh: last words");
    }

    #[test]
    fn a_folder_without_a_package_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let error = only_package(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains(&folder.path().display().to_string()),
            "{error}"
        );
        let package = folder.path().join("p_1.deb");
        std::fs::write(&package, "").unwrap();
        assert_eq!(only_package(folder.path()).unwrap(), package);
    }
}
