//! What the library shows to the programs it is loaded into.

use std::process::Command;

use crate::harness::shim;

fn readelf(arguments: &[&str]) -> String {
    let output = Command::new("readelf")
        .args(arguments)
        .arg(shim())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn nothing_is_exported_but_functions_of_openmp_runtimes() {
    let symbols = readelf(&["--dyn-syms", "--wide"]);
    let exported: Vec<&str> = symbols
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|columns| columns.len() == 8 && columns[4] == "GLOBAL" && columns[6] != "UND")
        .map(|columns| columns[7])
        .collect();
    assert_eq!(exported.len(), 180, "{exported:?}");
    for name in exported {
        let known = [
            "GOMP_",
            "__kmpc_",
            "omp_",
            // By which libomp asks for a tool.
            "ompt_start_tool",
            // What virtual teams must hear of: new modules, waiting by hand, and claims on storage.
            "__errno_location",
            "dlopen",
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
            // What else is a thread's own.
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
