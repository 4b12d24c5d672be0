//! Builds what is measured: mapper itself and the programs of `benches/workloads`; real ones are installed.

pub(crate) mod dlb;
pub(crate) mod python;
pub(crate) mod real;
pub(crate) mod workloads;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use mapper_report::workspace;

/// Builds mapper; gives the folder that the binaries are in.
pub(crate) fn build_mapper() -> anyhow::Result<PathBuf> {
    build(&["mapperd", "mapper-launch", "mapperctl", "libmapper_omp.so"])
}

/// Builds `libmapper.a`; gives the folder that it is in.
pub(crate) fn build_libmapper() -> anyhow::Result<PathBuf> {
    build(&["libmapper.a"])
}

/// Builds the product; gives the folder that these files of it are in.
fn build(files: &[&str]) -> anyhow::Result<PathBuf> {
    let folder = workspace::build_product()?;
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
