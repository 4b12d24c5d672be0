//! Compiles the programs of `benches/workloads`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::{output, real};
use crate::data::{Program, Runtime, Threads};
use mapper_report::workspace;

/// The folder of the programs' sources.
pub(crate) fn source_folder() -> PathBuf {
    workspace::root().join("benches/workloads")
}

/// The folder of what is compiled.
fn folder() -> Result<PathBuf> {
    let folder = workspace::target_dir().join("workloads");
    fs_err::create_dir_all(&folder)?;
    Ok(folder)
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
    pub(crate) fn new(python: Option<PathBuf>, libmapper: Option<PathBuf>) -> Result<Self> {
        Ok(Self {
            folder: folder()?,
            python,
            libmapper,
        })
    }

    /// Compiles a program, if it is to be compiled; makes a real one ready.
    pub(crate) fn compile(&self, program: &Program, runtime: Runtime) -> Result<()> {
        if let Some(recipe) = &program.recipe {
            return real::prepare(&program.name, recipe);
        }
        let mut compiler = Command::new(match program.threads {
            Threads::Python | Threads::Real => return Ok(()),
            Threads::OpenMp => runtime.compiler(),
            Threads::Own | Threads::Client => "gcc",
        });
        let to = self.binary(program, runtime);
        let is_openmp = program.threads == Threads::OpenMp;
        compiler.arg(if is_openmp { "-fopenmp" } else { "-pthread" });
        compiler.arg(source_of(program.source()));
        if program.threads == Threads::Client {
            let libmapper = self.libmapper.as_ref().context("libmapper was not built")?;
            let headers = workspace::root().join("crates/client-c/include");
            compiler.arg("-DWORKLOAD_MAPPER").arg("-I").arg(headers);
            // The library stands behind the program that uses it.
            compiler.arg(libmapper.join("libmapper.a"));
        }
        compile(compiler.args(["-ldl", "-lm"]), &to)
    }

    /// The words that start a program, without its arguments.
    pub(crate) fn words(&self, program: &Program, runtime: Runtime) -> Result<Vec<OsString>> {
        if let Some(recipe) = &program.recipe {
            let words = real::words(&program.name, recipe)?;
            return Ok(words.into_iter().map(OsString::from).collect());
        }
        if program.threads != Threads::Python {
            return Ok(vec![self.binary(program, runtime).into()]);
        }
        let python = self.python.clone();
        let python = python.context("scikit-learn was not installed")?;
        let script = source_folder().join(format!("{}.py", program.source()));
        Ok(vec![python.into(), script.into()])
    }

    fn binary(&self, program: &Program, runtime: Runtime) -> PathBuf {
        let kind = match program.threads {
            Threads::OpenMp | Threads::Python | Threads::Real => runtime.name(),
            Threads::Own => "threads",
            Threads::Client => "client",
        };
        self.folder.join(format!("{}-{kind}", program.source()))
    }
}

/// Compiles a program that measures the daemon and not itself.
pub(crate) fn compile_probe(name: &str) -> Result<PathBuf> {
    let to = folder()?.join(format!("{name}-probe"));
    let mut gcc = Command::new("gcc");
    gcc.args(["-fopenmp", "-pthread"]).arg(source_of(name));
    compile(&mut gcc, &to)?;
    Ok(to)
}

fn source_of(name: &str) -> PathBuf {
    source_folder().join(format!("{name}.c"))
}

/// Compiles one C program, with the arguments that the compiler has already.
pub(crate) fn compile(compiler: &mut Command, to: &Path) -> Result<()> {
    let compiler = compiler.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-o"]);
    let compiled = output(compiler.arg(to)).map(drop);
    compiled.context("compile a program; `cargo xtask setup` installs the compilers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_does_not_compile_is_named_with_the_compilers_words() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("broken.c");
        std::fs::write(&source, "int main(void) { return nothing; }").unwrap();
        let to = folder.path().join("broken");
        let error = compile(Command::new("gcc").arg(source), &to).unwrap_err();
        for named in ["broken.c", "nothing"] {
            assert!(format!("{error:#}").contains(named), "{error:#}");
        }
    }
}
