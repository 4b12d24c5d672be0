//! The programs of `benches/workloads`: they compute the same with any number of threads, and notice when a part
//! of their work is left out.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mapper_report::workspace;
use serde::Deserialize;

/// The line of JSON that a program ends with.
#[derive(Debug, Deserialize)]
struct Line {
    program: String,
    checksum: f64,
    ok: bool,
    p99_ms: Option<f64>,
}

fn source(program: &str) -> PathBuf {
    workspace::root().join(format!("benches/workloads/{program}.c"))
}

/// Compiles a program with these further arguments.
fn compile(source: &Path, options: &[&str], libraries: &[&Path], to: &Path) {
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=c11", "-O2", "-Wall", "-Wextra"])
        .args(options)
        .arg("-o")
        .arg(to)
        .arg(source);
    let output = gcc.args(libraries).args(["-ldl", "-lm"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", source.display());
}

/// Whether two checksums of the same work agree but for rounding in another order.
fn checksums_agree(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-6 * one.abs().max(other.abs())
}

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
    let option = if THREADED.contains(&program) {
        "-pthread"
    } else {
        "-fopenmp"
    };
    compile(source, &[option], &[], to);
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
            let line: Line = serde_json::from_slice(&output.stdout).unwrap();
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
        std::fs::copy(
            workspace::root().join("benches/workloads").join(header),
            folder.path().join(header),
        )
        .unwrap();
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
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.starts_with("WRONG"), "{stderr}");
    }
}

#[test]
fn programs_that_speak_to_mapper_run_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let libmapper = workspace::build_product().unwrap().join("libmapper.a");
    let headers = workspace::root().join("crates/client-c/include");
    let options = [
        "-pthread",
        "-DWORKLOAD_MAPPER",
        "-I",
        headers.to_str().unwrap(),
    ];
    for (program, arguments, _, _) in PROGRAMS {
        if !["queens", "pipeline", "server"].contains(&program) {
            continue;
        }
        let built = folder.path().join(format!("{program}-elastic"));
        compile(&source(program), &options, &[&libmapper], &built);
        let output = run(&built, arguments, 3);
        assert_eq!(output.status.code(), Some(0), "{program}: {output:?}");
        let line: Line = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(line.p99_ms.is_some(), program == "server");
    }
}

#[test]
fn a_program_with_threads_of_its_own_refuses_none_and_an_openmp_program_takes_no_number() {
    let folder = tempfile::tempdir().unwrap();
    let jacobi = folder.path().join("jacobi");
    compile_any(&source("jacobi"), "jacobi", &jacobi);
    let triad = folder.path().join("triad");
    compile_any(&source("triad"), "triad", &triad);
    for (program, number) in [(&jacobi, "0"), (&jacobi, "many"), (&triad, "2")] {
        let mut command = Command::new(program);
        let output = command.args(["--threads", number]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("--threads"), "{stderr}");
    }
}

#[test]
fn a_program_refuses_arguments_it_does_not_understand() {
    let folder = tempfile::tempdir().unwrap();
    let built = folder.path().join("triad");
    compile_any(&source("triad"), "triad", &built);
    for (arguments, named) in [
        (&["--size", "abc"][..], "abc"),
        (&["--size", "0"], "0"),
        (&["--steps"], "--steps"),
        (&["--speed", "9"], "--speed"),
    ] {
        let output = run(&built, arguments, 1);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(named), "{stderr}");
    }
}
