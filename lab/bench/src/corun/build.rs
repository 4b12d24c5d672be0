//! Builds what is measured: mapper itself and the programs of `benches/workloads`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use mapper_report::workspace;

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

/// What a program that is no OpenMP program is compiled with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Client<'a> {
    /// Nothing but POSIX threads.
    None,
    /// `libmapper`, the static library in this folder, through which it speaks to mapper.
    Libmapper(&'a Path),
}

/// How cargo builds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Profile {
    /// For measuring.
    Release,
    /// For tests, which need no speed.
    #[cfg(test)]
    Debug,
}

/// Builds mapper; gives the folder that the binaries are in.
pub(crate) fn build_mapper(profile: Profile) -> anyhow::Result<PathBuf> {
    build(
        profile,
        &["mapperd", "mapper-launch", "mapperctl", "mapper-omp-shim"],
        &["mapperd", "mapper-launch", "mapperctl", "libmapper_omp.so"],
    )
}

/// Builds `libmapper.a`; gives the folder that it is in.
pub(crate) fn build_libmapper(profile: Profile) -> anyhow::Result<PathBuf> {
    build(profile, &["mapper-client-c"], &["libmapper.a"])
}

/// Has cargo build these packages; gives the folder that the files are in which come of it.
pub(crate) fn build(
    profile: Profile,
    packages: &[&str],
    files: &[&str],
) -> anyhow::Result<PathBuf> {
    let mut cargo = workspace::cargo();
    cargo.arg("build");
    let folder = match profile {
        Profile::Release => {
            cargo.arg("--release");
            "release"
        }
        #[cfg(test)]
        Profile::Debug => "debug",
    };
    for package in packages {
        cargo.args(["--package", package]);
    }
    let status = cargo.status().context("start cargo")?;
    if !status.success() {
        bail!("cargo could not build mapper; see its messages above");
    }
    let folder = workspace::target_dir().join(folder);
    for name in files {
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
    let mut command = Command::new(runtime.compiler());
    command.arg("-fopenmp");
    compile_by(command, source, &["-lm".into()], to)
}

/// Compiles one C program that has POSIX threads of its own.
pub(crate) fn compile_threads(source: &Path, client: Client<'_>, to: &Path) -> anyhow::Result<()> {
    let mut command = Command::new("gcc");
    command.arg("-pthread");
    let mut libraries = Vec::new();
    if let Client::Libmapper(folder) = client {
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
    const PROGRAMS: [(&str, &[&str], &str, &str); 14] = [
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
        (
            "matmul",
            &["--size", "70", "--steps", "2"],
            "for (long inner = 0; inner < n;",
            "for (long inner = TILE; inner < n;",
        ),
        (
            "kmeans",
            &["--size", "4", "--steps", "20"],
            "for (long i = 0; i < points; i++) {\n        const",
            "for (long i = 1; i < points; i++) {\n        const",
        ),
        (
            "jacobi",
            &["--size", "32", "--steps", "50"],
            "for (long row = first; row < end; row++)",
            "for (long row = first + 1; row < end; row++)",
        ),
        (
            "queens",
            &["--size", "8", "--steps", "3"],
            "uint32_t all = (1u << size) - 1;",
            "uint32_t all = (1u << size) - 2;",
        ),
        (
            "pipeline",
            &["--size", "5", "--steps", "200"],
            "if (++p->taken == p->items)",
            "if (++p->taken == p->items - 1 && ++p->taken)",
        ),
        (
            "server",
            &["--size", "2000", "--steps", "200"],
            "v->taken += number < v->requests;",
            "v->taken += number < v->requests ? 1 + (number == 7) : 0;",
        ),
    ];

    /// Programs with POSIX threads of their own.
    const THREADED: [&str; 4] = ["jacobi", "queens", "pipeline", "server"];

    fn compile_any(source: &Path, program: &str, to: &Path) {
        if THREADED.contains(&program) {
            compile_threads(source, Client::None, to).unwrap();
        } else {
            compile(source, Runtime::Libgomp, to).unwrap();
        }
    }

    fn source(program: &str) -> PathBuf {
        source_folder().join(format!("{program}.c"))
    }

    fn run(program: &Path, arguments: &[&str], threads: u32) -> Output {
        let mut command = Command::new(program);
        command.args(arguments);
        command.env("OMP_NUM_THREADS", threads.to_string());
        let name = program.file_name().unwrap().to_str().unwrap();
        if THREADED.contains(&name.trim_end_matches("-elastic")) {
            command.args(["--threads", &threads.to_string()]);
        }
        command.output().unwrap()
    }

    #[test]
    fn a_program_finds_the_same_with_any_number_of_threads() {
        let folder = tempfile::tempdir().unwrap();
        for (program, arguments, _, _) in PROGRAMS {
            let built = folder.path().join(program);
            compile_any(&source(program), program, &built);
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
        for header in ["workload.h", "threads.h"] {
            std::fs::copy(source_folder().join(header), folder.path().join(header)).unwrap();
        }
        for (program, arguments, right, wrong) in PROGRAMS {
            let text = std::fs::read_to_string(source(program)).unwrap();
            assert_eq!(text.matches(right).count(), 1, "{program}");
            let sabotaged = folder.path().join(format!("{program}.c"));
            std::fs::write(&sabotaged, text.replace(right, wrong)).unwrap();
            let built = folder.path().join(program);
            compile_any(&sabotaged, program, &built);
            let output = run(&built, arguments, 2);
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.starts_with("WRONG"), "{said}");
        }
    }

    #[test]
    fn programs_that_speak_to_mapper_run_without_it() {
        let folder = tempfile::tempdir().unwrap();
        let libmapper = build_libmapper(Profile::Debug).unwrap();
        for (program, arguments, _, _) in PROGRAMS {
            if !["queens", "pipeline", "server"].contains(&program) {
                continue;
            }
            let built = folder.path().join(format!("{program}-elastic"));
            compile_threads(&source(program), Client::Libmapper(&libmapper), &built).unwrap();
            let output = run(&built, arguments, 3);
            assert_eq!(output.status.code(), Some(0), "{program}: {output:?}");
            let line: WorkloadLine = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(line.p99_ms.is_some(), program == "server");
        }
    }

    #[test]
    fn a_program_with_threads_of_its_own_refuses_none_and_an_openmp_program_takes_no_number() {
        let folder = tempfile::tempdir().unwrap();
        let jacobi = folder.path().join("jacobi");
        compile_threads(&source("jacobi"), Client::None, &jacobi).unwrap();
        let triad = folder.path().join("triad");
        compile(&source("triad"), Runtime::Libgomp, &triad).unwrap();
        for (program, number) in [(&jacobi, "0"), (&jacobi, "many"), (&triad, "2")] {
            let mut command = Command::new(program);
            let output = command.args(["--threads", number]).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{output:?}");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains("--threads"), "{said}");
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
