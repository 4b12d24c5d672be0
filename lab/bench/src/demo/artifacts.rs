//! The programs of the demonstration, compiled.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Context as _;

use super::pairs::Program;
use crate::corun::build::{Runtime, compile, source_folder};
use mapper_report::workspace;

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
