//! Where things are in the checkout, and how to run its cargo.

use std::path::{Path, PathBuf};
use std::process::Command;

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
