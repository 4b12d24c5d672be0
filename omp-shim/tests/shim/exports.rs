//! What the library shows to the programs it is loaded into.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{COMPILERS, Compiler, shim, turn};

fn readelf(arguments: &[&str]) -> String {
    let output = Command::new("readelf")
        .args(arguments)
        .arg(shim())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The names under which the shim has functions for others.
fn exported() -> BTreeSet<String> {
    let symbols = readelf(&["--dyn-syms", "--wide"]);
    symbols
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|columns| columns.len() == 8 && columns[4] == "GLOBAL" && columns[6] != "UND")
        .map(|columns| columns[7].to_owned())
        .collect()
}

#[test]
fn nothing_is_exported_but_functions_of_openmp_runtimes() {
    let exported = exported();
    assert_eq!(exported.len(), 215, "{exported:?}");
    for name in &exported {
        let known = [
            "GOMP_",
            "__kmpc_",
            "omp_",
            // By which libomp asks for a tool.
            "ompt_start_tool",
            // What virtual teams must hear of: new modules, waiting by hand, and claims on storage.
            "__errno_location",
            "dlopen",
            // By which Intel's MKL asks for its number of threads.
            "mkl_serv_domain_get_max_threads",
            // Functions that are looked up, to be called past the shim.
            "dlsym",
            "sched_yield",
            // What the C library does in every thread, whom it tells by the thread pointer.
            "initgroups",
            "setegid",
            "seteuid",
            "setgid",
            "setgroups",
            "setregid",
            "setresgid",
            "setresuid",
            "setreuid",
            "setuid",
            // What the kernel keeps for each thread.
            "getpriority",
            "nice",
            "prctl",
            "pthread_setaffinity_np",
            "pthread_setschedparam",
            "pthread_setschedprio",
            "sched_getaffinity",
            "sched_getparam",
            "sched_getscheduler",
            "sched_setaffinity",
            "sched_setparam",
            "sched_setscheduler",
            "setpriority",
            // What else is a thread's own.
            "pthread_getname_np",
            "pthread_setname_np",
            "pthread_sigmask",
            "sigaltstack",
            "sigprocmask",
        ];
        assert!(
            known.iter().any(|prefix| name.starts_with(prefix)),
            "{name} is exported"
        );
    }
}

#[test]
fn the_table_of_functions_names_exactly_the_exported_functions_of_openmp() {
    let table = include_str!("../../core/src/symbols.rs");
    let rows = table.split("    exported ").skip(1);
    let names = rows.flat_map(|group| {
        let (_, names) = group.split_once('{').unwrap();
        names.split_once('}').unwrap().0.split_whitespace()
    });
    let names: BTreeSet<String> = names.map(str::to_owned).collect();
    let mut exported = exported();
    exported.retain(|name| {
        ["GOMP_", "__kmpc_", "omp_"]
            .iter()
            .any(|p| name.starts_with(p))
    });
    assert_eq!(names, exported);
}

/// The programs of the tests: those of `tests/shim`, and those of `cargo xtask conformance`.
fn programs() -> Vec<PathBuf> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let folders = [tests.join("programs"), tests.join("conformance")];
    let files = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let paths = files.map(|file| file.unwrap().path());
    let is_program = |path: &PathBuf| path.extension().is_some_and(|it| it != "h");
    paths.filter(is_program).collect()
}

/// The names that what a compiler makes of a program refers to; none if it does not know all that is in there.
fn referred_to(compiler: Compiler, program: &Path, flags: &[&str]) -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("program.o");
    let compiled = compiler
        .to_object(program, &object)
        .args(flags)
        .current_dir(folder.path())
        .output()
        .unwrap();
    if !compiled.status.success() {
        return BTreeSet::new();
    }
    let listed = Command::new("nm").arg("-u").arg(&object).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let names = listed
        .lines()
        .filter_map(|line| line.split_whitespace().last());
    names.map(str::to_owned).collect()
}

/// Exported, and called by something else than a program of the tests.
const CALLED_BY_OTHERS: [&str; 1] = [
    // By libomp: the programs of `ompt.rs` have it do so.
    "ompt_start_tool",
];

/// The names that this compiler's form of all programs refers to.
fn referred_to_by_all(compiler: Compiler, programs: &[PathBuf]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for program in programs {
        let forms: &[&[&str]] = match program.extension().and_then(|it| it.to_str()) {
            // Functions that take integers of 8 bytes have names of their own.
            Some("f90") if compiler == Compiler::Gcc => &[&[], &["-fdefault-integer-8"]],
            Some("f90") => &[],
            _ => &[&[]],
        };
        for flags in forms {
            names.append(&mut referred_to(compiler, program, flags));
        }
    }
    names
}

#[test]
fn every_exported_function_is_referred_to_by_a_program_of_the_tests() {
    turn::beside_others();
    let mut missing = exported();
    missing.retain(|name| !CALLED_BY_OTHERS.contains(&name.as_str()));
    let programs = programs();
    // Where no compiler here emits a call, programs make it by its prototype.
    for program in &programs {
        let source = std::fs::read_to_string(program).unwrap();
        missing.retain(|name| !source.contains(&format!("{name}(")));
    }
    let programs = &programs;
    std::thread::scope(|scope| {
        let each =
            COMPILERS.map(|compiler| scope.spawn(move || referred_to_by_all(compiler, programs)));
        for names in each {
            let names = names.join().unwrap();
            missing.retain(|name| !names.contains(name));
        }
    });
    assert!(missing.is_empty(), "no program calls {missing:?}");
}

#[test]
fn thread_state_is_reached_without_a_call() {
    assert!(readelf(&["--dynamic"]).contains("STATIC_TLS"));
    // The offset in the thread-local block is a relocation of its own.
    assert!(readelf(&["--relocs", "--wide"]).contains("R_X86_64_TPOFF64"));
}

#[test]
fn thread_local_storage_fits_where_the_loader_keeps_room_for_late_comers() {
    let headers = readelf(&["--program-headers", "--wide"]);
    let columns: Vec<&str> = headers
        .lines()
        .find_map(|line| line.trim().strip_prefix("TLS "))
        .unwrap()
        .split_whitespace()
        .collect();
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let (bytes, alignment) = (number(columns[4]), number(columns[columns.len() - 1]));
    // What comes late may not be aligned to more than a line, and has to do with what other late comers leave of
    // glibc's 1664 bytes.
    assert!(alignment <= 64 && bytes <= 1024, "{headers}");
}
