//! Builds what is measured: mapper itself and the programs of `benches/workloads`; real ones are installed.

pub(crate) mod dlb;
pub(crate) mod python;
pub(crate) mod real;
pub(crate) mod workloads;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use mapper_report::workspace;

#[derive(Clone, Copy)]
pub(crate) enum Profile {
    Release,
    /// For tests, which need no speed.
    #[cfg(test)]
    Debug,
}

/// Builds mapper; gives the folder that the binaries are in.
pub(crate) fn build_mapper(profile: Profile) -> anyhow::Result<PathBuf> {
    build(
        profile,
        &["mapperd", "mapper-launch", "mapperctl", "libmapper_omp.so"],
    )
}

/// Builds `libmapper.a`; gives the folder that it is in.
pub(crate) fn build_libmapper(profile: Profile) -> anyhow::Result<PathBuf> {
    build(profile, &["libmapper.a"])
}

/// Has cargo build the product; gives the folder that these files of it are in.
fn build(profile: Profile, files: &[&str]) -> anyhow::Result<PathBuf> {
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--quiet", "--locked"]);
    let folder = match profile {
        Profile::Release => {
            cargo.arg("--release");
            "release"
        }
        #[cfg(test)]
        Profile::Debug => "debug",
    };
    let status = cargo.status().context("start cargo")?;
    let is_built = status.success();
    ensure!(
        is_built,
        "cargo could not build mapper; see its messages above"
    );
    let folder = workspace::target_dir().join(folder);
    for built in files.iter().map(|name| folder.join(name)) {
        ensure!(built.exists(), "cargo built no {}", built.display());
    }
    Ok(folder)
}

/// Runs a command; gives what it printed.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = Path::new(command.get_program()).display().to_string();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("start {name}"))?;
    let (status, errors) = (output.status, String::from_utf8_lossy(&output.stderr));
    let errors = errors.trim();
    ensure!(status.success(), "{name} failed ({status}):\n{errors}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
