//! Builds what is measured: mapper itself and the programs of `benches/workloads`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::workspace;

/// The OpenMP runtime a program is linked with.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Runtime {
    /// gcc's.
    Libgomp,
    /// clang's.
    Libomp,
}

impl Runtime {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Libgomp => "libgomp",
            Self::Libomp => "libomp",
        }
    }

    pub(crate) fn compiler(self) -> &'static str {
        match self {
            Self::Libgomp => "gcc",
            Self::Libomp => "clang",
        }
    }
}

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

/// The folder of the workload programs' sources.
pub(crate) fn source_folder() -> PathBuf {
    workspace::root().join("benches/workloads")
}

/// Compiles one C program against this runtime.
pub(crate) fn compile(source: &Path, runtime: Runtime, to: &Path) -> anyhow::Result<()> {
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

    use super::*;
    use crate::corun::workload_line::{WorkloadLine, checksums_agree};

    /// Each program with arguments for a short run, and a text of its source that makes it do a
    /// part less when replaced by the other.
    const PROGRAMS: [(&str, &[&str], &str, &str); 8] = [
        (
            "md",
            &["--size", "64", "--steps", "30"],
            "for (long i = 0; i < a->count; i++) {\n            kick",
            "for (long i = 1; i < a->count; i++) {\n            kick",
        ),
        (
            "cg",
            &["--size", "12", "--steps", "2"],
            "TOLERANCE 1e-10",
            "TOLERANCE 1e-2",
        ),
        (
            "mg",
            &["--size", "4", "--steps", "2"],
            "TOLERANCE 1e-9",
            "TOLERANCE 1e-2",
        ),
        (
            "montecarlo",
            &["--size", "20", "--steps", "2"],
            "for (long i = 0; i < paths; i++)",
            "for (long i = 1; i < paths; i++)",
        ),
        (
            "triad",
            &["--size", "1", "--steps", "7"],
            "for (long i = 0; i < n; i++)\n            b[i] = s",
            "for (long i = 1; i < n; i++)\n            b[i] = s",
        ),
        (
            "mandelbrot",
            &["--size", "64", "--steps", "3"],
            "for (long row = 0; row < v.height; row++)",
            "for (long row = 1; row < v.height; row++)",
        ),
        (
            "sweep",
            &["--size", "8", "--steps", "2"],
            "for (long line = 0; line < plane; line++)\n                    solve(u + line,",
            "for (long line = 1; line < plane; line++)\n                    solve(u + line,",
        ),
        (
            "primes",
            &["--size", "5000", "--steps", "1"],
            "for (long number = first; number < end; number++)",
            "for (long number = first + 2; number < end; number++)",
        ),
    ];

    fn source(program: &str) -> PathBuf {
        source_folder().join(format!("{program}.c"))
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
            let built = folder.path().join(program);
            compile(&source(program), Runtime::Libgomp, &built).unwrap();
            let checksums = [1, 2, 3].map(|threads| {
                let output = run(&built, arguments, threads);
                assert_eq!(output.status.code(), Some(0), "{output:?}");
                let line: WorkloadLine = serde_json::from_slice(&output.stdout).unwrap();
                assert!(line.ok && line.program == program, "{line:?}");
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
            assert_eq!(text.matches(right).count(), 1, "{program}");
            let sabotaged = folder.path().join(format!("{program}.c"));
            std::fs::write(&sabotaged, text.replace(right, wrong)).unwrap();
            let built = folder.path().join(program);
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
        compile(&source("triad"), Runtime::Libgomp, &built).unwrap();
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
