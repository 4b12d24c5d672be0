//! Compiles the programs of `benches/workloads`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::data::experiment::Runtime;
use crate::data::program::{Program, Threads};
use mapper_report::workspace;

/// The folder of the programs' sources.
pub(crate) fn source_folder() -> PathBuf {
    workspace::root().join("benches/workloads")
}

/// Where the programs are, ready to be started.
#[derive(Debug)]
pub(crate) struct Workloads {
    folder: PathBuf,
    /// The Python that scikit-learn is installed for, when it is wanted.
    python: Option<PathBuf>,
    /// The folder of `libmapper.a`, when programs that use it are wanted.
    libmapper: Option<PathBuf>,
}

impl Workloads {
    pub(crate) fn new(python: Option<PathBuf>, libmapper: Option<PathBuf>) -> anyhow::Result<Self> {
        let folder = workspace::target_dir().join("workloads");
        fs_err::create_dir_all(&folder)?;
        Ok(Self {
            folder,
            python,
            libmapper,
        })
    }

    /// Compiles a program, if it is to be compiled.
    pub(crate) fn compile(&self, program: &Program, runtime: Runtime) -> anyhow::Result<()> {
        let source = source_folder().join(format!("{}.c", program.source()));
        let to = self.binary(program, runtime);
        match (program.threads, &self.libmapper) {
            (Threads::Python, _) => Ok(()),
            (Threads::OpenMp, _) => compile(&source, runtime, &to),
            (Threads::Own, _) => compile_threads(&source, None, &to),
            (Threads::Client, libmapper) => {
                let libmapper = libmapper.as_deref().context("libmapper was not built")?;
                compile_threads(&source, Some(libmapper), &to)
            }
        }
    }

    /// The words that start a program, without its arguments.
    pub(crate) fn words(
        &self,
        program: &Program,
        runtime: Runtime,
    ) -> anyhow::Result<Vec<OsString>> {
        Ok(match program.threads {
            Threads::Python => {
                let python = self
                    .python
                    .clone()
                    .context("scikit-learn was not installed")?;
                let script = source_folder().join(format!("{}.py", program.source()));
                vec![python.into(), script.into()]
            }
            _ => vec![self.binary(program, runtime).into()],
        })
    }

    fn binary(&self, program: &Program, runtime: Runtime) -> PathBuf {
        let kind = match program.threads {
            Threads::OpenMp | Threads::Python => runtime.name(),
            Threads::Own => "threads",
            Threads::Client => "client",
        };
        self.folder.join(format!("{}-{kind}", program.source()))
    }
}

/// Compiles a program that measures the daemon and not itself.
pub(crate) fn compile_probe(name: &str) -> anyhow::Result<PathBuf> {
    let folder = workspace::target_dir().join("workloads");
    fs_err::create_dir_all(&folder)?;
    let to = folder.join(format!("{name}-probe"));
    let mut command = Command::new("gcc");
    command.args(["-fopenmp", "-pthread"]);
    let source = source_folder().join(format!("{name}.c"));
    compile_by(command, &source, &[], &to)?;
    Ok(to)
}

pub(crate) fn compile(source: &Path, runtime: Runtime, to: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(runtime.compiler());
    command.arg("-fopenmp");
    compile_by(command, source, &["-lm".into()], to)
}

/// Compiles one C program that has POSIX threads of its own, and uses libmapper in this folder, if one is given.
fn compile_threads(source: &Path, libmapper: Option<&Path>, to: &Path) -> anyhow::Result<()> {
    let mut command = Command::new("gcc");
    command.arg("-pthread");
    let mut libraries = Vec::new();
    if let Some(folder) = libmapper {
        let headers = workspace::root().join("crates/client-c/include");
        command.arg("-DWORKLOAD_MAPPER").arg("-I").arg(headers);
        libraries.push(folder.join("libmapper.a").into());
    }
    libraries.extend(["-ldl".into(), "-lm".into()]);
    compile_by(command, source, &libraries, to)
}

fn compile_by(
    mut command: Command,
    source: &Path,
    libraries: &[OsString],
    to: &Path,
) -> anyhow::Result<()> {
    let compiler = command.get_program().to_string_lossy().into_owned();
    let output = command
        .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-o"])
        .arg(to)
        .arg(source)
        .args(libraries)
        .output()
        .with_context(|| {
            format!("start the compiler {compiler}; `cargo xtask setup` installs it")
        })?;
    if !output.status.success() {
        bail!(
            "{compiler} could not compile {}:\n{}",
            source.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_does_not_compile_is_named_with_the_compilers_words() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("broken.c");
        fs_err::write(&source, "int main(void) { return nothing; }").unwrap();
        let error = compile(&source, Runtime::Libgomp, &folder.path().join("broken")).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("broken.c") && error.contains("nothing"),
            "{error}"
        );
    }
}
