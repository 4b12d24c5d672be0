//! Builds what the demonstration runs: mapper itself and the workload programs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use super::pairs::{Program, Runtime};
use crate::workspace;

/// Builds mapper in release mode; gives the folder that the binaries are in.
pub(crate) fn build_mapper() -> anyhow::Result<PathBuf> {
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release"]);
    for package in ["mapperd", "mapper-launch", "mapperctl", "mapper-omp-shim"] {
        cargo.args(["--package", package]);
    }
    let status = cargo.status().context("start cargo")?;
    if !status.success() {
        bail!("cargo could not build mapper; see its messages above");
    }
    let folder = workspace::target_dir().join("release");
    for name in ["mapperd", "mapper-launch", "mapperctl", "libmapper_omp.so"] {
        let built = folder.join(name);
        if !built.exists() {
            bail!("cargo built no {}", built.display());
        }
    }
    Ok(folder)
}

/// The compiled workload programs.
pub(crate) struct Workloads {
    folder: PathBuf,
}

impl Workloads {
    /// Compiles these programs, each once for every runtime it is wanted for.
    pub(crate) fn compile(wanted: &BTreeSet<(Program, Runtime)>) -> anyhow::Result<Self> {
        let workloads = Self {
            folder: workspace::target_dir().join("workloads"),
        };
        std::fs::create_dir_all(&workloads.folder)
            .with_context(|| format!("make the folder {}", workloads.folder.display()))?;
        for &(program, runtime) in wanted {
            let source = source_folder().join(format!("{}.c", program.name()));
            compile(&source, runtime, &workloads.path(program, runtime))?;
        }
        Ok(workloads)
    }

    /// Where a compiled program is.
    pub(crate) fn path(&self, program: Program, runtime: Runtime) -> PathBuf {
        self.folder
            .join(format!("{}-{}", program.name(), runtime.name()))
    }
}

fn source_folder() -> PathBuf {
    workspace::root().join("benches/workloads")
}

fn compile(source: &Path, runtime: Runtime, to: &Path) -> anyhow::Result<()> {
    let compiler = runtime.compiler();
    let output = Command::new(compiler)
        .args(["-std=c11", "-O2", "-fopenmp", "-Wall", "-Wextra", "-o"])
        .arg(to)
        .arg(source)
        .arg("-lm")
        .output()
        .with_context(|| format!("start the compiler {compiler}"))?;
    if !output.status.success() {
        bail!(
            "{compiler} could not compile {}:\n{}",
            source.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}
