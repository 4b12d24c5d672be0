//! `--check-teams` finds out which modes a program tolerates, and `--teams auto` uses it.
//!
//! The programs here are shell scripts that behave differently by what they find in their
//! environment, so that nothing depends on an OpenMP runtime; an empty file plays the shim.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on shall panic

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use support::{LAUNCHER, Outcome, Stage, run, told};

struct Bench {
    stage: Stage,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self {
            stage: Stage::new(),
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::write(bench.folder.path().join("shim.so"), "").unwrap();
        bench
    }

    fn script(&self, body: &str) -> PathBuf {
        let script = self.folder.path().join("program");
        std::fs::write(&script, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        script
    }

    fn launch(&self) -> Command {
        let mut launch = self.stage.bare(LAUNCHER);
        let shim = self.folder.path().join("shim.so");
        launch
            .env("XDG_STATE_HOME", self.folder.path())
            .arg("--shim")
            .arg(shim);
        launch
    }

    fn check(&self, script: &PathBuf) -> Outcome {
        run(self.launch().args(["--check-teams", "--"]).arg(script))
    }
}

#[test]
fn a_mode_in_which_the_output_differs_is_not_safe() {
    let bench = Bench::new();
    let script = bench.script(r#"[ "$MAPPER_TEAMS" = follow ] && echo other || echo same"#);
    let outcome = bench.check(&script);
    assert_eq!(told(outcome.status), "exit 0", "{}", outcome.stderr);
    let said = outcome.stdout;
    assert!(said.contains("fixed    safe"), "{said}");
    assert!(said.contains("virtual  safe"), "{said}");
    assert!(
        said.contains("follow   not safe: prints something else on one CPU"),
        "{said}"
    );
    assert_eq!(bench.stage.daemon().seen(), [], "no daemon is needed");
}

#[test]
fn a_status_that_differs_is_not_safe_and_one_that_changes_by_itself_tells_nothing() {
    let bench = Bench::new();
    let script = bench.script(r#"[ "$MAPPER_TEAMS" = virtual ] && exit 3; exit 7"#);
    let said = bench.check(&script).stdout;
    assert!(said.contains("plainly: exit status 7"), "{said}");
    assert!(said.contains("virtual  not safe: exit status 3"), "{said}");
    assert!(said.contains("follow   safe"), "{said}");

    let script = bench.script(r#"cd "${0%/*}"; [ -e mark ] && exit 1; : > mark"#);
    let outcome = bench.check(&script);
    assert_eq!(told(outcome.status), "exit 125");
    assert!(
        outcome.stderr.contains("ends by itself now with"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn auto_uses_the_fastest_safe_mode_of_this_very_program() {
    let bench = Bench::new();
    // Slow where teams are real, so that another mode is worth it.
    let body = r#"[ "$MAPPER_TEAMS" = fixed ] && sleep 0.2; echo done"#;
    let script = bench.script(body);
    let said = bench.check(&script).stdout;
    assert!(said.contains("--teams auto will use virtual"), "{said}");
    let launched = || {
        let socket = bench.stage.socket();
        let mut launch = bench.launch();
        launch.args(["--teams", "auto", "--socket"]).arg(socket);
        run(launch.arg("--").arg(&script))
    };
    let outcome = launched();
    assert_eq!(outcome.stdout, "done\n", "{}", outcome.stderr);
    let asked = format!("{:?}", bench.stage.daemon().seen());
    assert!(asked.contains("Virtual"), "{asked}");
    // Another program by the same name.
    bench.script("echo done # changed");
    let said = launched().stderr;
    assert!(said.contains("has not been checked"), "{said}");
}
