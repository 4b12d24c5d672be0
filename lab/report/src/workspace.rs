//! Where things are in the checkout, and how to run its cargo.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

/// The root of the checkout.
pub fn root() -> &'static Path {
    let mut ancestors = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    ancestors.nth(2).unwrap_or(Path::new("."))
}

/// The folder that cargo builds into: `CARGO_TARGET_DIR`, else `target` in the checkout.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The cargo that runs this task, started in the root of the checkout.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Has cargo build the product, optimised if this program is; gives the folder that it is in.
///
/// All of it: another choice of packages would have other features, and so dependencies built anew.
///
/// # Errors
///
/// Cargo cannot be started, or fails; it has said why.
pub fn build_product() -> anyhow::Result<PathBuf> {
    build(&["--quiet", "--locked"])
}

/// Has cargo build a program of the workspace, with the features that the whole workspace has; gives its path.
///
/// # Errors
///
/// As for [`build_product`].
pub fn build_program(name: &str) -> anyhow::Result<PathBuf> {
    let folder = build(&["--quiet", "--locked", "--workspace", "--bin", name])?;
    Ok(folder.join(name))
}

fn build(arguments: &[&str]) -> anyhow::Result<PathBuf> {
    let (profile, folder) = match cfg!(debug_assertions) {
        true => ("dev", "debug"),
        false => ("release", "release"),
    };
    let mut cargo = cargo();
    cargo.arg("build").args(arguments);
    let status = cargo.args(["--profile", profile]).status();
    let is_built = status.context("start cargo")?.success();
    ensure!(
        is_built,
        "cargo build {} failed; see its messages above",
        arguments.join(" ")
    );
    // Cargo takes a relative folder from the root, where it runs.
    Ok(root().join(target_dir()).join(folder))
}
