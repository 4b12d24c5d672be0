//! What is built takes the versions of dependencies that `Cargo.lock` names.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot continue should say where"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tasks of cargo that choose versions unless they are kept from it.
const CHOOSING: [&str; 10] = [
    "bench", "build", "clippy", "doc", "fetch", "install", "miri", "run", "rustc", "test",
];

fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Whether a command line of cargo, without the name, leaves no version open.
fn is_locked(line: &str) -> bool {
    let mut words = line
        .split_whitespace()
        .take_while(|word| *word != "--")
        .filter(|word| !word.starts_with('+') && *word != "--quiet");
    let Some(task) = words.next() else {
        return true;
    };
    !CHOOSING.contains(&task) || words.any(|word| word == "--locked")
}

/// Runs a developer task with a cargo that only notes how it is called, and fails.
fn calls_of_cargo(task: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let (cargo, calls) = (folder.path().join("cargo"), folder.path().join("calls"));
    let script = format!("#!/bin/sh\necho \"$@\" >>'{}'\nexit 1\n", calls.display());
    fs::write(&cargo, script).unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(task)
        .env("CARGO", &cargo)
        // Logs go there, and nothing is installed.
        .env("CARGO_TARGET_DIR", folder.path())
        .env_remove("CI")
        .current_dir(checkout())
        .output()
        .unwrap();
    assert!(!output.status.success(), "{task:?} without cargo");
    let errors = String::from_utf8_lossy(&output.stderr);
    let calls = fs::read_to_string(calls);
    let calls = calls.unwrap_or_else(|_| panic!("{task:?} did not call cargo: {errors}"));
    calls.lines().map(str::to_owned).collect()
}

#[test]
fn tasks_that_build_take_the_versions_of_the_lock_file() {
    let prefix = tempfile::tempdir().unwrap();
    let prefix = prefix.path().to_str().unwrap();
    // Packages are built as what is installed.
    let tasks: [&[&str]; 5] = [
        &["install", "--prefix", prefix],
        &["test", "--only", "lints"],
        &["test", "--only", "tests"],
        &["test", "--only", "conformance"],
        &["conformance"],
    ];
    for task in tasks {
        let calls = calls_of_cargo(task);
        let open: Vec<&String> = calls.iter().filter(|call| !is_locked(call)).collect();
        assert!(open.is_empty(), "{task:?}: without --locked: {open:?}");
    }
}

#[test]
fn every_command_that_people_and_workflows_run_takes_the_versions_of_the_lock_file() {
    let workflows = fs::read_dir(checkout().join(".github/workflows")).unwrap();
    let mut files: Vec<PathBuf> = workflows.map(|entry| entry.unwrap().path()).collect();
    files.extend(
        ["README.md", ".cargo/config.toml", "deploy/Containerfile"].map(|f| checkout().join(f)),
    );
    let mut seen = 0;
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        // An alias is written without the name of cargo.
        let text = text.replace("xtask = \"", "xtask = \"cargo ");
        for line in text.lines().filter(|line| !line.contains("`cargo")) {
            for call in line.split("cargo ").skip(1) {
                let mut words = call.split_whitespace();
                let task = words.find(|word| !word.starts_with(['+', '-']));
                seen += usize::from(task.is_some_and(|task| CHOOSING.contains(&task)));
                assert!(
                    is_locked(call),
                    "{}: {line}: without --locked",
                    file.display()
                );
            }
        }
    }
    assert!(seen >= 4, "only {seen} commands found");
}
