//! Virtual environments below cargo's folder, and the tests of the Python package.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use fs_err as fs;
use sha2::{Digest as _, Sha256};

use crate::task_dist::wheel;
use crate::task_install::PACKAGES;
use crate::workspace::{self, output};

/// A virtual environment with what this file of `python/` lists, made once for each content.
pub(crate) fn environment(requirements: &str) -> anyhow::Result<PathBuf> {
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

/// What runs the tests of the Python package and of the examples, with a wheel of what cargo builds for tests.
pub(crate) fn tests() -> anyhow::Result<Command> {
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--quiet", "--locked"]);
    cargo.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    output(&mut cargo)?;
    let target = std::path::absolute(workspace::target_dir())?;
    let wheel = wheel::pack(&target.join("debug"), &target.join("python"))?;
    let environment = environment("requirements-tests.txt")?;
    let mut pip = Command::new(environment.join("bin/pip"));
    pip.args([
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--force-reinstall",
    ]);
    output(pip.arg(&wheel))?;
    let mut python = Command::new(environment.join("bin/python"));
    python.arg("python/tests").env("MAPPER_WHEEL", wheel);
    Ok(python)
}
