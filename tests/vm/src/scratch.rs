//! Folders of one run of this program.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use mapper_report::workspace;

/// Where images and what runs leave are kept.
pub(super) fn folder() -> PathBuf {
    workspace::target_dir().join("vm")
}

/// A folder that is removed when it is dropped, or after a kill by the next process with the same purpose.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Makes an empty folder named after its purpose and this process.
    pub(super) fn create(purpose: &str) -> Result<Self> {
        remove_abandoned(&folder(), purpose);
        let path = folder().join(format!("{purpose}-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("create {}", path.display()))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes the folders of processes that have ended, as far as possible.
fn remove_abandoned(folder: &Path, purpose: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix(purpose)?.strip_prefix('-'));
        let process: Option<u32> = number.and_then(|number| number.parse().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_processes_that_are_gone_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let alive = format!("run-{}", std::process::id());
        // No process has a number above 2^22.
        for name in ["run-99999999", "run-x", "image-99999999", alive.as_str()] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        remove_abandoned(folder.path(), "run");
        for (name, left) in [
            ("run-99999999", false),
            ("run-x", true),
            ("image-99999999", true),
            (&alive, true),
        ] {
            assert_eq!(folder.path().join(name).exists(), left, "{name}");
        }
    }
}
