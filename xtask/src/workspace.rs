//! Where things are in the checkout, and how to run programs there.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
}

/// The folder that cargo builds into: `CARGO_TARGET_DIR`, else `target` in the checkout.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The cargo that runs this task, started in the root of the checkout.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs a command, whose output the user sees.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("start {name}"))?;
    ensure!(status.success(), "{name} failed ({status})");
    Ok(())
}

/// Runs a command; gives what it printed.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("start {name}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("{name} failed ({}): {}", output.status, errors.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("read what {name} printed"))
}

/// A program from crates.io at a fixed version, with these features; installed first if it is missing, below cargo's
/// folder.
pub(crate) fn tool(name: &str, version: &str, features: &[&str]) -> anyhow::Result<PathBuf> {
    let root = target_dir().join("tools");
    let path = root.join("bin").join(name);
    let installed = std::fs::read_to_string(root.join(".crates.toml")).unwrap_or_default();
    if installed.contains(&format!("\"{name} {version} ")) && path.exists() {
        return Ok(path);
    }
    let place = root.display();
    eprintln!("installing {name} {version} into {place} (a few minutes)");
    let mut cargo = cargo();
    cargo.args(["install", "--quiet", "--locked", name, "--version", version]);
    cargo.args(features).arg("--root").arg(&root);
    cargo.arg("--target-dir").arg(root.join("build"));
    // They run for seconds; what counts is how long they take to build.
    cargo.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
    cargo.env("CARGO_PROFILE_RELEASE_LTO", "off");
    cargo.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "0");
    run(&mut cargo).with_context(|| format!("{name} {version} could not be installed"))?;
    Ok(path)
}
