//! Programs of every loader, and programs that those start, run in every mode as they do without the launcher: the
//! shim comes into those of 64-bit glibc, and no other says a word of it.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on shall panic

mod support;

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use support::{Outcome, Stage, compiled, compiled_by, ending, run};

const MODES: [&str; 3] = ["fixed", "follow", "virtual"];
const SHIM: &str = "libmapper_omp.so";

/// The shim and its empty stand-in for 32 bits, laid out as `cargo xtask install` does.
fn installed(shim: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let below = |name: &str| {
        let place = folder.path().join(name);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        place
    };
    std::fs::copy(shim, below(SHIM)).unwrap();
    for (name, shim) in [
        ("lib/x86_64-linux-gnu", "../../libmapper_omp.so"),
        ("lib64", "../libmapper_omp.so"),
    ] {
        symlink(shim, below(&format!("{name}/{SHIM}"))).unwrap();
    }
    let flags = ["-m32", "-shared", "-nostdlib", "-Wl,--build-id=none"];
    let stub = compiled("nothing.c", "stub32.so", &flags);
    for name in ["lib/i386-linux-gnu", "lib32", "lib"] {
        std::fs::copy(&stub, below(&format!("{name}/{SHIM}"))).unwrap();
    }
    folder
}

/// The loaders, with what compiles `loaded.c` for them.
const COMPILERS: [(&str, &str, &[&str]); 6] = [
    ("glibc", "cc", &["-fopenmp"]),
    ("static glibc", "cc", &["-Wno-unknown-pragmas", "-static"]),
    ("32 bits", "cc", &["-fopenmp", "-m32"]),
    (
        "static 32 bits",
        "cc",
        &["-Wno-unknown-pragmas", "-m32", "-static"],
    ),
    ("musl", "musl-gcc", &["-Wno-unknown-pragmas"]),
    (
        "static musl",
        "musl-gcc",
        &["-Wno-unknown-pragmas", "-static"],
    ),
];

fn loaders() -> impl Iterator<Item = &'static str> {
    COMPILERS.iter().map(|(loader, ..)| *loader)
}

fn program(loader: &str) -> &'static str {
    static BUILT: OnceLock<BTreeMap<&str, String>> = OnceLock::new();
    let build = |&(loader, compiler, flags): &(&'static str, &str, &[&str])| {
        let built = compiled_by(compiler, "loaded.c", &loader.replace(' ', "_"), flags);
        (loader, built.into_os_string().into_string().unwrap())
    };
    &BUILT.get_or_init(|| COMPILERS.iter().map(build).collect())[loader]
}

/// How often the stand-in for the shim says that it was loaded into the program itself.
fn loads(loader: &str) -> usize {
    usize::from(loader == "glibc")
}

fn sum(loader: &str) -> &'static str {
    match loader.contains("32") {
        true => "4950 of 32 bits\n",
        false => "4950 of 64 bits\n",
    }
}

fn executable(path: PathBuf, text: &str) -> String {
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.into_os_string().into_string().unwrap()
}

struct Bench {
    stage: Stage,
    reporting: tempfile::TempDir,
    real: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self {
            stage: Stage::new(),
            reporting: installed(support::shim()),
            real: installed(&support::real_shim()),
        }
    }

    /// Runs a command in each mode, with the stand-in and with the shim itself.
    fn holds(&self, command: &[&str], printed: &str, loads: usize) {
        for mode in MODES {
            for (folder, said) in [
                (&self.reporting, "shim loaded\n".repeat(loads)),
                (&self.real, String::new()),
            ] {
                let mut launch = self.launch(mode, command);
                launch.env("MAPPER_SHIM", folder.path().join(SHIM));
                let outcome = run(launch.env("SHIM_TELLS", "1"));
                let Outcome { status, .. } = outcome;
                let found = (ending(status), outcome.stdout, outcome.stderr);
                let expected = ("exit 0".to_owned(), printed.to_owned(), said);
                assert_eq!(found, expected, "{mode} {command:?}");
            }
        }
    }

    fn launch(&self, mode: &str, command: &[&str]) -> Command {
        self.stage.launch(&["--teams", mode], command)
    }
}

#[test]
fn programs_of_all_loaders_run_silently_in_every_mode() {
    let bench = Bench::new();
    for loader in loaders() {
        bench.holds(&[program(loader)], sum(loader), loads(loader));
    }
}

