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

#[cfg(test)]
mod tests {
    use std::process::Output;

    use super::super::workload_line::{WorkloadLine, checksums_agree};
    use super::*;

    /// Each program with arguments for a short run, and a text of its source that makes it do a
    /// part less when replaced by the other.
    const PROGRAMS: [(Program, &[&str], &str, &str); 6] = [
        (
            Program::Md,
            &["--size", "64", "--steps", "30"],
            "for (long i = 0; i < a->count; i++) {\n            kick",
            "for (long i = 1; i < a->count; i++) {\n            kick",
        ),
        (
            Program::Cg,
            &["--size", "12", "--steps", "2"],
            "TOLERANCE 1e-10",
            "TOLERANCE 1e-2",
        ),
        (
            Program::Mg,
            &["--size", "4", "--steps", "2"],
            "TOLERANCE 1e-9",
            "TOLERANCE 1e-2",
        ),
        (
            Program::MonteCarlo,
            &["--size", "20", "--steps", "2"],
            "for (long i = 0; i < paths; i++)",
            "for (long i = 1; i < paths; i++)",
        ),
        (
            Program::Triad,
            &["--size", "1", "--steps", "7"],
            "for (long i = 0; i < n; i++)\n            b[i] = s",
            "for (long i = 1; i < n; i++)\n            b[i] = s",
        ),
        (
            Program::Mandelbrot,
            &["--size", "64", "--steps", "3"],
            "for (long row = 0; row < v.height; row++)",
            "for (long row = 1; row < v.height; row++)",
        ),
    ];

    fn source(program: Program) -> PathBuf {
        source_folder().join(format!("{}.c", program.name()))
    }

    fn run(program: &Path, arguments: &[&str], threads: u32) -> Output {
        Command::new(program)
            .args(arguments)
            .env("OMP_NUM_THREADS", threads.to_string())
            .output()
            .unwrap()
    }

    #[test]
    fn a_program_finds_the_same_with_any_number_of_threads() {
        let folder = tempfile::tempdir().unwrap();
        for (program, arguments, _, _) in PROGRAMS {
            let built = folder.path().join(program.name());
            compile(&source(program), Runtime::Libgomp, &built).unwrap();
            let checksums = [1, 2, 3].map(|threads| {
                let output = run(&built, arguments, threads);
                assert_eq!(output.status.code(), Some(0), "{output:?}");
                let line: WorkloadLine = serde_json::from_slice(&output.stdout).unwrap();
                assert!(line.ok && line.program == program.name(), "{line:?}");
                line.checksum
            });
            for checksum in checksums {
                assert!(checksums_agree(checksum, checksums[0]), "{checksums:?}");
            }
        }
    }

    #[test]
    fn a_program_notices_when_a_part_of_its_work_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let header = "workload.h";
        std::fs::copy(source_folder().join(header), folder.path().join(header)).unwrap();
        for (program, arguments, right, wrong) in PROGRAMS {
            let text = std::fs::read_to_string(source(program)).unwrap();
            assert_eq!(text.matches(right).count(), 1, "{}", program.name());
            let sabotaged = folder.path().join(format!("{}.c", program.name()));
            std::fs::write(&sabotaged, text.replace(right, wrong)).unwrap();
            let built = folder.path().join(program.name());
            compile(&sabotaged, Runtime::Libgomp, &built).unwrap();
            let output = run(&built, arguments, 2);
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.starts_with("WRONG"), "{said}");
        }
    }

    #[test]
    fn a_program_refuses_arguments_it_does_not_understand() {
        let folder = tempfile::tempdir().unwrap();
        let built = folder.path().join("triad");
        compile(&source(Program::Triad), Runtime::Libgomp, &built).unwrap();
        for (arguments, named) in [
            (&["--size", "abc"][..], "abc"),
            (&["--size", "0"], "0"),
            (&["--steps"], "--steps"),
            (&["--speed", "9"], "--speed"),
        ] {
            let output = run(&built, arguments, 1);
            assert_eq!(output.status.code(), Some(2), "{output:?}");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains(named), "{said}");
        }
    }

    #[test]
    fn a_source_that_does_not_compile_is_named_with_the_compilers_words() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("broken.c");
        std::fs::write(&source, "int main(void) { return nothing; }").unwrap();
        let error = compile(&source, Runtime::Libgomp, &folder.path().join("broken")).unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains("broken.c") && said.contains("nothing"),
            "{said}"
        );
    }
}
