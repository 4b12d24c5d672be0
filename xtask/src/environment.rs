//! Virtual environments of Python below cargo's folder.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use fs_err as fs;
use sha2::{Digest as _, Sha256};

use crate::workspace::{self, output};

/// A virtual environment with what this file of `python/` lists, made once for each content.
pub(crate) fn with(requirements: &str) -> anyhow::Result<PathBuf> {
    let list = workspace::root().join("python").join(requirements);
    let name = format!("python-{:.16x}", Sha256::digest(fs::read(&list)?));
    let folder = workspace::target_dir().join("tools").join(name);
    let is_made = folder.join("made");
    if !is_made.exists() {
        eprintln!("installing {} (half a minute, once)", list.display());
        output(
            Command::new("python3")
                .args(["-m", "venv", "--clear"])
                .arg(&folder),
        )?;
        let mut pip = Command::new(folder.join("bin/pip"));
        pip.args([
            "install",
            "--quiet",
            "--only-binary",
            ":all:",
            "--requirement",
        ]);
        output(pip.arg(&list)).context("install from PyPI")?;
        fs::write(is_made, "")?;
    }
    Ok(folder)
}