#[test]
fn what_programs_of_all_loaders_start_gets_the_shim_if_it_can_load_it() {
    let bench = Bench::new();
    for first in ["glibc", "static glibc", "32 bits", "musl"] {
        for then in loaders() {
            let printed = [sum(first), sum(then)].concat();
            let count = loads(first) + loads(then);
            bench.holds(&[program(first), program(then)], &printed, count);
        }
    }
}

#[test]
fn scripts_are_served_as_their_interpreters_are() {
    let bench = Bench::new();
    let folder = tempfile::tempdir().unwrap();
    let script = |name: &str, text: &str| executable(folder.path().join(name), text);
    for loader in loaders() {
        // It gets the script as its program, and becomes it: so that is a program itself.
        let inner = script("inner", "#!/bin/sh\necho within\n");
        let direct = script("direct", &format!("#! {} {inner}\n", program(loader)));
        let nested = script("nested", &format!("#!{direct}\n"));
        let printed = [sum(loader), "within\n"].concat();
        for script in [direct, nested] {
            bench.holds(&[&script], &printed, loads(loader) + 1);
        }
    }
    for (name, text, loads) in [
        ("plain", "echo within\n", 1),
        ("by_env", "#!/usr/bin/env -S sh -e\necho within\n", 2),
    ] {
        bench.holds(&[&script(name, text)], "within\n", loads);
    }
}

#[test]
fn a_shim_outside_an_installation_is_left_out_where_it_cannot_be_loaded() {
    let stage = Stage::new();
    for shim in [support::shim().to_owned(), support::real_shim()] {
        for loader in loaders() {
            for mode in MODES {
                let mut launch = stage.launch(&["--teams", mode], &[program(loader)]);
                let outcome = run(launch.env("MAPPER_SHIM", &shim));
                assert_eq!(ending(outcome.status), "exit 0", "{loader} {mode}");
                let found = (outcome.stdout.as_str(), outcome.stderr.as_str());
                assert_eq!(found, (sum(loader), ""), "{loader} {mode}");
            }
        }
    }
}

#[test]
fn the_report_says_that_a_loader_cannot_load_the_shim() {
    let bench = Bench::new();
    for loader in loaders() {
        let program = program(loader);
        let mut launch = bench.stage.launch(&["--report"], &[program]);
        let said = run(&mut launch).stderr;
        let is_said = said.contains("is not loaded by 64-bit glibc; mapper moves CPUs only");
        assert_eq!(is_said, ["32 bits", "musl"].contains(&loader), "{said}");
    }
}

/// By which a program is known to the launcher.
const BUILD_ID: &str = "4711471147114711471147114711471147114711";

#[test]
fn a_program_of_an_unknown_loader_is_started_once_whatever_the_teams() {
    let bench = Bench::new();
    let folder = tempfile::tempdir().unwrap();
    let starts = folder.path().join("starts");
    let place = format!("-DSTARTS=\"{}\"", starts.display());
    let flags = [&place, "-nostdlib", "-static-pie", "-fno-stack-protector"];
    let loader = compiled("interpreter.c", "interpreter", &flags);
    let loader = format!("-Wl,--dynamic-linker={}", loader.display());
    let build_id = format!("-Wl,--build-id=0x{BUILD_ID}");
    let flags = ["-fopenmp", &loader, &build_id];
    let program = compiled("loaded.c", "by_interpreter", &flags);
    let launched = |mode: &str| {
        let mut launch = bench.launch(mode, &[program.to_str().unwrap()]);
        launch.env("XDG_STATE_HOME", folder.path());
        let outcome = run(launch.env("MAPPER_SHIM", bench.reporting.path().join(SHIM)));
        assert_eq!(ending(outcome.status), "exit 0", "{}", outcome.stderr);
        let text = std::fs::read_to_string(&starts).unwrap();
        assert_eq!(text, "started\n", "{mode}: the launcher itself ran it");
        std::fs::remove_file(&starts).unwrap();
        outcome.stderr
    };
    for mode in ["auto", "fixed", "follow", "virtual"] {
        launched(mode);
    }
    // Of a program that has a record the libraries are listed, which are part of what it was checked with.
    let records = folder.path().join("mapper/teams");
    std::fs::create_dir_all(&records).unwrap();
    let record = records.join(format!("{BUILD_ID}.json"));
    std::fs::write(&record, "unreadable").unwrap();
    let said = launched("auto");
    let is_read = format!("record {} is damaged", record.display());
    assert!(said.contains(&is_read), "{said}");
}
