//! Programs of others that tasks use, at fixed versions, installed below cargo's folder.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;

use crate::workspace;

pub(crate) struct Tool {
    name: &'static str,
    version: &'static str,
    features: &'static [&'static str],
}

pub(crate) const CARGO_ABOUT: Tool = Tool {
    name: "cargo-about",
    version: "0.9.3",
    features: &["--features", "cli"],
};

pub(crate) const CARGO_DEB: Tool = Tool {
    name: "cargo-deb",
    version: "3.8.0",
    features: &[],
};

pub(crate) const MDBOOK: Tool = Tool {
    name: "mdbook",
    version: "0.5.4",
    features: &["--no-default-features"],
};

impl Tool {
    /// Where the program is; installs it first if it is missing.
    pub(crate) fn path(&self) -> anyhow::Result<PathBuf> {
        let Self { name, version, .. } = self;
        let root = workspace::target_dir().join("tools");
        let path = root.join("bin").join(name);
        let installed = fs::read_to_string(root.join(".crates.toml")).unwrap_or_default();
        if installed.contains(&format!("\"{name} {version} ")) && path.exists() {
            return Ok(path);
        }
        eprintln!(
            "installing {name} {version} into {} (a few minutes)",
            root.display()
        );
        let mut cargo = workspace::cargo();
        cargo
            .args(["install", "--quiet", "--locked", name, "--version", version])
            .args(self.features)
            .arg("--root")
            .arg(&root)
            .arg("--target-dir")
            .arg(root.join("build"))
            // They run for seconds; what counts is how long they take to build.
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "2")
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        workspace::run(&mut cargo)
            .with_context(|| format!("{name} {version} could not be installed"))?;
        Ok(path)
    }
}
